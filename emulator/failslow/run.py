"""Synchronous job with slow workers and links, in windows of wall time.

A replica with m microbatches takes the sum of its stages' times of a microbatch and m - 1 times the slowest
one's, the time of 1F1B for equal stages and an upper bound of it for others; a step waits for the slowest
replica and then for the exchange over the slowest link.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from sysgym.emulator.failslow.faults import STREAM, BoolArray, FloatArray, IntArray, draw_faults
from sysgym.scenarios.schema.failslow import FailSlowScenario


class Action(IntEnum):
    """What can be done, from the cheapest to the dearest."""

    NONE = 0
    REBALANCE = 1
    REROUTE = 2
    REPLACE = 3
    RESTART = 4


class Window(NamedTuple):
    """What happened in a window.

    Attributes:
        action: What was done at its beginning.
        progress_s: Work done, s of a healthy job; negative if a restart lost more.
        slowdown: Time of a step over a healthy one's, at the window's end.
        paused_s: Time of the window without work.
        needed: Whether something was slow when the action began.
    """

    action: Action
    progress_s: float
    slowdown: float
    paused_s: float
    needed: bool


def replica_times(stages: FloatArray, microbatches: IntArray) -> FloatArray:
    """Return the compute time of each replica's step, in healthy stage times of a microbatch.

    Args:
        stages: Factors of the stages, shape (n_replicas, n_stages).
        microbatches: Microbatches of each replica, shape (n_replicas,).
    """
    return np.asarray(stages.sum(axis=1) + (microbatches - 1) * stages.max(axis=1))


def balanced(stages: FloatArray, n_microbatches: int) -> IntArray:
    """Return the microbatches of each replica that make the slowest one as fast as possible.

    Exact: each microbatch beyond one goes to the replica that then ends first (Graham's rule is optimal for
    equal pieces on machines of different speeds).

    Args:
        stages: Factors of the stages, shape (n_replicas, n_stages).
        n_microbatches: Microbatches of all replicas.
    """
    first, each = stages.sum(axis=1), stages.max(axis=1)
    counts = np.ones(len(stages), np.int64)
    for _ in range(n_microbatches - len(stages)):
        counts[(first + counts * each).argmin()] += 1
    return counts


class FailSlowRun:
    """An episode: a job, faults that are known in advance, and windows in which actions are taken.

    Args:
        scenario: The drawn scenario.
        episode_seed: Seed of faults and measurements.

    Attributes:
        scenario: The drawn scenario.
        faults: All faults, the future ones among them.
        relieved: Faults whose links traffic was moved away from, bool [n].
        gone: Faults that an action ended, likewise.
        microbatches: Microbatches of each replica, shape (n_replicas,).
        measured: Measured factors of all stages, shape (n_replicas, n_stages).
        measured_link: Measured factor of the exchange.
        time_s: Wall time.
        progress_s: Work done, s of a healthy job.
        windows: What happened.
    """

    def __init__(self, scenario: FailSlowScenario, episode_seed: int) -> None:
        self.scenario = scenario
        rng = np.random.default_rng([STREAM, episode_seed])
        self.faults = draw_faults(scenario, rng)
        self._noise = rng
        job, n = scenario.job, len(self.faults.start_s)
        self.relieved: BoolArray = np.zeros(n, np.bool_)
        self.gone: BoolArray = np.zeros(n, np.bool_)
        self.microbatches: IntArray = np.full(job.replicas, job.microbatches, np.int64)
        self.work_s = 3600.0 * job.healthy_hours
        self.time_s = self.progress_s = self._pause_s = self._saved_s = 0.0
        self.windows: list[Window] = []
        healthy = np.ones((job.replicas, job.stages))
        self._healthy_time = float(replica_times(healthy, self.microbatches)[0])
        self._measure()

    @property
    def finished(self) -> bool:
        """Whether the job is done."""
        return self.progress_s >= self.work_s

    @property
    def paused(self) -> bool:
        """Whether an action is still under way."""
        return self._pause_s > 0.0

    @property
    def since_checkpoint_s(self) -> float:
        """Work that a restart would lose, s of a healthy job."""
        return self.progress_s - self._saved_s

    def active(self, time_s: float) -> BoolArray:
        """Return which faults slow the job at a time, bool [n]."""
        return (self.faults.start_s <= time_s) & (time_s < self.faults.end_s) & ~self.gone

    def factors(self, active: BoolArray) -> tuple[FloatArray, float]:
        """Return the factors of the stages, shape (n_replicas, n_stages), and of the exchange."""
        job, faults = self.scenario.job, self.faults
        stages = np.ones(job.replicas * job.stages)
        links = active & (faults.worker < 0)
        workers = active & ~links
        np.maximum.at(stages, faults.worker[workers], faults.factor[workers])
        relief = np.where(self.relieved, self.scenario.actions.reroute_relief, 0.0)
        slow = 1.0 + (faults.factor - 1.0) * (1.0 - relief)
        return stages.reshape(job.replicas, job.stages), float(slow[links].max(initial=1.0))

    def slowdown(self, active: BoolArray, microbatches: IntArray | None = None) -> float:
        """Return the time of a step over that of a healthy one."""
        stages, link = self.factors(active)
        counts = self.microbatches if microbatches is None else microbatches
        share = self.scenario.job.communication_share
        compute = float(replica_times(stages, counts).max()) / self._healthy_time
        return (1.0 - share) * compute + share * link

    def step(self, action: Action) -> Window:
        """Take an action and run a window; an action during a pause does nothing."""
        control = self.scenario.control
        active = self.active(self.time_s)
        needed = bool(active.any()) or len(set(self.microbatches.tolist())) > 1
        if self.paused:
            action = Action.NONE
        before_s = self.progress_s
        self._pause_s += self._apply(action, active)
        paused_s = min(self._pause_s, control.interval_s)
        self._pause_s -= paused_s
        # The window is worked off in pieces between which nothing changes.
        changes = np.concatenate([self.faults.start_s, self.faults.end_s])
        now_s, end_s = self.time_s + paused_s, self.time_s + control.interval_s
        inside = np.sort(changes[(changes > now_s) & (changes < end_s)])
        for until_s in (*inside.tolist(), end_s):
            rate = 1.0 / self.slowdown(self.active(now_s))
            self._work((until_s - now_s) * rate)
            now_s = until_s
            if self.finished:
                now_s -= (self.progress_s - self.work_s) / rate
                self.progress_s = self.work_s
                break
        self.time_s = now_s
        slow = self.slowdown(self.active(self.time_s))
        self._measure()
        window = Window(action, self.progress_s - before_s, slow, paused_s, needed)
        self.windows.append(window)
        return window

    def pause_s(self, action: Action) -> float:
        """Return the pause of an action, s."""
        actions = self.scenario.actions
        pauses = (0.0, actions.rebalance_s, actions.reroute_s, actions.replace_s, actions.restart_s)
        return pauses[action]

    def slowest_worker(self) -> int:
        """Return the worker whose measured factor is largest."""
        return int(self.measured.argmax())

    def rebalanced(self) -> IntArray:
        """Return the microbatches of each replica that are best by the measured factors.

        Factors within three standard deviations of the measurement's error count as 1.
        """
        job, control = self.scenario.job, self.scenario.control
        slow = self.measured > np.exp(3.0 * control.noise_log_sd)
        return balanced(np.where(slow, self.measured, 1.0), job.replicas * job.microbatches)

    def after(self, action: Action, active: BoolArray) -> tuple[BoolArray, BoolArray, IntArray]:
        """Return which faults an action ends and relieves, and the microbatches after it."""
        gone, relieved, counts = self.gone.copy(), self.relieved.copy(), self.microbatches
        job = self.scenario.job
        if action is Action.REBALANCE:
            counts = self.rebalanced()
        elif action is Action.REROUTE:
            relieved |= active & (self.faults.worker < 0)
        elif action is Action.REPLACE:
            gone |= active & (self.faults.worker == self.slowest_worker())
        elif action is Action.RESTART:
            gone |= active
            counts = np.full(job.replicas, job.microbatches, np.int64)
        return gone, relieved, counts

    def _apply(self, action: Action, active: BoolArray) -> float:
        self.gone, self.relieved, self.microbatches = self.after(action, active)
        if action is Action.RESTART:
            self.progress_s = self._saved_s
        return self.pause_s(action)

    def _work(self, done_s: float) -> None:
        self.progress_s += done_s
        checkpoint_s = self.scenario.job.checkpoint_s
        self._saved_s = max(self._saved_s, checkpoint_s * (self.progress_s // checkpoint_s))

    def _measure(self) -> None:
        """Measure all stages and the exchange, each with an error."""
        stages, link = self.factors(self.active(self.time_s))
        error = np.exp(self._noise.normal(0.0, self.scenario.control.noise_log_sd, stages.size + 1))
        self.measured: FloatArray = stages * error[1:].reshape(stages.shape)
        self.measured_link = link * float(error[0])
