"""Base class of the placement environments."""

from __future__ import annotations

from typing import Any, ClassVar

from sysgym.emulator.accelerators.problem import PlacementProblem
from sysgym.envs.decisions import DecisionEnv
from sysgym.envs.lifecycle import Kinds
from sysgym.envs.observations import OBSERVATION_ARGUMENT
from sysgym.envs.placement.metrics import Outcome
from sysgym.envs.placement.rewards import MEASURED, SPEEDUP, DecisionOutcome
from sysgym.scenarios import PlacementScenario


class PlacementEnv(DecisionEnv[PlacementScenario, Outcome]):
    """Base class of the family; see :class:`~sysgym.envs.placement.placement.CollectivePlacement`.

    An action that the mask forbids ends the episode with the time of the default.

    Attributes:
        problem: Hierarchy, axes and reductions of this episode; fully observable.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012, Gymnasium declares it on instances
        "render_modes": ["ansi", "rgb_array", "human"],
        "render_fps": 2,
    }
    ARGUMENTS: ClassVar[Kinds] = {**OBSERVATION_ARGUMENT, "mask": ((str,), '"live" or "valid"')}
    SCENARIO = PlacementScenario
    FAMILY_REWARDS = (SPEEDUP, MEASURED)
    problem: PlacementProblem

    def _decision_outcome(self) -> DecisionOutcome:
        return DecisionOutcome(self.outcome)

    def _largest(self, table: str, key: str) -> int:
        """Return the largest value of a scenario's key in all episodes of the split.

        Pictures have room for it, so that all pictures of an environment have the same size, as videos
        require.
        """
        own = getattr(getattr(self.scenario, table), key)
        return int(max(self.scenario.splits[self.split].varied.get(f"{table}.{key}", (own,))))
