"""Live view: the computations of all workers under the present plan, with a frame for each change."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.pipelines.plans import replayed
from sysgym.emulator.training.operations import BACKWARD, FORWARD
from sysgym.envs.live import BarsPanel, Chart, Emit, Fact, LaneFrame, Scene, Values
from sysgym.envs.pipelines.pipeline_tuning import PipelineTuning


class PipelineView:
    """Live view of ``sysgym/PipelineTuning-v0``.

    Args:
        env: The environment.
    """

    def __init__(self, env: PipelineTuning) -> None:
        self._env = env
        self._emit: Emit

    def watch(self, emit: Emit) -> None:
        """Begin to report frames, from the next reset on."""
        self._emit = emit

    def scene(self) -> Scene:
        """Return the scene of the present episode, and report its first frame."""
        self._frames = 0
        self.after_step()
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

    def set_interval(self, interval: float) -> None:
        """Do nothing: there is a frame for each change."""

    def after_step(self) -> None:
        """Report the present plan."""
        env = self._env
        step, operations = replayed(env.pipeline, env.plan, env.truth), env.pipeline.operations
        bars = []
        for state, kind in enumerate((FORWARD, BACKWARD)):
            for one in np.flatnonzero(operations.kind == kind).tolist():
                shown = 2 if step.critical[one] else state
                ends = (round(float(step.start_s[one]), 6), round(float(step.end_s[one]), 6))
                bars.append([int(operations.rank[one]), *ends, shown])
        values: Values = {
            "workers": bars,
            "step_ms": round(1e3 * env.measured_s, 6),
            "best_ms": round(1e3 * env.best_s, 6),
            "recomputing": sum(env.plan.recompute),
        }
        self._emit(LaneFrame(float(self._frames), values))
        self._frames += 1

    def change(self, key: str, value: float | str) -> None:
        """Do nothing: there are no settings that could change."""


def live_view(env: PipelineTuning) -> PipelineView:
    """Return the live view of the environment."""
    return PipelineView(env)
