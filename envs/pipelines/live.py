"""Live view: the computations of all workers under the present plan, with a frame for each change."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.pipelines.plans import replayed
from sysgym.emulator.training.operations import BACKWARD, FORWARD
from sysgym.envs.live import BarsPanel, Chart, DecisionsView, Fact, LaneFrame, Scene, Values, rounded
from sysgym.envs.pipelines.pipeline_tuning import PipelineTuning


class PipelineView(DecisionsView[PipelineTuning]):
    """Live view of ``sysgym/PipelineTuning-v0``."""

    def _scene(self) -> Scene:
        return Scene(
            panels=(
                BarsPanel(
                    "workers",
                    "Computations of the workers in a step",
                    len(self._env.pipeline.operations.ranks),
                    [("forward", "good"), ("backward", "copy"), ("critical path", "bad")],
                    "time",
                    line=self._env.first_s,
                    line_label="at the beginning",
                ),
            ),
            charts=(Chart("step_ms", "Time of a step", "ms"), Chart("best_ms", "Best so far", "ms")),
            facts=(Fact("recomputing", "stages recompute"),),
            end=float(self._env.scenario.control.episode_steps),
            time_unit="changes",
        )

    def _frame(self) -> LaneFrame:
        env = self._env
        step, operations = replayed(env.pipeline, env.plan, env.truth), env.pipeline.operations
        bars = []
        for state, kind in enumerate((FORWARD, BACKWARD)):
            for one in np.flatnonzero(operations.kind == kind).tolist():
                shown = 2 if step.critical[one] else state
                ends = (rounded(step.start_s[one]), rounded(step.end_s[one]))
                bars.append([int(operations.rank[one]), *ends, shown])
        values: Values = {
            "workers": bars,
            "step_ms": rounded(1e3 * env.measured_s),
            "best_ms": rounded(1e3 * env.best_s),
            "recomputing": sum(env.plan.recompute),
        }
        return LaneFrame(float(env.steps), values)


def live_view(env: PipelineTuning) -> PipelineView:
    """Return the live view of the environment."""
    return PipelineView(env)
