"""Exact schedules of small phases by mixed-integer programming, in the manner of TE-CCL, with HiGHS.

Time is divided into epochs. A binary variable is 1 if a chunk starts on a hop in an epoch; a continuous one
is 1 if a device has a chunk at the beginning of an epoch (Liu et al., Rethinking Machine Learning Collective
Communication as a Multi-Commodity Flow Problem, SIGCOMM 2024). The number of epochs grows from the lower
bound until there is a schedule, so the first one is optimal, provided that all times are multiples of the
epoch and no program ran into its limit of nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from sysgym.emulator.collectives.bounds import lower_bound_s
from sysgym.emulator.collectives.network import IntArray
from sysgym.emulator.collectives.schedule import Plan
from sysgym.emulator.collectives.spread import Spread
from sysgym.scenarios.errors import SysgymError

MOST_VARIABLES = 12_000
"""Largest number of binary variables; beyond it HiGHS takes minutes."""

MOST_NODES = 2_000
"""Nodes after which the solver gives up. A time limit would make results depend on the machine."""

MOST_DIVISIONS = 8
"""Largest number of epochs in the shortest occupancy of a link by a chunk."""


@dataclass(frozen=True)
class Epochs:
    """Times of a task in epochs.

    Attributes:
        length_s: Length of an epoch.
        durations: Epochs from start to arrival on each hop, int64 [n_hops].
        occupancies: Epochs for which each link of a hop is occupied, int64 [n_hops, longest path].
        exact: Whether all times are multiples of the epoch; otherwise they are rounded up.
    """

    length_s: float
    durations: IntArray
    occupancies: IntArray
    exact: bool


def epochs_of(spread: Spread) -> Epochs:
    """Return times in the longest epoch that divides all of them, or rounded up to shortest occupancies."""
    task = spread.task
    occupied = task.hops.paths >= 0
    unit_s = float(task.occupancies_s[occupied].min())
    for divisions in range(1, MOST_DIVISIONS + 1):
        length_s = unit_s / divisions
        ratios = np.append(task.durations_s, task.occupancies_s[occupied]) / length_s
        if np.abs(ratios - np.rint(ratios)).max() < 1e-6:
            break
    exact = bool(np.abs(ratios - np.rint(ratios)).max() < 1e-6)
    length_s = unit_s / divisions if exact else unit_s

    def whole(times_s: np.ndarray) -> IntArray:
        return np.ceil(times_s / length_s - 1e-6).astype(np.int64)

    return Epochs(length_s, whole(task.durations_s), whole(task.occupancies_s), exact)


def check_size(start: Spread, n_epochs: int = 1) -> None:
    """Raise SysgymError if the program of a phase would be too large."""
    n_chunks, n_hops = len(start.state.missing), len(start.hops.sources)
    n_moves = n_chunks * n_hops * n_epochs
    if n_moves > MOST_VARIABLES:
        raise SysgymError(
            f"milp: {n_chunks} chunks, {n_hops} hops and {n_epochs} epochs are {n_moves} binary variables, "
            f"expected at most {MOST_VARIABLES}; take a smaller system, or another agent"
        )


def optimal_plan(start: Spread, heuristic: Plan, heuristic_s: float) -> tuple[Plan, bool]:
    """Return the best plan of a phase that begins at time 0, and whether it is proven to be optimal.

    Args:
        start: State at the beginning; owners have their chunks, and links are free.
        heuristic: Plan that is returned if there is none with fewer epochs.
        heuristic_s: Time of the heuristic plan.

    Raises:
        SysgymError: If the program would be too large.
    """
    times = epochs_of(start)
    most = math.ceil(heuristic_s / times.length_s - 1e-6)
    least = math.ceil(lower_bound_s(start.task) / times.length_s - 1e-6) if times.exact else 1
    proven = times.exact
    for n_epochs in range(max(least, int(times.durations.min())), most):
        plan, ended = _plan_within(start, times, n_epochs)
        if plan is not None:
            return plan, proven
        proven &= ended
    return heuristic, proven


def _plan_within(start: Spread, times: Epochs, n_epochs: int) -> tuple[Plan | None, bool]:
    """Return a plan that ends within ``n_epochs``, or None, and whether the answer is certain."""
    n_chunks, n_devices = start.state.missing.shape
    n_hops = len(start.hops.sources)
    n_moves = n_chunks * n_hops * n_epochs
    check_size(start, n_epochs)
    chunk, hop, epoch = (axis.ravel() for axis in np.indices((n_chunks, n_hops, n_epochs)))
    move = np.arange(n_moves)

    def has(chunks: IntArray, devices: IntArray, epochs: IntArray) -> IntArray:
        """Return the variables for chunks on devices at the start of epochs; an extra epoch is the end."""
        variables: IntArray = n_moves + (chunks * n_devices + devices) * (n_epochs + 1) + epochs
        return variables

    n_variables = n_moves + n_chunks * n_devices * (n_epochs + 1)
    rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    limits: list[tuple[np.ndarray, np.ndarray]] = []
    n_rows = 0

    def add(row: np.ndarray, column: np.ndarray, value: float) -> None:
        rows.append((row + n_rows, column, np.full(len(column), value)))

    # A chunk leaves a device that has it.
    add(move, move, 1.0)
    add(move, has(chunk, start.hops.sources[hop], epoch), -1.0)
    limits.append((np.full(n_moves, -np.inf), np.zeros(n_moves)))
    n_rows += n_moves
    # A device keeps its chunks, and receives those that arrive.
    c, d, e = (axis.ravel() for axis in np.indices((n_chunks, n_devices, n_epochs)))
    kept = (c * n_devices + d) * n_epochs + e
    add(kept, has(c, d, e + 1), 1.0)
    add(kept, has(c, d, e), -1.0)
    arrival = epoch + times.durations[hop]
    arriving = arrival <= n_epochs
    target = start.hops.targets[hop]
    add(((chunk * n_devices + target) * n_epochs + arrival - 1)[arriving], move[arriving], -1.0)
    limits.append((np.zeros(len(kept)), np.zeros(len(kept))))
    n_rows += len(kept)
    # A link serves one transfer at a time.
    for place in range(times.occupancies.shape[1]):
        link = start.task.hops.paths[hop, place]
        for later in range(int(times.occupancies.max())):
            busy = (link >= 0) & (later < times.occupancies[hop, place]) & (epoch + later < n_epochs)
            add((link * n_epochs + epoch + later)[busy], move[busy], 1.0)
    n_busy = start.task.network.n_links * n_epochs
    limits.append((np.full(n_busy, -np.inf), np.ones(n_busy)))
    n_rows += n_busy

    upper = np.ones(n_variables)
    upper[:n_moves][~arriving] = 0.0
    lower = np.zeros(n_variables)
    owned = np.zeros((n_chunks, n_devices))
    owned[np.isfinite(start.state.ready_s)] = 1.0
    begin = has(
        *(axis.ravel() for axis in (*np.indices((n_chunks, n_devices)), np.zeros_like(owned, np.int64)))
    )
    lower[begin] = upper[begin] = owned.ravel()
    wanted_chunk, wanted_device = np.nonzero(start.state.missing)
    lower[has(wanted_chunk, wanted_device, np.full(len(wanted_chunk), n_epochs))] = 1.0
    row, column, value = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    matrix = coo_array((value, (row, column)), shape=(n_rows, n_variables)).tocsc()
    low, high = (np.concatenate(ends) for ends in zip(*limits, strict=True))
    cost = np.zeros(n_variables)
    cost[:n_moves] = 1.0  # avoids transfers that are not needed
    found = milp(
        cost,
        constraints=LinearConstraint(matrix, low, high),
        bounds=Bounds(lower, upper),
        integrality=(np.arange(n_variables) < n_moves).astype(np.int64),
        options={"node_limit": MOST_NODES, "mip_rel_gap": 1.0},
    )
    if found.x is None:
        return None, found.status == 2  # 2: infeasible, 1: a limit
    sent = np.flatnonzero(found.x[:n_moves] > 0.5)
    order = sent[np.argsort(epoch[sent], kind="stable")]
    return Plan(chunk[order], hop[order]), True
