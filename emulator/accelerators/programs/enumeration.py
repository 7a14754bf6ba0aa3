"""Enumeration of all programs of a space, as the edges that they take."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.programs.patterns import Program
from sysgym.emulator.accelerators.programs.space import NO_EDGE, OUT_OF_REACH, ProgramSpace


def enumerate_programs(space: ProgramSpace, max_steps: int) -> list[Program]:
    """Return all valid programs of up to this many steps, shorter ones first, then in the order of actions.

    Raises:
        SysgymError: Programs of so many steps have not been explored.
    """
    instructions = [space.edge_instruction(edge) for edge in range(space.n_edges)]
    return [
        tuple(instructions[edge] for edge in row if edge != NO_EDGE)
        for row in program_edges(space, max_steps).tolist()
    ]


@functools.lru_cache(maxsize=16)
def program_edges(space: ProgramSpace, max_steps: int) -> NDArray[np.int32]:
    """Return the edges of all valid programs of up to this many steps, int32 [n_programs, max_steps].

    Rows are in the order of :func:`enumerate_programs`; shorter programs are padded with -1.

    Raises:
        SysgymError: Programs of so many steps have not been explored.
    """
    space.check_explored(max_steps)
    found = []
    paths, last = np.zeros((1, 0), np.int32), np.zeros(1, np.int32)
    for length in range(max_steps + 1):
        done = last == space.goal
        padded = np.full((int(done.sum()), max_steps), NO_EDGE, np.int32)
        padded[:, :length] = paths[done]
        found.append(padded)
        # Appending every edge in order keeps the paths in order.
        count = space.first_edge[last + 1] - space.first_edge[last]
        path = np.repeat(np.arange(len(last)), count)
        within = np.arange(len(path)) - np.repeat(np.cumsum(count) - count, count)
        edge = space.first_edge[last][path] + within
        needed = space.steps_to_goal[space.edge_target[edge]]
        live = (needed != OUT_OF_REACH) & (needed < max_steps - length)
        path, edge = path[live], edge[live].astype(np.int32)
        paths, last = np.column_stack([paths[path], edge]), space.edge_target[edge]
    table = np.concatenate(found)
    table.flags.writeable = False
    return table
