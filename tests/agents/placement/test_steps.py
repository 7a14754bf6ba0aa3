"""Rules for programs, compared with results computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sysgym.agents.placement.steps import (
    blueconnect,
    bytes_to_go,
    cheapest_progress,
    edges_of_actions,
    program_of,
    random_program,
)
from sysgym.emulator.accelerators.programs import (
    check_program,
    explore,
    format_program,
    parse_program,
    program_space,
)


@pytest.mark.parametrize(
    ("n_levels", "max_steps", "expected"),
    [
        (0, 5, ""),
        (1, 5, "all:AR"),
        (2, 5, "inside:RS across:AR inside:AG"),
        (2, 2, "all:AR"),
        (3, 5, "inside-2:RS across-1:RS across-0:AR across-1:AG inside-2:AG"),
        (3, 4, "inside-1-2:RS across-0:AR inside-1-2:AG"),
        (3, 1, "all:AR"),
    ],
)
def test_blueconnect_by_hand(n_levels: int, max_steps: int, expected: str) -> None:
    program = blueconnect(n_levels, max_steps)
    assert format_program(program, n_levels) == expected
    check_program(program, (2, 3, 4)[:n_levels])


def test_bytes_to_go_by_hand() -> None:
    # Four nodes of two: 2 * 7/8 at the start.
    space = program_space(2)
    to_go = bytes_to_go(space, (4, 2))
    assert to_go[0] == pytest.approx(1.75)
    assert to_go[space.goal] == pytest.approx(0.0)

    def after(text: str) -> float:
        node = 0
        for instruction in parse_program(text, 2):
            node = space.successor(node, space.instructions.index(instruction))
        return float(to_go[node])

    # Half of the rows of two: scatter them among four, 1/2 * 3/4, and gather the other seven eighths.
    assert after("inside:RS") == pytest.approx(3 / 8 + 7 / 8)
    assert after("inside:RS across:AR") == pytest.approx(1 / 2)
    # Gathering too early brings back what has to be scattered again.
    assert after("inside:RS inside:AG") == pytest.approx(2 * 3 / 4)
    # One of two has what an all-reduce would have left, the other has nothing and needs everything.
    assert after("inside:R") == pytest.approx((2 * 3 / 4 + 1) / 2)
    assert after("inside:R masters:AR") == pytest.approx(1 / 2)


@pytest.mark.parametrize("factors", [(4, 2), (2, 3), (3, 5)])
def test_bytes_to_go_does_not_depend_on_the_space_it_is_read_off(factors: tuple[int, ...]) -> None:
    own, shared = explore(factors), program_space(2)
    pairs, seen = [(0, 0)], {(0, 0)}
    mine, theirs = bytes_to_go(own, factors), bytes_to_go(shared, factors)
    while pairs:
        here, there = pairs.pop()
        assert mine[here] == pytest.approx(theirs[there])
        for action in np.flatnonzero(own.live_actions(here)):
            pair = own.successor(here, int(action)), shared.successor(there, int(action))
            if pair not in seen:
                seen.add(pair)
                pairs.append(pair)
    assert len(seen) == 25, "the live states of two levels"


def edge_times(n_levels: int, **time_s: float) -> np.ndarray:
    """Times that depend on the pattern alone: per share of the rows held at the larger end of the step."""
    space = program_space(n_levels)
    before, after = space.edge_shares((4, 4, 4)[:n_levels])
    labels = [
        space.edge_instruction(edge).pattern.label(n_levels).partition("-")[0]
        for edge in range(space.n_edges)
    ]
    return np.array([time_s[label] for label in labels]) * np.maximum(before, after)


def test_the_cheapest_progress_with_a_slow_network_is_blueconnects() -> None:
    space = program_space(2)
    times = edge_times(2, all=100.0, inside=1.0, across=100.0, masters=100.0)
    actions, looked_at = cheapest_progress(space, times, (4, 4), 5)
    # The reduce-scatter inside, then what is left across in one step, as an all-reduce costs no more here.
    assert format_program(program_of(space, tuple(actions)), 2) == "inside:RS across:AR inside:AG"
    # Nine actions are live at the start: all but those of the masters.
    nodes = [0, *space.edge_target[edges_of_actions(space, tuple(actions))]]
    assert looked_at == sum(space.live_actions(node, 5 - step).sum() for step, node in enumerate(nodes[:3]))
    assert space.live_actions(0, 5).sum() == 9


def test_the_cheapest_progress_respects_the_steps() -> None:
    space = program_space(2)
    times = edge_times(2, all=100.0, inside=1.0, across=100.0, masters=100.0)
    actions, _ = cheapest_progress(space, times, (4, 4), 1)
    assert format_program(program_of(space, tuple(actions)), 2) == "all:AR"
    for max_steps in range(1, 6):
        for n_levels in (1, 2, 3):
            space = program_space(n_levels)
            free = np.zeros(space.n_edges)
            actions, _ = cheapest_progress(space, free, (4,) * n_levels, max_steps)
            assert len(actions) <= max_steps
            check_program(program_of(space, tuple(actions)), (4, 4, 4)[:n_levels])


def test_random_programs_are_programs_and_keep_their_beginning() -> None:
    space = program_space(2)
    rng = np.random.default_rng(0)
    start = (space.instructions.index(parse_program("inside:RS", 2)[0]),)
    drawn = {random_program(space, start, 5, rng) for _ in range(400)}
    everything = {random_program(space, (), 5, rng) for _ in range(4000)}
    for actions in drawn | everything:
        check_program(program_of(space, actions), (2, 2))
    assert {actions[0] for actions in drawn} == set(start)
    assert 90 <= len(everything) <= 93, "all programs of two levels, but for a rare one"
