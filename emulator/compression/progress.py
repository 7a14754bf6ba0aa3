"""Progress of a job under a method: iterations, less what compression and its changes lose.

An iteration by method m counts ``1 - q(m)``, where q is larger in critical phases of the training, which are
intervals of the progress. A change to a method with error feedback takes back some iterations of progress:
what the memory of the errors needs to fill.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.compression.times import FIRST_WITH_ERROR_FEEDBACK
from sysgym.scenarios.schema.compression import METHODS, CompressionScenario

FloatArray = NDArray[np.float64]

MOST_LOSS = 0.95
"""Largest loss of an iteration, in critical phases too."""


class Training(NamedTuple):
    """Progress that a job needs, and what its methods lose.

    ``ends`` are the ends of the phases in iterations, the last one infinite, ``loss``, [n phases, n methods],
    the loss of an iteration there, and ``critical`` tells which phases are critical.
    """

    iterations: float
    rebuild_iterations: float
    ends: FloatArray
    loss: FloatArray
    critical: NDArray[np.bool_]


def training_of(scenario: CompressionScenario) -> Training:
    """Return the training of a drawn scenario."""
    loss, iterations = scenario.loss, float(scenario.job.iterations)
    plain = np.array([0.0, *(getattr(loss, method) for method in METHODS[1:])])
    if scenario.job.half_precision:
        plain[1] = 0.0
    ends: list[float] = []
    critical: list[bool] = []
    for start in loss.critical_starts:
        ends += [iterations * start, iterations * min(start + loss.critical_share, 1.0)]
        critical += [False, True]
    ends, critical = [*ends, np.inf], [*critical, False]
    if ends[0] == 0.0:  # the training begins with a critical phase
        ends, critical = ends[1:], critical[1:]
    rows = [np.minimum(plain * (loss.critical_factor if one else 1.0), MOST_LOSS) for one in critical]
    return Training(
        iterations,
        loss.rebuild_iterations,
        np.array(ends),
        np.array(rows),
        np.array(critical),
    )


@cached_kernel()
def phase_at(training: Training, progress: float) -> int:
    """Return the number of the phase at some progress."""
    phase = 0
    while progress >= training.ends[phase]:
        phase += 1
    return phase


@cached_kernel()
def rebuild(training: Training, before: int, method: int) -> float:
    """Return the iterations of progress that a change of the method takes back."""
    if method == before or method < FIRST_WITH_ERROR_FEEDBACK:
        return 0.0
    return training.rebuild_iterations


@cached_kernel()
def advance(training: Training, progress: float, method: int, iterations: float) -> tuple[float, float]:
    """Return the progress after some iterations, and how many of them ran before the job was complete.

    Args:
        training: The training.
        progress: Progress before, in iterations.
        method: Number of the method.
        iterations: Iterations that there is time for; parts of one count in proportion.
    """
    left = iterations
    phase = phase_at(training, progress)
    while left > 0.0 and progress < training.iterations:
        counts = 1.0 - training.loss[phase, method]
        end = min(training.ends[phase], training.iterations)
        needed = (end - progress) / counts
        if needed > left:
            return progress + left * counts, iterations
        progress, left = end, left - needed
        phase += 1
    return progress, iterations - left


@cached_kernel()
def window(
    training: Training, progress: float, before: int, method: int, interval_s: float, iteration_s: float
) -> tuple[float, float]:
    """Return the progress after a window, and the part of its time that the job needed.

    Args:
        training: The training.
        progress: Progress before, in iterations.
        before: Method of the window before.
        method: Method of this window.
        interval_s: Length of the window.
        iteration_s: Time of an iteration.
    """
    start = progress - rebuild(training, before, method)
    after, ran = advance(training, start, method, interval_s / iteration_s)
    if after >= training.iterations:
        return after, min(ran * iteration_s, interval_s)
    return after, interval_s
