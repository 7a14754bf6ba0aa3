"""Times of an iteration: reference values, ring costs of the accelerators, and what follows from them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.emulator.accelerators.cost import CostModel
from sysgym.emulator.accelerators.cost.ring import ALL_GATHER, ALL_REDUCE, ring_time_s
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.problem import Reduction
from sysgym.emulator.compression.times import (
    FIRST_WITH_ERROR_FEEDBACK,
    HALF_PRECISION,
    N_METHODS,
    NONE,
    POWERSGD_4,
    SIGN,
    TOP_K_1,
    TOP_K_10,
    exchange_s,
    iteration_time_s,
    iteration_times_s,
    job_of,
)
from sysgym.scenarios import load_scenario
from sysgym.scenarios.schema.compression import METHODS, CompressionScenario

# ResNet-50 at a batch of 64 on a V100, latency 0, as in the reference values.
RESNET = {"job.half_precision": False, "network.latency_s": 0.0}
BACKWARD_S = 0.122


def job(**changes: Any) -> Any:
    """Return the job of a shipped scenario with some keys replaced."""
    scenario = load_scenario(
        "compression-datacenter", overrides={**RESNET, **changes}, expect=CompressionScenario
    )
    return job_of(scenario)


def times_ms(gbits: float, workers: int, **changes: Any) -> Any:
    """Return the time of an iteration by method, ms."""
    found = iteration_times_s(
        job(**changes), np.array([1e9 * gbits]), np.array([workers]), np.array([BACKWARD_S])
    )
    return 1e3 * found[0]


def progress_a_second(gbits: float, workers: int) -> Any:
    """Return the progress a second by method, outside critical phases."""
    loss = load_scenario("compression-datacenter", expect=CompressionScenario).loss
    kept = 1.0 - np.array([0.0, *(getattr(loss, method) for method in METHODS[1:])])
    return 1e3 * kept / times_ms(gbits, workers)


@pytest.mark.parametrize(
    ("gbits", "workers", "expected"),
    [
        (5, 32, {NONE: 300.7, POWERSGD_4: 171.2, TOP_K_1: 458.2, SIGN: 288.7}),
        (10, 32, {NONE: 164.6, POWERSGD_4: 169.1, TOP_K_1: 410.1, SIGN: 213.5}),
        (25, 32, {NONE: 144.2, POWERSGD_4: 167.8, TOP_K_1: 381.2, SIGN: 168.4}),
        (10, 8, {NONE: 161.3, SIGN: 155.3}),
        (10, 96, {NONE: 165.4, SIGN: 368.7}),
    ],
)
def test_the_reference_values_to_their_printed_digits(
    gbits: float, workers: int, expected: dict[int, float]
) -> None:
    found = times_ms(gbits, workers)
    assert {method: round(float(found[method]), 1) for method in expected} == expected


@pytest.mark.parametrize(("workers", "gbits"), [(8, 8.0), (16, 8.6), (32, 8.9), (64, 9.0), (96, 9.1)])
def test_where_powersgd_of_rank_4_and_no_compression_cross(workers: int, gbits: float) -> None:
    low, high = 1.0, 20.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        found = times_ms(middle, workers)
        low, high = (middle, high) if found[POWERSGD_4] < found[NONE] else (low, middle)
    assert round(low, 1) == gbits


@pytest.mark.parametrize("workers", [16, 32, 64, 96])
def test_powersgd_is_best_below_8_gbits_and_no_compression_from_10_on(workers: int) -> None:
    """16 bits a value are left out: they are best wherever they are offered, down to about 4 Gbit/s."""
    published = [method for method in range(N_METHODS) if method != HALF_PRECISION]
    for gbits in np.arange(0.5, 8.01, 0.5):
        best = published[int(progress_a_second(gbits, workers)[published].argmax())]
        assert METHODS[best].startswith("powersgd"), (gbits, METHODS[best])
    for gbits in np.arange(10.0, 40.0, 2.5):
        speed = progress_a_second(gbits, workers)
        assert speed[NONE] >= speed[published].max() / 1.02
    assert progress_a_second(10.0, workers).argmax() == HALF_PRECISION


@given(gbits=st.floats(0.1, 400.0), workers=st.integers(2, 500))
def test_gathered_methods_worsen_with_every_worker(gbits: float, workers: int) -> None:
    few, many = times_ms(gbits, workers), times_ms(gbits, 2 * workers)
    exchanged_ms = few - 1e3 * (BACKWARD_S + job().encoding_s)
    for method in (TOP_K_1, TOP_K_10, SIGN):
        more = (2 * workers - 1) / (workers - 1)
        assert many[method] - few[method] == pytest.approx((more - 1.0) * exchanged_ms[method], rel=1e-6)
    for method in range(FIRST_WITH_ERROR_FEEDBACK, TOP_K_1):
        assert many[method] - few[method] <= exchanged_ms[method] + 1e-9


@given(
    gbits=st.floats(0.1, 400.0),
    workers=st.integers(1, 300),
    bucket=st.floats(1e6, 200e6),
    backward_s=st.floats(0.001, 1.0),
    latency_s=st.floats(0.0, 1e-3),
)
def test_buckets_one_by_one_take_as_long_as_the_closed_form(
    gbits: float, workers: int, bucket: float, backward_s: float, latency_s: float
) -> None:
    """The form by hand: buckets in a list, each a ring all-reduce with the textbook's cost."""
    n = 97e6
    whole = math.ceil(n / bucket - 1e-9) - 1
    sizes = [bucket] * whole + [n - whole * bucket]
    bandwidth = 1e9 * gbits / 8
    ring = [2 * (workers - 1) * (size / workers / bandwidth + latency_s) for size in sizes]
    slowdown = 1.07 if len(sizes) > 1 else 1.0  # a single bucket overlaps nothing
    expected_s = max(slowdown * backward_s, sum(ring[:-1])) + ring[-1]
    made = job(**{"job.bucket_bytes": bucket, "network.latency_s": latency_s})
    assert iteration_time_s(made, NONE, 1e9 * gbits, workers, backward_s) == pytest.approx(expected_s)
    assert exchange_s(made, NONE, 1e9 * gbits, workers) == pytest.approx(sum(ring))


