"""Candidates: the best by the cost model, distinct, with the parts of their times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.accelerators.candidates import ALIKE, best_candidates
from sysgym.emulator.accelerators.cost import CostModel
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.matrices import reduction_factors
from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction
from sysgym.emulator.accelerators.problem_draws import draw_problem
from sysgym.emulator.accelerators.programs import COLLECTIVES, check_program, format_program
from sysgym.emulator.accelerators.step_times import LevelModels, link_times_s
from sysgym.scenarios import PlacementScenario, load_scenario
from sysgym.scenarios.errors import ScenarioError

JOINT = load_scenario("joint-unseen", expect=PlacementScenario)
A100 = Hierarchy("a100", (Level("node", 2, 8.4e9, 14e-6), Level("gpu", 4, 235e9, 3e-6)))
seeds = st.integers(0, 9999)


def drawn(seed: int) -> PlacementProblem:
    return draw_problem(JOINT, "train", seed)


def slower(hierarchy: Hierarchy, slowdown: np.ndarray) -> Hierarchy:
    """Return a hierarchy whose levels' links take longer by these factors."""
    levels = [
        Level(
            level.name, level.cardinality, level.bandwidth_bytes_per_s / float(factor), level.latency_s,
            level.uplinks, level.network,
        )
        for level, factor in zip(hierarchy.levels, slowdown, strict=True)
    ]  # fmt: skip
    return Hierarchy("slower", tuple(levels))


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_times_are_those_of_the_cost_model(seed: int) -> None:
    """To the digit by the data sheets; on slower links up to the latencies that are hidden by others."""
    problem = drawn(seed)
    candidates = best_candidates(problem, 48, "ring", 5)
    rng = np.random.default_rng(seed)
    n_levels = problem.hierarchy.n_levels
    factors = np.exp(0.5 * rng.standard_normal((2, n_levels)))
    slowdowns = np.vstack([np.ones(n_levels), factors])
    times_s = candidates.times.times_s(slowdowns, np.ones((1, len(COLLECTIVES))))
    assert times_s[:, 0] == pytest.approx(candidates.times.nominal_s, rel=1e-12)
    default_s = candidates.default_times.times_s(slowdowns, np.ones((1, len(COLLECTIVES))))
    silent = CostModel(slower(problem.hierarchy, np.full(n_levels, 1e-20)))
    for column, slowdown in enumerate(slowdowns):
        model = CostModel(slower(problem.hierarchy, slowdown))
        matrix = candidates.default.matrix
        hidden_s = silent.placement_time_s(problem, matrix) if column else 0.0
        assert default_s[0, column] == pytest.approx(
            model.placement_time_s(problem, matrix), rel=1e-9, abs=hidden_s
        )
        for row in rng.choice(len(candidates), 3):
            one = candidates[int(row)]
            expected, hidden_s = (
                sum(
                    by.program_time_s(one.matrix, reduction, program)
                    for reduction, program in zip(problem.reductions, one.programs, strict=True)
                )
                for by in (model, silent)
            )
            assert times_s[row, column] == pytest.approx(
                expected, rel=1e-9, abs=hidden_s if column else 1e-12
            )


@settings(max_examples=15, deadline=None)
@given(seeds, st.sampled_from([2, 12, 48]))
def test_the_first_is_the_optimum_and_all_are_valid_and_in_order(seed: int, n: int) -> None:
    problem = drawn(seed)
    candidates = best_candidates(problem, n, "ring", 5)
    assert 1 <= len(candidates) <= n
    _, best_s = CostModel(problem.hierarchy).best_placement(problem, "synthesized")
    nominal_s = candidates.times.nominal_s
    assert nominal_s[0] == pytest.approx(best_s, rel=1e-9)
    assert (np.diff(np.log(nominal_s)) > -2e-9).all()
    for row in range(len(candidates)):
        one = candidates[row]
        for reduction, program in zip(problem.reductions, one.programs, strict=True):
            factors = reduction_factors(one.matrix, reduction.axes)
            if factors:
                check_program(program, (2,) * len(factors))
            else:
                assert program == ()


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_shares_are_shares(seed: int) -> None:
    times = best_candidates(drawn(seed), 48, "ring", 5).times
    assert times.level_shares.min() >= 0.0
    assert times.collective_shares.min() >= 0.0
    assert times.level_shares.sum(axis=1) + times.latency_share == pytest.approx(1.0)
    assert times.collective_shares.sum(axis=1) == pytest.approx(times.level_shares.sum(axis=1))


