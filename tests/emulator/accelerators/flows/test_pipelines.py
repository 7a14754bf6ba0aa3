"""Groups as single flows: compared with all of their transfers, and with the event loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.accelerators.flows import pipelines
from sysgym.emulator.accelerators.flows.collective import link_graph
from sysgym.emulator.accelerators.flows.pipelines import group_flows, step_times_s
from sysgym.emulator.accelerators.flows.simulation import simulate
from sysgym.emulator.accelerators.flows.transfers import lower_collective
from sysgym.emulator.accelerators.matrices import reduction_groups
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.programs import Collective
from sysgym.scenarios.errors import UnknownName

from ..cost.systems import Case, cases

CHAINS = (Collective.REDUCE, Collective.BROADCAST)


@settings(max_examples=60, deadline=None)
@given(
    cases((2, 3, 4), networks=("switch", "ring")),
    st.sampled_from(list(Collective)),
    st.sampled_from(pipelines.PIPELINES),
    st.integers(0, 2**32 - 1),
)
def test_a_group_takes_as_long_as_its_transfers(
    case: Case, collective: Collective, algorithm: str, seed: int
) -> None:
    graph, factors = link_graph(case.hierarchy), case.factors
    n_members = math.prod(factors)
    if n_members < 2 or case.hierarchy.n_devices > 36:
        return
    groups = reduction_groups(case.hierarchy.cardinalities, case.matrix, case.reduce_axes)
    rng = np.random.default_rng(seed)
    # Links that differ, one of them by much; vectors so large that latencies do not count.
    bandwidth = graph.bandwidth_bytes_per_s * rng.uniform(0.5, 1.0, graph.n_links)
    bandwidth[rng.integers(graph.n_links)] *= 0.2
    size_bytes = np.full(len(groups), 1e14)
    transfers = lower_collective(graph, groups, collective, size_bytes, algorithm=algorithm, factors=factors)
    exact_s = simulate(transfers.flows, bandwidth).time_s
    flows = group_flows(graph, groups, collective, size_bytes, algorithm=algorithm, factors=factors)
    time_s = step_times_s(flows, bandwidth[None])[0]
    # A chain or tree of finitely many chunks fills and drains, which the flow leaves out.
    filling = 1.0 + (n_members - 2) / 128 if collective in CHAINS or algorithm == "tree" else 1.0
    assert exact_s / filling / 1.01 <= time_s <= exact_s * 1.01


def test_what_is_not_simulated_is_what_the_event_loop_finds() -> None:
    graph = link_graph(get_preset("dgx-a100", 4))
    groups = reduction_groups((4, 8), ((2, 4), (2, 2)), (0,))
    flows = group_flows(graph, groups, Collective.ALL_REDUCE, np.full(len(groups), 1e9))
    rng = np.random.default_rng(0)
    bandwidth = graph.bandwidth_bytes_per_s * rng.uniform(0.2, 1.0, (6, graph.n_links))
    assert flows.hops is not None
    simulated_s = pipelines._simulated_s(flows.size_bytes, flows.hops.last_s, flows.paths, bandwidth)
    assert step_times_s(flows, bandwidth) == pytest.approx(simulated_s, rel=1e-9)
    # Groups of different sizes have to be simulated: the largest is alone in the end.
    one = flows._replace(size_bytes=np.array([1e9, *[1e6] * (len(groups) - 1)]))
    assert step_times_s(one, bandwidth[:1])[0] < 0.6 * step_times_s(flows, bandwidth[:1])[0]


def test_a_ring_by_hand() -> None:
    system = get_preset("p2-a100", 2)
    flows = group_flows(
        link_graph(system), np.array([[0, 16]], np.int32), Collective.ALL_REDUCE, np.array([1e9])
    )
    # Two devices exchange the vector once, each half twice, over NICs of 8.4 GB/s; two hops between nodes.
    time_s = step_times_s(flows, link_graph(system).bandwidth_bytes_per_s[None])[0]
    assert time_s == pytest.approx(1.0 / 8.4 + 2 * system.levels[0].latency_s)


@pytest.mark.parametrize("size_bytes", [1e5, 1e6, 1e7])
@pytest.mark.parametrize("preset", ["p2-a100", "dgx-1-v100", "dgx-h100"])
def test_short_vectors_go_around_or_keep_the_slowest_link_busy(preset: str, size_bytes: float) -> None:
    system = get_preset(preset, 2)
    graph, n = link_graph(system), system.n_devices
    rng = np.random.default_rng(int(size_bytes))
    groups, sizes = np.arange(n, dtype=np.int32)[None], np.array([size_bytes])
    bandwidth = graph.bandwidth_bytes_per_s * rng.uniform(0.5, 1.0, graph.n_links)
    for collective in (Collective.ALL_REDUCE, Collective.ALL_GATHER):
        transfers = lower_collective(graph, groups, collective, sizes)
        exact_s = simulate(transfers.flows, bandwidth).time_s
        flows = group_flows(graph, groups, collective, sizes)
        time_s = step_times_s(flows, bandwidth[None])[0]
        assert 0.95 * exact_s <= time_s <= 1.03 * exact_s
        # Latencies are not added to the time on links.
        assert time_s < exact_s + 0.5 * flows.latency_s[0]


def test_halving_and_doubling_is_no_pipeline() -> None:
    graph = link_graph(get_preset("p2-a100", 2))
    with pytest.raises(UnknownName, match="halving_doubling"):
        group_flows(
            graph,
            np.array([[0, 1]], np.int32),
            Collective.ALL_REDUCE,
            np.ones(1),
            algorithm="halving_doubling",
        )
