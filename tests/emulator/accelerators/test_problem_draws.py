"""Placement problems that episode seeds draw."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.accelerators.cost.validity import ClosedFormWarning
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.matrices import check_matrix, enumerate_matrices, reduction_factors
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction
from sysgym.emulator.accelerators.problem_draws import (
    draw_hierarchy,
    draw_matrix,
    draw_problem,
    draw_program_task,
    has_choice,
)
from sysgym.scenarios import PlacementScenario, list_scenarios, load_scenario
from sysgym.scenarios.errors import ScenarioError
from sysgym.scenarios.schema.placement import (
    DEVICES_PER_NODE,
    MOST_AXES,
    MOST_LEVELS,
    MOST_PROGRAM_LEVELS,
    MOST_REDUCTIONS,
)
from sysgym.scenarios.schema.splits import SPLIT_NAMES

A100 = get_preset("p2-a100", 4)
REDUCTION = Reduction((0,), 1e9)
NAMES = [info.name for info in list_scenarios("placement") if "MultiJob" not in info.env_id]
PROGRAMS = [info.name for info in list_scenarios("placement") if "Program" in info.env_id]


def _scenario(name: str = "placement-unseen", **overrides: Any) -> PlacementScenario:
    dotted = {key.replace("__", "."): value for key, value in overrides.items()}
    return load_scenario(name, overrides=dotted, expect=PlacementScenario)


def _drawn(**overrides: Any) -> PlacementScenario:
    return _scenario(system__preset="drawn", **overrides)


def test_one_device_has_one_placement() -> None:
    problem = PlacementProblem(get_preset("single"), (1, 1), (REDUCTION,))
    assert enumerate_matrices(problem.hierarchy.cardinalities, problem.axes) == [((1,), (1,))]
    assert draw_matrix(problem, np.random.default_rng(1)) == ((1,), (1,))


@settings(deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=3), st.data())
def test_a_choice_is_more_than_one_matrix(cardinalities: list[int], data: st.DataObject) -> None:
    first = data.draw(
        st.sampled_from([d for d in range(1, 13) if math.prod(cardinalities) % d == 0]), label="axis 0"
    )
    axes = (first, math.prod(cardinalities) // first)
    assert has_choice(cardinalities, axes) == (len(enumerate_matrices(cardinalities, axes)) > 1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("split", SPLIT_NAMES)
def test_draws_of_shipped_scenarios(name: str, split: str) -> None:
    scenario = _scenario(name)
    table = scenario.problem
    first = scenario.splits[split].first_seed
    for seed in range(first, first + 60):
        problem = draw_problem(scenario, split, seed)
        assert problem == draw_problem(scenario, split, seed)
        hierarchy = problem.hierarchy
        assert hierarchy.n_levels <= MOST_LEVELS
        assert problem.n_axes <= MOST_AXES
        assert table.axes_min <= problem.n_axes <= table.axes_max
        assert table.reductions_min <= len(problem.reductions) <= min(table.reductions_max, MOST_REDUCTIONS)
        assert len({reduction.axes for reduction in problem.reductions}) == len(problem.reductions)
        for reduction in problem.reductions:
            assert table.size_min_bytes <= reduction.size_bytes <= table.size_max_bytes
            assert all(problem.axes[axis] > 1 for axis in reduction.axes)
        if table.axes_min > 1:
            assert has_choice(hierarchy.cardinalities, problem.axes)
        drawn = scenario.draw(split, seed).system
        assert hierarchy.name == drawn.preset
        if drawn.preset in DEVICES_PER_NODE:
            assert hierarchy.n_devices == drawn.nodes * DEVICES_PER_NODE[drawn.preset]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("split", SPLIT_NAMES)
def test_program_tasks_of_shipped_scenarios(name: str, split: str) -> None:
    scenario = _scenario(name)
    first = scenario.splits[split].first_seed
    for seed in range(first, first + 60):
        problem, matrix = draw_program_task(scenario, split, seed)
        assert (problem, matrix) == draw_program_task(scenario, split, seed)
        check_matrix(matrix, problem.hierarchy.cardinalities, problem.axes)
        (reduction,) = problem.reductions
        spanned = len(reduction_factors(matrix, reduction.axes))
        assert scenario.problem.program_levels_min <= spanned <= MOST_PROGRAM_LEVELS


def test_draws_stay_as_they_are_from_version_to_version() -> None:
    """Results name episodes by seed: another draw for the same seed would change them."""
    problem = draw_problem(_scenario("p2-systems"), "test", 20_000)
    assert (problem.hierarchy.name, problem.hierarchy.cardinalities) == ("p2-a100", (2, 16))
    assert problem.axes == (8, 4)
    assert [reduction.axes for reduction in problem.reductions] == [(1,), (0,)]
    sizes = [reduction.size_bytes for reduction in problem.reductions]
    assert sizes == pytest.approx([66_533_273.4, 7_505_444.1])
    drawn = draw_hierarchy(_drawn().system, 7)
    assert drawn.cardinalities == (12, 6)
    assert drawn.levels[0].bandwidth_bytes_per_s == pytest.approx(8.14472e9, rel=1e-5)


def test_drawn_systems_keep_to_their_ranges() -> None:
    system = _drawn().system
    table = system.drawn
    seen: Counter[str] = Counter()
    for seed in range(300):
        hierarchy = draw_hierarchy(system, seed)
        assert table.levels_min <= hierarchy.n_levels <= table.levels_max
        assert hierarchy.n_devices <= table.devices_max
        levels = hierarchy.levels[::-1]
        assert table.bandwidth_min_bytes_per_s <= levels[0].bandwidth_bytes_per_s
        assert levels[0].bandwidth_bytes_per_s <= table.bandwidth_max_bytes_per_s
        assert table.latency_min_s <= levels[0].latency_s <= table.latency_max_s
        assert levels[0].uplinks == 1
        for inner, outer in itertools.pairwise(levels):
            ratio = outer.bandwidth_bytes_per_s / inner.bandwidth_bytes_per_s
            assert table.bandwidth_ratio_min <= ratio <= 1.0
            assert 1.0 <= outer.latency_s / inner.latency_s <= table.latency_ratio_max
        for level in levels:
            assert level.cardinality in table.cardinalities
            seen[f"{level.network} of {hierarchy.n_levels}"] += 1
            seen["shared" if level.uplinks == 1 else "several uplinks"] += 1
    assert set(seen) == {
        "ring of 2",
        "ring of 3",
        "switch of 2",
        "switch of 3",
        "shared",
        "several uplinks",
    }
    assert min(seen.values()) > 50


def test_only_small_systems_are_drawn_where_devices_are_few() -> None:
    system = _drawn(system__drawn__cardinalities=[2, 64], system__drawn__devices_max=8).system
    sizes = {draw_hierarchy(system, seed).cardinalities for seed in range(100)}
    assert sizes == {(2, 2), (2, 2, 2)}


def test_settings_of_the_axes_leave_the_system() -> None:
    for seed in range(20):
        few, many = (draw_problem(_drawn(problem__axes_max=most), "train", seed) for most in (2, 4))
        assert few.hierarchy == many.hierarchy
        sizes = draw_problem(_drawn(problem__axes_max=2, problem__size_max_bytes=1e7), "train", seed)
        assert sizes.axes == few.axes


def test_axes_are_larger_than_one_where_they_can_be() -> None:
    problem = draw_problem(
        _scenario(system__preset="dgx-1-v100", system__nodes=1, problem__axes_min=4, problem__axes_max=4),
        "train",
        3,
    )
    assert sorted(problem.axes) == [1, 2, 2, 2]


def test_given_axes_and_reductions_are_kept() -> None:
    scenario = _scenario(
        system__preset="p2-a100",
        system__nodes=4,
        problem__axes=[4, 16],
        problem__reductions=[{"axes": [1, 0], "size_bytes": 0.0}, {"axes": [0], "size_bytes": 1e12}],
    )
    for seed in range(3):
        problem = draw_problem(scenario, "train", seed)
        assert problem.axes == (4, 16)
        assert problem.reductions == (Reduction((0, 1), 0.0), Reduction((0,), 1e12))


def test_own_levels() -> None:
    levels = [
        {"name": "node", "cardinality": 3, "bandwidth_bytes_per_s": 1e9, "latency_s": 1e-5, "uplinks": 5},
        {"name": "gpu", "cardinality": 5, "bandwidth_bytes_per_s": 1e10, "latency_s": 0.0, "network": "ring"},
    ]
    scenario = _scenario(system={"source": "levels", "levels": levels}, problem__axes=[5, 3])
    with pytest.warns(ClosedFormWarning, match="gpus in a ring"):
        problem = draw_problem(scenario, "train", 0)
    assert problem.hierarchy.levels == (
        Level("node", 3, 1e9, 1e-5, uplinks=5),
        Level("gpu", 5, 1e10, 0.0, network="ring"),
    )
    assert enumerate_matrices((3, 5), problem.axes) == [((1, 5), (3, 1))]


def test_imported_systems(tmp_path: Path) -> None:
    yml = tmp_path / "torus.yml"
    yml.write_text("topology: [Ring, Ring]\nnpus_count: [4, 8]\nbandwidth: [80, 80]\nlatency: [1000, 1000]\n")
    scenario = _scenario(system={"source": "astra-sim", "file": str(yml)}, problem__axes=[4, 8])
    with pytest.warns(ClosedFormWarning, match="in a ring"):
        assert draw_problem(scenario, "train", 0).hierarchy.cardinalities == (8, 4)
    wrong = _scenario(system={"source": "astra-sim", "file": str(yml)}, problem__axes=[4, 4])
    with pytest.raises(ScenarioError, match="32, the number of devices"):
        draw_problem(wrong, "train", 0)
    topo = tmp_path / "topo.json"
    topo.write_text(
        json.dumps(
            {
                "name": "HubAndSpoke_1MB",
                "gpus_per_node": 4,
                "nics_per_node": 2,
                "alpha": 0.7,
                "node_betas_list": [23],
                "remote_alpha": 1.7,
                "remote_beta": 106,
            }
        )
    )
    scenario = _scenario(system={"source": "taccl", "file": str(topo), "nodes": 6})
    assert draw_problem(scenario, "train", 0).hierarchy.cardinalities == (6, 4)


def test_placements_are_drawn_alike() -> None:
    problem = PlacementProblem(A100, (4, 16), (REDUCTION,))
    rng = np.random.default_rng(5)
    counts = Counter(draw_matrix(problem, rng) for _ in range(600))
    assert set(counts) == set(enumerate_matrices((4, 16), (4, 16)))
    assert min(counts.values()) > 150


def test_placements_by_the_levels_that_a_reduction_spans() -> None:
    problem = PlacementProblem(A100, (4, 16), (REDUCTION,))
    rng = np.random.default_rng(5)
    assert {draw_matrix(problem, rng, fewest_levels=2) for _ in range(20)} == {((2, 2), (2, 8))}
    assert {draw_matrix(problem, rng, most_levels=1) for _ in range(50)} == {
        ((1, 4), (4, 4)),
        ((4, 1), (1, 16)),
    }
    assert draw_matrix(problem, rng, fewest_levels=3) is None
    deep = Hierarchy("deep", tuple(Level(f"l{index}", 2, 1e9, 1e-6) for index in range(4)))
    assert draw_matrix(PlacementProblem(deep, (16,), (REDUCTION,)), rng) is None


def test_default_placement_of_a_program() -> None:
    scenario = _scenario(
        "program-p2",
        problem__placement="default",
        problem__axes=[32],
        system__nodes=2,
        system__preset="p2-a100",
    )
    problem, matrix = draw_program_task(scenario, "train", 0)
    assert matrix == ((2, 16),)
    assert problem.reductions[0].axes == (0,)


@pytest.mark.parametrize("programs", ["all_reduce", "synthesized"])
def test_best_placement_of_a_program(programs: str) -> None:
    """A reduction of four on nodes of 16 stays inside a node."""
    scenario = _scenario(
        "program-p2",
        problem__placement="best",
        problem__programs=programs,
        problem__axes=[4, 16],
        problem__reductions=[{"axes": [0], "size_bytes": 1e9}],
        problem__program_levels_min=1,
        system__nodes=4,
        system__preset="p2-a100",
    )
    _, matrix = draw_program_task(scenario, "train", 0)
    assert matrix == ((1, 4), (4, 4))


def test_a_program_that_no_placement_allows() -> None:
    scenario = _scenario(
        "program-p2",
        problem__axes=[1, 16],
        system__nodes=1,
        system__preset="p2-a100",
        problem__placement="drawn",
    )
    with pytest.raises(ScenarioError, match=r"problem\.program_levels_min") as caught:
        draw_program_task(scenario, "train", 0)
    assert caught.value.got == 2
    assert "p2-a100" in caught.value.expected
