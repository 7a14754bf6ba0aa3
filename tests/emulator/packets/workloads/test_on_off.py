from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sysgym.emulator.packets.topology import Topology, build_topology
from sysgym.emulator.packets.workloads import FlowSchedule, build_flows
from sysgym.emulator.packets.workloads.on_off import draw_periods_s
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.congestion import DumbbellTopology, OnOffWorkload

MESSAGE_WIRE_BITS = 8 * 15_000
"""Ten packets of 1500 bytes: a payload of 14600."""


def dumbbell(hosts_per_side: int) -> Topology:
    return build_topology(
        DumbbellTopology(
            kind="dumbbell", hosts_per_side=hosts_per_side, link_rate_bps=1e10, link_delay_s=1e-6
        )
    )


def bursts(**keys: Any) -> OnOffWorkload:
    given = {"kind": "on_off", "pairs": "one_to_one", "rate_bps": 6e9, "on_s": 2e-3, "off_s": 4e-3}
    return OnOffWorkload.model_validate(given | keys)


def flows(workload: OnOffWorkload, topology: Topology, horizon_s: float, seed: int = 0) -> FlowSchedule:
    return build_flows(workload, topology, np.random.default_rng(seed), horizon_s)


@pytest.mark.parametrize("periods", ["exponential", "pareto"])
def test_the_rate_is_that_of_the_busy_time(periods: str) -> None:
    horizon_s, n_pairs = 2.0, 40
    workload = bursts(periods=periods, pareto_shape=2.5)
    found = flows(workload, dumbbell(n_pairs), horizon_s)
    offered_bps = len(found.src) * MESSAGE_WIRE_BITS / horizon_s / n_pairs
    # 40 pairs with some 330 cycles each: 13 000 cycles, whose busy share deviates by about 1 %.
    assert offered_bps == pytest.approx(6e9 / 3, rel=0.04)
    assert np.all(found.size_bytes == 14_600)
    np.testing.assert_array_equal(found.dst, found.src + n_pairs)


def test_messages_of_a_busy_pair_are_evenly_spaced_and_silence_is_longer() -> None:
    workload = bursts(on_s=1e-3, off_s=10e-3)
    found = flows(workload, dumbbell(1), 1.0)
    gaps_s = np.diff(found.start_ns) * 1e-9
    spacing_s = MESSAGE_WIRE_BITS / 6e9
    assert gaps_s.min() == pytest.approx(spacing_s, abs=2e-9)
    silent = gaps_s > spacing_s + 2e-9
    assert stats.kstest(gaps_s[silent] - spacing_s, stats.expon(scale=10e-3).cdf).pvalue > 1e-3
    assert 60 < silent.sum() < 130  # one in eleven milliseconds


@pytest.mark.parametrize("shape", [1.2, 1.5, 3.0])
def test_pareto_periods_have_the_mean_and_the_tail(shape: float) -> None:
    workload = bursts(periods="pareto", pareto_shape=shape)
    drawn = draw_periods_s(workload, np.random.default_rng(0), 2e-3, 20_000)
    least = 2e-3 * (shape - 1) / shape
    assert drawn.min() >= least
    assert stats.kstest(drawn, stats.pareto(shape, scale=least).cdf).pvalue > 1e-3
    if shape == 3.0:
        assert drawn.mean() == pytest.approx(2e-3, rel=0.03)


def test_pairs_are_busy_at_the_beginning_as_often_as_later() -> None:
    topology = dumbbell(400)
    found = flows(bursts(), topology, 1e-4)
    # Of 400 pairs a third is busy, and has sent within 20 us.
    assert len(set(found.src.tolist())) == pytest.approx(400 / 3, abs=4 * np.sqrt(400 * 2 / 9) + 10)


@given(
    rate_bps=st.floats(1e6, 9e9),
    on_s=st.floats(1e-5, 1e-2),
    off_s=st.floats(1e-5, 1e-2),
    message_bytes=st.integers(1, 100_000),
    horizon_s=st.floats(0.0, 0.02),
    periods=st.sampled_from(["exponential", "pareto"]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=50, deadline=None)
def test_any_bursts_start_in_time_and_never_faster_than_their_rate(
    rate_bps: float,
    on_s: float,
    off_s: float,
    message_bytes: int,
    horizon_s: float,
    periods: str,
    seed: int,
) -> None:
    workload = bursts(rate_bps=rate_bps, on_s=on_s, off_s=off_s, message_bytes=message_bytes, periods=periods)
    wire_bits = 8 * (message_bytes + 40 * -(-message_bytes // 1460))
    if 2 * horizon_s * rate_bps / wire_bits > 20_000:
        horizon_s = 10_000 * wire_bits / rate_bps
    found = flows(workload, dumbbell(2), horizon_s, seed)
    assert np.all((found.start_ns >= 0) & (found.start_ns < max(horizon_s * 1e9, 1)))
    for host in (0, 1):
        starts = found.start_ns[found.src == host]
        assert np.all(np.diff(starts) >= int(wire_bits / rate_bps * 1e9) - 1)


def test_pairs_are_independent() -> None:
    found = flows(bursts(), dumbbell(3), 1.0)
    busy = [np.histogram(found.start_ns[found.src == host], bins=200)[0] for host in range(3)]
    for one, other in itertools.combinations(busy, 2):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.3


@pytest.mark.parametrize("keys", [{"message_bytes": 1}, {"on_s": 1e-6, "off_s": 1e-6}])
def test_too_many_bursts_are_refused_before_they_are_drawn(keys: dict[str, Any]) -> None:
    with pytest.raises(SysgymError, match="on_off: about"):
        flows(bursts(**keys), dumbbell(4), 7200.0)
