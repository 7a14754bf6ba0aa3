"""Layer tables and plans: totals of the reference, closed forms, optima by exhaustive search."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.bursts.layers import Layers, draw_layers, gpu_counts, step_times_s
from sysgym.emulator.bursts.planning import (
    EXEMPT_S,
    amplifications,
    by_layer,
    cheapest_plan,
    knee_plan,
    optimal_plan,
    plan_cost,
    prices,
    published_plan,
)
from sysgym.scenarios import load_scenario
from sysgym.scenarios.schema.bursts import BurstScenario

EXACT = {"job.spread_log_sd": 0.0, "splits.train.vary": {}}
# Times of an iteration at a batch of 32, 4 and 1 on one A100, in ms: sums over DeepPool's profiles.
TOTALS_MS = {
    "vgg16": (51.43, 8.08, 3.35),
    "wide_resnet101_2": (103.82, 26.59, 19.29),
    "inception_v3": (40.86, 10.10, 6.91),
}


def scenario_of(**overrides: Any) -> BurstScenario:
    return load_scenario("burst-plan", overrides={**EXACT, **overrides}, expect=BurstScenario)


def drawn(seed: int, n_layers: int = 5) -> tuple[Layers, Any, BurstScenario]:
    """Return the first layers of a drawn job on four GPUs, and their times."""
    scenario = scenario_of(**{"job.gpus": 4, "job.spread_log_sd": 0.8, "network.bandwidth_bps": 2e11})
    layers, _ = draw_layers(scenario, seed)
    order = np.random.default_rng(seed).permutation(len(layers.compute_s))[:n_layers]
    layers = Layers(layers.gpus, *(table[order] for table in layers[1:]))
    return layers, step_times_s(layers, scenario), scenario


@pytest.mark.parametrize("model", list(TOTALS_MS))
def test_times_of_an_iteration_are_those_of_the_reference(model: str) -> None:
    """At 32, 4 and 1 samples a GPU, within 5 %."""
    layers, profile = draw_layers(scenario_of(**{"job.model": model, "job.gpus": 32}), 0)
    totals_ms = 1e3 * layers.compute_s.sum(axis=0)[[0, 3, 5]]
    np.testing.assert_allclose(totals_ms, TOTALS_MS[model], rtol=0.05)
    np.testing.assert_array_equal(profile.compute_s, layers.compute_s)


@pytest.mark.parametrize(
    ("limit", "iteration_ms", "idle"),
    [(1.25, 49.2, 0.71), (1.5, 43.7, 0.65), (2.0, 33.7, 0.47), (3.0, 27.7, 0.10)],
)
def test_plans_of_wide_resnet_are_those_of_the_reference(
    limit: float, iteration_ms: float, idle: float
) -> None:
    """Time within 5 %, idle share within 3 points."""
    scenario = scenario_of()
    layers, _ = draw_layers(scenario, 0)
    steps_s = step_times_s(layers, scenario)
    cost = plan_cost(published_plan(layers, steps_s, limit), layers, steps_s)
    assert 1e3 * cost.iteration_s == pytest.approx(iteration_ms, rel=0.05)
    assert cost.idle_share(8) == pytest.approx(idle, abs=0.03)


def test_a_profile_has_errors_and_more_gpus_than_samples_are_no_faster() -> None:
    scenario = scenario_of(**{"job.profile_log_sd": 0.2, "job.batch": 8, "job.gpus": 32})
    layers, profile = draw_layers(scenario, 1)
    ratio = np.log(profile.compute_s / layers.compute_s)
    assert ratio.std() == pytest.approx(0.2, rel=0.25)
    np.testing.assert_array_equal(layers.compute_s[:, 4:], layers.compute_s[:, [3, 3]])
    np.testing.assert_array_equal(gpu_counts(32), [1, 2, 4, 8, 16, 32])


def test_what_a_layer_adds_to_an_iteration() -> None:
    """By hand: two layers, one on one GPU and one on four."""
    scenario = scenario_of(**{"network.bandwidth_bps": 8e9, "network.latency_s": 1e-3})
    layers = Layers(
        np.array([1.0, 2.0, 4.0]),
        np.array([[8e-3, 4e-3, 2e-3], [4e-3, 3e-3, 2e-3]]),
        np.array([6e6, 1e6]),
        np.array([1e6, 2e6]),
    )
    steps_s = step_times_s(layers, scenario)
    assert steps_s[0, 2, 0] == pytest.approx(
        8e-3
    )  # the first input is everywhere, one GPU synchronises nothing
    # 2 ms, 2 MB of gradients at 1 GB/s, and twice: latency and three quarters of 6 MB.
    assert steps_s[1, 0, 2] == pytest.approx(2e-3 + 2e-3 + 2 * (1e-3 + 4.5e-3))
    assert steps_s[1, 2, 2] == pytest.approx(4e-3)
    cost = plan_cost(np.array([0, 2]), layers, steps_s)
    assert cost.iteration_s == pytest.approx(8e-3 + 15e-3)
    assert cost.gpu_s == pytest.approx(8e-3 + 4 * 15e-3)
    assert cost.idle_share(4) == pytest.approx(1 - 68 / 92)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), idle_value=st.floats(0.0, 1.0))
def test_the_dynamic_program_is_the_optimum(seed: int, idle_value: float) -> None:
    layers, steps_s, _ = drawn(seed)
    plan, price = optimal_plan(layers, steps_s, idle_value)
    costs = prices(layers, steps_s, idle_value)

    every = [by_layer(np.array(one), costs).sum() for one in itertools.product(range(3), repeat=len(costs))]
    assert price == pytest.approx(min(every), rel=1e-12)
    assert price == by_layer(plan, costs).sum()
    assert by_layer(knee_plan(layers, steps_s, idle_value), costs).sum() >= price * (1 - 1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), limit=st.floats(1.0, 4.0))
def test_the_published_plan_is_the_fastest_that_is_allowed(seed: int, limit: float) -> None:
    layers, steps_s, _ = drawn(seed)
    plan = published_plan(layers, steps_s, limit)
    amplified = amplifications(layers, steps_s)
    at = np.arange(len(plan))
    before = np.concatenate([plan[:1], plan[:-1]])
    exempt = layers.compute_s[:, 0] <= EXEMPT_S
    smallest = amplified.min(axis=2)[at, before]
    own = amplified[at, before, plan]
    assert np.all((own < limit) | exempt | (own <= smallest) | (own <= amplified.min(axis=(1, 2))))
    fastest = cheapest_plan(steps_s)[1]
    assert plan_cost(plan, layers, steps_s).iteration_s >= fastest * (1 - 1e-12)
    without = plan_cost(published_plan(layers, steps_s, 1e9), layers, steps_s)
    assert without.iteration_s == pytest.approx(fastest)


def test_idle_gpus_without_a_value_leave_only_the_time() -> None:
    layers, steps_s, _ = drawn(3)
    plan, price = optimal_plan(layers, steps_s, 0.0)
    cost = plan_cost(plan, layers, steps_s)
    assert price * layers.one_gpu_s == pytest.approx(cost.iteration_s)
    # All of the value: only the time of the GPUs in use counts, and that is least on one.
    plan, price = optimal_plan(layers, steps_s, 1.0)
    assert price * layers.one_gpu_s * 4 == pytest.approx(plan_cost(plan, layers, steps_s).gpu_s)
    assert not plan.any()
