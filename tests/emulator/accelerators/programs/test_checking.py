"""The checker of programs: accepted programs, and errors for the others."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest

from sysgym.emulator.accelerators.programs import (
    Instruction,
    InvalidProgram,
    Pattern,
    Precondition,
    apply_instruction,
    check_program,
    contributions,
    is_goal,
    parse_program,
    rows_held,
    start_state,
)
from sysgym.emulator.accelerators.programs.patterns import Collective
from sysgym.scenarios.errors import ScenarioError, SysgymError

TWO_STEPS = ["all:RS all:AG", "all:R all:B", "inside:AR across:AR", "across:AR inside:AR"]
THREE_STEPS = [
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
]


@pytest.mark.parametrize("text", ["all:AR", *TWO_STEPS, *THREE_STEPS, "inside:R masters:AR inside:B"])
@pytest.mark.parametrize("factors", [(2, 2), (2, 4), (4, 16), (3, 5), (8, 16)])
def test_known_programs_are_valid(text: str, factors: tuple[int, ...]) -> None:
    check_program(parse_program(text, 2), factors)


@pytest.mark.parametrize(
    ("text", "step", "group", "precondition", "found"),
    [
        (
            "inside:AR all:AR",
            2,
            tuple(range(8)),
            Precondition.DISJOINT_CONTRIBUTIONS,
            r"contributions overlap: in row 0 devices 0 and 1 both include that of device 0",
        ),
        (
            "inside:RS all:AR",
            2,
            tuple(range(8)),
            Precondition.SAME_ROWS,
            r"row sets differ: device 0 holds row 0, device 1 does not",
        ),
        ("all:AG", 1, tuple(range(8)), Precondition.DISJOINT_ROWS, r"devices 0 and 1 both hold row 0"),
        (
            "inside:B",
            1,
            (0, 1, 2, 3),
            Precondition.CONTAINED,
            r"device 1 is not contained in the root 0: in row 0 .* of device 1, the root does not",
        ),
        ("inside:R across:AR", 2, (1, 5), Precondition.NOT_EMPTY, r"device 1 holds no row"),
        ("inside:R across:B", 2, (0, 4), Precondition.CONTAINED, r"device 4 is not contained in the root 0"),
        ("all:R inside:B across:B inside:B", 2, (4, 5, 6, 7), Precondition.ROOT_HOLDS, r"4 holds no row"),
        ("all:R across:B across:B", 2, (1, 5), Precondition.ROOT_HOLDS, r"device 1 holds no row"),
        ("all:R masters:B masters:B", 3, (0, 4), Precondition.CHANGES, r"a Broadcast changes nothing"),
        ("all:RS all:RS", 2, tuple(range(8)), Precondition.SAME_ROWS, r"row sets differ"),
        (
            "across:RS across:AR",
            2,
            (0, 4),
            Precondition.SAME_ROWS,
            r"device 0 holds row 0, device 4 does not",
        ),
        (
            "inside:R inside:AG",
            2,
            (0, 1, 2, 3),
            Precondition.EVERY_MEMBER_HOLDS,
            r"device 1 holds no row",
        ),
        ("all:AR inside:B", 2, (), Precondition.ENDS_AT_GOAL, r"reached already at step 1"),
        (
            "inside:AR",
            1,
            (),
            Precondition.ENDS_AT_GOAL,
            r"device 0 lacks in row 0 the contribution of devices \{4, 5, 6, 7\}",
        ),
        ("all:RS", 1, (), Precondition.ENDS_AT_GOAL, r"device 0 does not hold row 1"),
        ("", 0, (), Precondition.ENDS_AT_GOAL, r"the program ends, but device 0 lacks"),
    ],
)
def test_rejections_say_step_group_and_precondition(
    text: str, step: int, group: tuple[int, ...], precondition: Precondition, found: str
) -> None:
    with pytest.raises(InvalidProgram, match=found) as caught:
        check_program(parse_program(text, 2), (2, 4))
    error = caught.value
    assert (error.step, error.group, error.precondition) == (step, group, precondition)
    assert error.instruction == (text.split()[step - 1] if step else "")
    assert f"expected: {precondition}" in str(error)
    if step:
        assert f"step {step} ({error.instruction})" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_rows_that_cannot_be_cut_evenly_are_refused() -> None:
    # No program of this length leaves such a state on the way: it is made by hand.
    state = start_state((3,))
    state[:, 2] = 0
    with pytest.raises(InvalidProgram, match="2 held, 3 members") as caught:
        apply_instruction(state, Instruction(Pattern(0, 1), Collective.REDUCE_SCATTER), (3,))
    assert caught.value.precondition is Precondition.DIVISIBLE


def test_unequal_shares_cannot_be_gathered() -> None:
    state = np.zeros((3, 3, 1), np.uint64)
    state[0, 0] = state[1, 1] = state[1, 2] = 7
    state[2, 0] = 0
    gather = Instruction(Pattern(0, 1), Collective.ALL_GATHER)
    with pytest.raises(InvalidProgram, match="device 2 holds no row"):
        apply_instruction(state, gather, (3,))
    four = np.zeros((2, 2, 1), np.uint64)
    four[0] = four[1] = 0
    with pytest.raises(InvalidProgram, match="device 0 holds no row"):
        apply_instruction(four, gather, (2,))
    square = np.zeros((4, 4, 1), np.uint64)
    square[0, :2] = square[1, 2] = square[2, 0] = square[3, 1] = 15
    with pytest.raises(InvalidProgram, match="device 1 holds 1 rows, device 0 2") as caught:
        apply_instruction(square, Instruction(Pattern(1, 2), Collective.ALL_GATHER), (2, 2))
    assert caught.value.precondition is Precondition.SAME_NUMBER_OF_ROWS


def test_a_pattern_of_other_levels_is_refused() -> None:
    with pytest.raises(InvalidProgram, match="no such pattern on 2 levels") as caught:
        check_program((Instruction(Pattern(1, 3), Collective.ALL_REDUCE),), (2, 2))
    assert caught.value.precondition is Precondition.PATTERN_EXISTS


def test_levels_of_one_are_refused_and_one_device_needs_nothing() -> None:
    for factors in ((1, 4), (2, 0)):
        with pytest.raises(ScenarioError, match="factors of at least 2"):
            check_program(parse_program("all:AR", 2), factors)
    check_program((), ())
    with pytest.raises(InvalidProgram, match="one device has all"):
        check_program((Instruction(Pattern(0, 1), Collective.ALL_REDUCE),), ())


def test_a_step_leaves_its_input_and_idle_devices_as_they_were() -> None:
    state = start_state((2, 4))
    before = state.copy()
    after = apply_instruction(state, parse_program("masters:AR", 2)[0], (2, 4))
    assert (state == before).all()
    idle = [device for device in range(8) if device not in (0, 4)]
    assert (after[idle] == before[idle]).all()
    assert contributions(after)[0, 0].nonzero()[0].tolist() == [0, 4]


def test_what_a_broken_step_meets_is_left_as_it_was() -> None:
    # The second group fails, after the first has been found in order.
    state = start_state((2, 2))
    state[2] = 0
    before = state.copy()
    with pytest.raises(InvalidProgram) as caught:
        apply_instruction(state, parse_program("inside:AR", 2)[0], (2, 2))
    assert caught.value.group == (2, 3)
    assert (state == before).all()


def test_states_of_other_factors_are_refused() -> None:
    with pytest.raises(SysgymError, match="not one of factors"):
        apply_instruction(start_state((2, 2)), parse_program("all:AR", 2)[0], (2, 4))


def test_scatter_cuts_the_rows_in_runs() -> None:
    after = apply_instruction(start_state((2, 4)), parse_program("inside:RS", 2)[0], (2, 4))
    held = rows_held(after)
    assert [row.nonzero()[0].tolist() for row in held] == 2 * [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert contributions(after)[5, 2].nonzero()[0].tolist() == [4, 5, 6, 7]
    assert not is_goal(after)


@pytest.mark.parametrize("factors", [(67,), (2, 65), (129,)])
def test_contributors_beyond_the_first_word(factors: tuple[int, ...]) -> None:
    state = start_state(factors)
    assert (contributions(state) == np.eye(len(state), dtype=bool)[:, np.newaxis]).all()
    level = len(factors)
    for text in ("all:AR", "all:RS all:AG", "all:R all:B"):
        check_program(parse_program(text, level), factors)
    with pytest.raises(InvalidProgram, match="both hold row 0"):
        check_program(parse_program("all:AG", level), factors)


@pytest.mark.parametrize(
    ("factors", "text"),
    [
        ((16, 8, 8), "inside-1-2:RS across-0:AR inside-1-2:AG"),
        ((16, 8, 8), "inside-2:RS across-1:RS across-0:AR across-1:AG inside-2:AG"),
        ((32, 32), "inside:R masters:AR inside:B"),
        ((1024,), "all:RS all:AG"),
    ],
)
def test_1024_devices(factors: tuple[int, ...], text: str) -> None:
    tracemalloc.start()
    try:
        check_program(parse_program(text, len(factors)), factors)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 500e6


def test_1024_devices_that_overlap() -> None:
    with pytest.raises(InvalidProgram, match=r"group \{0, 1, 2, 3, 4, 5, 6, \.\.\., 1023\}") as caught:
        check_program(parse_program("inside-2:AR all:AR", 3), (16, 8, 8))
    assert caught.value.precondition is Precondition.DISJOINT_CONTRIBUTIONS
