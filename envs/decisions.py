"""Base class of environments with masked decisions: a drawn problem, discrete choices, one outcome."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from os import PathLike
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sysgym.envs.discrete import DiscreteEnv, ScenarioT
from sysgym.envs.observations import Observer
from sysgym.envs.rewards import Reward

BoolArray = NDArray[np.bool_]
Outcome = TypeVar("Outcome")


class DecisionEnv(DiscreteEnv[ScenarioT], Generic[ScenarioT, Outcome]):
    """Environment with masked decisions; one that the mask forbids ends the episode.

    Attributes:
        outcome: Outcome of the episode; None while it is in progress.
        steps: Decisions taken.
    """

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | ScenarioT,
        split: str,
        reward: str | Reward[Any] | None,
        observation: str | Observer[ScenarioT, Any],
        overrides: Mapping[str, Any] | None,
        render_mode: str | None,
    ) -> None:
        """Create the environment.

        Raises:
            ScenarioError: If the scenario cannot be used.
            UnknownName: If a split, reward or observation does not exist.
            ArgumentError: If the observation has no space.
        """
        super().__init__(scenario, split, reward, observation, overrides, render_mode)
        self.outcome: Outcome | None = None
        self.steps = 0
        self._mask: BoolArray

    def action_masks(self) -> BoolArray:
        """Return the mask of allowed actions, bool [n actions]; all False when the episode is over."""
        self._check_began("action_masks()")
        return self._mask.copy()

    def _prepare(self, episode_seed: int) -> None:
        self.outcome = None
        self.steps = 0
        self._begin(episode_seed)
        self._mask = self._allowed()

    def _act(self, action: int) -> tuple[Any, bool]:
        self.steps += 1
        if self._mask[action]:
            self._decide(action)
        else:
            self.outcome = self._invalid()
        over = self.outcome is not None
        self._mask = np.zeros_like(self._mask) if over else self._allowed()
        return self._decision_outcome(), over

    @abstractmethod
    def _allowed(self) -> BoolArray:
        """Return the mask of allowed actions."""

    @abstractmethod
    def _decide(self, action: int) -> None:
        """Apply an allowed action; set :attr:`outcome` if it ends the episode."""

    @abstractmethod
    def _invalid(self) -> Outcome:
        """Return the outcome of an episode that ends with a forbidden action."""

    @abstractmethod
    def _decision_outcome(self) -> Any:
        """Return the outcome of the decision, from which the reward is computed."""

    def _info(self) -> dict[str, Any]:
        return {
            "metrics": {
                "steps": float(self.steps),
                "allowed": float(self._mask.sum()),
                **self._step_metrics(),
            },
            "episode_seed": self.episode_seed,
            "action_mask": self._mask.astype(np.int8),
        }
