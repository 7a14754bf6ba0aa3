"""Live view of a job: its tasks as bars over their running time, flags, relaunches and copies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.envs.live import BarsPanel, Chart, DecisionsView, Fact, LaneFrame, Scene, rounded
from sysgym.envs.stragglers.base import StragglerEnv

MOST_ROWS = 140
"""Number of tasks drawn: all stragglers first, then others, spread evenly over their latencies."""

STATES = (
    ("", "quiet"),
    ("finished", "good"),
    ("running", "busy"),
    ("straggler", "bad"),
    ("relaunch or copy", "copy"),
    ("killed or lost", "lost"),
    ("flagged", "mark"),
)
REST, FINISHED, RUNNING, STRAGGLER, COPY, LOST, FLAGGED = range(len(STATES))

_EVENTS = {
    "flag": ("straggler flagged", "stragglers flagged"),
    "false": ("false flag", "false flags"),
    "relaunch": ("relaunch", "relaunches"),
    "copy": ("copy", "copies"),
    "done": ("task finished", "tasks finished"),
}


class JobView(DecisionsView[StragglerEnv]):
    """Live view of a job, with a frame for each decision."""

    def __init__(self, env: StragglerEnv) -> None:
        super().__init__(env)
        self._counts: dict[str, int] = {}
        self._rows: NDArray[np.int64] = np.empty(0, np.int64)

    def _scene(self) -> Scene:
        env = self._env
        stragglers = np.flatnonzero(env.flags.stragglers)
        others = np.flatnonzero(~env.flags.stragglers)
        latency_s = env.job.latency_s
        stragglers, others = (tasks[np.argsort(-latency_s[tasks])] for tasks in (stragglers, others))
        stragglers = stragglers[:MOST_ROWS]
        room = max(MOST_ROWS - len(stragglers), 0)
        if len(others) > room:
            others = others[np.linspace(0, len(others) - 1, room).astype(np.int64)]
        self._rows, self._counts = np.concatenate((stragglers, others)), dict.fromkeys(_EVENTS, 0)
        n_tasks = env.job.n_tasks
        shown = "" if len(self._rows) == n_tasks else f", {len(self._rows)} of them shown"
        title = f"{n_tasks} tasks{shown}: stragglers above, each row from the task's start"
        return Scene(
            panels=(
                BarsPanel(
                    "tasks",
                    title,
                    len(self._rows),
                    STATES,
                    x_label="time since the task's start",
                    line=float(env.threshold_s),
                    line_label="threshold",
                ),
            ),
            charts=(
                Chart("finished", "Tasks finished", ""),
                Chart("flagged", "Stragglers flagged in time", ""),
                Chart("false", "False flags", ""),
            ),
            facts=(
                Fact("finished", "tasks finished"),
                Fact("stragglers", "stragglers"),
                Fact("flagged", "flagged in time"),
                Fact("false", "false flags"),
                Fact("late", "flagged too late"),
                Fact("relaunches", "relaunches"),
                Fact("copies", "copies"),
                Fact("wasted_s", "machine time lost", "s"),
                Fact("completion_s", "completion", "s"),
            ),
            end=float(max(env.job.start_s + latency_s)),
            events=_EVENTS,
        )

    def _frame(self) -> LaneFrame:
        flags, world = self._env.flags, self._env.world
        now_s = min(world.now_s, world.completion_s)
        finished = int(np.isfinite(world.finish_s).sum())
        true, false = int(flags.true.sum()), int(flags.false.sum())
        counts = {
            "flag": true,
            "false": false,
            "relaunch": world.relaunches,
            "copy": world.copies,
            "done": finished,
        }
        events = tuple(
            (kind, 0, count - self._counts[kind])
            for kind, count in counts.items()
            if count > self._counts[kind]
        )
        self._counts = counts
        values: dict[str, Any] = {
            "tasks": self._bars(now_s),
            "finished": finished,
            "stragglers": int(flags.stragglers.sum()),
            "flagged": true,
            "false": false,
            "late": int(flags.late.sum()),
            "relaunches": world.relaunches,
            "copies": world.copies,
            "wasted_s": rounded(world.wasted_s),
            "completion_s": rounded(world.completion_s) if world.done else None,
        }
        return LaneFrame(float(now_s), values, events)

    def _bars(self, now_s: float) -> list[list[float]]:
        """Return the bars of the rows: row, begin and end after the task's start, s, and state."""
        env = self._env
        begin_s, over_s = env.world.history()
        finish_s = env.world.finish_s
        flags, job = env.flags, env.job
        bars: list[list[float]] = []
        for row, task in enumerate(self._rows.tolist()):
            start_s = job.start_s[task]
            bars.append([row, 0.0, rounded(job.latency_s[task]), REST])
            for attempt in np.flatnonzero(np.isfinite(begin_s[task])).tolist():
                ended = np.isfinite(over_s[task, attempt])
                until_s = over_s[task, attempt] if ended else now_s
                if until_s <= begin_s[task, attempt]:
                    continue
                full_s = begin_s[task, attempt] + job.duration_s[task, attempt]
                won = ended and until_s == finish_s[task] and bool(np.isclose(until_s, full_s, rtol=1e-9))
                state = _state(ended=ended, won=won, again=attempt > 0, slow=bool(flags.stragglers[task]))
                begin = begin_s[task, attempt] - start_s
                bars.append([row, rounded(begin), rounded(until_s - start_s), state])
            if flags.raised_s[task] <= now_s:
                raised = rounded(max(flags.raised_s[task] - start_s, 0.0))
                bars.append([row, raised, raised, FLAGGED])
        return bars


def _state(*, ended: bool, won: bool, again: bool, slow: bool) -> int:
    """Return the state of an attempt."""
    if ended and not won:
        return LOST
    if again:
        return COPY
    return STRAGGLER if slow else FINISHED if ended else RUNNING


def live_view(env: Any) -> JobView:
    """Return the live view of an environment of the family."""
    return JobView(env)
