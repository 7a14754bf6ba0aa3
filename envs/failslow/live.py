"""Live view: factors of the workers, the slowdown of a step, and what was done."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.failslow.run import Action
from sysgym.envs.failslow.fail_slow import FailSlow
from sysgym.envs.live import Chart, Emit, Fact, LaneFrame, LevelsPanel, Scene, Values


class FailSlowView:
    """Live view of ``sysgym/FailSlow-v0``, with a frame for each window.

    Args:
        env: The environment.
    """

    def __init__(self, env: FailSlow) -> None:
        self._env = env
        self._emit: Emit

    def watch(self, emit: Emit) -> None:
        """Begin to report frames, from the next reset on."""
        self._emit = emit

    def scene(self) -> Scene:
        """Return the scene of the present episode, and report its first frame."""
        run = self._env.run
        self.after_step()
        replicas = [f"replica {number}" for number in range(run.times.work.n_replicas)]
        return Scene(
            panels=(
                LevelsPanel("replicas", "Slowest worker of each replica, over a healthy one", replicas, "%"),
            ),
            charts=(
                Chart("slowdown", "Time of a step over a healthy one", ""),
                Chart("link", "Measured factor of the exchange", ""),
                Chart("progress", "Work done", "%"),
            ),
            facts=(Fact("actions", "actions"), Fact("faults", "faults")),
            end=run.scenario.control.interval_s * run.scenario.control.episode_steps,
        )

    def set_interval(self, interval: float) -> None:
        """Do nothing: there is a frame for each window."""

    def after_step(self) -> None:
        """Report the last window."""
        run = self._env.run
        active = run.active(run.time_s)
        stages, _ = run.factors(active)
        values: Values = {
            "replicas": [round(100.0 * float(one), 3) for one in np.asarray(stages.max(axis=1))],
            "slowdown": round(run.slowdown(active), 6),
            "link": round(run.measured_link, 6),
            "progress": round(100.0 * run.progress_s / run.work_s, 6),
            "actions": sum(window.action is not Action.NONE for window in run.windows),
            "faults": int(active.sum()),
        }
        self._emit(LaneFrame(run.time_s, values))

    def change(self, key: str, value: float | str) -> None:
        """Do nothing: there are no settings that could change."""


def live_view(env: FailSlow) -> FailSlowView:
    """Return the live view of the environment."""
    return FailSlowView(env)
