"""Space of all states that programs can reach, and the steps between them.

The space is an acyclic graph whose nodes are states of the devices and whose edges are valid instructions. A
program is a path from the start to the goal. Programs of up to six steps depend on the number of levels only,
not on their factors (the tests compare them), so one space serves all factors. Of the 8,570 longer programs
of three levels, 26 are not valid for some factors, such as (4, 2, 2). The number of rows that a device holds
does depend on the factors; a node therefore stores it in exponents of the factors.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.programs.checking import check_program
from sysgym.emulator.accelerators.programs.exponents import HOLDS_NOTHING, Move
from sysgym.emulator.accelerators.programs.patterns import (
    COLLECTIVES,
    Collective,
    Instruction,
    Program,
    actions,
    patterns,
)
from sysgym.emulator.accelerators.programs.states import (
    DEFAULT_CONVENTION,
    WORD_BITS,
    Convention,
    check_factors,
    full_row,
    start_state,
    successors,
)
from sysgym.scenarios.errors import SysgymError

NO_EDGE = -1
MOST_COMMON_STEPS = 6
"""Programs of up to this many steps are the same for all factors."""

OUT_OF_REACH = -1
"""Steps to a goal that cannot be reached, and the index of a goal that does not exist."""


@dataclass(frozen=True, eq=False)
class ProgramSpace:
    """Nodes and edges. Node 0 is the start; nodes are in the order of the fewest steps that reach them.

    A node is a state of all devices together with its exponents. Edges are in the order of their source, then
    of their action (see :func:`~.patterns.actions`).

    Attributes:
        factors: Factors of the levels with which it was explored, outermost first.
        convention: Choices of the semantics.
        max_steps: Nodes that need this many steps have not been explored further; None if all have been.
        goal: The node in which every device has everything.
        states: Contributors of each row of each device as bits, [n_nodes, k, k], the smallest unsigned type.
        exponents: The share of the rows that a device holds is the product over the levels of
            ``factor ** -exponent``; 127 where it holds none. int8 [n_nodes, k, n_levels].
        depth: Fewest steps from the start, int32 [n_nodes].
        steps_to_goal: Fewest steps to the goal, -1 if it cannot be reached, int32 [n_nodes].
        first_edge: Node i has the edges from ``first_edge[i]`` up to ``first_edge[i + 1]``, int32
            [n_nodes + 1].
        edge_source: Source node of each edge, int32 [n_edges].
        edge_target: Target node of each edge, int32 [n_edges].
        edge_action: Index of the instruction, int32 [n_edges].
        edge_of_action: The edge of each action in each node, -1 if it may not run, int32
            [n_nodes, n_actions].
        edge_exponents_before: Exponents of the rows that the first member of a group holds before the step,
            int8 [n_edges, n_levels]: of the group in which it holds most. That is device 0, except after some
            steps of masters, which two levels and less never have.
        edge_exponents_after: The same after the step.
    """

    factors: tuple[int, ...]
    convention: Convention
    max_steps: int | None
    goal: int
    states: NDArray[np.unsignedinteger]
    exponents: NDArray[np.int8]
    depth: NDArray[np.int32]
    steps_to_goal: NDArray[np.int32]
    first_edge: NDArray[np.int32]
    edge_source: NDArray[np.int32]
    edge_target: NDArray[np.int32]
    edge_action: NDArray[np.int32]
    edge_of_action: NDArray[np.int32]
    edge_exponents_before: NDArray[np.int8]
    edge_exponents_after: NDArray[np.int8]

    @property
    def n_levels(self) -> int:
        """Levels of the synthesis hierarchy."""
        return len(self.factors)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.depth)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.edge_target)

    @property
    def n_actions(self) -> int:
        """Number of instructions, valid or not."""
        return len(self.instructions)

    @functools.cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instruction of each action."""
        return actions(self.n_levels)

    def edge_instruction(self, edge: int) -> Instruction:
        """Return the instruction of an edge."""
        return self.instructions[int(self.edge_action[edge])]

    def valid_actions(self, node: int) -> NDArray[np.bool_]:
        """Return which actions may run in a node, bool [n_actions]."""
        return np.asarray(self.edge_of_action[node] != NO_EDGE)

    def live_actions(self, node: int, steps_left: int | None = None) -> NDArray[np.bool_]:
        """Return which actions may run and leave the goal within reach, bool [n_actions].

        Args:
            node: Current node of the program.
            steps_left: Number of steps that may still be run, including this one; None for any number.
        """
        edges = self.edge_of_action[node]
        # Edge -1 reads the last edge, and is masked.
        needed = self.steps_to_goal[self.edge_target[edges]] if self.n_edges else edges
        live = (edges != NO_EDGE) & (needed != OUT_OF_REACH)
        if steps_left is not None:
            live &= needed < steps_left
        return np.asarray(live)

    def successor(self, node: int, action: int) -> int:
        """Return the node after an action.

        Raises:
            SysgymError: The action may not run there.
        """
        edge = self.edge_of_action[node, action]
        if edge == NO_EDGE:
            raise SysgymError(f"action {action} may not run in node {node}")
        return int(self.edge_target[edge])

    def edges_of(self, program: Program) -> NDArray[np.int32]:
        """Return the edges that a valid program takes, int32 [steps].

        Raises:
            InvalidProgram: The program is not valid.
            SysgymError: The program leaves the explored part.
        """
        index = {instruction: action for action, instruction in enumerate(self.instructions)}
        node, edges = 0, []
        for instruction in program:
            action = index.get(instruction)
            edge = NO_EDGE if action is None else int(self.edge_of_action[node, action])
            if edge == NO_EDGE:
                break
            edges.append(edge)
            node = int(self.edge_target[edge])
        if node != self.goal or len(edges) < len(program):
            check_program(program, self.factors, self.convention)
            raise SysgymError(f"programs of more than {self.max_steps} steps have not been explored")
        return np.array(edges, np.int32)

    def row_shares(self, factors: Sequence[int]) -> NDArray[np.float64]:
        """Return the share of the rows that each device holds in each node, float64 [n_nodes, k].

        Devices are numbered by the factors with which the space was explored.

        Args:
            factors: Factors of the levels, outermost first; they may differ from those of the exploration.

        Raises:
            SysgymError: The number of levels differs.
        """
        return np.where(
            (self.exponents == HOLDS_NOTHING).any(axis=2), 0.0, self._shares(self.exponents, factors)
        )

    def edge_shares(self, factors: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the share of the rows that a group's first member holds before and after each edge's step.

        It is that of the group with the largest share; see ``edge_exponents_before``.

        Args:
            factors: Factors of the levels, outermost first; they may differ from those of the exploration.

        Returns:
            Two arrays, float64 [n_edges].

        Raises:
            SysgymError: The number of levels differs.
        """
        before = self._shares(self.edge_exponents_before, factors)
        return before, self._shares(self.edge_exponents_after, factors)

    def _shares(self, exponents: NDArray[np.int8], factors: Sequence[int]) -> NDArray[np.float64]:
        if len(factors) != self.n_levels:
            raise SysgymError(f"{len(factors)} factors for programs of {self.n_levels} levels")
        shares: NDArray[np.float64] = np.prod(np.array(factors, np.float64) ** -exponents, axis=-1)
        return shares

    def counts_by_length(
        self, max_steps: int, collectives: Collection[Collective] = COLLECTIVES
    ) -> tuple[int, ...]:
        """Return the number of valid programs of 1, 2, ... ``max_steps`` steps.

        Args:
            max_steps: Steps of the longest programs.
            collectives: The allowed collectives; None for all.

        Raises:
            SysgymError: Programs of so many steps have not been explored.
        """
        self.check_explored(max_steps)
        allowed = np.array([instruction.collective in collectives for instruction in self.instructions], bool)
        edges = np.flatnonzero(allowed[self.edge_action]) if self.n_edges else np.zeros(0, np.int64)
        source, target = self.edge_source[edges], self.edge_target[edges]
        paths = np.zeros(self.n_nodes, np.int64)
        paths[0] = 1
        counts = []
        for _ in range(max_steps):
            following = np.zeros_like(paths)
            np.add.at(following, target, paths[source])
            paths = following
            counts.append(int(paths[self.goal]))
        return tuple(counts)

    def check_explored(self, max_steps: int) -> None:
        """Check that all programs of so many steps are in the space.

        Raises:
            SysgymError: The programs have not all been explored, or the number is negative.
        """
        if max_steps < 0 or (self.max_steps is not None and max_steps > self.max_steps):
            explored = "any number of" if self.max_steps is None else f"up to {self.max_steps}"
            raise SysgymError(f"programs of {explored} steps have been explored, {max_steps} are asked for")


@functools.lru_cache(maxsize=16)
def program_space(n_levels: int, max_steps: int = 5) -> ProgramSpace:
    """Return the shared, cached space for all factors of this many levels; it must not be changed.

    Args:
        n_levels: Levels of the synthesis hierarchy, 0 (a single device) to 6.
        max_steps: Steps of the longest program, at most 6 with three levels or more.

    Raises:
        SysgymError: There are too many levels or steps.
    """
    if n_levels > 2 and max_steps > MOST_COMMON_STEPS:
        raise SysgymError(
            f"programs of {n_levels} levels and more than {MOST_COMMON_STEPS} steps depend on the factors: "
            "use explore(factors)"
        )
    return explore((2,) * n_levels, max_steps)


def explore(
    factors: Sequence[int], max_steps: int | None = None, convention: Convention = DEFAULT_CONVENTION
) -> ProgramSpace:
    """Explore every state that some sequence of valid instructions reaches.

    Args:
        factors: Factors of the levels, outermost first, each at least 2; empty for a single device.
        max_steps: Steps of the longest program; None for no limit.
        convention: Choices of the semantics.

    Raises:
        ScenarioError: A factor is less than 2.
        SysgymError: There are more than 64 devices; :func:`program_space` serves those, too.
    """
    check_factors(factors)
    n_devices, n_levels = math.prod(factors), len(factors)
    if n_devices > WORD_BITS:
        advice = f": use program_space({n_levels})" if 2**n_levels <= WORD_BITS else ""
        raise SysgymError(f"{n_devices} devices are more than the {WORD_BITS} that are explored{advice}")
    state = start_state(factors)
    blocks = np.array(
        [(*p.blocks(factors), 1 if p.masters else p.blocks(factors)[2]) for p in patterns(n_levels)], np.int64
    ).reshape(-1, 4)
    moves = [Move.of(instruction, factors) for instruction in actions(n_levels)]
    reached = np.empty((len(moves), *state.shape), np.uint64)

    states, exponents, depth = [state], [np.zeros((n_devices, n_levels), np.int8)], [0]
    node_of = {(state.tobytes(), exponents[0].tobytes()): 0}
    edges: list[tuple[int, int, int]] = []
    before, after = [], []
    node = 0
    while node < len(states):
        if max_steps is None or depth[node] < max_steps:
            valid = successors(
                states[node], blocks, int(convention.broadcast), convention.reduce_keeps, reached
            )
            for action in np.flatnonzero(valid).tolist():
                move = moves[action]
                exponent = move.exponents_after(exponents[node], convention)
                key = (reached[action].tobytes(), exponent.tobytes())
                target = node_of.setdefault(key, len(states))
                if target == len(states):
                    states.append(reached[action].copy())
                    exponents.append(exponent)
                    depth.append(depth[node] + 1)
                edges.append((node, target, action))
                before.append(exponents[node][move.roots].min(axis=0))
                after.append(exponent[move.roots].min(axis=0))
        node += 1
    full = np.broadcast_to(full_row(n_devices), state.shape).tobytes()
    goal = node_of.get((full, exponents[0].tobytes()), OUT_OF_REACH)
    source, targets, taken = np.array(edges, np.int32).reshape(-1, 3).T.copy()
    first_edge = np.searchsorted(source, np.arange(len(states) + 1)).astype(np.int32)
    edge_of_action = np.full((len(states), len(moves)), NO_EDGE, np.int32)
    edge_of_action[source, taken] = np.arange(len(source))
    compact = np.min_scalar_type((1 << n_devices) - 1)
    space = ProgramSpace(
        factors=tuple(factors),
        convention=convention,
        max_steps=max_steps,
        goal=goal,
        states=np.stack(states)[..., 0].astype(compact),
        exponents=np.stack(exponents),
        depth=np.array(depth, np.int32),
        steps_to_goal=_steps_to_goal(source, targets, np.array(depth, np.int32), goal),
        first_edge=first_edge,
        edge_source=source,
        edge_target=targets,
        edge_action=taken,
        edge_of_action=edge_of_action,
        edge_exponents_before=np.array(before, np.int8).reshape(len(edges), n_levels),
        edge_exponents_after=np.array(after, np.int8).reshape(len(edges), n_levels),
    )
    for value in vars(space).values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return space


def _steps_to_goal(
    source: NDArray[np.int32], target: NDArray[np.int32], depth: NDArray[np.int32], goal: int
) -> NDArray[np.int32]:
    """Return the fewest steps from every node to the goal, computed backwards layer by layer."""
    unknown = np.iinfo(np.int32).max
    steps = np.full(len(depth), unknown, np.int32)
    if goal != OUT_OF_REACH:
        steps[goal] = 0
    layer = 0
    while True:
        new = source[(steps[target] == layer) & (steps[source] == unknown)]
        if not new.size:
            break
        layer += 1
        steps[new] = layer
    steps[steps == unknown] = OUT_OF_REACH
    return steps
