"""Bounds: known values, and cuts by brute force."""

from __future__ import annotations

import itertools
import math

import pytest

from sysgym.emulator.accelerators.cost.bounds import (
    NicAt,
    all_gather_bound_s,
    all_to_all_bound_s,
    collective_bound_s,
    forestcoll_bytes_per_s,
    reduction_bound_s,
)
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.problem import Reduction
from sysgym.scenarios.errors import SysgymError, UnknownName


def test_of_one_collective() -> None:
    assert collective_bound_s("AR", 8, 1e9, 25e9) == pytest.approx(0.07)
    assert collective_bound_s("RS", 8, 1e9, 25e9) == pytest.approx(0.035)
    assert collective_bound_s("B", 8, 1e9, 25e9) == pytest.approx(0.04)
    assert collective_bound_s("AG", 9, 0.0, 25e9, 5e-6) == pytest.approx(20e-6)
    assert collective_bound_s("A2A", 9, 0.0, 25e9, 5e-6) == pytest.approx(5e-6)
    assert collective_bound_s("AR", 1, 1e9, 25e9, 5e-6) == 0.0


@pytest.mark.parametrize("nodes", [2, 4])
@pytest.mark.parametrize("inner", [16, 8, 4, 2, 1])
def test_of_a_reduction_over_nodes_that_share_a_nic(nodes: int, inner: int) -> None:
    matrix = ((nodes, inner), (1, 16 // inner))
    bound_s = reduction_bound_s(get_preset("p2-a100", nodes), matrix, Reduction((0,), 1e9))
    n, sharing = nodes * inner, 16 // inner
    inside_s = 2 * (n - 1) / n * 1e9 / 235e9
    across_s = sharing * 2 * (nodes - 1) / nodes * 1e9 / 8.4e9
    assert bound_s == pytest.approx(max(inside_s, across_s))
    inside_only = reduction_bound_s(get_preset("p2-a100", nodes), matrix, Reduction((1,), 1e9))
    other = 16 // inner
    assert inside_only == pytest.approx(2 * (other - 1) / other * 1e9 / 235e9)


def test_of_rounds() -> None:
    system = get_preset("p2-a100", 4)
    # 32 devices: five doublings, one of them between nodes.
    assert reduction_bound_s(system, ((2, 16), (2, 1)), Reduction((0,), 0.0)) == pytest.approx(26e-6)
    assert reduction_bound_s(system, ((2, 16), (2, 1)), Reduction((1,), 0.0)) == pytest.approx(14e-6)
    assert reduction_bound_s(system, ((1, 1), (4, 16)), Reduction((0,), 1e9)) == 0.0


def test_in_a_ring_what_leaves_its_parent_may_leave_by_the_parent() -> None:
    torus = get_preset("tpu-v3", 4)
    # Down a column: a device sends 2 * 3/4 GB with 160 GB/s.
    assert reduction_bound_s(torus, ((4, 1), (1, 8)), Reduction((0,), 1e9)) == pytest.approx(1.5 / 160)
    # All 32: a device has 160 GB/s in its row, and all its row's columns to leave by; a row sends 2 * 3/4 GB
    # through its eight columns.
    assert reduction_bound_s(torus, ((4, 8),), Reduction((0,), 1e9)) == pytest.approx(
        max(2 * 31 / 32 / (160 + 8 * 160), 1.5 / (8 * 160))
    )


def test_te_ccl_on_two_dgx_2() -> None:
    """Solved schedules of TE-CCL (SIGCOMM 2024): 7.75 ms sits on the bound, 80.5 ms close to it."""
    system = get_preset("dgx-2", 2)
    assert all_gather_bound_s(system, 1e9) == pytest.approx(7.75e-3)
    assert all_to_all_bound_s(system, 1e9) == pytest.approx(80e-3)


def test_taccl_on_two_ndv2() -> None:
    """The all-to-all of 16 GPUs over one NIC a node: 64 chunks of 62.5 MB at 12.5 GB/s."""
    ndv2 = Hierarchy(
        "ndv2", (Level("node", 2, 12.5e9, 1.3e-6), Level("gpu", 8, 150e9, 0.7e-6, network="ring"))
    )
    assert all_to_all_bound_s(ndv2, 1e9) == pytest.approx(320e-3)


def test_of_a_single_device() -> None:
    single = get_preset("single", 1)
    assert all_gather_bound_s(single, 1e9) == all_to_all_bound_s(single, 1e9) == 0.0
    assert reduction_bound_s(single, ((1,),), Reduction((0,), 1e9)) == 0.0


@pytest.mark.parametrize(
    ("nodes", "devices", "device", "nic", "nic_at", "expected"),
    [
        (2, 8, 300, 25, "device", 346.67),
        (4, 8, 300, 25, "device", 266.67),
        (4, 8, 450, 50, "device", 516.13),
        (2, 16, 235, 8.4, "node", 16.8),
        (4, 16, 235, 8.4, "node", 11.2),
    ],
)
def test_forestcoll(
    nodes: int, devices: int, device: float, nic: float, nic_at: NicAt, expected: float
) -> None:
    rate = forestcoll_bytes_per_s(
        nodes, devices, device_bytes_per_s=device * 1e9, nic_bytes_per_s=nic * 1e9, nic_at=nic_at
    )
    assert rate / 1e9 == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(("nodes", "devices"), [(1, 2), (1, 4), (2, 1), (2, 3), (3, 2)])
@pytest.mark.parametrize("nic_at", ["device", "node"])
@pytest.mark.parametrize("nic", [1.0, 3.0, 20.0])
def test_forestcoll_by_all_cuts(nodes: int, devices: int, nic: float, nic_at: NicAt) -> None:
    device = 7.0
    n = nodes * devices
    # Vertices: devices, then the nodes' switches, then the network.
    links: list[tuple[int, int, float]] = [(d, n + d // devices, device) for d in range(n)]
    network = n + nodes
    if nodes > 1:
        ends = range(n) if nic_at == "device" else range(n, n + nodes)
        links += [(end, network, nic) for end in ends]
    worst = 0.0
    for held in itertools.product((False, True), repeat=network + 1):
        if all(held[:n]):
            continue
        leaving = math.fsum(rate for one, other, rate in links if held[one] != held[other])
        if leaving:
            worst = max(worst, sum(held[:n]) / leaving)
    rate = forestcoll_bytes_per_s(
        nodes, devices, device_bytes_per_s=device, nic_bytes_per_s=nic, nic_at=nic_at
    )
    assert rate == pytest.approx(n / worst)


def test_forestcoll_says_what_it_cannot_do() -> None:
    with pytest.raises(SysgymError, match="one device"):
        forestcoll_bytes_per_s(1, 1, device_bytes_per_s=1.0, nic_bytes_per_s=1.0, nic_at="node")
    with pytest.raises(UnknownName, match="place of a NIC"):
        forestcoll_bytes_per_s(
            2,
            2,
            device_bytes_per_s=1.0,
            nic_bytes_per_s=1.0,
            nic_at="rack",  # type: ignore[arg-type]
        )
