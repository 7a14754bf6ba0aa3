"""NCCL's figures: bus bandwidth, the tuner's times, efficiency by message size."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.emulator.accelerators.cost.algorithms import collective_time_s
from sysgym.emulator.accelerators.cost.nccl import (
    SIMAI_2_NODES,
    SIMAI_128_NODES,
    EfficiencyCurve,
    TunerAlgorithm,
    bus_bandwidth_bytes_per_s,
    bus_factor,
    nic_bytes_per_s,
    tuner_time_s,
)
from sysgym.emulator.accelerators.programs import Collective
from sysgym.scenarios.errors import ScenarioError, SysgymError, UnknownName


def test_bus_factors() -> None:
    factors = {name: bus_factor(name, 8) for name in ("AR", "RS", "AG", "A2A", "B", "R")}
    assert factors == {"AR": 1.75, "RS": 0.875, "AG": 0.875, "A2A": 0.875, "B": 1.0, "R": 1.0}
    with pytest.raises(UnknownName, match="collective"):
        bus_factor("AA", 8)
    with pytest.raises(SysgymError, match="0 ranks"):
        bus_factor("AR", 0)


@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [("AR", "ring"), ("RS", "ring"), ("AG", "ring"), ("A2A", "pairwise"), ("B", "pipelined_chain")],
)
def test_bus_bandwidth_of_a_flat_algorithm_is_the_rate_of_its_links(collective: str, algorithm: str) -> None:
    time_s = collective_time_s(collective, algorithm, 12, 1e9, 25e9, 0.0)
    assert bus_bandwidth_bytes_per_s(collective, 12, 1e9, time_s) == pytest.approx(25e9)


def test_bus_bandwidth_of_a_measured_time() -> None:
    # 4 GiB on 32 GPUs in 22.05 ms: 377 GB/s, of which a hierarchical all-reduce sends 3/31 through each NIC.
    bus = bus_bandwidth_bytes_per_s("AR", 32, 4 * 2**30, 22.05e-3)
    assert bus == pytest.approx(377e9, rel=2e-3)
    assert nic_bytes_per_s(bus, 32, 4) == pytest.approx(bus * 3 / 31)


def test_tuner_ring() -> None:
    # One node of 8: base 8.4, 14 hops of 3.4 us; 1.75 GB at 200 GB/s.
    inside = tuner_time_s(
        Collective.ALL_REDUCE, "ring", "Simple", n=8, nodes=1, size_bytes=1e9, bus_bytes_per_s=200e9
    )
    assert inside == pytest.approx(8.75e-3 + 56e-6)
    # Two nodes of 8: 28 hops of 3.4 and 2 of 14 us, longer by 1.4; 30/16 GB at 20 GB/s.
    across = tuner_time_s(
        Collective.ALL_REDUCE, "ring", "Simple", n=16, nodes=2, size_bytes=1e9, bus_bytes_per_s=20e9
    )
    assert across == pytest.approx(93.75e-3 + 1.4 * (8.4 + 28 * 3.4 + 2 * 14) * 1e-6)
    small = tuner_time_s(
        Collective.ALL_REDUCE, "ring", "Simple", n=16, nodes=2, size_bytes=1e3, bus_bytes_per_s=20e9
    )
    assert small == pytest.approx(93.75e-9 + (8.4 + 28 * 3.4 + 2 * 14) * 1e-6)
    gather = tuner_time_s(
        Collective.ALL_GATHER, "ring", "LL", n=16, nodes=2, size_bytes=1e9, bus_bytes_per_s=20e9, hop="pci"
    )
    assert gather == pytest.approx(15 / 16 / 20 + (6.6 + 14 * 1.0 + 1 * 2.7) * 1e-6)
    broadcast = tuner_time_s(
        Collective.BROADCAST, "ring", "LL128", n=16, nodes=2, size_bytes=1e9, bus_bytes_per_s=20e9
    )
    assert broadcast == pytest.approx(1 / 20 + (14.0 + 15 * 1.9 + 1 * 4.0) * 1e-6)
    alone = tuner_time_s(
        Collective.ALL_REDUCE, "ring", "Simple", n=1, nodes=1, size_bytes=1e9, bus_bytes_per_s=20e9
    )
    assert alone == 0.0


def test_tuner_tree() -> None:
    # Four nodes of 8: 2 * (7 hops of 4 + 2 hops of 14 us); half the bus.
    time_s = tuner_time_s(
        Collective.ALL_REDUCE, "tree", "Simple", n=32, nodes=4, size_bytes=1e9, bus_bytes_per_s=20e9
    )
    assert time_s == pytest.approx(0.1 + (8.4 + 2 * (28 + 28)) * 1e-6)


def test_the_tuner_takes_trees_for_small_messages_and_rings_for_large_ones() -> None:
    def fastest(size_bytes: float) -> str:
        algorithms: tuple[TunerAlgorithm, ...] = ("ring", "tree")
        return min(
            algorithms,
            key=lambda name: tuner_time_s(
                Collective.ALL_REDUCE,
                name,
                "Simple",
                n=128,
                nodes=16,
                size_bytes=size_bytes,
                bus_bytes_per_s=40e9,
            ),
        )

    assert [fastest(size) for size in (1e3, 1e6, 16e9)] == ["tree", "tree", "ring"]


def test_the_tuner_says_what_it_does_not_know() -> None:
    with pytest.raises(SysgymError, match="tree does an all-reduce, not broadcast"):
        tuner_time_s(Collective.BROADCAST, "tree", "LL", n=8, nodes=1, size_bytes=1.0, bus_bytes_per_s=1.0)
    with pytest.raises(SysgymError, match="8 ranks do not spread evenly over 3 nodes"):
        tuner_time_s(Collective.ALL_REDUCE, "ring", "LL", n=8, nodes=3, size_bytes=1.0, bus_bytes_per_s=1.0)
    with pytest.raises(UnknownName, match='did you mean "Simple"'):
        tuner_time_s(
            Collective.ALL_REDUCE,
            "ring",
            "simple",  # type: ignore[arg-type]
            n=8,
            nodes=1,
            size_bytes=1.0,
            bus_bytes_per_s=1.0,
        )
    with pytest.raises(UnknownName, match="nvls"):
        tuner_time_s(
            Collective.ALL_REDUCE,
            "nvls",  # type: ignore[arg-type]
            "LL",
            n=8,
            nodes=1,
            size_bytes=1.0,
            bus_bytes_per_s=1.0,
        )


@pytest.mark.parametrize("curve", [SIMAI_2_NODES, SIMAI_128_NODES])
def test_efficiency_goes_through_its_points(curve: EfficiencyCurve) -> None:
    for size_bytes, share in zip(curve.size_bytes, curve.share, strict=True):
        assert curve.at(size_bytes) == pytest.approx(share)
    assert curve.at(0.0) == curve.at(1.0) == pytest.approx(curve.share[0])
    assert curve.at(1e15) == pytest.approx(curve.share[-1])
    for low, high in itertools.pairwise(curve.size_bytes):
        assert curve.at(low) < curve.at((low * high) ** 0.5) < curve.at(high)


@pytest.mark.parametrize("curve", [SIMAI_2_NODES, SIMAI_128_NODES])
@given(size_bytes=st.floats(1.0, 1e12), larger=st.floats(1.0, 100.0))
def test_larger_messages_take_longer(curve: EfficiencyCurve, size_bytes: float, larger: float) -> None:
    time = size_bytes / curve.at(size_bytes)
    assert size_bytes * larger / curve.at(size_bytes * larger) >= time * (1 - 1e-12)


@pytest.mark.parametrize(
    ("sizes", "shares", "message"),
    [
        ((), (), "at least one"),
        ((1e6,), (0.5, 0.6), "1 sizes, 2 shares"),
        ((1e6, 1e6), (0.5, 0.6), "ascending"),
        ((0.0, 1e6), (0.5, 0.6), "positive"),
        ((1e6, float("inf")), (0.5, 0.6), "finite"),
        ((1e6, 1e9), (0.0, 0.6), "more than 0"),
        ((1e6, 1e9), (0.5, 1.1), "at most 1"),
        ((1e6, 2e6), (0.1, 0.3), "grow no faster"),
    ],
)
def test_curves_that_make_no_sense(sizes: tuple[float, ...], shares: tuple[float, ...], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        EfficiencyCurve(sizes, shares)
