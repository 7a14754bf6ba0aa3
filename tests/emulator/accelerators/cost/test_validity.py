"""Validity of the closed form: systems on which it parts from the flows, and the warning."""

from __future__ import annotations

import dataclasses
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.accelerators.cost.model import CostModel
from sysgym.emulator.accelerators.cost.validity import ClosedFormWarning, slower_inside, warn_outside
from sysgym.emulator.accelerators.flows.collective import program_time_s
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.problem import Reduction
from sysgym.emulator.accelerators.problem_draws import draw_problem
from sysgym.emulator.accelerators.programs import parse_program
from sysgym.scenarios import PlacementScenario, load_scenario
from sysgym.scenarios.schema.placement import DEVICES_PER_NODE

from .systems import Case, cases

SLOW_INSIDE = Hierarchy("slow inside", (Level("node", 2, 40e9, 1e-6, 4), Level("gpu", 4, 10e9, 1e-6)))
LATE_INSIDE = Hierarchy("late inside", (Level("node", 2, 10e9, 1e-6, 4), Level("gpu", 4, 40e9, 9e-6)))


@settings(max_examples=60, deadline=None)
@given(cases((2, 3, 4), networks=("switch",)), st.floats(1e4, 1e9))
def test_a_rings_closed_form_is_an_upper_bound_that_exceeds_flows_by_its_latencies_at_most(
    case: Case, size_bytes: float
) -> None:
    if not case.factors or case.hierarchy.n_devices > 36:
        return
    reduction = Reduction(case.reduce_axes, size_bytes)
    program = parse_program("all:AR", len(case.factors))
    (cost,) = CostModel(case.hierarchy).step_costs(case.matrix, reduction, program)
    flows_s = program_time_s(case.hierarchy, case.matrix, reduction, program)
    assert cost.link_s * (1 - 1e-9) <= flows_s <= cost.time_s * (1 + 1e-9)


@pytest.mark.parametrize("late", [False, True])
def test_a_slower_hop_inside_counts(late: bool) -> None:
    """Two levels of two devices: the rounds of a ring of four wait for the longest hop."""
    levels = (Level("node", 2, 1e12, 1e-6, 2), Level("gpu", 2, 1e12, 5e-6 if late else 1e-7))
    time_s = CostModel(Hierarchy("small", levels)).all_reduce_time_s(((2, 2),), Reduction((0,), 1.0))
    assert time_s == pytest.approx(6 * (5e-6 if late else 1e-6), rel=1e-4)


def test_presets_are_inside_and_inverted_systems_are_not() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in DEVICES_PER_NODE:
            system = get_preset(name, 1 if name == "single" else 4)
            assert slower_inside(system) == ""
            warn_outside(system, "ring")
    assert "gpu links are slower than those of node" in slower_inside(SLOW_INSIDE)
    assert "a hop between gpus takes longer" in slower_inside(LATE_INSIDE)
    for system in (SLOW_INSIDE, LATE_INSIDE):
        with pytest.warns(ClosedFormWarning, match=r"use flows .*topk"):
            warn_outside(dataclasses.replace(system, name=f"{system.name} again"), "ring")


def test_trees_on_rings_are_outside() -> None:
    rings = Hierarchy("rings", (Level("node", 2, 1e9, 1e-6), Level("gpu", 4, 1e11, 1e-6, network="ring")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_outside(rings, "ring")
    with pytest.warns(ClosedFormWarning, match="trees on gpus in a ring"):
        warn_outside(rings, "tree")


def test_a_system_of_ones_own_is_checked_when_it_is_used() -> None:
    levels = [dataclasses.asdict(level) for level in SLOW_INSIDE.levels]
    scenario = load_scenario("placement-unseen", expect=PlacementScenario).with_overrides(
        {"system.source": "levels", "system.preset": None, "system.nodes": 1, "system.levels": levels}
    )
    with pytest.warns(ClosedFormWarning, match="gpu links are slower"):
        draw_problem(scenario, "test", 20_000)
