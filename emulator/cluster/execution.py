"""Execution of a job on its machines over time: attempts run, are killed, copied and relaunched.

Machines. A job of n tasks has n machines, one for each task's first attempt, reserved from the job's
submission, and ``spare_machines`` more. The machine of an attempt that finished, or that lost against a copy,
becomes free for the next request. The machine of an attempt that was killed by a relaunch is set aside for
the rest of the job, as schedulers exclude machines that they suspect: if it were reused, one spare machine
would be enough to move every task to another one, and a limit would have no effect. With unlimited spare
machines every new attempt gets an unused one.

Waiting. A relaunch or copy that finds no free machine waits in a queue, first come, first served. The task's
attempts run on meanwhile: a task is killed only when its new machine is available, and if it finishes before,
the request is dropped. A task with a queued request does not accept another one.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.job import BoolArray, FloatArray, Job

PENDING, RUNNING, FINISHED = 0, 1, 2
UNLIMITED = -1

_ROUNDING = 1e-9
"""Tolerance in windows: checkpoints are sums of windows, so rounding may miss a window's end."""


@dataclass(frozen=True)
class Snapshot:
    """Observable state of a job at one time, as arrays over its tasks.

    Attributes:
        now_s: Time since the job's submission.
        state: PENDING, RUNNING or FINISHED, int8.
        elapsed_s: Time for which the oldest running attempt has run; 0 for tasks that do not run.
        latency_s: Time from the task's start to the end of the attempt that finished first; nan before.
        counters_mean: Means of the counters over the complete windows so far of the attempt shown, shape
            (n_tasks, C). This is the oldest running attempt, or the one that finished, then over its whole
            life. 0 before its first complete window.
        counters_last: The last complete window of the same attempt; the last window of a finished one.
        attempts: Number of attempts started, int64.
        running_attempts: Number of attempts that run now, int64; two or more if copies run.
        waiting: Whether a relaunch or copy waits for a machine.
        can_act: Whether a relaunch or copy would be accepted.
        free_machines: Number of unused machines; UNLIMITED if there is no limit.
        used_s: Machine-seconds of all attempts so far.
        wasted_s: Machine-seconds of killed and losing attempts.
    """

    now_s: float
    state: NDArray[np.int8]
    elapsed_s: FloatArray
    latency_s: FloatArray
    counters_mean: FloatArray
    counters_last: FloatArray
    attempts: NDArray[np.int64]
    running_attempts: NDArray[np.int64]
    waiting: BoolArray
    can_act: BoolArray
    free_machines: int
    used_s: float
    wasted_s: float


