"""Live view of a schedule: chunks on links over time, the use of links, and which device has which chunk."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysgym.envs.collectives.render import link_name, positions
from sysgym.envs.collectives.synthesis import CollectiveSynthesis
from sysgym.envs.live import (
    BarsPanel,
    Chart,
    DecisionsView,
    Fact,
    GridPanel,
    LaneFrame,
    NetworkPanel,
    Scene,
    Values,
    rounded,
)

MOST_ROWS = 40
"""Number of links in the timeline, the first ones that carry something."""

MOST_CHUNKS = 64
MISSING, COMING, THERE = range(3)


class ScheduleView(DecisionsView[CollectiveSynthesis]):
    """Live view of ``sysgym/CollectiveSynthesis-v0``, with a frame for each transfer."""

    def __init__(self, env: CollectiveSynthesis) -> None:
        super().__init__(env)
        self._n_rows = 0

    def _scene(self) -> Scene:
        task = self._env.task
        network = task.network
        places = positions(network)
        low, high = places.min(axis=0), places.max(axis=0)
        x, y = ((places - low) / np.maximum(high - low, 1e-9)).T
        nodes = [
            (
                str(name),
                round(float(x[v]), 4),
                round(float(y[v]) * 2.2, 4),
                "host" if v < task.n_devices else "point",
            )
            for v, name in enumerate(network.vertices)
        ]
        links = [(link.source, link.target) for link in network.links]
        n_chunks = min(task.collective.n_chunks, MOST_CHUNKS)
        devices = [str(device) for device in range(task.n_devices)]
        chunks = [f"chunk {chunk}" for chunk in range(n_chunks)]
        states = [("lacks it", "quiet"), ("on its way", "busy"), ("has it", "good")]
        rows = min(len(links), MOST_ROWS)
        transfers = [("copy", "busy"), ("partial sum", "bad")]
        self._n_rows = rows
        panels = (
            NetworkPanel("use", "Links by the share of the time in which they are busy", nodes, links),
            BarsPanel(
                "transfers",
                "Chunks on links",
                rows,
                transfers,
                "time",
                line=self._env.bound_s,
                line_label="lower bound",
            ),
            GridPanel("chunks", "Chunks (rows) on devices (columns)", chunks, devices, states),
        )
        return Scene(
            panels=panels,
            charts=(
                Chart("time_s", "Time of the schedule so far", "s"),
                Chart("missing", "Chunks still missing", ""),
            ),
            facts=(
                Fact("n_transfers", "transfers"),
                Fact("missing", "chunks still missing"),
                Fact("time_s", "time of the schedule", "s"),
                Fact("bound_s", "lower bound", "s"),
                Fact("regret", "over the bound", "x"),
            ),
            end=float(max(self._env._spread.n_missing, 1) * len(task.collective.phases)),
            time_unit="transfers",
            events={"send": ("transfer", "transfers")},
            places=tuple(link_name(network, link) for link in range(len(links))),
        )

    def _frame(self) -> LaneFrame:
        env = self._env
        schedule = env._scene().schedule
        busy_s = schedule.link_busy_s()
        longest_s = max(schedule.time_s, env.bound_s)
        missing = 0 if env.outcome is not None else env._spread.n_missing
        values: Values = {
            "use": np.rint(100.0 * busy_s / longest_s).astype(np.int64).clip(0, 100).tolist(),
            "use_queue": [0] * len(busy_s),
            "transfers": self._bars(),
            "chunks": self._chunks(),
            "n_transfers": schedule.n_transfers,
            "missing": int(missing),
            "time_s": rounded(schedule.time_s),
            "bound_s": rounded(env.bound_s),
            "regret": rounded(schedule.time_s / env.bound_s),
        }
        last = schedule.task.hops.paths[schedule.hops[-1]].tolist() if schedule.n_transfers else []
        events = tuple(("send", link, 1) for link in last if link >= 0)
        return LaneFrame(float(env.steps), values, events)

    def _bars(self) -> list[list[float]]:
        """Return a bar for each link of each transfer that is shown: row, begin, end, state."""
        schedule = self._env._scene().schedule
        if not schedule.n_transfers:
            return []
        task, starts_s = schedule.task, schedule.timing.starts_s
        bars: list[list[float]] = []
        for number, hop in enumerate(schedule.hops.tolist()):
            state = int(number < schedule.n_reducing)
            begin_s = float(starts_s[number])
            for link, lasts_s in zip(
                task.hops.paths[hop].tolist(), task.occupancies_s[hop].tolist(), strict=True
            ):
                if 0 <= link < self._n_rows:
                    bars.append([link, rounded(begin_s), rounded(begin_s + lasts_s), state])
        return bars

    def _chunks(self) -> list[int]:
        """Return the state of each chunk at each device, by chunk."""
        spread = self._env._spread
        if self._env.outcome is not None:
            n_chunks = min(spread.state.ready_s.shape[0], MOST_CHUNKS)
            return [THERE] * (n_chunks * spread.state.ready_s.shape[1])
        ready_s = spread.state.ready_s[:MOST_CHUNKS]
        known = np.isfinite(ready_s)
        coming = known & (ready_s > 0.0) & (ready_s >= spread.time_s)
        return np.where(coming, COMING, np.where(known, THERE, MISSING)).ravel().astype(int).tolist()


def live_view(env: Any) -> ScheduleView:
    """Return the live view of an environment of the family."""
    return ScheduleView(env)
