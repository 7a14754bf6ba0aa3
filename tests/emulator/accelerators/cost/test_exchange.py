"""All-to-all: closed forms, and a sum over all pairs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.emulator.accelerators.cost.exchange import all_to_all_time_s
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.matrices import enumerate_matrices, reduction_groups
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.scenarios.errors import ScenarioError

SYSTEM = Hierarchy("two levels", (Level("node", 3, 2.0, 0.5, uplinks=2), Level("gpu", 4, 10.0, 0.1)))


def test_one_switch() -> None:
    flat = Hierarchy("flat", (Level("gpu", 5, 10.0, 0.1),))
    assert all_to_all_time_s(flat, ((5,),), (0,), 50.0) == pytest.approx(4.0 / 5.0 * 50.0 / 10.0 + 4 * 0.1)


def test_everyone_across_nodes() -> None:
    """Of a node's four devices, two share an uplink; each sends eight of twelve parts to other nodes."""
    time_s = all_to_all_time_s(SYSTEM, ((3, 4),), (0,), 120.0)
    assert time_s == pytest.approx(2 * 8 * 10.0 / 2.0 + 8 * 0.5 + 3 * 0.1)


@given(axes=st.sampled_from([(12,), (3, 4), (2, 6), (6, 2), (2, 3, 2)]), data=st.data())
def test_it_is_the_sum_over_all_pairs(axes: tuple[int, ...], data: st.DataObject) -> None:
    matrix = data.draw(st.sampled_from(enumerate_matrices(SYSTEM.cardinalities, axes)))
    axis = data.draw(st.integers(0, len(axes) - 1))
    loads: dict[tuple[int, int], float] = {}
    rounds = [0, 0]
    for group in reduction_groups(SYSTEM.cardinalities, matrix, (axis,)).tolist():
        for sender in group:
            crossed = [0, 0]
            for receiver in group:
                if sender == receiver:
                    continue
                level = 0 if sender // 4 != receiver // 4 else 1
                uplink = (0, sender // 2) if level == 0 else (1, sender)
                loads[uplink] = loads.get(uplink, 0.0) + 60.0 / len(group)
                crossed[level] += 1
            rounds = [max(pair) for pair in zip(rounds, crossed, strict=True)]
    slowest = max((load / (2.0, 10.0)[level] for (level, _), load in loads.items()), default=0.0)
    expected = slowest + 0.5 * rounds[0] + 0.1 * rounds[1]
    assert all_to_all_time_s(SYSTEM, matrix, (axis,), 60.0) == pytest.approx(expected)


def test_what_has_no_closed_form_is_an_error() -> None:
    with pytest.raises(ScenarioError, match="a switch"):
        all_to_all_time_s(get_preset("tpu-v3"), ((1, 8),), (0,), 1.0)
    with pytest.raises(ScenarioError, match="size_bytes"):
        all_to_all_time_s(SYSTEM, ((3, 4),), (0,), -math.inf)
