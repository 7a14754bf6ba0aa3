"""Base of the views of placements: numbers by the decisions taken."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

from sysgym.envs.live import DecisionsView, LaneFrame, Values
from sysgym.envs.placement.base import PlacementEnv

EnvT = TypeVar("EnvT", bound=PlacementEnv)

UNIT = "decisions"


class PlacementView(DecisionsView[EnvT]):
    """View of an environment of the family."""

    def _frame(self) -> LaneFrame:
        return LaneFrame(float(self._env.steps), self._values())

    @abstractmethod
    def _values(self) -> Values:
        """Return the numbers of the present state."""
