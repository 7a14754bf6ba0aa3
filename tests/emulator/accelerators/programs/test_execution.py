"""Programs run on numbers: every device ends with the exact sums."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sysgym.emulator.accelerators.programs import (
    Collective,
    Instruction,
    Program,
    enumerate_programs,
    parse_program,
    program_space,
)

Numbers = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""Values and whether they are held, [devices, rows]."""


def execute(numbers: Numbers, instruction: Instruction, factors: tuple[int, ...]) -> Numbers:
    """Move and add numbers as the collective does, knowing nothing of contributors."""
    values, held = numbers[0].copy(), numbers[1].copy()
    for group in instruction.pattern.groups(factors):
        rows = np.flatnonzero(numbers[1][group[0]])
        match instruction.collective:
            case Collective.ALL_REDUCE:
                values[np.ix_(group, rows)] = numbers[0][np.ix_(group, rows)].sum(axis=0)
            case Collective.REDUCE_SCATTER:
                total = numbers[0][np.ix_(group, rows)].sum(axis=0)
                held[group] = False
                for device, run in zip(group, np.split(np.arange(len(rows)), len(group)), strict=True):
                    values[device, rows[run]] = total[run]
                    held[device, rows[run]] = True
            case Collective.ALL_GATHER:
                for device in group:
                    mine = np.flatnonzero(numbers[1][device])
                    values[np.ix_(group, mine)] = numbers[0][device, mine]
                    held[np.ix_(group, mine)] = True
            case Collective.REDUCE:
                values[group[0], rows] = numbers[0][np.ix_(group, rows)].sum(axis=0)
                held[group[1:]] = False
            case Collective.BROADCAST:
                values[group], held[group] = numbers[0][group[0]], numbers[1][group[0]]
    # What is not held must not be read: nobody can tell what it is.
    values[~held] = -(10**12)
    return values, held


@pytest.mark.parametrize("factors", [(4,), (2, 2), (2, 4), (3, 5), (2, 2, 2), (3, 2, 4)])
def test_every_program_leaves_the_exact_sums_everywhere(factors: tuple[int, ...]) -> None:
    devices = int(np.prod(factors))
    start = np.random.default_rng(11).integers(-(10**6), 10**6, (devices, devices))
    done: dict[Program, Numbers] = {(): (start, np.ones_like(start, bool))}
    programs = enumerate_programs(program_space(len(factors)), 5)
    for program in programs:
        for length in range(1, len(program) + 1):
            if program[:length] not in done:
                done[program[:length]] = execute(done[program[: length - 1]], program[length - 1], factors)
        values, held = done[program]
        assert held.all()
        assert (values == start.sum(axis=0)).all()


def test_a_program_that_is_not_valid_leaves_wrong_sums() -> None:
    numbers: Numbers = (np.ones((4, 4), np.int64), np.ones((4, 4), bool))
    for instruction in parse_program("inside:AR all:AR", 2):
        numbers = execute(numbers, instruction, (2, 2))
    assert (numbers[0] == 8).all()