class Execution:
    """Execution of one job.

    Args:
        job: The job, with the durations and counters of every attempt.
        spare_machines: Number of machines besides one for each task; UNLIMITED (-1) for no limit.
    """

    def __init__(self, job: Job, spare_machines: int = UNLIMITED) -> None:
        if spare_machines < UNLIMITED:
            raise ValueError(f"spare_machines: expected -1 (unlimited) or more, got {spare_machines}")
        n, attempts, _, n_counters = job.counters.shape
        self.job = job
        self.spare_machines = spare_machines
        self.now_s = 0.0
        self.relaunches = 0
        self.copies = 0
        self._limited = spare_machines != UNLIMITED
        self._free = max(spare_machines, 0)
        self._begin_s = np.full((n, attempts), np.inf)
        self._begin_s[:, 0] = job.start_s
        # End of each attempt if it is left alone; inf once it has ended or if it never began.
        self._end_s = np.full((n, attempts), np.inf)
        self._end_s[:, 0] = job.start_s + job.duration_s[:, 0]
        self._next_end_s = self._end_s[:, 0].copy()
        self._over_s = np.full((n, attempts), np.nan)
        self._attempts = np.ones(n, np.int64)
        self._shown = np.zeros(n, np.int64)
        self._finish_s = np.full(n, np.nan)
        self._finished = np.zeros(n, np.bool_)
        self._n_finished = 0
        self._waiting = np.zeros(n, np.bool_)
        self._line: deque[tuple[int, bool]] = deque()
        self._useful_s = 0.0
        self._wasted_s = 0.0
        # A machine that is idle since t adds now - t: the sum of all -t, and of +t where one was taken.
        self._idle_offset_s = 0.0
        self._idle_machines = self._free
        self._hired = 0
        self._hired_offset_s = 0.0
        self._sum = np.zeros((n, n_counters))
        self._last = np.zeros((n, n_counters))
        self._weight = np.zeros(n)
        self._windows_seen = np.zeros(n, np.int64)

    @property
    def done(self) -> bool:
        """Whether all tasks have finished."""
        return self._n_finished == self.job.n_tasks

    @property
    def share_finished(self) -> float:
        """Share of the tasks that have finished."""
        return self._n_finished / self.job.n_tasks

    @property
    def completion_s(self) -> float:
        """Time at which the last task finished; inf before."""
        return float(self._finish_s.max()) if self.done else float("inf")

    @property
    def finish_s(self) -> FloatArray:
        """Time at which each task finished, after the job's submission; nan before."""
        return self._finish_s.copy()

    @property
    def wasted_s(self) -> float:
        """Machine-seconds of attempts that were killed or lost."""
        return self._wasted_s

    @property
    def useful_s(self) -> float:
        """Machine-seconds of the attempts that finished first."""
        return self._useful_s

    @property
    def running_s(self) -> float:
        """Machine-seconds so far of attempts that run now."""
        alive = np.isfinite(self._end_s) & (self._begin_s < self.now_s)
        return float((self.now_s - self._begin_s[alive]).sum())

    @property
    def used_s(self) -> float:
        """Machine-seconds of all attempts so far."""
        return self._useful_s + self._wasted_s + self.running_s

    @property
    def machine_s(self) -> float:
        """Machine-seconds of all machines that the job has had: used or idle."""
        machines = self.job.n_tasks + max(self.spare_machines, 0) + self._hired
        return machines * self.now_s + self._hired_offset_s

    @property
    def idle_s(self) -> float:
        """Machine-seconds in which machines were held for a task, free, or set aside."""
        held = float(np.minimum(self.job.start_s, self.now_s).sum())
        return held + self._idle_machines * self.now_s + self._idle_offset_s

    def advance(self, duration_s: float) -> None:
        """Let time pass; every event happens at its own time within it."""
        self.advance_to(self.now_s + duration_s)

    def advance_to(self, until_s: float) -> None:
        """Let time pass up to ``until_s`` after the job's submission."""
        if self._line:
            self._advance_in_line(until_s)
        self._finish(np.flatnonzero(self._next_end_s <= until_s))
        self.now_s = max(until_s, self.now_s)

    def run_to_end(self) -> None:
        """Let time pass until the job is done, and no longer."""
        if self._line:
            self._advance_in_line(np.inf)
        if not self.done:
            self.advance_to(float(self._next_end_s[~self._finished].max()))

    def relaunch(self, tasks: Iterable[int]) -> NDArray[np.int64]:
        """Kill all attempts of each task and start its next one; return the accepted tasks.

        Tasks that do not run, have no attempt left or have a queued request are skipped.
        """
        return self._request(tasks, kill=True)

    def copy(self, tasks: Iterable[int]) -> NDArray[np.int64]:
        """Start the next attempt of each task beside the running ones; the first to finish wins.

        Tasks are skipped as by :meth:`relaunch`, and the accepted ones are returned.
        """
        return self._request(tasks, kill=False)

    def can_act(self) -> BoolArray:
        """Return for which tasks a relaunch or copy would be accepted, shape (n_tasks,)."""
        left = self._attempts < self.job.n_attempts
        return ~self._finished & (self.job.start_s <= self.now_s) & left & ~self._waiting

    def snapshot(self) -> Snapshot:
        """Return the observable state now."""
        self._read_counters()
        running = ~self._finished & (self.job.start_s <= self.now_s)
        state = np.where(self._finished, FINISHED, np.where(running, RUNNING, PENDING)).astype(np.int8)
        shown_since_s = self._begin_s[np.arange(self.job.n_tasks), self._shown]
        alive = np.isfinite(self._end_s) & (self._begin_s <= self.now_s)
        weight = np.maximum(self._weight, np.finfo(np.float64).tiny)
        return Snapshot(
            now_s=self.now_s,
            state=state,
            elapsed_s=np.where(running, self.now_s - shown_since_s, 0.0),
            latency_s=self._finish_s - self.job.start_s,
            counters_mean=self._sum / weight[:, None],
            counters_last=self._last.copy(),
            attempts=np.where(state == PENDING, 0, self._attempts),
            running_attempts=alive.sum(axis=1),
            waiting=self._waiting.copy(),
            can_act=self.can_act(),
            free_machines=self._free if self._limited else UNLIMITED,
            used_s=self.used_s,
            wasted_s=self._wasted_s,
        )

    def history(self) -> tuple[FloatArray, FloatArray]:
        """Return start and end of each attempt, both of shape (n_tasks, n_attempts); nan if not yet known."""
        begun = self._begin_s <= self.now_s
        return np.where(begun, self._begin_s, np.nan), self._over_s.copy()

    def _advance_in_line(self, until_s: float) -> None:
        """Let time pass up to ``until_s`` or until no request waits for a machine."""
        coming = np.flatnonzero((self._next_end_s <= until_s) & ~self._finished)
        ends = list(zip(self._next_end_s[coming].tolist(), coming.tolist(), strict=True))
        heapq.heapify(ends)
        while self._line and ends:
            time_s = ends[0][0]
            tasks = set()
            while ends and ends[0][0] == time_s:
                tasks.add(heapq.heappop(ends)[1])
            # A task relaunched meanwhile ends at another time, for which the heap has an entry, too.
            due = [task for task in sorted(tasks) if self._next_end_s[task] == time_s]
            if not due:
                continue
            self.now_s = time_s
            self._finish(np.asarray(due))
            for task in self._serve(time_s):
                if (end_s := float(self._next_end_s[task])) <= until_s:
                    heapq.heappush(ends, (end_s, task))

    def _request(self, tasks: Iterable[int], *, kill: bool) -> NDArray[np.int64]:
        able = self.can_act()
        accepted = []
        for task in tasks:
            if able[task]:
                able[task] = False
                accepted.append(int(task))
                self._line.append((int(task), kill))
        self._waiting[accepted] = True
        self._serve(self.now_s)
        return np.asarray(accepted, dtype=np.int64)

    def _serve(self, time_s: float) -> list[int]:
        """Give free machines to queued requests; return the tasks that got one."""
        served = []
        while self._line and (self._free > 0 or not self._limited):
            task, kill = self._line.popleft()
            if self._finished[task]:
                continue
            if kill:
                self._kill(task, time_s)
            self._start(task, time_s)
            self._waiting[task] = False
            self.relaunches += kill
            self.copies += not kill
            served.append(task)
        return served

    def _kill(self, task: int, time_s: float) -> None:
        alive = np.isfinite(self._end_s[task])
        self._over_s[task, alive] = time_s
        self._wasted_s += float((time_s - self._begin_s[task, alive]).sum())
        self._end_s[task] = np.inf
        self._idle(int(alive.sum()), time_s)
        self._shown[task] = self._attempts[task]
        self._forget_counters(np.asarray([task]))

    def _start(self, task: int, time_s: float) -> None:
        attempt = int(self._attempts[task])
        self._attempts[task] += 1
        self._begin_s[task, attempt] = time_s
        self._end_s[task, attempt] = time_s + self.job.duration_s[task, attempt]
        self._next_end_s[task] = self._end_s[task].min()
        if self._limited:
            self._free -= 1
            self._idle(-1, time_s)
        else:
            self._hired += 1
            self._hired_offset_s -= time_s

    def _finish(self, tasks: NDArray[np.int64]) -> None:
        """Finish tasks at their next ends; attempts that lose are killed and their machines become free."""
        if len(tasks) == 0:
            return
        end_s, begin_s = self._end_s[tasks], self._begin_s[tasks]
        winner = end_s.argmin(axis=1)
        finish_s = self._next_end_s[tasks]
        alive = np.isfinite(end_s)
        ran_s = np.where(alive, finish_s[:, None] - begin_s, 0.0)
        self._over_s[tasks] = np.where(alive, finish_s[:, None], self._over_s[tasks])
        useful_s = ran_s[np.arange(len(tasks)), winner]
        self._useful_s += float(useful_s.sum())
        machines = alive.sum(axis=1)
        # Summed over losers alone, so that a job without copies wastes nothing, not even by rounding.
        self._wasted_s += float((ran_s.sum(axis=1) - useful_s)[machines > 1].sum())
        self._idle_machines += int(machines.sum())
        self._idle_offset_s -= float((machines * finish_s).sum())
        if self._limited:
            self._free += int(machines.sum())
        self._finish_s[tasks] = finish_s
        self._finished[tasks] = True
        self._waiting[tasks] = False
        self._n_finished += len(tasks)
        self._end_s[tasks] = np.inf
        self._next_end_s[tasks] = np.inf
        changed = self._shown[tasks] != winner
        self._shown[tasks] = winner
        self._forget_counters(tasks[changed])

    def _idle(self, machines: int, since_s: float) -> None:
        """Count machines that become idle; a negative number counts machines that are taken."""
        self._idle_machines += machines
        self._idle_offset_s -= machines * since_s

    def _forget_counters(self, tasks: NDArray[np.int64]) -> None:
        self._sum[tasks] = 0.0
        self._last[tasks] = 0.0
        self._weight[tasks] = 0.0
        self._windows_seen[tasks] = 0

    def _read_counters(self) -> None:
        """Add the windows that were completed since the last reading."""
        job = self.job
        every = np.arange(job.n_tasks)
        begin_s = self._begin_s[every, self._shown]
        life = job.duration_s[every, self._shown] / job.window_s
        ran = (self.now_s - begin_s) / job.window_s
        windows = np.where(self._finished, np.ceil(life - _ROUNDING), np.floor(ran + _ROUNDING))
        windows = np.clip(windows, 0, job.counters.shape[2]).astype(np.int64)
        while len(behind := np.flatnonzero(self._windows_seen < windows)):
            window = self._windows_seen[behind]
            values = job.counters[behind, self._shown[behind], window].astype(np.float64)
            # The last window of a finished attempt counts for the part in which it lived.
            weight = np.where(self._finished[behind], np.minimum(life[behind] - window, 1.0), 1.0)
            self._sum[behind] += weight[:, None] * values
            self._weight[behind] += weight
            self._last[behind] = values
            self._windows_seen[behind] += 1


def completion_with_relaunch(job: Job, flag_s: FloatArray, spare_machines: int = UNLIMITED) -> float:
    """Return the completion time of a job if every task is relaunched once, when it is flagged.

    NURD (Ding et al., MLSys 2022) converts flags into completion times in this way: a relaunch is immediate
    if machines are unlimited, and otherwise waits for the next free machine. A second attempt takes the
    duration that the job drew for it.

    Args:
        job: The job; with a single attempt drawn for each task nothing can be relaunched.
        flag_s: Time at which each task is flagged, after the job's submission; inf for never. A flag of a
            task that does not run at that time has no effect. Simultaneous flags are served by index. Shape
            (n_tasks,).
        spare_machines: Number of machines besides one for each task; UNLIMITED (-1) for no limit.
    """
    execution = Execution(job, spare_machines)
    for time_s in np.unique(flag_s[np.isfinite(flag_s)]):
        execution.advance_to(float(time_s))
        execution.relaunch(np.flatnonzero(flag_s == time_s))
    execution.run_to_end()
    return execution.completion_s
