"""Observation: candidate transfers as rows of a table, and what they have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.collectives.collective import Kind, Phase
from sysgym.emulator.collectives.spread import Spread, Transfers
from sysgym.emulator.compiling import cached_kernel
from sysgym.envs.observations import Column, Columns, Observer, flags_space, table_space
from sysgym.scenarios.schema.collectives import CollectivesScenario

Array = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
Observation = dict[str, Array]

LARGEST = 100.0
"""Bound of all ratios, to which they are clipped."""

CANDIDATE_COLUMNS: Columns = {
    "exists": Column("there is a candidate in this row", "0 or 1", 0.0, 1.0),
    "start": Column("start after the earliest start of all candidates", "mean durations", 0.0, LARGEST),
    "duration": Column("from start to arrival", "mean durations", 0.0, LARGEST),
    "arrival": Column("arrival after the earliest of all candidates", "mean durations", 0.0, LARGEST),
    "increase": Column("increase of the schedule's time by the transfer", "mean durations", 0.0, LARGEST),
    "wanted": Column("the receiver wants the chunk; otherwise it only forwards it", "0 or 1", 0.0, 1.0),
    "holders": Column(
        "devices that have the chunk or are scheduled to receive it", "share of devices", 0.0, 1.0
    ),
    "lacking": Column(
        "devices that want the chunk and are not scheduled to receive it", "share of devices", 0.0, 1.0
    ),
    "farthest": Column(
        "path from the receiver to the farthest of those devices", "mean durations", 0.0, LARGEST
    ),
    "receiver_lacks": Column(
        "chunks that the receiver wants and is not scheduled to receive", "share of chunks", 0.0, 1.0
    ),
    "receiver_load": Column(
        "time that the receiver's links need for those chunks", "multiples of the bound", 0.0, LARGEST
    ),
    "alternatives": Column("hops into the receiver whose sender has the chunk", "share of hops", 0.0, 1.0),
    "onward": Column(
        "hops out of the receiver over which the chunk would be useful", "share of hops", 0.0, 1.0
    ),
    "rank": Column("candidates of the same hop before this one", "count", 0.0, 64.0),
}

SYSTEM_COLUMNS: Columns = {
    "devices": Column("devices of the system", "log10", 0.0, 4.0),
    "group": Column("devices that take part", "share of devices", 0.0, 1.0),
    "chunks": Column("chunks of the collective", "log10", 0.0, 6.0),
    "latency": Column("mean latency of a hop", "share of the mean duration", 0.0, 1.0),
    "slowest": Column("duration of the slowest hop over that of the fastest", "log10", 0.0, 6.0),
    "progress": Column("deliveries of this phase that are scheduled", "share", 0.0, 1.0),
    "time": Column("time of the schedule so far", "multiples of the bound", 0.0, LARGEST),
    "candidates": Column("candidates", "share of the rows", 0.0, 1.0),
    "reducing": Column("the phase is a reduction, which is planned backwards", "0 or 1", 0.0, 1.0),
    **{
        kind.value: Column(f"the collective is {kind.value.replace('_', ' ')}", "0 or 1", 0.0, 1.0)
        for kind in Kind
    },
}

_CANDIDATE_LIMITS = np.array([column.high for column in CANDIDATE_COLUMNS.values()], np.float32)
_SYSTEM_LIMITS = np.array([column.high for column in SYSTEM_COLUMNS.values()], np.float32)


class SynthesisState(NamedTuple):
    """Progress of a schedule.

    Attributes:
        spread: The phase: which device has which chunk when, and when links are free.
        candidates: Candidate transfers, one a row.
        most: Number of rows.
        bound_s: Lower bound of the time.
        n_wanted: Deliveries of the phase.
        time_s: Time of the schedule so far.
        allowed: Mask of allowed actions.
    """

    spread: Spread
    candidates: Transfers
    most: int
    bound_s: float
    n_wanted: int
    time_s: float
    allowed: BoolArray


class SynthesisTables:
    """Default observation of ``sysgym/CollectiveSynthesis-v0``."""

    def space(self, scenario: CollectivesScenario, /) -> gym.Space[Any]:
        """Return the space, a ``Dict`` with a row for each of the scenario's candidates."""
        rows = scenario.candidates.most
        return gym.spaces.Dict(
            {
                "candidates": table_space(CANDIDATE_COLUMNS, rows),
                "system": table_space(SYSTEM_COLUMNS),
                "action_mask": flags_space(rows),
            }
        )

    def observe(self, state: SynthesisState, /) -> Observation:
        """Return the tables."""
        return {
            "candidates": candidates_table(state),
            "system": system_table(state),
            "action_mask": state.allowed.astype(np.float32),
        }


