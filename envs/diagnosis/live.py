"""Live view: the answers about stages, kinds of operations, data-parallel ranks and ranks."""

from __future__ import annotations

from sysgym.emulator.diagnosis.parts import RANK
from sysgym.envs.diagnosis.observation import NOT_ASKED
from sysgym.envs.diagnosis.training_diagnosis import TrainingDiagnosis
from sysgym.envs.live import Chart, DecisionsView, Fact, LaneFrame, LevelsPanel, Panel, Scene, Values


class DiagnosisView(DecisionsView[TrainingDiagnosis]):
    """Live view of ``sysgym/TrainingDiagnosis-v0``, with a frame for each decision."""

    def _scene(self) -> Scene:
        parts = self._env.case.parts
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

    def _frame(self) -> LaneFrame:
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
        return LaneFrame(float(env.steps), values)


def live_view(env: TrainingDiagnosis) -> DiagnosisView:
    """Return the live view of the environment."""
    return DiagnosisView(env)