def test_no_two_are_alike() -> None:
    """There is a way in which links and collectives may be slow that tells every two of them apart."""
    rng = np.random.default_rng(0)
    for seed in range(5):
        problem = drawn(seed)
        times = best_candidates(problem, 48, "ring", 5).times
        levels = np.exp(rng.standard_normal((400, problem.hierarchy.n_levels)))
        logs = np.log(times.times_s(levels, np.exp(rng.standard_normal((400, len(COLLECTIVES))))))
        apart = np.abs(logs[:, None] - logs[None]).max(axis=2) + np.eye(len(times))
        assert apart.min() > ALIKE


def test_the_programs_of_one_small_problem_by_hand() -> None:
    problem = PlacementProblem(A100, (8,), (Reduction((0,), 1e9),))
    candidates = best_candidates(problem, 200, "ring", 3)
    names = [format_program(candidates[row].programs[0], 2) for row in range(len(candidates))]
    assert names[0] == "inside:RS across:AR inside:AG"
    # The same on the links, another collective: RS and AG across instead of AR need a fourth step.
    assert {"all:AR", "all:RS all:AG", "inside:R masters:AR inside:B"} <= set(names)
    assert len(set(names)) == len(names) < 29
    assert candidates.default.programs == (candidates[names.index("all:AR")].programs[0],)
    assert candidates.default_times.nominal_s[0] == candidates.times.nominal_s[names.index("all:AR")]


def test_reductions_that_span_many_levels_are_all_reduced() -> None:
    levels = tuple(Level(name, 2, 1e9 * 2**index, 1e-6) for index, name in enumerate("abcd"))
    problem = PlacementProblem(Hierarchy("deep", levels), (16,), (Reduction((0,), 1e9),))
    candidates = best_candidates(problem, 48, "ring", 5)
    assert len(candidates) == 1
    assert [str(step.collective) for step in candidates[0].programs[0]] == ["AR"]
    assert candidates.times.nominal_s[0] == pytest.approx(
        CostModel(problem.hierarchy).best_placement(problem)[1]
    )


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_pipelined_algorithms_are_taken_apart(algorithm: str) -> None:
    problem = PlacementProblem(A100, (2, 4), (Reduction((0, 1), 1e6), Reduction((1,), 1e9)))
    candidates = best_candidates(problem, 16, algorithm, 5)
    _, best_s = CostModel(A100, algorithm).best_placement(problem, "synthesized")
    assert candidates.times.nominal_s[0] == pytest.approx(best_s, rel=1e-9)


@pytest.mark.parametrize("algorithm", ["halving_doubling", "auto"])
def test_rounds_on_one_level_after_another_cannot_be_taken_apart(algorithm: str) -> None:
    problem = PlacementProblem(A100, (2, 4), (Reduction((0,), 1e6),))
    with pytest.raises(ScenarioError, match='"ring" or "tree"'):
        best_candidates(problem, 16, algorithm, 5)


def test_nothing_is_sent_on_a_single_device() -> None:
    problem = PlacementProblem(Hierarchy("one", (Level("gpu", 1, 1e9, 1e-6),)), (1,), (Reduction((0,), 1e9),))
    candidates = best_candidates(problem, 8, "ring", 5)
    assert len(candidates) == 1
    assert candidates[0].programs == ((),)
    assert candidates.times.nominal_s.tolist() == [0.0]
    assert candidates.times.level_shares.sum() == 0.0


def test_times_by_level_by_hand() -> None:
    problem = PlacementProblem(A100, (2, 4), (Reduction((0,), 1e9), Reduction((1,), 2e9)))
    found = link_times_s(CostModel(A100), problem, ((2, 1), (1, 4)))
    # Four rings of two behind one NIC; then rings of four inside.
    assert found == pytest.approx(np.array([[4 * 1.0 / 8.4, 1 / 235], [0.0, 1.5 * 2 / 235]]), rel=1e-12)
    # With the best program the same: groups inside one level have no better one.
    assert link_times_s(CostModel(A100), problem, ((2, 1), (1, 4)), 5) == pytest.approx(found)
    models = LevelModels(A100, "ring")
    link_s, latency_s = models.all_reduce_times_s(((2, 1), (1, 4)), problem.reductions[0])
    assert link_s[0] == pytest.approx(found[0])
    assert latency_s[0] == pytest.approx(2 * 14e-6)
