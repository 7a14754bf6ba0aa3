"""Costs of communications are those of accelerators, and agree with closed forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.emulator.training.collective_costs import COLLECTIVES, CollectiveCosts, group_shape
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


def test_shapes_of_groups() -> None:
    assert group_shape([0, 1, 2, 3], 8) == (4, 1)
    assert group_shape([1, 5], 8) == (2, 4)
    assert group_shape([9, 13], 16) == (2, 4)
    assert group_shape([2], 8) == (1, 1)
    assert group_shape([0, 1, 5, 6], 8) == (4, 2), "spread over all"
    assert group_shape([6, 7, 8, 9], 16) == (4, 4), "neighbours, but in two groups of four"
    assert group_shape([0, 3, 7], 8) == (4, 2), "three do not divide eight"
    assert group_shape([4, 5, 6], 16) == (4, 1)
    assert group_shape([0, 2, 4, 6, 8], 16) == (8, 2)
    assert group_shape([3, 4, 5], 16) == (4, 4)


def group_times_s(ranks: set[int], n_ranks: int) -> dict[str, float]:
    costs, shape = CollectiveCosts("dgx-h100", n_ranks), group_shape(sorted(ranks), n_ranks)
    return {name: costs.collective_time_s(name, *shape, SIZE) for name in COLLECTIVES}


@given(data=st.data(), n_ranks=st.sampled_from([1, 6, 7, 8, 24, 48]))
def test_every_group_has_a_time(data: st.DataObject, n_ranks: int) -> None:
    ranks = data.draw(st.sets(st.integers(0, n_ranks - 1), min_size=1))
    assert {time_s > 0.0 for time_s in group_times_s(ranks, n_ranks).values()} == {len(ranks) > 1}


@given(data=st.data(), n_ranks=st.sampled_from([2, 8, 16, 32]))
def test_no_group_is_faster_than_a_smaller_one_of_neighbours(data: st.DataObject, n_ranks: int) -> None:
    ranks = data.draw(st.sets(st.integers(0, n_ranks - 1), min_size=1))
    smaller = 2 ** (len(ranks).bit_length() - 1)
    costs = CollectiveCosts("dgx-h100", n_ranks)
    for name, time_s in group_times_s(ranks, n_ranks).items():
        assert time_s >= costs.collective_time_s(name, smaller, 1, SIZE) * (1 - 1e-9)


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