def candidates_table(state: SynthesisState) -> Array:
    """Return the columns of all candidates, float32 [rows, columns]; the rows after them are 0."""
    table = np.zeros((state.most, len(CANDIDATE_COLUMNS)), np.float32)
    found, spread = state.candidates, state.spread
    if not len(found.hops):
        return table
    task, mean_s = spread.task, spread.task.mean_duration_s
    receivers = spread.hops.targets[found.hops]
    lacking = spread.state.missing[found.chunks]
    lacks = spread.state.missing.sum(axis=0)[receivers]
    intake_per_s = task.intake_per_s if spread.phase is Phase.COPY else task.output_per_s
    rows = table[: len(found.hops)]
    rows[:, 0] = 1.0
    rows[:, 1] = (found.starts_s - found.starts_s.min()) / mean_s
    rows[:, 2] = task.durations_s[found.hops] / mean_s
    rows[:, 3] = (found.arrivals_s - found.arrivals_s[0]) / mean_s
    rows[:, 4] = np.maximum(found.arrivals_s - spread.time_s, 0.0) / mean_s
    rows[:, 5] = lacking[np.arange(len(receivers)), receivers]
    rows[:, 6] = spread.state.holders[found.chunks] / task.n_devices
    rows[:, 7] = lacking.sum(axis=1) / task.n_devices
    rows[:, 8] = (lacking * spread.hops.distances_s[receivers]).max(axis=1) / mean_s
    rows[:, 9] = lacks / task.collective.n_chunks
    rows[:, 10] = lacks / intake_per_s[receivers] / state.bound_s
    rows[:, 11:] = _shares_of_hops(
        found.hops,
        found.chunks,
        spread.hops.sources,
        spread.hops.targets,
        spread.state.ready_s,
        spread.state.useful,
        task.n_devices,
    )
    np.clip(rows, 0.0, _CANDIDATE_LIMITS, out=rows)
    return table


def system_table(state: SynthesisState) -> Array:
    """Return the row that all candidates have in common, float32 [columns]."""
    task = state.spread.task
    collective = task.collective
    numbers = [
        math.log10(task.n_devices),
        collective.n_members / task.n_devices,
        math.log10(collective.n_chunks),
        task.latency_share,
        math.log10(task.duration_spread),
        1.0 - state.spread.n_missing / state.n_wanted,
        state.time_s / state.bound_s,
        len(state.candidates.hops) / state.most,
        float(state.spread.phase is Phase.REDUCE),
        *(float(collective.kind is kind) for kind in Kind),
    ]
    row: Array = np.clip(np.array(numbers, np.float32), 0.0, _SYSTEM_LIMITS)
    return row


@cached_kernel("sysgym.emulator.collectives")
def _shares_of_hops(
    hops: Any, chunks: Any, sources: Any, targets: Any, ready_s: Any, useful: Any, n_devices: Any
) -> Any:
    """Return the columns ``alternatives``, ``onward`` and ``rank`` of candidates."""
    found = np.zeros((len(hops), 3), np.float32)
    into = np.zeros(n_devices)
    out_of = np.zeros(n_devices)
    for hop in range(len(sources)):
        into[targets[hop]] += 1
        out_of[sources[hop]] += 1
    for row in range(len(hops)):
        chunk, receiver = chunks[row], targets[hops[row]]
        for hop in range(len(sources)):
            if targets[hop] == receiver and ready_s[chunk, sources[hop]] < np.inf:
                found[row, 0] += 1.0 / into[receiver]
            if sources[hop] == receiver and useful[chunk, targets[hop]]:
                found[row, 1] += 1.0 / out_of[receiver]
        for before in range(row):
            if hops[before] == hops[row]:
                found[row, 2] += 1.0
    return found


OBSERVERS: Mapping[str, Observer[CollectivesScenario, SynthesisState]] = {"default": SynthesisTables()}
"""Observations of ``sysgym/CollectiveSynthesis-v0``."""
