"""Base class of environments with masked decisions: a drawn problem, discrete choices, one outcome."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, Generic, TypeVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.envs.episodes import draw_episode_seed, resolve_scenario
from sysgym.envs.lifecycle import Kinds, Lifecycle, Phase, whole_number
from sysgym.envs.observations import OBSERVATION_ARGUMENT, Observer, get_observer, space_of
from sysgym.envs.rewards import Reward, reward_of, total
from sysgym.scenarios import Scenario

BoolArray = NDArray[np.bool_]
ScenarioT = TypeVar("ScenarioT", bound=Scenario)
Outcome = TypeVar("Outcome")


class DecisionEnv(Lifecycle, gym.Env[Any, np.int64], Generic[ScenarioT, Outcome]):
    """Environment with masked decisions.

    Attributes:
        SCENARIO: Class of the family's scenarios.
        REWARDS: Rewards by name.
        FAMILY_REWARDS: Rewards of all environments of the family, where it has several.
        OBSERVERS: Observations by name.
        scenario: The scenario.
        reward: The reward.
        observer: The observation.
        outcome: Outcome of the episode; None while it is in progress.
        episode_seed: Seed of this episode's problem.
        steps: Decisions taken.
    """

    ARGUMENTS: ClassVar[Kinds] = OBSERVATION_ARGUMENT
    SCENARIO: type[ScenarioT]
    REWARDS: ClassVar[Mapping[str, Reward[Any]]]
    FAMILY_REWARDS: ClassVar[Sequence[Mapping[str, Reward[Any]]]] = ()
    OBSERVERS: ClassVar[Mapping[str, Observer[Any, Any]]]

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
        self.scenario: ScenarioT = resolve_scenario(scenario, overrides, self.SCENARIO)
        self.split, self.render_mode = split, render_mode
        self._seeds = self.scenario.splits[split].seeds
        declared = self.scenario.reward  # type: ignore[attr-defined]  # every family's scenarios have one
        self.reward = reward_of(declared, reward, self.REWARDS, self.FAMILY_REWARDS)
        self.observer = get_observer(observation, self.OBSERVERS)
        self.observation_space = space_of(self.observer, self.scenario)
        self.action_space: gym.spaces.Discrete = gym.spaces.Discrete(self._n_actions)
        self.episode_seed: int | None = None
        self.outcome: Outcome | None = None
        self.steps = 0
        self._mask: BoolArray

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Seeds the generator that draws episode seeds.
            options: ``{"episode_seed": int}`` sets the episode seed, which may lie outside the split.

        Raises:
            ClosedEnvironment: If the environment is closed.
        """
        self._check_may_reset()
        super().reset(seed=seed)
        self.episode_seed = draw_episode_seed(self.np_random, self._seeds, options)
        self.outcome = None
        self.steps = 0
        self._begin(self.episode_seed)
        self._mask = self._allowed()
        self._phase = Phase.RUNNING
        self._show()
        return self.observer.observe(self._state()), {"reward_terms": self.reward.no_terms(), **self._info()}

    def step(self, action: int | np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one decision; an action that the mask forbids ends the episode.

        Raises:
            NoEpisode: If no episode is in progress.
            ClosedEnvironment: If the environment is closed.
            ActionError: If the action is outside the space.
        """
        self._check_may_step()
        index = whole_number(action, self.action_space)
        self.steps += 1
        if self._mask[index]:
            self._act(index)
        else:
            self.outcome = self._invalid()
        over = self.outcome is not None
        self._mask = np.zeros_like(self._mask) if over else self._allowed()
        terms = self.reward.terms(self._decision_outcome())
        info = {"reward_terms": terms, **self._info()}
        if over:
            info["episode_metrics"] = self._episode_metrics()
            self._phase = Phase.OVER
        self._show()
        return self.observer.observe(self._state()), total(terms), over, False, info

    def action_masks(self) -> BoolArray:
        """Return the mask of allowed actions, bool [n actions]; all False when the episode is over."""
        self._check_began("action_masks")
        return self._mask.copy()

    @property
    @abstractmethod
    def _n_actions(self) -> int:
        """Number of actions."""

    @abstractmethod
    def _begin(self, episode_seed: int) -> None:
        """Draw the problem of an episode."""

    @abstractmethod
    def _allowed(self) -> BoolArray:
        """Return the mask of allowed actions."""

    @abstractmethod
    def _act(self, action: int) -> None:
        """Apply an allowed action; set :attr:`outcome` if it ends the episode."""

    @abstractmethod
    def _invalid(self) -> Outcome:
        """Return the outcome of an episode that ends with a forbidden action."""

    @abstractmethod
    def _state(self) -> Any:
        """Return what an agent may know of the episode."""

    @abstractmethod
    def _step_metrics(self) -> dict[str, float]:
        """Return the metrics of the state."""

    @abstractmethod
    def _episode_metrics(self) -> dict[str, float]:
        """Return the metrics of the whole episode after its end."""

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
