"""Live view: factors of the workers, the slowdown of a step, and the actions."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.failslow.run import Action
from sysgym.envs.failslow.fail_slow import FailSlow
from sysgym.envs.live import Chart, DecisionsView, Fact, LaneFrame, LevelsPanel, Scene, Values, rounded


class FailSlowView(DecisionsView[FailSlow]):
    """Live view of ``sysgym/FailSlow-v0``, with a frame for each window."""

    def _scene(self) -> Scene:
        run = self._env.run
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

    def _frame(self) -> LaneFrame:
        run = self._env.run
        active = run.active(run.time_s)
        stages, _ = run.factors(active)
        values: Values = {
            "replicas": [rounded(100.0 * float(one)) for one in np.asarray(stages.max(axis=1))],
            "slowdown": rounded(run.slowdown(active)),
            "link": rounded(run.measured_link),
            "progress": rounded(100.0 * run.progress_s / run.work_s),
            "actions": sum(window.action is not Action.NONE for window in run.windows),
            "faults": int(active.sum()),
        }
        return LaneFrame(run.time_s, values)


def live_view(env: FailSlow) -> FailSlowView:
    """Return the live view of the environment."""
    return FailSlowView(env)
