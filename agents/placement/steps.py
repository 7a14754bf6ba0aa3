"""Rules that build reduction programs on the graph of device states."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.programs import (
    Collective,
    Instruction,
    Pattern,
    Program,
    ProgramSpace,
)

FloatArray = NDArray[np.float64]

TIE = 1e-9
"""Relative difference of merit up to which steps count as equal."""


def blueconnect(n_levels: int, max_steps: int) -> Program:
    """Return reduce-scatters from the innermost level outwards, an all-reduce across, and all-gathers back.

    Cho et al., BlueConnect, MLSys 2019. If that is too long, the inner levels share one reduce-scatter and
    one all-gather; if even three steps are too many, the program is a single all-reduce.

    Args:
        n_levels: Levels of the synthesis hierarchy; without any the program is empty.
        max_steps: Steps of the longest program.
    """
    inner = [Pattern(level, level + 1) for level in reversed(range(1, n_levels))]
    if 2 * len(inner) + 1 > max_steps:
        inner = [Pattern(1, n_levels)] if max_steps >= 3 else []
    across = [Pattern(0, 1 if inner else n_levels)] if n_levels else []
    return (
        *(Instruction(pattern, Collective.REDUCE_SCATTER) for pattern in inner),
        *(Instruction(pattern, Collective.ALL_REDUCE) for pattern in across),
        *(Instruction(pattern, Collective.ALL_GATHER) for pattern in reversed(inner)),
    )


def cheapest_progress(
    space: ProgramSpace, edge_time_s: FloatArray, factors: tuple[int, ...], max_steps: int
) -> tuple[list[int], int]:
    """Return the actions that take the least time per progress at every step.

    Progress is the reduction of the bytes that a device still has to send, see :func:`bytes_to_go`. Only
    steps from which the goal can be reached in time are considered and, if any of them make progress, only
    these. Ties are resolved in favour of the fewest remaining steps.

    Args:
        space: Program space for the number of levels.
        edge_time_s: Time of each edge's step, [n_edges].
        factors: Factors of the levels, outermost first.
        max_steps: Steps of the longest program; enough for some program.

    Returns:
        The actions, and the number of steps whose time was evaluated.
    """
    to_go = bytes_to_go(space, factors)
    actions: list[int] = []
    node, looked_at = 0, 0
    while node != space.goal:
        live = np.flatnonzero(space.live_actions(node, max_steps - len(actions)))
        edges = space.edge_of_action[node, live]
        targets = space.edge_target[edges]
        progress, time_s = to_go[node] - to_go[targets], edge_time_s[edges]
        looked_at += len(edges)
        if (progress > TIE).any():
            time_s = np.where(progress > TIE, time_s / np.maximum(progress, TIE), np.inf)
        equal = np.flatnonzero(time_s <= time_s.min() * (1.0 + TIE))
        chosen = equal[np.argmin(space.steps_to_goal[targets[equal]])]
        actions.append(int(live[chosen]))
        node = int(targets[chosen])
    return actions, looked_at


def bytes_to_go(space: ProgramSpace, factors: tuple[int, ...]) -> FloatArray:
    """Return the least data that a device has to send from each node to the goal, in vectors, [n_nodes].

    A device that holds a share h of the rows, each with c of the k contributions, needs a reduce-scatter of
    them with k/c others, h (1 - c/k), and an all-gather of all rows, 1 - h c/k. The mean over the devices:
    2 (k-1)/k at the start, 0 at the goal.

    Args:
        space: Program space for the number of levels.
        factors: Factors of the levels, outermost first; they may differ from those used to explore the space.
    """
    collected, weight = _contributions(space, factors)
    held = space.row_shares(factors)
    return np.asarray((1.0 + held - 2.0 * held * collected) @ weight)


def _contributions(space: ProgramSpace, factors: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Return the share of contributions in what each device holds [n_nodes, k], and the devices' weights [k].

    The k devices are those with which the space was explored. A device of another system behaves as the one
    with the digit 0 at the same levels: the first device of a level is its root, and the others are alike.
    """
    sizes, small = np.array(factors, np.float64), np.array(space.factors)
    digits = np.stack(np.unravel_index(np.arange(small.prod()), small), axis=-1)  # [k, n_levels]
    weight = np.prod(np.where(digits == 0, 1.0, (sizes - 1.0) / (small - 1.0)), axis=1) / sizes.prod()
    collected = np.prod(np.where(_collected_levels(space), 1.0, 1.0 / sizes), axis=-1)
    return np.asarray(collected), np.asarray(weight)


@functools.lru_cache(maxsize=16)
def _collected_levels(space: ProgramSpace) -> NDArray[np.bool_]:
    """Return the levels over which the data of a device has been summed, [n_nodes, k, n_levels]."""
    devices = np.arange(space.states.shape[1])
    digits = np.stack(np.unravel_index(devices, space.factors), axis=-1)
    contributors = (
        space.states[..., None] >> devices.astype(space.states.dtype) & 1
    )  # [n, k, row, contributor]
    # All rows that a device holds have the same contributors.
    members = contributors.any(axis=2)
    found = np.zeros((*members.shape[:2], space.n_levels), np.bool_)
    for level in range(space.n_levels):
        for digit in range(1, space.factors[level]):
            found[..., level] |= (members & (digits[:, level] == digit)).any(axis=2) & (
                members & (digits[:, level] == 0)
            ).any(axis=2)
    return found


def random_program(
    space: ProgramSpace, start: tuple[int, ...], max_steps: int, rng: np.random.Generator
) -> tuple[int, ...]:
    """Return the actions of a program that begins with the given ones, completed by steps drawn uniformly.

    Args:
        space: Program space for the number of levels.
        start: Actions that leave the goal within reach.
        max_steps: Steps of the longest program.
        rng: Random generator.
    """
    node = 0
    for action in start:
        node = space.successor(node, action)
    actions = list(start)
    while node != space.goal:
        action = int(rng.choice(np.flatnonzero(space.live_actions(node, max_steps - len(actions)))))
        actions.append(action)
        node = space.successor(node, action)
    return tuple(actions)


def edges_of_actions(space: ProgramSpace, actions: tuple[int, ...]) -> list[int]:
    """Return the edges along which actions lead from the start."""
    node, edges = 0, []
    for action in actions:
        edges.append(int(space.edge_of_action[node, action]))
        node = space.successor(node, action)
    return edges


def program_of(space: ProgramSpace, actions: tuple[int, ...]) -> Program:
    """Return the program that actions build."""
    return tuple(space.instructions[action] for action in actions)
