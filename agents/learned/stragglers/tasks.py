"""Learning problem with tasks as environments, and a policy shared by all tasks of a job.

In the prediction environment the reward is a sum over tasks, and a flag affects only the term of its own
task. A job of n tasks therefore consists of n stopping problems that share a policy: at each checkpoint a
running task is flagged permanently, or waits. The observation consists of the task's own features and pooled
statistics of the job (:mod:`sysgym.agents.learned.stragglers.features`). Features, and therefore the policy,
depend neither on the order nor on the number of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from sysgym.agents.learned.sets.network import SetShape
from sysgym.agents.learned.stragglers.examples import Examples, collect
from sysgym.agents.learned.stragglers.features import feature_names
from sysgym.envs.rewards import reward_of
from sysgym.envs.stragglers.rewards import MITIGATION, PREDICTION
from sysgym.scenarios import Scenario, StragglerScenario
from sysgym.scenarios.errors import SysgymError

JOBS_WATCHED_STEPS = 4_000
"""Number of checkpoints of training jobs from which episodes are drawn."""
LARGEST_FEATURE = 4.0
_IN_PROGRESS = ("row", "last", "return", "length")

Array = NDArray[np.float32]


@dataclass(frozen=True)
class TaskRewards:
    """Rewards of a task, multiplied by the number of tasks so that their mean over a job is the job's return.

    Attributes:
        true_flag: Reward of a straggler flagged at its start; it decreases to 0 at the threshold.
        false_flag: Reward of flagging any other task.
        missed: Reward of a straggler that was not flagged in time.
    """

    true_flag: float
    false_flag: float
    missed: float

    @classmethod
    def of(cls, scenario: StragglerScenario, straggler_share: float) -> TaskRewards:
        """Return the rewards of tasks for a scenario and a share of stragglers.

        Raises:
            SysgymError: If the scenario's reward is not the default one, which is a sum over tasks.
        """
        chosen = scenario.reward
        if chosen.name != "default":
            raise SysgymError(
                f'{scenario.name}: tasks are trained on the reward "default", which is a sum over them, got '
                f'"{chosen.name}"'
            )
        weights = reward_of(chosen, None, PREDICTION, (PREDICTION, MITIGATION)).weights
        share = min(max(straggler_share, 1e-3), 1.0 - 1e-3)
        return cls(
            weights["true_flags"] / share, -weights["false_flags"] / (1.0 - share), -weights["missed"] / share
        )

    def of_flag(self, straggler: NDArray[np.bool_], elapsed_share: NDArray[np.float64]) -> Any:
        """Return the rewards of flags raised after the given shares of the threshold."""
        late = elapsed_share >= 1.0
        hit = np.where(late, self.missed, self.true_flag * (1.0 - elapsed_share))
        return np.where(straggler, hit, self.false_flag)

    def of_waiting(self, straggler: NDArray[np.bool_]) -> Any:
        """Return the rewards of tasks that ended without a flag."""
        return np.where(straggler, self.missed, 0.0)


class TaskVecEnv(VecEnv):
    """Vector environment of tasks of training jobs, each starting at the task's first checkpoint.

    Observations are :func:`task_features`; actions are 0 (wait) and 1 (flag). The episode of a task ends with
    a flag or with the task. Another task of any job follows.

    Args:
        examples: All tasks at all checkpoints.
        rewards: Rewards of tasks.
        n_envs: Number of parallel tasks.
        seed: Seed of the choice of tasks.
    """

    render_mode = None
    """None, because tasks are not rendered; required by stable-baselines3."""

    def __init__(self, examples: Examples, rewards: TaskRewards, n_envs: int, seed: int) -> None:
        order = np.lexsort((examples.checkpoint, examples.task_key))
        keys = examples.task_key[order]
        self._features = examples.features[order]
        self._straggler = examples.straggler[order]
        self._elapsed_share = examples.elapsed_share[order]
        self._first = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        self._end = np.r_[self._first[1:], len(keys)]
        self._rewards = rewards
        self._rng = np.random.default_rng(seed)
        super().__init__(
            n_envs,
            gym.spaces.Box(-LARGEST_FEATURE, LARGEST_FEATURE, self._features.shape[1:], np.float32),
            gym.spaces.Discrete(2),
        )
        self._row = np.zeros(n_envs, dtype=np.int64)
        self._last = np.zeros(n_envs, dtype=np.int64)
        self._return = np.zeros(n_envs)
        self._length = np.zeros(n_envs, dtype=np.int64)

    def reset(self) -> Array:
        """Begin an episode with a new task in every environment."""
        self._begin(np.arange(self.num_envs))
        return self._features[self._row]

    def step_async(self, actions: NDArray[Any]) -> None:
        """Store the decisions."""
        self._flags = np.asarray(actions).reshape(-1) == 1

    def step_wait(self) -> tuple[Array, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Apply the decisions."""
        row, flags = self._row, self._flags
        at_end = row == self._last
        reward = np.where(
            flags,
            self._rewards.of_flag(self._straggler[row], self._elapsed_share[row]),
            np.where(at_end, self._rewards.of_waiting(self._straggler[row]), 0.0),
        )
        over = flags | at_end
        self._return += reward
        self._length += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for index in np.flatnonzero(over):
            infos[index] = {
                "terminal_observation": self._features[row[index]],
                "episode": {"r": float(self._return[index]), "l": int(self._length[index]), "t": 0.0},
            }
        self._row = row + 1
        self._begin(np.flatnonzero(over))
        return self._features[self._row], reward.astype(np.float32), over, infos

    def _begin(self, slots: NDArray[np.int64]) -> None:
        task = self._rng.integers(len(self._first), size=len(slots))
        self._row[slots], self._last[slots] = self._first[task], self._end[task] - 1
        self._return[slots], self._length[slots] = 0.0, 0

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed the choice of tasks."""
        self._rng = np.random.default_rng(seed)
        return [seed] * self.num_envs

    def state(self) -> dict[str, Any]:
        """Return the state of the tasks and of their random choice, for :meth:`set_state`."""
        arrays = {name: getattr(self, f"_{name}").copy() for name in _IN_PROGRESS}
        return {"random": self._rng.bit_generator.state, **arrays}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by :meth:`state`."""
        self._rng.bit_generator.state = state["random"]
        for name in _IN_PROGRESS:
            getattr(self, f"_{name}")[:] = state[name]

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute, which is the same for every task."""
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute, for all tasks at once."""
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call a method, once per task."""
        return [getattr(self, method_name)(*args, **kwargs) for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for every task: tasks are not wrapped."""
        return [False for _ in self._get_indices(indices)]


