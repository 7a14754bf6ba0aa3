"""State of devices while a reduction program runs, and the effect of collectives on it.

The vector is cut into k rows, one for each of the k devices of a reduction group. ``state[i, r]`` is the set
of devices whose contribution device i's copy of row r includes, as bits in 64-bit words; a row without bits
is not held. At the start device i holds every row with its own contribution only; the goal is that every
device holds every row with all contributions. The preconditions of the collectives prevent a contribution
from being added twice. They are defined here and nowhere else.

The semantics is that of P2's problem (Xie et al., MLSys 2022) as far as it is known. That Reduce clears the
other members, that Broadcast must change something in each group and that AllGather needs equal shares is our
convention. :class:`Convention` switches the first two.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.programs.patterns import COLLECTIVES, Collective, Pattern
from sysgym.emulator.compiling import cached_kernel
from sysgym.scenarios.errors import ScenarioError, SysgymError

State = NDArray[np.uint64]
"""[k, k, words]: device, row, bits of the contributors."""

WORD_BITS = 64
MOST_DEVICES = 2048
"""Largest number of devices, with a state of 1 GiB."""

_ALL_REDUCE = COLLECTIVES.index(Collective.ALL_REDUCE)
_REDUCE_SCATTER = COLLECTIVES.index(Collective.REDUCE_SCATTER)
_ALL_GATHER = COLLECTIVES.index(Collective.ALL_GATHER)
_REDUCE = COLLECTIVES.index(Collective.REDUCE)


class BroadcastRule(enum.IntEnum):
    """Change that a Broadcast must make."""

    EVERY_GROUP = 0
    EVERY_MEMBER = 1
    SOME_GROUP = 2


@dataclass(frozen=True)
class Convention:
    """Choices of the semantics that are not settled in publications; the default is used everywhere.

    Attributes:
        reduce_keeps: Whether a Reduce leaves the other members' rows; by default they hold nothing after it.
        broadcast: Whether every group must have a member that differs from its root (default), every member
            must, or some group must have one.
    """

    reduce_keeps: bool = False
    broadcast: BroadcastRule = BroadcastRule.EVERY_GROUP


DEFAULT_CONVENTION = Convention()


class Precondition(enum.StrEnum):
    """Conditions that a step or a program can break."""

    PATTERN_EXISTS = "the pattern exists on these levels"
    SAME_ROWS = "all members hold the same rows"
    NOT_EMPTY = "the members hold at least one row"
    DISJOINT_CONTRIBUTIONS = "in no row do two members include the same contribution"
    DIVISIBLE = "the rows held can be cut in equal runs, one for each member"
    EVERY_MEMBER_HOLDS = "every member holds at least one row"
    SAME_NUMBER_OF_ROWS = "every member holds the same number of rows"
    DISJOINT_ROWS = "no row is held by two members"
    ROOT_HOLDS = "the root holds at least one row"
    CONTAINED = "what a member holds is contained in what the root holds"
    CHANGES = "the step changes what the group's members hold"
    ENDS_AT_GOAL = "the goal is reached at the last step, not before"


# A compiled check returns an index into these; 0 is a step that may run.
_BROKEN = (None, *Precondition)
_SAME_ROWS = _BROKEN.index(Precondition.SAME_ROWS)
_NOT_EMPTY = _BROKEN.index(Precondition.NOT_EMPTY)
_DISJOINT_CONTRIBUTIONS = _BROKEN.index(Precondition.DISJOINT_CONTRIBUTIONS)
_DIVISIBLE = _BROKEN.index(Precondition.DIVISIBLE)
_EVERY_MEMBER_HOLDS = _BROKEN.index(Precondition.EVERY_MEMBER_HOLDS)
_SAME_NUMBER_OF_ROWS = _BROKEN.index(Precondition.SAME_NUMBER_OF_ROWS)
_DISJOINT_ROWS = _BROKEN.index(Precondition.DISJOINT_ROWS)
_ROOT_HOLDS = _BROKEN.index(Precondition.ROOT_HOLDS)
_CONTAINED = _BROKEN.index(Precondition.CONTAINED)
_CHANGES = _BROKEN.index(Precondition.CHANGES)


class Violation(NamedTuple):
    """A precondition that a step breaks, in the first group that breaks it.

    Attributes:
        precondition: The precondition.
        group: The group's devices.
        member: The device that breaks it; the group's first if all do.
        row: The row concerned; -1 if it is not about one row.
    """

    precondition: Precondition
    group: tuple[int, ...]
    member: int
    row: int


def check_factors(factors: Sequence[int]) -> None:
    """Check the factors of a synthesis hierarchy.

    Args:
        factors: Factors of the levels, outermost first; empty for a single device.

    Raises:
        ScenarioError: A factor is less than 2; levels of one must be left out.
    """
    if any(factor < 2 for factor in factors):
        expected = "factors of at least 2 (levels of one instance are left out)"
        raise ScenarioError("<program>", "factors", list(factors), expected)


def start_state(factors: Sequence[int]) -> State:
    """Return the start state: every device holds every row, with its own contribution.

    Args:
        factors: Factor of each level, outermost first.

    Raises:
        ScenarioError: A factor is less than 2.
        SysgymError: There are too many devices.
    """
    check_factors(factors)
    n_devices = math.prod(factors)
    if n_devices > MOST_DEVICES:
        raise SysgymError(f"a state of {n_devices} devices is too large: at most {MOST_DEVICES}")
    devices = np.arange(n_devices)
    state = np.zeros((devices.size, devices.size, -(-devices.size // WORD_BITS)), np.uint64)
    bits = np.uint64(1) << (devices % WORD_BITS).astype(np.uint64)
    state[devices, :, devices // WORD_BITS] = bits[:, np.newaxis]
    return state


def full_row(n_devices: int) -> NDArray[np.uint64]:
    """Return the words of a row that includes every contribution."""
    words = np.zeros(-(-n_devices // WORD_BITS), np.uint64)
    for device in range(n_devices):
        words[device // WORD_BITS] |= np.uint64(1) << np.uint64(device % WORD_BITS)
    return words


def is_goal(state: State) -> bool:
    """Return whether every device holds every row with all contributions."""
    return bool((state == full_row(len(state))).all())


def rows_held(state: State) -> NDArray[np.bool_]:
    """Return which rows each device holds, bool [k, k]: device, row."""
    return np.asarray(state.any(axis=2))


def contributions(state: State) -> NDArray[np.bool_]:
    """Return a state as truth values, bool [k, k, k]: device, row, contributor."""
    octets = np.ascontiguousarray(state, "<u8").view(np.uint8)
    return np.unpackbits(octets, axis=2, count=len(state), bitorder="little").astype(np.bool_)


def step_in_place(
    state: State,
    pattern: Pattern,
    collective: Collective,
    factors: Sequence[int],
    convention: Convention = DEFAULT_CONVENTION,
) -> Violation | None:
    """Run one instruction; if a precondition is broken, leave the state unchanged and return the violation.

    Args:
        state: [k, k, words], changed in place.
        pattern: Pattern of the instruction.
        collective: Collective of the instruction.
        factors: Factor of each level, outermost first.
        convention: Choices of the semantics.

    Returns:
        None if the step has run.

    Raises:
        SysgymError: The state does not have these factors.
    """
    devices = math.prod(factors)
    if state.shape != (devices, devices, -(-devices // WORD_BITS)):
        raise SysgymError(f"a state of shape {state.shape} is not one of factors {tuple(factors)}")
    if not pattern.exists(len(factors)):
        return Violation(Precondition.PATTERN_EXISTS, (), -1, -1)
    outer, size, inner = pattern.blocks(factors)
    used = 1 if pattern.masters else inner
    code = COLLECTIVES.index(collective)
    broken, u, p, member, row = _check(state, outer, size, inner, used, code, int(convention.broadcast))
    if broken:
        precondition = _BROKEN[broken]
        assert precondition is not None
        group = tuple((u * size + v) * inner + p for v in range(size))
        return Violation(precondition, group, group[member], row)
    _apply(state, outer, size, inner, used, code, convention.reduce_keeps)
    return None


@cached_kernel()
def successors(
    state: State,
    blocks: NDArray[np.int64],
    broadcast: int,
    reduce_keeps: bool,
    out: State,
) -> NDArray[np.bool_]:
    """Return which actions may run, bool [n_patterns * 5], and write the states after them.

    Args:
        state: [k, k, words].
        blocks: (outer, size, inner, inner used) of every pattern, [n_patterns, 4].
        broadcast: Value of a :class:`BroadcastRule`.
        reduce_keeps: As in :class:`Convention`.
        out: [n_patterns * 5, k, k, words]; entries of actions that may not run are unchanged.
    """
    n_collectives = 5
    valid = np.zeros(blocks.shape[0] * n_collectives, np.bool_)
    for index in range(blocks.shape[0]):
        outer, size, inner, used = blocks[index]
        for collective in range(n_collectives):
            broken = _check(state, outer, size, inner, used, collective, broadcast)[0]
            if broken == 0:
                action = index * n_collectives + collective
                out[action] = state
                _apply(out[action], outer, size, inner, used, collective, reduce_keeps)
                valid[action] = True
    return valid


@cached_kernel()
def _holds(words: NDArray[np.uint64]) -> bool:
    some = np.uint64(0)
    for word in words:
        some |= word
    return bool(some)


@cached_kernel()
def _check(
    state: State, outer: int, size: int, inner: int, used: int, collective: int, broadcast: int
) -> tuple[int, int, int, int, int]:
    """Return the broken precondition, its group (outer, inner), the member and the row."""
    changed = False
    for u in range(outer):
        for p in range(used):
            first = u * size * inner + p
            if collective == _ALL_GATHER:
                broken, member, row = _check_gather(state, first, size, inner)
                differs = True
            elif collective <= _REDUCE:
                broken, member, row = _check_sum(state, first, size, inner, collective == _REDUCE_SCATTER)
                differs = True
            else:
                broken, member, row, differs = _check_broadcast(state, first, size, inner, broadcast)
            if broken:
                return broken, u, p, member, row
            changed |= differs
    if not changed:
        return _CHANGES, 0, 0, 0, -1
    return 0, 0, 0, 0, 0


@cached_kernel()
def _check_sum(state: State, first: int, size: int, inner: int, scatter: bool) -> tuple[int, int, int]:
    """Check a group of AllReduce, ReduceScatter or Reduce."""
    n_rows, n_words = state.shape[1], state.shape[2]
    held = 0
    for row in range(n_rows):
        holds = _holds(state[first, row])
        for v in range(1, size):
            if _holds(state[first + v * inner, row]) != holds:
                return _SAME_ROWS, v, row
        if not holds:
            continue
        held += 1
        for word in range(n_words):
            union = state[first, row, word]
            for v in range(1, size):
                bits = state[first + v * inner, row, word]
                if union & bits:
                    return _DISJOINT_CONTRIBUTIONS, v, row
                union |= bits
    if held == 0:
        return _NOT_EMPTY, 0, -1
    if scatter and held % size:
        return _DIVISIBLE, 0, -1
    return 0, 0, 0


@cached_kernel()
def _check_gather(state: State, first: int, size: int, inner: int) -> tuple[int, int, int]:
    """Check a group of AllGather."""
    count = np.zeros(size, np.int64)
    for row in range(state.shape[1]):
        holder = -1
        for v in range(size):
            if _holds(state[first + v * inner, row]):
                if holder >= 0:
                    return _DISJOINT_ROWS, v, row
                holder = v
                count[v] += 1
    for v in range(size):
        if count[v] == 0:
            return _EVERY_MEMBER_HOLDS, v, -1
    for v in range(1, size):
        if count[v] != count[0]:
            return _SAME_NUMBER_OF_ROWS, v, -1
    return 0, 0, 0


@cached_kernel()
def _check_broadcast(
    state: State, first: int, size: int, inner: int, rule: int
) -> tuple[int, int, int, bool]:
    """Check a group of Broadcast; return also whether a member differs from the root."""
    n_rows, n_words = state.shape[1], state.shape[2]
    root_holds = False
    for row in range(n_rows):
        root_holds |= _holds(state[first, row])
    if not root_holds:
        return _ROOT_HOLDS, 0, -1, False
    some_differ = False
    for v in range(1, size):
        device, differs = first + v * inner, False
        for row in range(n_rows):
            for word in range(n_words):
                bits, root = state[device, row, word], state[first, row, word]
                if bits & ~root:
                    return _CONTAINED, v, row, False
                differs |= bits != root
        if rule == 1 and not differs:
            return _CHANGES, v, -1, False
        some_differ |= differs
    if rule == 0 and not some_differ:
        return _CHANGES, 0, -1, False
    return 0, 0, 0, some_differ


@cached_kernel()
def _apply(
    state: State, outer: int, size: int, inner: int, used: int, collective: int, reduce_keeps: bool
) -> None:
    """Run a collective whose preconditions hold, in place; every row of the result needs that row only."""
    n_rows, n_words = state.shape[1], state.shape[2]
    zero = np.uint64(0)
    for u in range(outer):
        for p in range(used):
            first = u * size * inner + p
            run = 0
            if collective == _REDUCE_SCATTER:
                for row in range(n_rows):
                    run += _holds(state[first, row])
                run //= size
            position = 0
            for row in range(n_rows):
                # The only member that has the row after a ReduceScatter.
                keeper = 0
                if collective == _REDUCE_SCATTER and _holds(state[first, row]):
                    keeper = position // run
                    position += 1
                for word in range(n_words):
                    union = state[first, row, word]
                    # The root of a Broadcast contains the others' contributions, so the union equals its
                    # rows.
                    for v in range(1, size):
                        union |= state[first + v * inner, row, word]
                    for v in range(size):
                        device = first + v * inner
                        if collective == _REDUCE_SCATTER:
                            state[device, row, word] = union if v == keeper else zero
                        elif collective != _REDUCE or v == 0:
                            state[device, row, word] = union
                        elif not reduce_keeps:
                            state[device, row, word] = zero
