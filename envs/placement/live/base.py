"""Base of the views of environments without a clock: a frame for each decision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from sysgym.envs.live import Emit, LaneFrame, Scene, Values
from sysgym.envs.placement.base import PlacementEnv

EnvT = TypeVar("EnvT", bound=PlacementEnv)

UNIT = "decisions"


class DecisionsView(ABC, Generic[EnvT]):
    """View with a frame for each decision.

    Args:
        env: The environment.
    """

    def __init__(self, env: EnvT) -> None:
        self._env = env
        self._emit: Emit

    def watch(self, emit: Emit) -> None:
        """Begin to report frames, from the next reset on."""
        self._emit = emit

    def scene(self) -> Scene:
        """Return the scene of the present episode, and report its first frame."""
        scene = self._scene()
        self.after_step()
        return scene

    def set_interval(self, interval: float) -> None:
        """Do nothing: there is a frame for each decision."""

    def after_step(self) -> None:
        """Report what a decision has changed."""
        self._emit(LaneFrame(float(self._env.steps), self._values()))

    def change(self, key: str, value: float | str) -> None:
        """Do nothing: there are no settings that could change."""

    @abstractmethod
    def _scene(self) -> Scene:
        """Return the scene of the present episode."""

    @abstractmethod
    def _values(self) -> Values:
        """Return the numbers of the present state."""


def rounded(value: float) -> float:
    """Return a number with four digits, so that files stay small."""
    return float(f"{value:.4g}")
