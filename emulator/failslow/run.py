"""Synchronous job with slow workers, stages and links, in windows of wall time.

The time of a step is that of replayed pipelines; see :mod:`sysgym.emulator.failslow.step_times`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from sysgym.emulator.failslow.faults import STREAM, BoolArray, FloatArray, Kind, draw_faults
from sysgym.emulator.failslow.step_times import Plan, StepTimes
from sysgym.emulator.failslow.work import draw_work
from sysgym.scenarios.schema.failslow import FailSlowScenario


class Action(IntEnum):
    """What can be done."""

    NONE = 0
    REBALANCE = 1
    MOVE_LAYERS = 2
    REROUTE = 3
    REPLACE = 4
    CHECKPOINT = 5
    RESTART = 6


class Window(NamedTuple):
    """What happened in a window.

    Attributes:
        action: What was done at its beginning.
        progress_s: Work done, s of a healthy job; negative if a restart lost more.
        slowdown: Time of a step over a healthy one's, at the window's end.
        paused_s: Time of the window without work.
        needed: Whether something was slow, or the plan was another one than at first, when it began.
    """

    action: Action
    progress_s: float
    slowdown: float
    paused_s: float
    needed: bool


class FailSlowRun:
    """An episode: a job, faults that are known in advance, and windows in which actions are taken.

    Args:
        scenario: The drawn scenario.
        episode_seed: Seed of the job, of faults and of measurements.

    Raises:
        TraceError: If the scenario's trace cannot be used.

    Attributes:
        scenario: The drawn scenario.
        faults: All faults, the future ones among them.
        relieved: Faults whose links traffic was moved away from, bool [n].
        gone: Faults that an action ended, likewise.
        times: Times of steps.
        plan: Who computes what.
        measured: Measured factors of all workers, shape (n_replicas, n_stages).
        measured_link: Measured factor of the exchange.
        measured_step: Measured time of a step over a healthy one's.
        time_s: Wall time.
        progress_s: Work done, s of a healthy job.
        windows: What happened.
    """

    def __init__(self, scenario: FailSlowScenario, episode_seed: int) -> None:
        self.scenario = scenario
        self.times = StepTimes(draw_work(scenario, episode_seed))
        rng = np.random.default_rng([STREAM, episode_seed])
        self.faults = draw_faults(scenario, rng, self.times.work.n_replicas, self.times.work.n_stages)
        self._noise = rng
        n = len(self.faults.start_s)
        self.relieved: BoolArray = np.zeros(n, np.bool_)
        self.gone: BoolArray = np.zeros(n, np.bool_)
        self.plan = self.times.first
        self.work_s = 3600.0 * scenario.job.healthy_hours
        self.time_s = self.progress_s = self._pause_s = self._saved_s = 0.0
        self.windows: list[Window] = []
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
        """Return the factors of the workers, shape (n_replicas, n_stages), and of the exchange."""
        faults, workers = self.faults, np.ones_like(self.times.healthy)
        if not active.any():
            return workers, 1.0
        for kind, place, factor in zip(
            faults.kind[active].tolist(), faults.place[active].tolist(), faults.factor[active], strict=True
        ):
            if kind == Kind.WORKER:
                at: tuple[int | slice, int] = divmod(place, workers.shape[1])
            elif kind == Kind.STAGE:
                at = (slice(None), place)
            else:
                continue
            workers[at] = np.maximum(workers[at], factor)
        relief = np.where(self.relieved, self.scenario.actions.reroute_relief, 0.0)
        slow = 1.0 + (faults.factor - 1.0) * (1.0 - relief)
        return workers, float(slow[active & (faults.kind == Kind.LINK)].max(initial=1.0))

    def slowdown(self, active: BoolArray, plan: Plan | None = None) -> float:
        """Return the time of a step over that of a healthy one, by replay."""
        workers, link = self.factors(active)
        return self.times.step_s(workers, link, self.plan if plan is None else plan) / self.times.healthy_s

    def step(self, action: Action) -> Window:
        """Take an action and run a window; an action during a pause does nothing."""
        control = self.scenario.control
        active = self.active(self.time_s)
        needed = bool(active.any()) or self.plan != self.times.first
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
        pauses = {
            Action.NONE: 0.0,
            Action.REBALANCE: actions.rebalance_s,
            Action.MOVE_LAYERS: actions.move_layers_s,
            Action.REROUTE: actions.reroute_s,
            Action.REPLACE: actions.replace_s,
            Action.CHECKPOINT: actions.checkpoint_s,
            Action.RESTART: actions.restart_s,
        }
        return pauses[action]

    def slowest_worker(self) -> int:
        """Return the worker whose measured factor is largest."""
        return int(self.measured.argmax())

    def noticed(self) -> FloatArray:
        """Return the measured factors; those within four standard deviations of the error count as 1."""
        slow = self.measured > np.exp(4.0 * self.scenario.control.noise_log_sd)
        return np.where(slow, self.measured, 1.0)

    def rebalanced(self) -> Plan:
        """Return the plan with microbatches dealt by the noticed factors."""
        return self.plan._replace(pace=self.times.paced(self.noticed(), self.plan.ends))

    def moved(self) -> Plan:
        """Return the plan with layers divided by the noticed factors, and microbatches dealt as before."""
        return self.plan._replace(ends=self.times.divided(self.noticed()))

    def after(self, action: Action, active: BoolArray) -> tuple[BoolArray, BoolArray, Plan]:
        """Return which faults an action ends and relieves, and the plan after it."""
        gone, relieved, plan = self.gone.copy(), self.relieved.copy(), self.plan
        faults = self.faults
        if action is Action.REBALANCE:
            plan = self.rebalanced()
        elif action is Action.MOVE_LAYERS:
            plan = self.moved()
        elif action is Action.REROUTE:
            relieved |= active & (faults.kind == Kind.LINK)
        elif action is Action.REPLACE:
            gone |= active & (faults.kind == Kind.WORKER) & (faults.place == self.slowest_worker())
        elif action is Action.RESTART:
            gone |= active
            plan = self.times.first
        return gone, relieved, plan

    def _apply(self, action: Action, active: BoolArray) -> float:
        self.gone, self.relieved, self.plan = self.after(action, active)
        if action is Action.CHECKPOINT:
            self._saved_s = self.progress_s
        elif action is Action.RESTART:
            self.progress_s = self._saved_s
        return self.pause_s(action)

    def _work(self, done_s: float) -> None:
        self.progress_s += done_s
        checkpoint_s = self.scenario.job.checkpoint_s
        self._saved_s = max(self._saved_s, checkpoint_s * (self.progress_s // checkpoint_s))

    def _measure(self) -> None:
        """Measure all workers, the exchange and the step, each with an error."""
        active = self.active(self.time_s)
        workers, link = self.factors(active)
        error = np.exp(self._noise.normal(0.0, self.scenario.control.noise_log_sd, workers.size + 2))
        self.measured: FloatArray = workers * error[2:].reshape(workers.shape)
        self.measured_link = link * float(error[0])
        self.measured_step = self.slowdown(active) * float(error[1])
