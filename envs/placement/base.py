"""Base of the placement environments: a drawn problem, masked decisions, one outcome."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from sysgym.emulator.accelerators.problem import PlacementProblem
from sysgym.envs.episodes import draw_episode_seed, resolve_scenario
from sysgym.envs.lifecycle import Kinds, Lifecycle, Phase, of_space
from sysgym.envs.placement.metrics import Outcome
from sysgym.envs.placement.observation import BoolArray, Observation
from sysgym.envs.placement.rewards import Reward, get_reward
from sysgym.scenarios import PlacementScenario


class PlacementEnv(Lifecycle, gym.Env[Observation, np.int64]):
    """Base of the family; see :class:`~sysgym.envs.placement.placement.CollectivePlacement`.

    Attributes:
        scenario: The world.
        problem: Hierarchy, axes and reductions of this episode; nothing of it is hidden.
        outcome: What the episode came to; None while it goes on.
        episode_seed: Seed of this episode's problem.
        steps: Decisions taken.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012, Gymnasium declares it on instances
        "render_modes": ["ansi", "rgb_array", "human"],
        "render_fps": 2,
    }
    ARGUMENTS: ClassVar[Kinds] = {"mask": ((str,), '"live" or "loose"')}
    REWARDS: ClassVar[Mapping[str, Reward]]

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | PlacementScenario,
        split: str,
        reward: str | None,
        overrides: Mapping[str, Any] | None,
        render_mode: str | None,
    ) -> None:
        """Build the environment.

        Raises:
            ScenarioError: If the scenario cannot be used.
            UnknownName: If a split or reward does not exist.
        """
        self.scenario = resolve_scenario(scenario, overrides, PlacementScenario)
        self.split = split
        self.render_mode = render_mode
        self._seeds = self.scenario.splits[split].seeds
        weights = self.scenario.reward.weights if reward in (None, self.scenario.reward.name) else {}
        self.reward = get_reward(self.REWARDS, reward or self.scenario.reward.name).with_weights(weights)
        self.observation_space = self._make_observation_space()
        self.action_space = gym.spaces.Discrete(self._n_actions)
        self.episode_seed: int | None = None
        self.problem: PlacementProblem
        self.outcome: Outcome | None = None
        self.steps = 0
        self._mask: BoolArray

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Seeds the generator that draws episode seeds.
            options: ``{"episode_seed": int}`` pins the episode seed; it may lie outside the split.

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
        return self._observe(), self._info()

    def step(self, action: int | np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision; one that the mask forbids ends the episode with the default's time.

        Raises:
            NoEpisode: If no episode is under way.
            ClosedEnvironment: If the environment is closed.
            ActionError: If the action is no element of its space.
        """
        self._check_may_step()
        index = self._checked(action)
        self.steps += 1
        if self._mask[index]:
            self._act(index)
        else:
            self.outcome = self._invalid()
        over = self.outcome is not None
        self._mask = np.zeros_like(self._mask) if over else self._allowed()
        terms = self._terms()
        info = {"reward_terms": terms, **self._info()}
        if over:
            info["episode_metrics"] = self._episode_metrics()
            self._phase = Phase.OVER
        self._show()
        return self._observe(), float(sum(terms.values())), over, False, info

    def action_masks(self) -> BoolArray:
        """Return which actions are allowed, bool [n actions]; none when the episode is over."""
        self._check_began("action_masks")
        return self._mask.copy()

    @property
    @abstractmethod
    def _n_actions(self) -> int:
        """Number of actions."""

    @abstractmethod
    def _make_observation_space(self) -> gym.Space[Any]:
        """The space of observations."""

    @abstractmethod
    def _begin(self, episode_seed: int) -> None:
        """Draw the problem of an episode."""

    @abstractmethod
    def _allowed(self) -> BoolArray:
        """Which actions are allowed."""

    @abstractmethod
    def _act(self, action: int) -> None:
        """Carry an allowed action out; set :attr:`outcome` if it ends the episode."""

    @abstractmethod
    def _invalid(self) -> Outcome:
        """What an episode comes to that ends with an action that is not allowed."""

    @abstractmethod
    def _observe(self) -> Observation:
        """What the agent sees."""

    @abstractmethod
    def _step_metrics(self) -> dict[str, float]:
        """Metrics of the state."""

    @abstractmethod
    def _episode_metrics(self) -> dict[str, float]:
        """Metrics of the whole episode, which is over."""

    def _terms(self) -> dict[str, float]:
        if self.outcome is None:
            return self.reward.terms()
        return self.reward.terms(
            speedup=self.outcome.log_speedup, invalid=0.0 if self.outcome.valid else -1.0
        )

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

    def _checked(self, action: Any) -> int:
        if isinstance(action, np.ndarray) and action.ndim == 0:
            action = action[()]
        if not self.action_space.contains(action):
            raise of_space(action, self.action_space)
        return int(action)
