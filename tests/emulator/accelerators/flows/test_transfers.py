"""Collectives on devices: alpha-beta where nothing is shared, sums of loads where a NIC is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from sysgym.emulator.accelerators.flows.links import LinkGraph
from sysgym.emulator.accelerators.flows.schedules import default_chunks
from sysgym.emulator.accelerators.flows.simulation import Flows, Timeline, simulate
from sysgym.emulator.accelerators.flows.transfers import lower_collective
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.programs import Collective
from sysgym.scenarios.errors import SysgymError

from ..cost.closed_forms import collective_time_s

CheckRun = Callable[[Flows, NDArray[np.float64], Timeline], None]

BANDWIDTH, LATENCY_S, SIZE = 25e9, 5e-6, 1e9
NVLINK, NIC = 235e9, 8.4e9
SCATTERING = [Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER]


def _switch(n: int) -> LinkGraph:
    return LinkGraph(Hierarchy("switch", (Level("gpu", n, BANDWIDTH, LATENCY_S),)))


def _time_s(
    links: LinkGraph, groups: object, collective: Collective, size_bytes: float = SIZE, **options: object
) -> float:
    transfers = lower_collective(links, groups, collective, size_bytes, **options)  # type: ignore[arg-type]
    return simulate(transfers.flows, links.bandwidth_bytes_per_s).time_s


@pytest.mark.parametrize("size_bytes", [0.0, 1e3, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("n", [2, 8, 64])
@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling"])
@pytest.mark.parametrize("collective", SCATTERING)
def test_an_uncontended_switch_is_alpha_beta(
    collective: Collective, algorithm: str, n: int, size_bytes: float
) -> None:
    time_s = _time_s(_switch(n), np.arange(n), collective, size_bytes, algorithm=algorithm)
    expected = collective_time_s(collective, algorithm, n, size_bytes, BANDWIDTH, LATENCY_S)
    assert time_s == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("factors", "stages"), [((3,), 1), ((6,), 2), ((2, 3, 5), 3), ((7, 4), 3)])
def test_halving_doubling_of_other_numbers_takes_a_stage_for_each_prime(
    factors: tuple[int, ...], stages: int
) -> None:
    n = int(np.prod(factors))
    time_s = _time_s(
        _switch(n), np.arange(n), Collective.REDUCE_SCATTER, algorithm="halving_doubling", factors=factors
    )
    assert time_s == pytest.approx(stages * LATENCY_S + (n - 1) / n * SIZE / BANDWIDTH, rel=1e-9)


@pytest.mark.parametrize("chunks", [1, 16, None])
@pytest.mark.parametrize("n", [2, 5, 16])
@pytest.mark.parametrize("collective", [Collective.REDUCE, Collective.BROADCAST])
def test_a_chain_is_alpha_beta_and_the_way_of_the_first_chunk(
    collective: Collective, n: int, chunks: int | None
) -> None:
    time_s = _time_s(_switch(n), np.arange(n), collective, chunks=chunks)
    endless = collective_time_s(collective, "pipelined_chain", n, SIZE, BANDWIDTH, LATENCY_S)
    first = (n - 2) / (chunks or default_chunks(n, chain=True)) * SIZE / BANDWIDTH
    assert time_s == pytest.approx(endless + first, rel=1e-9)


@pytest.mark.parametrize("n", [3, 4, 8, 13, 32])
def test_two_trees_take_the_vector_twice_and_the_way_of_the_first_chunk(n: int) -> None:
    # A member sends at most 2 S in all; chunks of S / 2 / 256 go up and down at most 2 log2 n + 2 levels, at
    # the worst when a member sends to its parent and two children at once.
    time_s = _time_s(_switch(n), np.arange(n), Collective.ALL_REDUCE, algorithm="tree")
    closed = collective_time_s(Collective.ALL_REDUCE, "double_tree", n, SIZE, BANDWIDTH, LATENCY_S)
    depth = 2 * np.ceil(np.log2(n)) + 2
    least = 2 * (n - 1) / n * SIZE / BANDWIDTH
    assert least <= time_s <= closed + 2 * LATENCY_S + depth * 3 / 2 / 256 * SIZE / BANDWIDTH
    if n >= 8:
        assert time_s == pytest.approx(closed, rel=0.02)


def test_groups_of_a_switch_do_not_disturb_each_other() -> None:
    links = _switch(12)
    alone = _time_s(links, [[0, 3, 6, 9]], Collective.ALL_REDUCE)
    assert _time_s(links, np.arange(12).reshape(4, 3).T, Collective.ALL_REDUCE) == pytest.approx(
        alone, rel=1e-9
    )


def test_a_flat_ring_over_two_nodes_is_held_by_the_nics() -> None:
    # 2 * 31/32 of the vector through each NIC without a break, and one latency: a chunk crosses a NIC only
    # every 16 hops, and the NICs never wait. 62 latencies of 14 us would make it 231.52 ms.
    links = LinkGraph(get_preset("p2-a100", 2))
    time_s = _time_s(links, np.arange(32), Collective.ALL_REDUCE)
    assert time_s == pytest.approx(2 * 31 / 32 * SIZE / NIC + 14e-6, rel=1e-9)


@pytest.mark.parametrize("sharing", [1, 2, 8, 16])
def test_rings_that_share_a_nic_add_up(sharing: int) -> None:
    links = LinkGraph(get_preset("p2-a100", 2))
    groups = [[gpu, gpu + 16] for gpu in range(sharing)]
    time_s = _time_s(links, groups, Collective.ALL_REDUCE)
    assert time_s == pytest.approx(sharing * SIZE / NIC + 2 * 14e-6, rel=1e-9)


def test_a_nic_for_every_device_leaves_nothing_to_share() -> None:
    links = LinkGraph(get_preset("dgx-h100", 2))
    groups = [[gpu, gpu + 8] for gpu in range(8)]
    time_s = _time_s(links, groups, Collective.ALL_REDUCE)
    assert time_s == pytest.approx(SIZE / 50e9 + 2 * 14e-6, rel=1e-9)


def test_a_ring_of_devices_is_used_in_both_directions() -> None:
    links = LinkGraph(get_preset("p2-v100", 1))
    bandwidth = 150e9 * 235 / 300
    time_s = _time_s(links, np.arange(8), Collective.ALL_REDUCE)
    assert time_s == pytest.approx(14 / 8 * SIZE / bandwidth + 14 * 3e-6, rel=1e-9)
    # Four pairs of opposite devices: 8 x S bytes over 4 hops each, on 16 links of half the bandwidth.
    pairs = [[gpu, gpu + 4] for gpu in range(4)]
    time_s = _time_s(links, pairs, Collective.ALL_REDUCE)
    assert time_s == pytest.approx(8 * SIZE * 4 / 16 / (bandwidth / 2) + 2 * 3e-6, rel=1e-9)


@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling", "tree"])
@pytest.mark.parametrize("collective", [Collective.ALL_REDUCE, Collective.BROADCAST])
@pytest.mark.parametrize("preset", ["p2-a100", "p2-v100", "dgx-1-v100", "tpu-v3"])
def test_no_link_carries_more_than_it_can(
    check_run: CheckRun, preset: str, collective: Collective, algorithm: str
) -> None:
    hierarchy = get_preset(preset, 2)
    links = LinkGraph(hierarchy)
    across = hierarchy.n_devices // 2
    groups = np.arange(hierarchy.n_devices).reshape(2, 2, -1).transpose(2, 0, 1).reshape(across // 2, 4)
    transfers = lower_collective(
        links, groups, collective, SIZE, algorithm=algorithm, factors=(2, 2), chunks=5
    )
    run = simulate(transfers.flows, links.bandwidth_bytes_per_s, record_rates=True)
    check_run(transfers.flows, links.bandwidth_bytes_per_s, run)


def test_groups_may_have_vectors_of_different_sizes() -> None:
    links = _switch(4)
    transfers = lower_collective(links, [[0, 1], [2, 3]], Collective.BROADCAST, [1e9, 2e9], chunks=4)
    run = simulate(transfers.flows, links.bandwidth_bytes_per_s)
    ends = run.finish_s.reshape(2, -1).max(axis=1)
    np.testing.assert_allclose(ends, np.array([1e9, 2e9]) / BANDWIDTH + LATENCY_S, rtol=1e-9)


def test_what_cannot_be_lowered_is_an_error() -> None:
    links = _switch(4)
    with pytest.raises(SysgymError, match="in two groups"):
        lower_collective(links, [[0, 1], [1, 2]], Collective.ALL_REDUCE, 1.0)
    with pytest.raises(SysgymError, match="not the product"):
        lower_collective(links, [[0, 1, 2]], Collective.ALL_REDUCE, 1.0, factors=(2, 2))
    for size_bytes in (-1.0, np.nan, np.inf):
        with pytest.raises(SysgymError, match="finite sizes"):
            lower_collective(links, [[0, 1]], Collective.ALL_REDUCE, size_bytes)
    with pytest.raises(SysgymError, match="there are 4"):
        lower_collective(links, [[0, 4]], Collective.ALL_REDUCE, 1.0)