@pytest.mark.parametrize("bucket", [97e6, 1e9])
def test_a_gradient_in_one_bucket_slows_no_backward_pass(bucket: float) -> None:
    ring_s = 2 * 31 / 32 * 97e6 / (5e9 / 8)
    found = times_ms(5.0, 32, **{"job.bucket_bytes": bucket})
    assert found[NONE] == pytest.approx(1e3 * (BACKWARD_S + ring_s))
    assert found[HALF_PRECISION] == pytest.approx(1e3 * (BACKWARD_S + 0.001 + ring_s / 2))


@given(workers=st.integers(2, 200), size=st.floats(1.0, 1e12), latency_s=st.floats(0.0, 1e-2))
def test_the_ring_is_that_of_placements(workers: int, size: float, latency_s: float) -> None:
    hierarchy = Hierarchy("flat", (Level("device", workers, 3e9, latency_s),))
    placed_s = CostModel(hierarchy).all_reduce_time_s(((workers,),), Reduction((0,), size))
    assert ring_time_s(ALL_REDUCE, workers, size, 3e9, latency_s) == pytest.approx(placed_s, rel=1e-12)
    half_s = ring_time_s(ALL_GATHER, workers, size, 3e9, latency_s)
    assert 2.0 * half_s == pytest.approx(placed_s, rel=1e-12)


def test_16_bits_as_the_rule_leave_nothing_to_the_method() -> None:
    found = times_ms(5.0, 32, **{"job.half_precision": True})
    assert found[NONE] == found[HALF_PRECISION]
    assert found[NONE] == pytest.approx(times_ms(5.0, 32)[HALF_PRECISION] - 1.0)
    np.testing.assert_array_equal(found[2:], times_ms(5.0, 32)[2:])


def test_encoding_is_in_proportion_to_the_gradient_and_to_the_scale() -> None:
    plain = job().encoding_s
    np.testing.assert_allclose(job(**{"job.gradient_bytes": 194e6}).encoding_s, 2.0 * plain)
    np.testing.assert_allclose(job(**{"encoding.scale": 0.5}).encoding_s, 0.5 * plain)
