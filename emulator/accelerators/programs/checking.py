"""Checker of programs, with a diagnosis of invalid ones.

The checker runs a program on all devices of one reduction group, without using symmetry, and so confirms the
results of synthesis independently. The state of 1,024 devices takes 128 MiB and seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sysgym.emulator.accelerators.programs.patterns import (
    Collective,
    Instruction,
    Pattern,
    Program,
    format_instruction,
)
from sysgym.emulator.accelerators.programs.states import (
    DEFAULT_CONVENTION,
    Convention,
    Precondition,
    State,
    Violation,
    full_row,
    is_goal,
    rows_held,
    start_state,
    step_in_place,
)
from sysgym.scenarios.errors import SysgymError

_MOST_SHOWN = 8

_NAMES = {
    Collective.ALL_REDUCE: "an AllReduce",
    Collective.REDUCE_SCATTER: "a ReduceScatter",
    Collective.ALL_GATHER: "an AllGather",
    Collective.REDUCE: "a Reduce",
    Collective.BROADCAST: "a Broadcast",
}


class InvalidProgram(SysgymError):
    """Raised when a program breaks a precondition; names the step, the group and what was found there.

    Attributes:
        step: Number of the step that breaks it, counted from 1; 0 for a program without steps.
        instruction: That step as text; empty if there is none.
        precondition: The precondition.
        group: Devices of the first group that breaks it; empty if it is not about a group.
        found: The actual condition, in words.
    """

    def __init__(
        self, step: int, instruction: str, precondition: Precondition, group: tuple[int, ...], found: str
    ) -> None:
        self.step, self.instruction, self.precondition = step, instruction, precondition
        self.group, self.found = group, found
        where = f"step {step} ({instruction})" if instruction else "the program without steps"
        members = f", group {_listed(group)}" if group else ""
        super().__init__(f"{where}{members}: {found}; expected: {precondition}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the constructor's arguments."""
        arguments = (self.step, self.instruction, self.precondition, self.group, self.found)
        return (type(self), arguments)


def apply_instruction(
    state: State,
    instruction: Instruction,
    factors: Sequence[int],
    convention: Convention = DEFAULT_CONVENTION,
) -> State:
    """Return the state after one instruction.

    Args:
        state: State of shape [k, k, words]; not changed.
        instruction: The step.
        factors: Factor of each level, outermost first.
        convention: Choices of the semantics.

    Raises:
        InvalidProgram: A precondition is broken; the step is numbered 1.
        SysgymError: The state does not have these factors.
    """
    after = state.copy()
    _run(after, instruction, factors, convention, 1)
    return after


def check_program(
    program: Program, factors: Sequence[int], convention: Convention = DEFAULT_CONVENTION
) -> None:
    """Check that every step of a program may run and that the goal is reached at its last step.

    Args:
        program: Its instructions; the empty program is valid for a single device.
        factors: Factors of the levels, outermost first, each at least 2; empty for a single device.
        convention: Choices of the semantics.

    Raises:
        InvalidProgram: A precondition is broken, or the goal is reached before the last step or not at all.
        ScenarioError: A factor is less than 2.
    """
    state = start_state(factors)
    done = is_goal(state)
    for step, instruction in enumerate(program, start=1):
        if done:
            text = _text(instruction, factors)
            reached = f"the goal is reached already at step {step - 1}" if step > 1 else "one device has all"
            raise InvalidProgram(step, text, Precondition.ENDS_AT_GOAL, (), reached)
        _run(state, instruction, factors, convention, step)
        done = is_goal(state)
    if not done:
        text = _text(program[-1], factors) if program else ""
        found = f"the program ends, but {_missing(state)}"
        raise InvalidProgram(len(program), text, Precondition.ENDS_AT_GOAL, (), found)


def _run(
    state: State, instruction: Instruction, factors: Sequence[int], convention: Convention, step: int
) -> None:
    violation = step_in_place(state, instruction.pattern, instruction.collective, factors, convention)
    if violation is not None:
        found = _found(state, violation, instruction, factors)
        text = _text(instruction, factors)
        raise InvalidProgram(step, text, violation.precondition, violation.group, found)


def _text(instruction: Instruction, factors: Sequence[int]) -> str:
    if instruction.pattern.exists(len(factors)):
        return format_instruction(instruction, len(factors))
    return f"{_spelled(instruction.pattern)}:{instruction.collective}"


def _spelled(pattern: Pattern) -> str:
    levels = f"levels {pattern.low} to {pattern.high - 1}"
    return f"{levels}, masters" if pattern.masters else levels


def _found(state: State, violation: Violation, instruction: Instruction, factors: Sequence[int]) -> str:
    """Return the finding of a step that may not run, in words."""
    precondition, group, member, row = violation
    name = _NAMES[instruction.collective]
    if precondition is Precondition.PATTERN_EXISTS:
        return f"there is no such pattern on {len(factors)} levels"
    root = group[0]
    if precondition is Precondition.SAME_ROWS:
        holder, other = (root, member) if rows_held(state[root : root + 1])[0, row] else (member, root)
        return f"row sets differ: device {holder} holds row {row}, device {other} does not"
    if precondition is Precondition.DISJOINT_CONTRIBUTIONS:
        before = group[: group.index(member)]
        other = next(device for device in before if (state[device, row] & state[member, row]).any())
        shared = _members(state, member, row) & _members(state, other, row)
        return (
            f"contributions overlap: in row {row} devices {other} and {member} both include that of "
            f"device {min(shared)}"
        )
    if precondition is Precondition.DIVISIBLE:
        held = int(rows_held(state[root : root + 1]).sum())
        return f"rows cannot be cut evenly: {held} held, {len(group)} members"
    if precondition is Precondition.SAME_NUMBER_OF_ROWS:
        held, others = (int(rows_held(state[d : d + 1]).sum()) for d in (member, root))
        return f"shares differ: device {member} holds {held} rows, device {root} {others}"
    if precondition is Precondition.DISJOINT_ROWS:
        other = next(device for device in group if state[device, row].any())
        return f"rows are not disjoint: devices {other} and {member} both hold row {row}"
    if precondition is Precondition.CONTAINED:
        extra = _members(state, member, row) - _members(state, root, row)
        return (
            f"device {member} is not contained in the root {root}: in row {row} it includes the contribution "
            f"of device {min(extra)}, the root does not"
        )
    if precondition is Precondition.CHANGES:
        return f"{name} changes nothing: the members hold what the root holds"
    return f"device {member} holds no row"


def _members(state: State, device: int, row: int) -> set[int]:
    words = state[device, row]
    return {index for index in range(len(state)) if int(words[index // 64]) >> (index % 64) & 1}


def _missing(state: State) -> str:
    lacking = (state != full_row(len(state))).any(axis=2)
    device, row = (int(index) for index in np.argwhere(lacking)[0])
    missing = sorted(set(range(len(state))) - _members(state, device, row))
    if len(missing) == len(state):
        return f"device {device} does not hold row {row}"
    devices = "device" if len(missing) == 1 else "devices"
    return f"device {device} lacks in row {row} the contribution of {devices} {_listed(missing)}"


def _listed(devices: Sequence[int]) -> str:
    shown = [str(device) for device in devices]
    if len(shown) > _MOST_SHOWN:
        shown = [*shown[: _MOST_SHOWN - 1], "...", shown[-1]]
    return "{" + ", ".join(shown) + "}"
