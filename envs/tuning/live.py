"""Live view: the two streams of a step under the present plan, with a frame for each change."""

from __future__ import annotations

from sysgym.emulator.tuning.timing import step_of
from sysgym.envs.live import BarsPanel, Chart, DecisionsView, Fact, LaneFrame, Scene, Values, rounded
from sysgym.envs.tuning.tuning import TrainingTuning


class TuningView(DecisionsView[TrainingTuning]):
    """Live view of ``sysgym/TrainingTuning-v0``."""

    def _scene(self) -> Scene:
        return Scene(
            panels=(
                BarsPanel(
                    "streams",
                    "Computing, and transfers of buckets",
                    2,
                    [("backward", "good"), ("next forward", "copy"), ("transfer", "bad")],
                    "time",
                    line=self._env.first_s,
                    line_label="at the beginning",
                ),
            ),
            charts=(Chart("step_ms", "Time of a step", "ms"), Chart("best_ms", "Best so far", "ms")),
            facts=(Fact("buckets", "buckets"),),
            end=float(self._env.scenario.control.episode_steps),
            time_unit="changes",
        )

    def _frame(self) -> LaneFrame:
        env = self._env
        step = step_of(env.plan, env.profile, env.truth)
        backward_s = float(step.ready_s[-1])
        bars: list[list[float]] = [[0, 0.0, rounded(backward_s), 0]]
        bars += [[0, rounded(backward_s), rounded(step.time_s), 1]]
        bars += [[1, rounded(a), rounded(b), 2] for a, b in zip(step.start_s, step.end_s, strict=True)]
        values: Values = {
            "streams": bars,
            "step_ms": rounded(1e3 * env.measured_s),
            "best_ms": rounded(1e3 * env.best_s),
            "buckets": len(env.plan.ends),
        }
        return LaneFrame(float(env.steps), values)


def live_view(env: TrainingTuning) -> TuningView:
    """Return the live view of the environment."""
    return TuningView(env)
