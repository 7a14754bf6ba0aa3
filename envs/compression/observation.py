"""Observation of a training run: measurements and settings of the job, and predictions of its cost model."""

from __future__ import annotations

import math
from typing import NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.compression.run import TrainingRun
from sysgym.emulator.compression.times import iteration_times_s
from sysgym.envs.observations import Column, Observer, clipped, limits, table_space
from sysgym.scenarios.schema.compression import METHODS, CompressionScenario

HISTORY = 10
"""Windows over which the mean and the deviation of the goodput are taken."""

MOST = 20.0
"""Limit of logarithms."""

MOST_GAIN = 10.0

_WORDS = ("no compression", "16 bits per value", *(f"PowerSGD of rank {rank}" for rank in (1, 4, 8, 16)),
          "Top-K, 1 %", "Top-K, 10 %", "sign-SGD")  # fmt: skip

COLUMNS: dict[str, Column] = {
    "gradient": Column("gradient of a worker at 32 bits per value", "log10 of MB", -MOST, MOST),
    "backward": Column("backward pass of the slowest worker, last window", "log10 of 100 ms", -MOST, MOST),
    "workers": Column("workers, last window", "log2", 0.0, MOST),
    "goodput": Column("goodput measured in the last window, with an error", "log10 of Gbit/s", -MOST, MOST),
    "goodput_mean": Column("mean of that logarithm over the last 10 windows", "log10 of Gbit/s", -MOST, MOST),
    "goodput_sd": Column("standard deviation of that logarithm over these windows", "log10", 0.0, MOST),
    "iteration": Column("time of an iteration, last window, exact", "log10 of 100 ms", -MOST, MOST),
    "waiting": Column("share of that time outside forward and backward pass", "share", 0.0, 1.0),
    "progress": Column("progress of the job, exact", "share", -1.0, 1.0),
    "critical": Column("the training is in a critical phase", "0 or 1", 0.0, 1.0),
    "phase_left": Column("progress until the phase ends", "share of the job", 0.0, 2.0),
    **{
        f"uses_{name}": Column(f"method of the last window: {words}", "0 or 1", 0.0, 1.0)
        for name, words in zip(METHODS, _WORDS, strict=True)
    },
    **{
        f"expects_{name}": Column(
            f"expected progress per second over that without compression: {words}",
            "ln",
            -MOST_GAIN,
            MOST_GAIN,
        )
        for name, words in zip(METHODS, _WORDS, strict=True)
    },
}
"""Columns of the observation. What is expected is the cost model at the goodput of the last window."""

NAMES = list(COLUMNS)
USES = NAMES.index(f"uses_{METHODS[0]}")
EXPECTS = NAMES.index(f"expects_{METHODS[0]}")


class RunState(NamedTuple):
    """State of an episode, as far as an agent may know it: no conditions of windows to come.

    Attributes:
        gradient_bytes: Bytes of the gradients.
        forward_s: Time of a forward pass.
        backward_s: Time of a backward pass in the last window.
        workers: Number of workers in the last window.
        measured_bps: Measured goodput of the last windows, at most ``HISTORY``, the newest last.
        iteration_s: Time of an iteration in the last window.
        progress: Progress so far, in iterations.
        iterations: Progress that the job needs.
        critical: Whether the present phase of the training is critical.
        phase_left: Progress that is left in this phase.
        method: Method of the last window, an index of ``METHODS``.
        expected: ln of the expected progress per second over that without compression, by method; see
            :func:`expected_gains`.
    """

    gradient_bytes: float
    forward_s: float
    backward_s: float
    workers: int
    measured_bps: NDArray[np.float64]
    iteration_s: float
    progress: float
    iterations: float
    critical: bool
    phase_left: float
    method: int
    expected: NDArray[np.float64]


def state_of(run: TrainingRun, gradient_bytes: float) -> RunState:
    """Return what an agent may know of a run."""
    now, conditions, training, phase = run.now, run.conditions, run.training, run.phase
    return RunState(
        gradient_bytes,
        run.job.forward_s,
        float(conditions.backward_s[now]),
        int(conditions.workers[now]),
        conditions.measured_bps[max(now - HISTORY + 1, 0) : now + 1].copy(),
        run.iteration_s,
        run.progress,
        training.iterations,
        bool(training.critical[phase]),
        min(float(training.ends[phase]), training.iterations) - run.progress,
        run.method,
        expected_gains(run, float(conditions.measured_bps[now])),
    )


class RunNumbers:
    """The default observation, a vector of numbers."""

    def space(self, setting: CompressionScenario) -> gym.spaces.Box:
        """Return the space."""
        return table_space(COLUMNS)

    def observe(self, state: RunState) -> NDArray[np.float32]:
        """Return the observation of a state."""
        measured = np.log10(state.measured_bps / 1e9)
        row = np.empty(len(COLUMNS), np.float64)
        row[:USES] = (
            math.log10(state.gradient_bytes / 1e6),
            math.log10(state.backward_s / 0.1),
            math.log2(state.workers),
            measured[-1],
            measured.mean(),
            measured.std(),
            math.log10(state.iteration_s / 0.1),
            max(1.0 - (state.forward_s + state.backward_s) / state.iteration_s, 0.0),
            state.progress / state.iterations,
            float(state.critical),
            state.phase_left / state.iterations,
        )
        row[USES:EXPECTS] = 0.0
        row[USES + state.method] = 1.0
        row[EXPECTS:] = state.expected
        return clipped(row, _LIMITS)


def expected_gains(run: TrainingRun, goodput_bps: float) -> NDArray[np.float64]:
    """Return ln of the expected progress per second over that without compression, [n methods].

    They follow from the cost model with the number of workers, the backward pass of the last window, the
    present phase of the training, and a goodput; a change of the method is not counted.
    """
    now, conditions = run.now, run.conditions
    last = slice(now, now + 1)
    times_s = iteration_times_s(
        run.job, np.array([goodput_bps]), conditions.workers[last], conditions.backward_s[last]
    )[0]
    return np.asarray(np.log(times_s[0] / times_s * (1.0 - run.training.loss[run.phase])))


_LIMITS = limits(COLUMNS)
OBSERVERS: dict[str, Observer[CompressionScenario, RunState]] = {"default": RunNumbers()}
