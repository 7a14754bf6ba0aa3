"""Changes of a job, and what a replay of recorded steps predicts for them.

A replay knows the durations of the recorded steps, their launch gaps, the dependencies, bytes, and the cost
model of collectives. The truth of a changed job is another simulation, with noise of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sysgym.emulator.training.generated.effects import Effects
from sysgym.emulator.training.generated.job import ParallelJob
from sysgym.emulator.training.generated.simulation import arrangement, drawn_lengths, generate, lengths_of
from sysgym.emulator.training.generated.structure import Structure, structure_of
from sysgym.emulator.training.operations import FloatArray, IntArray, TrainingTrace
from sysgym.emulator.training.replay import step_times_s
from sysgym.emulator.training.timing import durations_s, learned_gaps_s

SLOWER = 1.2
"""Factor of the computations of the rank that becomes slower."""

FASTER = 2.0
"""Factor of the bandwidth of all links."""

RECORDED_RUN, CHANGED_RUN = 0, 1


def _same(job: ParallelJob) -> ParallelJob:
    return job


def _more_bandwidth(job: ParallelJob) -> ParallelJob:
    return replace(job, bandwidth_factor=FASTER * job.bandwidth_factor)


def _slow_rank(job: ParallelJob) -> ParallelJob:
    return replace(job, slow_ranks=(*job.slow_ranks, (job.n_ranks // 2, SLOWER)))


def _sorted_microbatches(job: ParallelJob) -> ParallelJob:
    return replace(job, arrangement="sorted")


CHANGES: dict[str, Callable[[ParallelJob], ParallelJob]] = {
    "later steps": _same,
    "bandwidth doubled": _more_bandwidth,
    "a rank 20 % slower": _slow_rank,
    "microbatches sorted": _sorted_microbatches,
}
"""Changes by name. Without a change, later steps are predicted, with the lengths of the recorded ones."""


class Errors(NamedTuple):
    """Errors of predictions of one job, relative to the truth.

    Attributes:
        same_step: Mean absolute error of replays of the recorded steps with their own durations alone.
        same_step_with_gaps: The same with the launch gaps of the recorded steps.
        replay: Error of the mean step of each changed job, by change.
        no_change: The same if the mean of the recorded steps is the prediction.
        cost_model: The same if all operations take the time of the cost model.
    """

    same_step: float
    same_step_with_gaps: float
    replay: dict[str, float]
    no_change: dict[str, float]
    cost_model: dict[str, float]


def errors_of(job: ParallelJob, effects: Effects, seed: int, n_steps: int) -> Errors:
    """Return the errors for a job that is recorded, then changed.

    Args:
        job: The job as it is recorded.
        effects: What the replay does not know.
        seed: Seed.
        n_steps: Steps that are recorded, and steps of each changed job.
    """
    recorded = generate(job, effects, seed, n_steps, run=RECORDED_RUN)
    graph = structure_of(job).graph  # that of the trace, too, and sooner there
    durations, gaps = durations_s(recorded, graph), learned_gaps_s(recorded, graph)
    replay, no_change, cost_model = {}, {}, {}
    for name, change in CHANGES.items():
        if name == "microbatches sorted" and not _can_be_sorted(job):
            continue
        changed = change(job)
        truth_s = generate(changed, effects, seed, n_steps, run=CHANGED_RUN).step_s.mean()
        predicted = predicted_durations_s(job, changed, durations, seed)
        replay[name] = float(step_times_s(graph, predicted, gaps).mean() / truth_s - 1.0)
        no_change[name] = float(recorded.step_s.mean() / truth_s - 1.0)
        cost_model[name] = float(_modelled_step_s(changed, seed, n_steps) / truth_s - 1.0)
    return Errors(
        _mean_error(step_times_s(graph, durations), recorded),
        _mean_error(step_times_s(graph, durations, gaps), recorded),
        replay,
        no_change,
        cost_model,
    )


def predicted_durations_s(
    job: ParallelJob, changed: ParallelJob, durations: FloatArray, seed: int
) -> FloatArray:
    """Return the durations of a changed job's operations, as a replay thinks of them, float64 [n_steps, n].

    Communications change as the cost model does, computations of a rank with its factor, and operations of a
    microbatch that moves to another data-parallel rank move with it.

    Args:
        job: The job as it is recorded.
        changed: The job after the change.
        durations: Durations in the recorded steps, float64 [n_steps, n].
        seed: Seed of the recorded steps, from which their microbatches' lengths follow.
    """
    structure = structure_of(job)
    operations, found = structure.operations, durations
    if changed.arrangement != job.arrangement:
        found = np.array(
            [
                _moved(structure, of_step, _places(job, changed, seed, step))
                for step, of_step in enumerate(durations)
            ]
        )
    found = np.maximum(found, 0.0)
    if changed.hierarchy != job.hierarchy:
        before, after = structure.nominal_s(), structure_of(changed).nominal_s()
        sent = ~operations.computes & (before > 0.0)
        found[:, sent] *= after[sent] / before[sent]
    for rank, factor in changed.slow_ranks:
        earlier = dict(job.slow_ranks).get(rank, 1.0)
        found[:, operations.computes & (operations.rank == rank)] *= factor / earlier
    return found


def _can_be_sorted(job: ParallelJob) -> bool:
    return job.length_log_sd > 0.0 and job.arrangement == "drawn" and job.data_ranks * job.microbatches > 1


def _places(job: ParallelJob, changed: ParallelJob, seed: int, step: int) -> IntArray:
    """Return where the microbatch in each place of the changed job was before, [n_data, n_microbatches]."""
    drawn = drawn_lengths(job, seed, step)
    before, after = arrangement(job, drawn).ravel(), arrangement(changed, drawn)
    where = np.empty_like(before)
    where[before] = np.arange(len(before))
    return np.asarray(where[after])


def _moved(structure: Structure, durations: FloatArray, places: IntArray) -> FloatArray:
    """Return durations, float64 [n], after the operations of microbatches have moved with them."""
    operations = structure.operations
    parts = operations.parts
    assert parts is not None
    own = np.flatnonzero(parts.microbatch >= 0)
    keys = (
        parts.microbatch, operations.data_rank, parts.layer, parts.chunk, parts.tensor_rank, operations.stage,
        operations.kind,
    )  # fmt: skip
    order = own[np.lexsort([key[own] for key in keys])].reshape(-1, places.size)
    found = durations.copy()
    found[order] = durations[order[:, places.ravel()]]
    return found


def _modelled_step_s(job: ParallelJob, seed: int, n_steps: int) -> float:
    """Return the mean time of a step if every operation takes the time of the cost model."""
    structure = structure_of(job)
    nominal_s = structure.nominal_s()
    for rank, factor in job.slow_ranks:
        nominal_s[structure.operations.computes & (structure.operations.rank == rank)] *= factor
    lengths = [structure.lengths(lengths_of(job, seed, step)) for step in range(n_steps)]
    return float(step_times_s(structure.graph, nominal_s * np.array(lengths)).mean())


def _mean_error(replayed_s: FloatArray, recorded: TrainingTrace) -> float:
    return float(np.abs(replayed_s / recorded.step_s - 1.0).mean())