class Tasks:
    """Learning problem with tasks of the train split's jobs, which are collected before the training.

    Args:
        scenario: The scenario.
        watched_steps: Checkpoints to collect; None: :data:`JOBS_WATCHED_STEPS`.
    """

    discrete_actions = True
    set_shape: SetShape | None = None

    def __init__(self, scenario: Scenario, watched_steps: int | None = None) -> None:
        assert isinstance(scenario, StragglerScenario)
        self._scenario = scenario
        self._watched_steps = JOBS_WATCHED_STEPS if watched_steps is None else watched_steps
        self.env_kwargs: Mapping[str, Any] = {}

    def envs(self, n_envs: int, seed: int) -> TaskVecEnv:
        """Collect jobs and return a vector environment of their tasks."""
        examples = collect(self._scenario, self._watched_steps, seed)
        _, first = np.unique(examples.task_key, return_index=True)
        rewards = TaskRewards.of(self._scenario, float(examples.straggler[first].mean()))
        return TaskVecEnv(examples, rewards, n_envs, seed)

    def observation_index(self) -> list[str]:
        """Return the names of the features."""
        env: Any = gym.make(self._scenario.env_id, scenario=self._scenario, disable_env_checker=True)
        return feature_names(env.unwrapped.counter_names)

    def action_meaning(self) -> dict[str, Any]:
        """Return the meaning of the outputs, the second of which is a flag."""
        return {"name": "wait or flag"}
