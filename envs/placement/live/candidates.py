"""Live view of candidates that are measured: nominal and measured times, until one is chosen."""

from __future__ import annotations

import numpy as np

from sysgym.envs.live import Chart, Fact, LevelsPanel, Scene, Values, rounded
from sysgym.envs.placement.joint import JointPlacement
from sysgym.envs.placement.live.base import UNIT, PlacementView

MOST_ROWS = 24
"""Number of candidates shown, those of the smallest nominal times."""


class CandidatesView(PlacementView[JointPlacement]):
    """View of ``sysgym/JointPlacement-v0``."""

    def _scene(self) -> Scene:
        env = self._env
        nominal_s = env._scene().times.nominal_s
        self._shown = np.argsort(nominal_s, kind="stable")[:MOST_ROWS]
        names = [f"candidate {row}" for row in self._shown.tolist()]
        title = "Time of candidates: nominal, then the mean of what was measured"
        return Scene(
            panels=(
                LevelsPanel("times", title, names, "s"),
                LevelsPanel("taken", "Measurements taken", names),
            ),
            charts=(Chart("best_s", "Smallest mean measured so far", "s"),),
            facts=(
                Fact("measured", "measurements"),
                Fact("best_s", "smallest mean measured", "s"),
                Fact("chosen", "candidate chosen"),
                Fact("time_s", "its true time", "s"),
                Fact("ideal_s", "best true time", "s"),
            ),
            end=float(env.joint.budget + 1),
            time_unit=UNIT,
        )

    def _values(self) -> Values:
        env = self._env
        nominal_s = env._scene().times.nominal_s
        known = [float(np.mean(times)) for times in env.measured_s if times]
        shown = self._shown.tolist()
        over = env.outcome is not None
        return {
            "times": [rounded(float(np.mean(env.measured_s[row] or nominal_s[row]))) for row in shown],
            "taken": [len(env.measured_s[row]) for row in shown],
            "measured": sum(map(len, env.measured_s)),
            "best_s": rounded(min(known)) if known else None,
            "chosen": env.committed,
            "time_s": rounded(env.outcome.time_s) if env.outcome is not None else None,
            "ideal_s": rounded(float(env.truth.times_s.min())) if over else None,
        }
