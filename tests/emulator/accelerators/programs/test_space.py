"""The space of programs: counts, nodes, and one space for all factors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from sysgym.emulator.accelerators.programs import (
    BroadcastRule,
    Collective,
    Convention,
    InvalidProgram,
    Program,
    ProgramSpace,
    apply_instruction,
    check_program,
    enumerate_programs,
    explore,
    format_program,
    is_goal,
    parse_program,
    program_edges,
    program_space,
    start_state,
)
from sysgym.scenarios.errors import ScenarioError, SysgymError

ONE_LEVEL = [(2,), (3,), (4,), (8,), (16,)]
TWO_LEVELS = [(2, 2), (2, 4), (4, 2), (2, 8), (4, 4), (2, 16), (3, 5), (6, 4)]
THREE_LEVELS = [(2, 2, 2), (2, 2, 4), (4, 2, 2), (2, 4, 2), (3, 2, 2), (2, 3, 4), (2, 4, 4)]
FOUR_LEVELS = [(2, 2, 2, 2), (3, 2, 2, 2), (2, 2, 3, 2), (2, 2, 2, 4)]
BY_LENGTH = {
    1: (1, 2, 0, 0, 0),
    2: (1, 4, 24, 42, 22),
    3: (1, 6, 59, 319, 1250),
    4: (1, 8, 105, 940, 6582),
}

AR, RS, AG = Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER
R, B = Collective.REDUCE, Collective.BROADCAST


class Counts(NamedTuple):
    """Counts of states, whatever the exponents."""

    states: int
    states_of_5_steps: int
    open_states_of_4_steps: int
    edges: int
    live: int


def counts(space: ProgramSpace) -> Counts:
    states = space.states.reshape(space.n_nodes, -1)
    _, state = np.unique(states, axis=0, return_inverse=True)
    open_nodes = (space.depth <= 4) & (np.arange(space.n_nodes) != space.goal)
    return Counts(
        states=len(np.unique(state)),
        states_of_5_steps=len(np.unique(state[space.depth <= 5])),
        open_states_of_4_steps=len(np.unique(state[open_nodes])),
        edges=len(np.unique(np.column_stack([state[space.edge_source], space.edge_action]), axis=0)),
        live=len(np.unique(state[space.steps_to_goal >= 0])),
    )


@pytest.mark.parametrize("factors", [*ONE_LEVEL, *TWO_LEVELS, *THREE_LEVELS, *FOUR_LEVELS, (4, 4, 4), (64,)])
def test_one_space_serves_all_factors(factors: tuple[int, ...]) -> None:
    steps = 6 if len(factors) < 4 else 5
    own, common = explore(factors, steps), program_space(len(factors), steps)
    assert own.counts_by_length(5) == BY_LENGTH[len(factors)]
    mine, theirs = program_edges(own, steps), program_edges(common, steps)
    # Edges are numbered differently; -1 pads both.
    assert (np.append(own.edge_action, -1)[mine] == np.append(common.edge_action, -1)[theirs]).all()
    # Nor do the shares of rows, of which times are made.
    for found, expected in zip(common.edge_shares(factors), own.edge_shares(factors), strict=True):
        assert np.allclose(np.append(found, 0.0)[theirs], np.append(expected, 0.0)[mine], rtol=1e-12)


@pytest.mark.parametrize("factors", [(2, 2), (3, 5), (2, 2, 2)])
def test_programs_are_the_same_labels(factors: tuple[int, ...]) -> None:
    n_levels = len(factors)
    own = [format_program(program, n_levels) for program in enumerate_programs(explore(factors), 5)]
    common = enumerate_programs(program_space(n_levels), 5)
    assert own == [format_program(program, n_levels) for program in common]
    assert len(set(own)) == len(own) == sum(BY_LENGTH[n_levels])


def test_some_long_programs_depend_on_the_factors() -> None:
    assert explore((2, 2, 2)).counts_by_length(9)[6:] == (4173, 3265, 1132)
    assert explore((4, 2, 2)).counts_by_length(9)[6:] == (4171, 3257, 1116)
    text = "inside-2:RS across-1:RS inside-2:AG masters-1:AG across-0:RS inside-2:B across-0:AG"
    program = parse_program(text, 3)
    check_program(program, (2, 2, 2))
    with pytest.raises(InvalidProgram, match=r"step 6 \(inside-2:B\)"):
        check_program(program, (4, 2, 2))
    with pytest.raises(SysgymError, match="depend on the factors"):
        program_space(3, 7)


@pytest.mark.parametrize("factors", ONE_LEVEL)
def test_counts_of_one_level(factors: tuple[int, ...]) -> None:
    assert counts(explore(factors)) == Counts(4, 4, 3, 5, 4)


@pytest.mark.parametrize("factors", TWO_LEVELS)
def test_counts_of_two_levels(factors: tuple[int, ...]) -> None:
    space = explore(factors)
    assert counts(space) == Counts(40, 40, 39, 84, 25)
    dead = np.flatnonzero(space.steps_to_goal < 0).tolist()
    assert sum(not space.valid_actions(node).any() for node in dead) == 7
    assert space.counts_by_length(12)[5:] == (0,) * 7


def test_counts_of_three_levels() -> None:
    space = explore((2, 2, 2))
    assert counts(space) == Counts(722, 704, 614, 1781, 236)
    assert space.counts_by_length(10) == (1, 6, 59, 319, 1250, 2941, 4173, 3265, 1132, 0)
    assert sum(space.counts_by_length(10)) == 13_146
    other = counts(explore((2, 2, 4)))
    assert (other.states, other.edges) == (747, 1849)
    on_programs = program_edges(space, 5)
    edges = on_programs[on_programs >= 0]
    assert len(np.union1d(space.edge_source[edges], space.edge_target[edges])) == 164


@pytest.mark.parametrize("factors", THREE_LEVELS[1:])
def test_states_of_three_levels_depend_on_the_factors(factors: tuple[int, ...]) -> None:
    found = counts(explore(factors, 5))
    assert 720 <= found.states_of_5_steps <= 734
    assert 621 <= found.open_states_of_4_steps <= 627


def test_four_levels() -> None:
    space = explore((2, 2, 2, 2), 5)
    assert counts(space).states_of_5_steps == 12_201
    assert len(program_edges(space, 5)) == 7636
    assert len(space.instructions) == 80


@pytest.mark.parametrize(
    ("allowed", "totals", "by_length"),
    [
        ({AR}, (1, 3, 11), ((1, 2, 0, 0, 0), (1, 4, 6, 0, 0))),
        ({AR, RS, AG}, (2, 20, 304), ((1, 3, 10, 6, 0), (1, 5, 26, 102, 170))),
        ({AR, R, B}, (2, 33, 616), ((1, 3, 14, 12, 3), (1, 5, 39, 160, 411))),
        ({RS, AG}, (1, 11, 123), ((0, 1, 4, 6, 0), (0, 1, 8, 34, 80))),
        (set(Collective), (3, 93, 1635), (BY_LENGTH[2], BY_LENGTH[3])),
    ],
)
def test_restricted_languages(
    allowed: set[Collective], totals: tuple[int, ...], by_length: tuple[tuple[int, ...], ...]
) -> None:
    found = [program_space(n_levels).counts_by_length(5, allowed) for n_levels in (1, 2, 3)]
    assert tuple(map(sum, found)) == totals
    assert tuple(found[1:]) == by_length
    spelled = [
        program
        for program in enumerate_programs(program_space(3), 5)
        if allowed.issuperset(instruction.collective for instruction in program)
    ]
    assert len(spelled) == totals[2]


def test_all_programs_of_two_steps_and_the_ten_of_three() -> None:
    programs = enumerate_programs(program_space(2), 3)
    assert {format_program(program, 2) for program in programs if len(program) == 2} == {
        "all:RS all:AG",
        "all:R all:B",
        "inside:AR across:AR",
        "across:AR inside:AR",
    }
    ten = {
        format_program(program, 2)
        for program in programs
        if len(program) == 3 and {AR, RS, AG}.issuperset(step.collective for step in program)
    }
    assert ten == {
        "all:RS inside:AG across:AG",
        "all:RS across:AG inside:AG",
        "inside:AR across:RS across:AG",
        "inside:RS inside:AG across:AR",
        "inside:RS across:AR inside:AG",
        "inside:RS across:RS all:AG",
        "across:AR inside:RS inside:AG",
        "across:RS inside:AR across:AG",
        "across:RS inside:RS all:AG",
        "across:RS across:AG inside:AR",
    }


def test_actions_from_the_start() -> None:
    expected = {1: 3, 2: 12, 3: 27}
    for n_levels, n_valid in expected.items():
        space = program_space(n_levels)
        valid = space.valid_actions(0)
        assert valid.shape == (5 * n_levels**2,)
        assert valid.sum() == n_valid
        used = {space.instructions[action].collective for action in np.flatnonzero(valid)}
        assert used == {AR, RS, R}
    space = program_space(2)
    dead = space.valid_actions(0) & ~space.live_actions(0)
    labels = {format_program([space.instructions[action]], 2) for action in np.flatnonzero(dead)}
    assert labels == {"masters:AR", "masters:RS", "masters:R"}


@pytest.mark.parametrize(
    ("convention", "totals", "by_length", "states"),
    [
        (Convention(), (3, 93, 1635), (1, 4, 24, 42, 22), (40, 704)),
        (Convention(reduce_keeps=True), (3, 147, 3891), (1, 4, 30, 71, 41), (58, 1524)),
        (Convention(broadcast=BroadcastRule.EVERY_MEMBER), (3, 61, 848), (1, 4, 19, 27, 10), (40, 693)),
        (Convention(True, BroadcastRule.EVERY_MEMBER), (3, 87, 1573), (1, 4, 23, 42, 17), (58, 1504)),
        (Convention(broadcast=BroadcastRule.SOME_GROUP), (3, 104, 1803), (1, 4, 24, 45, 30), (40, 712)),
    ],
)
def test_what_other_conventions_change(
    convention: Convention, totals: tuple[int, ...], by_length: tuple[int, ...], states: tuple[int, int]
) -> None:
    spaces = [explore((2,) * n_levels, 5, convention) for n_levels in (1, 2, 3)]
    assert tuple(sum(space.counts_by_length(5)) for space in spaces) == totals
    assert spaces[1].counts_by_length(5) == by_length
    assert tuple(counts(space).states_of_5_steps for space in spaces[1:]) == states


@pytest.mark.parametrize("factors", [(4,), (2, 4), (3, 5), (2, 2, 2), (4, 2, 3)])
def test_nodes_and_edges_are_what_instructions_do(factors: tuple[int, ...]) -> None:
    space = explore(factors)
    states = space.states.astype(np.uint64)[..., np.newaxis]
    assert (states[0] == start_state(factors)).all()
    assert is_goal(states[space.goal])
    assert not space.valid_actions(space.goal).any()
    assert (np.diff(space.depth) >= 0).all()
    rng = np.random.default_rng(7)
    for edge in rng.choice(space.n_edges, min(space.n_edges, 200), replace=False):
        source, target = space.edge_source[edge], space.edge_target[edge]
        after = apply_instruction(states[source], space.edge_instruction(edge), factors)
        assert (after == states[target]).all()
        assert space.successor(source, space.edge_action[edge]) == target
        assert space.first_edge[source] <= edge < space.first_edge[source + 1]
    for node in rng.choice(space.n_nodes, min(space.n_nodes, 50), replace=False):
        valid = space.valid_actions(node)
        for action, instruction in enumerate(space.instructions):
            if not valid[action]:
                with pytest.raises(InvalidProgram):
                    apply_instruction(states[node], instruction, factors)


@pytest.mark.parametrize(
    "factors", [(8,), (2, 4), (6, 4), (3, 5), (2, 2, 2), (4, 2, 2), (2, 3, 4), (4, 4, 4)]
)
def test_exponents_are_the_rows_held(factors: tuple[int, ...]) -> None:
    space = explore(factors)
    held = (space.states != 0).mean(axis=2)
    assert np.allclose(space.row_shares(factors), held, rtol=1e-12)
    before, after = space.edge_shares(factors)
    uneven = 0
    for edge in range(space.n_edges):
        roots = space.edge_instruction(edge).pattern.groups(factors)[:, 0]
        sources = held[space.edge_source[edge], roots]
        assert before[edge] == pytest.approx(sources.max())
        assert after[edge] == pytest.approx(held[space.edge_target[edge], roots].max())
        uneven += int(np.ptp(sources) > 0)
    # Up to two levels all groups hold as many rows as the first.
    assert (uneven > 0) == (len(factors) > 2)


def test_live_actions_are_those_from_which_a_program_goes_on() -> None:
    space = program_space(2)
    table = program_edges(space, 5)
    for steps in range(6):
        going_on = np.zeros((space.n_nodes, len(space.instructions)), bool)
        # From every node of a program: as many steps are left as it still takes, or more.
        for row in table:
            edges = row[row >= 0]
            for position, edge in enumerate(edges):
                if len(edges) - position <= steps:
                    going_on[space.edge_source[edge], space.edge_action[edge]] = True
        for node in np.unique(space.edge_source[table[table >= 0]]):
            assert (space.live_actions(node, steps) == going_on[node]).all()
            assert space.live_actions(node, steps).any() == (0 < space.steps_to_goal[node] <= steps)


@pytest.mark.parametrize("n_levels", [1, 2, 3])
def test_a_program_is_a_path_and_the_reverse(n_levels: int) -> None:
    space = program_space(n_levels)
    table = program_edges(space, 5)
    programs = enumerate_programs(space, 5)
    assert sorted(programs, key=lambda program: order(space, program)) == programs
    for row, program in zip(table[::7], programs[::7], strict=True):
        assert space.edges_of(program).tolist() == row[row >= 0].tolist()
        check_program(program, space.factors)


def order(space: ProgramSpace, program: Program) -> tuple[int, list[int]]:
    return len(program), [space.instructions.index(instruction) for instruction in program]


def test_edges_of_what_is_no_program() -> None:
    space = program_space(2, 3)
    with pytest.raises(InvalidProgram, match="contributions overlap"):
        space.edges_of(parse_program("inside:AR all:AR", 2))
    with pytest.raises(InvalidProgram, match="the program ends"):
        space.edges_of(parse_program("inside:AR", 2))
    with pytest.raises(InvalidProgram, match="no such pattern"):
        space.edges_of(parse_program("inside-2:AR", 3))
    with pytest.raises(SysgymError, match="more than 2 steps have not been explored"):
        program_space(2, 2).edges_of(parse_program("inside:RS across:AR inside:AG", 2))
    with pytest.raises(SysgymError, match="up to 3 steps have been explored, 4 are asked for"):
        space.counts_by_length(4)
    with pytest.raises(SysgymError, match="may not run"):
        space.successor(space.goal, 0)


def test_one_device() -> None:
    space = program_space(0)
    assert (space.n_nodes, space.n_edges, space.goal) == (1, 0, 0)
    assert enumerate_programs(space, 5) == [()]
    assert space.live_actions(0).shape == (0,)
    assert space.row_shares(()).tolist() == [[1.0]]
    assert space.counts_by_length(2) == (0, 0)


def test_factors_that_cannot_be_explored() -> None:
    with pytest.raises(ScenarioError, match="at least 2"):
        explore((2, 1))
    with pytest.raises(SysgymError, match=r"more than the 64 .*: use program_space\(2\)"):
        explore((16, 8))
    with pytest.raises(SysgymError, match=r"128 devices are more than the 64 that are explored$"):
        program_space(7)
    with pytest.raises(SysgymError, match="at most 2048"):
        start_state((1024, 1024))
    with pytest.raises(SysgymError, match="2 factors for programs of 3 levels"):
        program_space(3).edge_shares((2, 2))


def test_a_shared_space_cannot_be_changed() -> None:
    space = program_space(2)
    assert program_space(2) is space
    with pytest.raises(ValueError, match="read-only"):
        space.edge_target[0] = 3
    with pytest.raises(ValueError, match="read-only"):
        program_edges(space, 5)[0] = 3
