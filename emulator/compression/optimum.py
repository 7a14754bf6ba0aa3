"""Least time in which a job can finish under known conditions, by a dynamic programme over windows.

The state is the window and the method in use; its value is the most progress with which it can be reached.
More progress is never worse: of two jobs with the same future methods, the one that is ahead stays ahead,
since losses depend on the progress alone and a change of the method takes the same from both. The programme
is therefore exact, phases and changes included.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.compression.progress import Training, window
from sysgym.emulator.compression.times import N_METHODS, NONE, FloatArray


class Run(NamedTuple):
    """A job under a sequence of methods.

    Attributes:
        methods: Method of each window, int64, up to the end of the job or of the conditions.
        progress: Progress at its end, in iterations.
        time_s: Time until then.
        finish_s: Time in which the job finishes; if it does not, the time at this mean speed.
    """

    methods: NDArray[np.int64]
    progress: float
    time_s: float
    finish_s: float


def fastest_run(training: Training, times_s: FloatArray, interval_s: float) -> Run:
    """Return the run that finishes first; if none finishes, the one with the most progress.

    Args:
        training: The training.
        times_s: Time of an iteration by window and method, [n windows, n methods].
        interval_s: Length of a window.
    """
    value, before, end, last, used_s = _programme(training, times_s, interval_s)
    methods = np.empty(end + 1, np.int64)
    methods[end] = last
    for step in range(end, 0, -1):
        methods[step - 1] = before[step, methods[step]]
    progress, time_s = float(value[end, last]), end * interval_s + used_s
    return Run(methods, progress, time_s, finish_s(training, progress, time_s))


def run_of(
    training: Training, times_s: FloatArray, interval_s: float, methods: NDArray[np.int64], start: int = NONE
) -> Run:
    """Return the run of given methods, one for each window.

    Args:
        training: The training.
        times_s: Time of an iteration by window and method.
        interval_s: Length of a window.
        methods: Methods of the windows, as many as there are or as finish the job.
        start: Method before the first window.
    """
    progress, time_s, before = 0.0, 0.0, start
    for step, method in enumerate(methods.tolist()):
        progress, used_s = window(training, progress, before, method, interval_s, times_s[step, method])
        time_s, before = step * interval_s + used_s, method
        if progress >= training.iterations:
            return Run(methods[: step + 1], progress, time_s, time_s)
    return Run(methods, progress, time_s, finish_s(training, progress, time_s))


def finish_s(training: Training, progress: float, time_s: float) -> float:
    """Return the time of the whole job at the mean speed so far, of one iteration at least."""
    if progress >= training.iterations:
        return time_s
    return time_s * training.iterations / max(progress, 1.0)


@cached_kernel("sysgym.emulator.accelerators")
def _programme(
    training: Training, times_s: FloatArray, interval_s: float
) -> tuple[FloatArray, NDArray[np.int64], int, int, float]:
    """Return most progress and best method before by window and method, and the end: window, method, time."""
    n = times_s.shape[0]
    value = np.full((n, N_METHODS), -np.inf)
    before = np.full((n, N_METHODS), -1, np.int64)
    for step in range(n):
        finished, least_s = -1, interval_s
        for method in range(N_METHODS):
            method_s = interval_s
            for previous in range(N_METHODS):
                if step == 0:
                    if previous != NONE:
                        continue
                    start = 0.0
                else:
                    start = value[step - 1, previous]
                progress, used_s = window(
                    training, start, previous, method, interval_s, times_s[step, method]
                )
                ahead = progress > value[step, method] or (
                    progress == value[step, method] and used_s < method_s
                )
                if ahead:
                    value[step, method], before[step, method], method_s = progress, previous, used_s
            if value[step, method] >= training.iterations and (finished < 0 or method_s < least_s):
                finished, least_s = method, method_s
        if finished >= 0:
            return value, before, step, finished, least_s
    return value, before, n - 1, int(np.argmax(value[n - 1])), interval_s
