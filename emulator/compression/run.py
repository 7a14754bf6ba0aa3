"""A training run in windows of time: in each the job uses one method, under the conditions of the window."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from sysgym.emulator.compression.conditions import Conditions, draw_conditions
from sysgym.emulator.compression.optimum import Run, fastest_run, finish_s, run_of
from sysgym.emulator.compression.progress import Training, phase_at, rebuild, training_of, window
from sysgym.emulator.compression.times import NONE, FloatArray, Job, iteration_times_s, job_of
from sysgym.scenarios.schema.compression import CompressionScenario


class Window(NamedTuple):
    """What happened in one window.

    Attributes:
        method: Method that was used.
        used_s: Time of the window that the job needed.
        iterations: Iterations that ran.
        rebuilt: Iterations of progress that the change of the method took back.
        progress: Iterations of progress made, less those.
        iteration_s: Time of an iteration.
        uncompressed_s: Time of an iteration without compression, at the same instant.
    """

    method: int
    used_s: float
    iterations: float
    rebuilt: float
    progress: float
    iteration_s: float
    uncompressed_s: float


class TrainingRun:
    """A training run.

    The first window of the conditions lies before the run: the job uses no compression in it, and from it
    come the first measurements.

    Args:
        scenario: The drawn scenario.
        episode_seed: Seed of the conditions.

    Attributes:
        interval_s: Length of a window.
        job: What the time of an iteration depends on.
        training: Progress that the job needs, and losses.
        conditions: Conditions by window, the one before the run first; the future is among them.
        times_s: Time of an iteration by window of the run and method.
        windows: What happened so far.
        method: Method of the last window.
        progress: Progress, in iterations.
        time_s: Time since the beginning of the run.
        changes: Changes of the method.
        uncompressed_progress: Iterations that would have run so far without compression.
    """

    def __init__(self, scenario: CompressionScenario, episode_seed: int) -> None:
        self.interval_s = scenario.control.decision_interval_s
        self.job: Job = job_of(scenario)
        self.training: Training = training_of(scenario)
        self.conditions: Conditions = draw_conditions(scenario, episode_seed)
        conditions = self.conditions
        self._all_times_s = iteration_times_s(
            self.job, conditions.goodput_bps, conditions.workers, conditions.backward_s
        )
        self.times_s: FloatArray = self._all_times_s[1:]
        self.windows: list[Window] = []
        self.method, self.progress, self.time_s, self.changes = NONE, 0.0, 0.0, 0
        self.uncompressed_progress = 0.0

    @property
    def now(self) -> int:
        """Number of the last window, in the conditions."""
        return len(self.windows)

    @property
    def finished(self) -> bool:
        """Whether the job is complete."""
        return self.progress >= self.training.iterations

    @property
    def exhausted(self) -> bool:
        """Whether the conditions have no further window."""
        return len(self.windows) == len(self.times_s)

    @property
    def phase(self) -> int:
        """Number of the phase of the training."""
        return phase_at(self.training, self.progress)

    @property
    def iteration_s(self) -> float:
        """Time of an iteration in the last window."""
        return float(self._all_times_s[self.now, self.method])

    @property
    def finish_s(self) -> float:
        """Time of the whole job; before its end, at the mean speed so far."""
        return finish_s(self.training, self.progress, self.time_s)

    def step(self, method: int) -> Window:
        """Use a method for a window of time, or until the job is complete; return what happened."""
        iteration_s = float(self.times_s[len(self.windows), method])
        progress, used_s = window(
            self.training, self.progress, self.method, method, self.interval_s, iteration_s
        )
        happened = Window(
            method,
            used_s,
            used_s / iteration_s,
            rebuild(self.training, self.method, method),
            progress - self.progress,
            iteration_s,
            float(self.times_s[len(self.windows), NONE]),
        )
        self.time_s = len(self.windows) * self.interval_s + used_s
        self.uncompressed_progress += used_s / happened.uncompressed_s
        self.changes += method != self.method
        self.method, self.progress = method, progress
        self.windows.append(happened)
        return happened

    @functools.cached_property
    def optimum(self) -> Run:
        """The fastest run under the same conditions, which are known to it."""
        return fastest_run(self.training, self.times_s, self.interval_s)

    @functools.cached_property
    def uncompressed(self) -> Run:
        """The run without compression."""
        return self.always(NONE)

    def always(self, method: int) -> Run:
        """Return the run that uses one method throughout."""
        methods = np.full(len(self.times_s), method)
        return run_of(self.training, self.times_s, self.interval_s, methods)
