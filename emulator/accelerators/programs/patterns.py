"""Language of reduction programs: sequences of collectives in groups of devices.

The k devices of a reduction group are numbered 0 to k-1 in mixed radix over its factors, outermost level
first, with one digit for each level of the synthesis hierarchy. A pattern says which digits differ inside a
group. All of this depends on the number of levels only; :meth:`Pattern.groups` brings in the factors. The
language is that of P2's problem (Xie et al., MLSys 2022), slices and forms; its spelling is our convention.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.errors import ScenarioError, SysgymError, UnknownName


class Collective(enum.StrEnum):
    """Collective operation of a group. The first member of a group is its root."""

    ALL_REDUCE = "AR"
    REDUCE_SCATTER = "RS"
    ALL_GATHER = "AG"
    REDUCE = "R"
    BROADCAST = "B"


class Form(enum.StrEnum):
    """Grouping of the devices of a slice's instances.

    ``INSIDE``: the devices of one instance. ``PARALLEL``: devices at the same place of the instances that
    have a common ancestor. ``MASTER``: like parallel, but with the first device of each instance only.
    """

    INSIDE = "inside"
    PARALLEL = "parallel"
    MASTER = "master"


@dataclass(frozen=True)
class Pattern:
    """Groups of devices: the digits of some consecutive levels differ inside a group, the others are equal.

    Attributes:
        low: First level (outermost is 0) whose digit differs inside a group.
        high: One past the last level whose digit differs inside a group.
        masters: Only devices whose digits from ``high`` on are 0 take part; the others are idle.
    """

    low: int
    high: int
    masters: bool = False

    def __post_init__(self) -> None:
        """Check the range of levels."""
        if not 0 <= self.low < self.high:
            raise SysgymError(
                f"a pattern varies one or more levels, not those from {self.low} up to {self.high}"
            )

    def label(self, n_levels: int) -> str:
        """Return the pattern's name on this many levels.

        The names are ``all``, and with two levels ``inside``, ``across`` and ``masters``. With more levels a
        name ends in the first and last level that differ: ``inside-1-2``, ``across-0``, ``masters-0-1``.

        Raises:
            SysgymError: The pattern has a level that does not exist.
        """
        if not self.exists(n_levels):
            raise SysgymError(f"{self} does not exist on {n_levels} levels")
        if (self.low, self.high) == (0, n_levels):
            return "all"
        name = "masters" if self.masters else "inside" if self.high == n_levels else "across"
        if n_levels == 2:
            return name
        last = self.high - 1
        return f"{name}-{self.low}" if last == self.low else f"{name}-{self.low}-{last}"

    def exists(self, n_levels: int) -> bool:
        """Return whether the pattern exists on this many levels in this spelling."""
        return self.high < n_levels or (self.high == n_levels and not self.masters)

    def blocks(self, factors: Sequence[int]) -> tuple[int, int, int]:
        """Return (outer, size, inner): the products of the factors before, within and after its levels.

        Member v of the group (u, p) is device ``(u * size + v) * inner + p``, with u below ``outer`` and p
        below ``inner``. With masters only p = 0 is a group.
        """
        low, high = self.low, self.high
        return math.prod(factors[:low]), math.prod(factors[low:high]), math.prod(factors[high:])

    def groups(self, factors: Sequence[int]) -> NDArray[np.int32]:
        """Return the members of every group, int32 [n_groups, size], both in ascending order.

        Args:
            factors: Factor of each level, outermost first.

        Raises:
            SysgymError: The pattern has a level that does not exist.
        """
        if not self.exists(len(factors)):
            raise SysgymError(f"{self} does not exist on {len(factors)} levels")
        outer, size, inner = self.blocks(factors)
        devices = np.arange(outer * size * inner, dtype=np.int32).reshape(outer, size, inner)
        if self.masters:
            devices = devices[:, :, :1]
        return np.ascontiguousarray(devices.transpose(0, 2, 1).reshape(-1, size))


@dataclass(frozen=True)
class Instruction:
    """One step of a program: all groups of a pattern run a collective at the same time."""

    pattern: Pattern
    collective: Collective


Program = tuple[Instruction, ...]
"""Instructions in the order in which they run."""

COLLECTIVES: tuple[Collective, ...] = tuple(Collective)
"""Collectives in the order of action indices."""


def pattern_of(depth: int, form: Form, ancestor: int, n_levels: int) -> Pattern | None:
    """Return the pattern of a slice and a form.

    The instances of a slice at depth d are the devices that agree in the first d digits; depth 0 is the root.

    Args:
        depth: Depth of the slice, 0 to ``n_levels``.
        form: Grouping of its instances' devices.
        ancestor: Depth of the ancestor, less than ``depth``; not used for ``INSIDE``.
        n_levels: Levels of the synthesis hierarchy.

    Returns:
        The pattern, or None if every group is a single device.

    Raises:
        SysgymError: There is no such slice or ancestor.
    """
    if not 0 <= depth <= n_levels:
        raise SysgymError(f"a slice has a depth from 0 to {n_levels}, not {depth}")
    if form is Form.INSIDE:
        return Pattern(depth, n_levels) if depth < n_levels else None
    if not 0 <= ancestor < depth:
        raise SysgymError(f"an ancestor of depth {depth} has a smaller depth, not {ancestor}")
    # Below the innermost slice every device is its own master.
    return Pattern(ancestor, depth, form is Form.MASTER and depth < n_levels)


@functools.lru_cache(maxsize=64)
def patterns(n_levels: int) -> tuple[Pattern, ...]:
    """Return the n_levels squared patterns in the order of their indices.

    The order is by the slice's depth, inside before parallel and master of each ancestor. An index therefore
    means the same slice and form for any number of levels: ``all``, then ``inside``, ``across`` and
    ``masters`` with depth 1, then those with depth 2.

    Args:
        n_levels: Levels of the synthesis hierarchy; 0 is a single device, which has no patterns.
    """
    found: dict[Pattern, None] = {}
    for depth in range(n_levels + 1):
        spelled = [(Form.INSIDE, 0)]
        spelled += [(form, ancestor) for ancestor in range(depth) for form in (Form.PARALLEL, Form.MASTER)]
        for form, ancestor in spelled:
            pattern = pattern_of(depth, form, ancestor, n_levels)
            if pattern is not None:
                found.setdefault(pattern)
    return tuple(found)


def n_patterns(n_levels: int) -> int:
    """Return the number of patterns of this many levels."""
    return n_levels**2


@functools.lru_cache(maxsize=64)
def actions(n_levels: int) -> tuple[Instruction, ...]:
    """Return every instruction of this many levels in the order of action indices.

    The index of an action is ``pattern_index * len(COLLECTIVES) + collective_index``; it orders programs.
    """
    return tuple(
        Instruction(pattern, collective) for pattern in patterns(n_levels) for collective in COLLECTIVES
    )


def parse_program(text: str, n_levels: int) -> Program:
    """Parse a program such as ``inside:RS across:AR inside:AG``.

    Args:
        text: Instructions ``pattern:collective`` separated by blanks; empty for the empty program.
        n_levels: Levels of the synthesis hierarchy.

    Raises:
        UnknownName: There is no such pattern on this many levels, or no such collective.
        ScenarioError: A word does not have this form.
    """
    by_label = {pattern.label(n_levels): pattern for pattern in patterns(n_levels)}
    program = []
    for step, word in enumerate(text.split(), start=1):
        label, colon, name = word.partition(":")
        if not (label and colon and name):
            expected = 'an instruction "pattern:collective", such as all:AR'
            raise ScenarioError("<program>", f"step {step}", word, expected)
        if label not in by_label:
            raise UnknownName(f"pattern of {n_levels} levels", label, by_label)
        if name not in COLLECTIVES:
            raise UnknownName("collective", name, COLLECTIVES)
        program.append(Instruction(by_label[label], Collective(name)))
    return tuple(program)


def format_instruction(instruction: Instruction, n_levels: int) -> str:
    """Return an instruction as :func:`parse_program` reads it.

    Raises:
        SysgymError: Its pattern has a level that does not exist.
    """
    return f"{instruction.pattern.label(n_levels)}:{instruction.collective}"


def format_program(program: Iterable[Instruction], n_levels: int) -> str:
    """Return a program as :func:`parse_program` reads it.

    Raises:
        SysgymError: A pattern has a level that does not exist.
    """
    return " ".join(format_instruction(instruction, n_levels) for instruction in program)


def lower(pattern: Pattern, factors: Sequence[int], reduction_groups: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the devices of every group of a pattern in every reduction group.

    All of them run at the same time, and therefore share links.

    Args:
        pattern: Pattern of the instruction.
        factors: Factors of a reduction group's levels, outermost first.
        reduction_groups: Devices of each reduction group in member order, [n_reduction_groups, k].

    Returns:
        Devices, int32 [n_reduction_groups * n_groups, size].

    Raises:
        SysgymError: The pattern does not exist on these levels, or k is not the product of the factors.
    """
    groups = pattern.groups(factors)
    if reduction_groups.ndim != 2 or reduction_groups.shape[1] != math.prod(factors):
        raise SysgymError(
            f"reduction groups of shape {reduction_groups.shape} do not have the product of "
            f"{tuple(factors)} members each"
        )
    return np.ascontiguousarray(reduction_groups[:, groups].reshape(-1, groups.shape[1]), np.int32)
