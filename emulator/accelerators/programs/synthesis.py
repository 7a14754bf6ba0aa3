"""Best programs for given times of their steps, exact by dynamic programming over states."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.programs.enumeration import program_edges
from sysgym.emulator.accelerators.programs.patterns import Program
from sysgym.emulator.accelerators.programs.space import NO_EDGE, ProgramSpace
from sysgym.emulator.compiling import cached_kernel
from sysgym.scenarios.errors import SysgymError

TOLERANCE = 1e-9
"""Programs whose times differ by less than this share of the best count as equal."""


def best_program(
    space: ProgramSpace,
    edge_time_s: NDArray[np.float64],
    max_steps: int = 5,
    tolerance: float = TOLERANCE,
) -> tuple[Program, float]:
    """Return the fastest program and its time.

    Among programs that are equally fast within the tolerance, the one with fewest steps is returned, then the
    first in the order of actions.

    Args:
        space: Program space of the number of levels.
        edge_time_s: Time of each edge's step, float64 [n_edges], not negative.
        max_steps: Steps of the longest program.
        tolerance: Relative tolerance.

    Raises:
        SysgymError: The times are of another shape, negative or not finite, or no program is so short.
    """
    times = _checked(space, edge_time_s, max_steps)
    edges = np.empty(max_steps, np.int32)
    length, time_s = _best(
        space.first_edge, space.edge_target, space.steps_to_goal, space.depth, space.goal, times, tolerance,
        edges,
    )  # fmt: skip
    if length < 0:
        raise SysgymError(f"no program of {space.n_levels} levels has at most {max_steps} steps")
    instructions, action = space.instructions, space.edge_action
    return tuple([instructions[action[edge]] for edge in edges[:length].tolist()]), time_s


def top_programs(
    space: ProgramSpace,
    edge_time_s: NDArray[np.float64],
    n: int,
    max_steps: int = 5,
    tolerance: float = TOLERANCE,
) -> list[tuple[Program, float]]:
    """Return the n fastest programs and their times, fastest first; all programs if there are fewer.

    Programs that are equally fast within the tolerance are in the order of number of steps, then of actions.

    Args:
        space: Program space of the number of levels.
        edge_time_s: Time of each edge's step, float64 [n_edges], not negative.
        n: Number of programs.
        max_steps: Steps of the longest program.
        tolerance: Relative tolerance.

    Raises:
        SysgymError: The times are of another shape, negative or not finite.
    """
    times = program_times(space, edge_time_s, max_steps)
    table = program_edges(space, max_steps)
    if not len(times):
        return []
    # Rounded to multiples of the tolerance; the table's order decides among equal ones.
    unit = float(times.min()) * tolerance
    keys = np.round(times / unit) if unit > 0.0 else times
    instructions, action = space.instructions, space.edge_action
    return [
        (
            tuple([instructions[action[edge]] for edge in table[row].tolist() if edge != NO_EDGE]),
            float(times[row]),
        )
        for row in np.argsort(keys, kind="stable")[:n].tolist()
    ]


def program_times(
    space: ProgramSpace, edge_time_s: NDArray[np.float64], max_steps: int = 5
) -> NDArray[np.float64]:
    """Return the time of every valid program of up to this many steps, float64 [n_programs].

    The order is that of :func:`~.enumeration.enumerate_programs`.

    Args:
        space: Program space of the number of levels.
        edge_time_s: Time of each edge's step, float64 [n_edges], not negative.
        max_steps: Steps of the longest program.

    Raises:
        SysgymError: The times are of another shape, negative or not finite.
    """
    # The padding -1 refers to the time appended last.
    times = np.append(_checked(space, edge_time_s, max_steps), 0.0)
    total: NDArray[np.float64] = times[program_edges(space, max_steps)].sum(axis=1)
    return total


def _checked(space: ProgramSpace, edge_time_s: NDArray[np.float64], max_steps: int) -> NDArray[np.float64]:
    space.check_explored(max_steps)
    times = np.ascontiguousarray(edge_time_s, np.float64)
    if times.shape != (space.n_edges,):
        raise SysgymError(f"times of shape {times.shape} for {space.n_edges} steps")
    # NaN fails the first comparison, infinity the second.
    if times.size and not (times.min() >= 0.0 and times.max() < np.inf):
        raise SysgymError("the time of a step is negative or not finite")
    return times


@cached_kernel()
def _best(
    first_edge: NDArray[np.int32],
    edge_target: NDArray[np.int32],
    steps_to_goal: NDArray[np.int32],
    depth: NDArray[np.int32],
    goal: int,
    edge_time_s: NDArray[np.float64],
    tolerance: float,
    edges: NDArray[np.int32],
) -> tuple[int, float]:
    """Write the edges of the best program; return its number of steps (-1 if there is none) and its time.

    ``cost_s[left, node]`` is the least time of exactly ``left`` steps from a node to the goal.
    """
    n_nodes, max_steps = depth.size, edges.size
    cost_s = np.full((max_steps + 1, n_nodes), np.inf)
    if goal >= 0:
        cost_s[0, goal] = 0.0
    for left in range(1, max_steps + 1):
        for node in range(n_nodes):
            # Nodes are in order of depth.
            if depth[node] + left > max_steps:
                break
            if not 0 < steps_to_goal[node] <= left:
                continue
            least_s = np.inf
            for edge in range(first_edge[node], first_edge[node + 1]):
                least_s = min(least_s, edge_time_s[edge] + cost_s[left - 1, edge_target[edge]])
            cost_s[left, node] = least_s
    least_s = np.inf
    for left in range(max_steps + 1):
        least_s = min(least_s, cost_s[left, 0])
    if least_s == np.inf:
        return -1, np.inf
    limit_s = least_s * (1.0 + tolerance)
    length = 0
    while cost_s[length, 0] > limit_s:
        length += 1
    # The first edge, in order, from which the rest can still be within the limit. If the tolerance is so
    # small that rounding excludes all edges, the one that exceeds the limit least.
    node, spent_s = 0, 0.0
    for step in range(length):
        left = length - step - 1
        chosen, least_s = -1, np.inf
        for edge in range(first_edge[node], first_edge[node + 1]):
            total_s = spent_s + edge_time_s[edge] + cost_s[left, edge_target[edge]]
            if total_s < least_s:
                chosen, least_s = edge, total_s
                if total_s <= limit_s:
                    break
        edges[step] = chosen
        spent_s += edge_time_s[chosen]
        node = edge_target[chosen]
    return length, spent_s
