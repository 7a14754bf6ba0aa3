"""Live view: the two streams of a step under the present plan, with a frame for each change."""

from __future__ import annotations

from sysgym.emulator.tuning.timing import step_of
from sysgym.envs.live import BarsPanel, Chart, Emit, Fact, LaneFrame, Scene, Values
from sysgym.envs.tuning.tuning import TrainingTuning


class TuningView:
    """Live view of ``sysgym/TrainingTuning-v0``.

    Args:
        env: The environment.
    """

    def __init__(self, env: TrainingTuning) -> None:
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

    def set_interval(self, interval: float) -> None:
        """Do nothing: there is a frame for each change."""

    def after_step(self) -> None:
        """Report the present plan."""
        env = self._env
        step = step_of(env.plan, env.profile, env.truth)
        backward_s = float(step.ready_s[-1])
        bars: list[list[float]] = [[0, 0.0, _rounded(backward_s), 0]]
        bars += [[0, _rounded(backward_s), _rounded(step.time_s), 1]]
        bars += [[1, _rounded(a), _rounded(b), 2] for a, b in zip(step.start_s, step.end_s, strict=True)]
        values: Values = {
            "streams": bars,
            "step_ms": _rounded(1e3 * env.measured_s),
            "best_ms": _rounded(1e3 * env.best_s),
            "buckets": len(env.plan.ends),
        }
        self._emit(LaneFrame(float(self._frames), values))
        self._frames += 1

    def change(self, key: str, value: float | str) -> None:
        """Do nothing: there are no settings that could change."""


def live_view(env: TrainingTuning) -> TuningView:
    """Return the live view of the environment."""
    return TuningView(env)


def _rounded(value: float) -> float:
    return round(float(value), 6)
