"""Live view: the answers about stages, kinds of operations, data-parallel ranks and ranks."""

from __future__ import annotations

from sysgym.emulator.diagnosis.parts import RANK
from sysgym.envs.diagnosis.observation import NOT_ASKED
from sysgym.envs.diagnosis.training_diagnosis import TrainingDiagnosis
from sysgym.envs.live import Chart, Emit, Fact, LaneFrame, LevelsPanel, Panel, Scene, Values


class DiagnosisView:
    """Live view of ``sysgym/TrainingDiagnosis-v0``, with a frame for each decision.

    Args:
        env: The environment.
    """

    def __init__(self, env: TrainingDiagnosis) -> None:
        self._env = env
        self._emit: Emit

    def watch(self, emit: Emit) -> None:
        """Begin to report frames, from the next reset on."""
        self._emit = emit

    def scene(self) -> Scene:
        """Return the scene of the present episode, and report its first frame."""
        parts = self._env.case.parts
        self.after_step()
        groups = {
            "groups": [str(part) for part in parts if part.what != RANK],
            "ranks": [str(part) for part in parts if part.what == RANK],
        }
        titles = {"groups": "Lost time that goes with a part", "ranks": "Lost time that goes with a rank"}
        panels: list[Panel] = [LevelsPanel(key, titles[key], names, "%") for key, names in groups.items()]
        return Scene(
            panels=tuple(panels),
            charts=(Chart("largest", "Largest answer", "%"),),
            facts=(Fact("questions", "questions"),),
            end=float(self._env.scenario.control.episode_steps + 1),
            time_unit="decisions",
        )

    def set_interval(self, interval: float) -> None:
        """Do nothing: there is a frame for each decision."""

    def after_step(self) -> None:
        """Report the answers so far; 0 for what was not asked."""
        env = self._env
        shown = [
            0.0 if answer == NOT_ASKED else round(100.0 * float(answer), 1) for answer in env.answers.tolist()
        ]
        is_rank = [part.what == RANK for part in env.case.parts]
        values: Values = {
            "groups": [one for one, rank in zip(shown, is_rank, strict=True) if not rank],
            "ranks": [one for one, rank in zip(shown, is_rank, strict=True) if rank],
            "largest": max(shown),
            "questions": env.questions,
        }
        self._emit(LaneFrame(float(env.steps), values))

    def change(self, key: str, value: float | str) -> None:
        """Do nothing: there are no settings that could change."""


def live_view(env: TrainingDiagnosis) -> DiagnosisView:
    """Return the live view of the environment."""
    return DiagnosisView(env)
