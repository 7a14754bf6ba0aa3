"""Costs of communications are those of accelerators, and agree with closed forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.emulator.training.collective_costs import COLLECTIVES, CollectiveCosts, group_stride
from sysgym.scenarios.errors import SysgymError, UnknownName

SIZE, NVLINK, NIC, NEAR_S, FAR_S = 1e9, 450e9, 50e9, 3.4e-6, 14e-6


def test_closed_forms_inside_a_node_and_across() -> None:
    """Rings: (k - 1) / k of the vector and k - 1 latencies, twice for an all-reduce."""
    costs = CollectiveCosts("dgx-h100", 16)
    for name, passes in (("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1), ("all_to_all", 1)):
        inside = passes * 7 * (SIZE / 8 / NVLINK + NEAR_S)
        across = passes * (SIZE / 2 / NIC + FAR_S)
        assert costs.collective_time_s(name, 8, 1, SIZE) == pytest.approx(inside)
        assert costs.collective_time_s(name, 2, 8, SIZE) == pytest.approx(across)
    assert costs.collective_time_s("barrier", 8, 1, SIZE) == pytest.approx(14 * NEAR_S)
    assert costs.transfer_time_s(3, 4, SIZE) == pytest.approx(SIZE / NVLINK + NEAR_S)
    assert costs.transfer_time_s(4, 12, SIZE) == pytest.approx(SIZE / NIC + FAR_S)
    assert costs.transfer_time_s(4, 4, SIZE) == 0.0


@given(name=st.sampled_from(COLLECTIVES), shape=st.sampled_from([(1, 1), (4, 1), (2, 4), (4, 2), (8, 8)]))
def test_groups_of_one_take_no_time_and_larger_vectors_take_longer(name: str, shape: tuple[int, int]) -> None:
    costs = CollectiveCosts("dgx-a100", 64)
    assert costs.collective_time_s(name, 1, 1, SIZE) == 0.0
    times = [costs.collective_time_s(name, *shape, size) for size in (0.0, 1e6, 1e9)]
    assert times == sorted(times)


def test_a_part_of_a_node() -> None:
    costs = CollectiveCosts("dgx-h100", 2)
    assert costs.collective_time_s("all_gather", 2, 1, SIZE) == pytest.approx(SIZE / 2 / NVLINK + NEAR_S)


def test_strides_of_groups() -> None:
    assert group_stride([0, 1, 2, 3], 8) == 1
    assert group_stride([1, 5], 8) == 4
    assert group_stride([2], 8) == 1
    assert group_stride([0, 1, 5, 6], 8) == 2


def test_what_does_not_fit_is_an_error() -> None:
    costs = CollectiveCosts("dgx-h100", 16)
    with pytest.raises(UnknownName, match="gather"):
        costs.collective_time_s("gather", 2, 1, 1.0)
    with pytest.raises(SysgymError, match="16 ranks cannot be divided into groups of 3 that are 1 apart"):
        costs.collective_time_s("all_reduce", 3, 1, 1.0)
    with pytest.raises(SysgymError, match="12 ranks do not fill nodes of 8 devices"):
        CollectiveCosts("dgx-h100", 12)
    with pytest.raises(UnknownName, match="preset"):
        CollectiveCosts("dgx-h1000", 8)
