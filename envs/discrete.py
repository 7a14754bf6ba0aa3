"""Base class of environments with discrete actions and a scenario drawn in every episode."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, Generic, TypeVar

import gymnasium as gym
import numpy as np

from sysgym.envs.episodes import draw_episode_seed, resolve_scenario
from sysgym.envs.lifecycle import Kinds, Lifecycle, Phase, whole_number
from sysgym.envs.observations import OBSERVATION_ARGUMENT, Observer, get_observer, space_of
from sysgym.envs.rewards import Reward, reward_of, total
from sysgym.scenarios import Scenario

ScenarioT = TypeVar("ScenarioT", bound=Scenario)


class DiscreteEnv(Lifecycle, gym.Env[Any, np.int64], Generic[ScenarioT]):
    """Environment with discrete actions; all of them are allowed, unless a subclass has a mask.

    Attributes:
        SCENARIO: Class of the family's scenarios.
        REWARDS: Rewards by name.
        FAMILY_REWARDS: Rewards of all environments of the family, where it has several.
        OBSERVERS: Observations by name.
        scenario: The scenario.
        drawn: The scenario of this episode.
        reward: The reward.
        observer: The observation.
        episode_seed: Seed of this episode.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012, Gymnasium declares it on instances
        "render_modes": ["ansi", "rgb_array", "human"],
        "render_fps": 8,
    }
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
        self.drawn: ScenarioT

    @property
    def observation_index(self) -> list[str] | None:
        """Name of every value of the observation; None if it is no vector."""
        if not isinstance(self.observation_space, gym.spaces.Box):
            return None
        if self.observer is self.OBSERVERS["default"]:
            return self._names()
        shape = self.observation_space.shape or (0,)
        return [f"observation[{index}]" for index in range(shape[0])]

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
        self.drawn = self.scenario.draw(self.split, self.episode_seed)
        self._prepare(self.episode_seed)
        self._phase = Phase.RUNNING
        self._show()
        return self.observer.observe(self._state()), {"reward_terms": self.reward.no_terms(), **self._info()}

    def step(self, action: int | np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one decision.

        Raises:
            NoEpisode: If no episode is in progress.
            ClosedEnvironment: If the environment is closed.
            ActionError: If the action is outside the space.
        """
        self._check_may_step()
        outcome, over = self._act(whole_number(action, self.action_space))
        terms = self.reward.terms(outcome)
        info = {"reward_terms": terms, **self._info()}
        truncated = not over and self._truncated()
        if over or truncated:
            info["episode_metrics"] = self._episode_metrics()
            self._phase = Phase.OVER
        self._show()
        return self.observer.observe(self._state()), total(terms), over, truncated, info

    @property
    @abstractmethod
    def _n_actions(self) -> int:
        """Number of actions."""

    def _names(self) -> list[str]:
        """Return the name of every value of the default observation, if it is a vector."""
        raise NotImplementedError

    def _prepare(self, episode_seed: int) -> None:
        """Bring everything to the beginning of an episode."""
        self._begin(episode_seed)

    @abstractmethod
    def _begin(self, episode_seed: int) -> None:
        """Draw the problem of an episode from the drawn scenario."""

    @abstractmethod
    def _act(self, action: int) -> tuple[Any, bool]:
        """Apply an action; return its outcome, and whether the episode is over."""

    def _truncated(self) -> bool:
        """Return whether an episode that is not over ends here."""
        return False

    @abstractmethod
    def _state(self) -> Any:
        """Return what an agent may know of the episode."""

    @abstractmethod
    def _step_metrics(self) -> dict[str, float]:
        """Return the metrics of the state."""

    @abstractmethod
    def _episode_metrics(self) -> dict[str, float]:
        """Return the metrics of the whole episode."""

    def _info(self) -> dict[str, Any]:
        return {"metrics": self._step_metrics(), "episode_seed": self.episode_seed}
