"""Orders of the passes of a pipeline's ranks: GPipe, 1F1B, and 1F1B with virtual stages, interleaved."""

from __future__ import annotations

from typing import NamedTuple

from sysgym.emulator.training.operations import BACKWARD, FORWARD
from sysgym.emulator.training.schedules import SCHEDULES as OF_WHOLE_STAGES
from sysgym.emulator.training.schedules import computations
from sysgym.scenarios.errors import UnknownName

INTERLEAVED = "interleaved"
SCHEDULES = (*OF_WHOLE_STAGES, INTERLEAVED)


class Pass(NamedTuple):
    """A computation of one microbatch through one part of the model.

    Attributes:
        kind: Forward or backward computation.
        microbatch: The microbatch.
        chunk: Which of the rank's parts of the model.
    """

    kind: str
    microbatch: int
    chunk: int


def passes(schedule: str, stage: int, n_stages: int, n_microbatches: int, n_chunks: int = 1) -> list[Pass]:
    """Return the passes of a rank of a stage, in their order.

    Part ``chunk * n_stages + stage`` of the model belongs to the chunk of the stage. Interleaved is the order
    of Narayanan et al. (Efficient Large-Scale Language Model Training on GPU Clusters, SC 2021, section 2.2):
    groups of ``n_stages`` microbatches go through all chunks in turn.

    Args:
        schedule: One of :data:`SCHEDULES`.
        stage: The stage, from 0.
        n_stages: Number of stages.
        n_microbatches: Number of microbatches; interleaved, a multiple of the stages.
        n_chunks: Parts of the model on each rank; 1 unless interleaved.

    Raises:
        UnknownName: If there is no such schedule.
    """
    if schedule not in SCHEDULES:
        raise UnknownName("pipeline schedule", schedule, SCHEDULES)
    if schedule != INTERLEAVED:
        order = computations(schedule, stage, n_stages, n_microbatches)
        return [Pass(kind, microbatch, 0) for kind, microbatch in order]
    n_passes = n_microbatches * n_chunks
    # One group at a time would leave a rank idle: warm-up goes on until its first gradients can be there.
    n_warm_up = min(2 * (n_stages - stage - 1) + (n_chunks - 1) * n_stages, n_passes)
    found = [_interleaved(FORWARD, one, n_stages, n_chunks) for one in range(n_warm_up)]
    for one in range(n_passes):
        if one + n_warm_up < n_passes:
            found.append(_interleaved(FORWARD, one + n_warm_up, n_stages, n_chunks))
        found.append(_interleaved(BACKWARD, one, n_stages, n_chunks))
    return found


def _interleaved(kind: str, number: int, n_stages: int, n_chunks: int) -> Pass:
    """Return the pass with a number among those of its kind."""
    group, place = divmod(number, n_stages * n_chunks)
    chunk, offset = divmod(place, n_stages)
    return Pass(kind, group * n_stages + offset, n_chunks - 1 - chunk if kind == BACKWARD else chunk)
