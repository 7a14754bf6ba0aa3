"""Learning in environments with a Box observation and a Box or Discrete action.

This is the default ``learning`` of a family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.agent import LearnedAgent, other_observation
from sysgym.agents.learned.checkpoint import Checkpoint
from sysgym.agents.learned.deploy.graph import Choice, Inputs, PolicyGraph, bounds_of, n_inputs
from sysgym.agents.learned.learning import Learning, PolicyAgent, Runner
from sysgym.agents.learned.problems import Problem
from sysgym.agents.learned.sets.network import SetShape, check_sizes
from sysgym.envs.action_scale import ActionScale
from sysgym.scenarios import Scenario, get_family, scenario_from_resolved
from sysgym.scenarios.errors import SysgymError

CHOICE = "choice"


class BoxProblem:
    """Learning problem of a scenario whose environment has a Box observation.

    Continuous actions are scaled to [-1, 1].

    Args:
        scenario: The scenario.

    Raises:
        SysgymError: If the observation is not a vector, or the action is neither discrete nor a vector with
            common finite bounds.
    """

    set_shape: SetShape | None = None

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self.env_kwargs: Mapping[str, Any] = {}
        env = made(scenario)
        env.close()
        self._index = index_of(env)
        actions = env.action_space
        self.discrete_actions = isinstance(actions, gym.spaces.Discrete)
        self._meaning: dict[str, Any] = {"name": CHOICE}
        if isinstance(actions, gym.spaces.Box):
            low, high = float(actions.low.min()), float(actions.high.max())
            same = np.all(actions.low == low) and np.all(actions.high == high)
            if not same or not np.isfinite([low, high]).all() or len(actions.shape) != 1:
                raise SysgymError(f"{scenario.name}: the numbers of an action have no common bounds")
            self._meaning = {"name": "linear", "low": low, "high": high}
        elif not self.discrete_actions:
            raise SysgymError(f"{scenario.name}: actions are neither continuous nor discrete: {actions}")

    def make_env(self) -> gym.Env[Any, Any]:
        """Return one environment of the train split."""
        env = made(self._scenario, split="train")
        if self.discrete_actions:
            return env
        return gym.wrappers.RescaleAction(env, np.float32(-1.0), np.float32(1.0))

    def envs(self, n_envs: int, seed: int) -> Any:
        """Return a vector environment in one process; stable-baselines3 seeds it."""
        from sysgym.agents.learned.training.replayable import ReplayableVecEnv

        return ReplayableVecEnv(self.make_env, n_envs)

    def observation_index(self) -> list[str]:
        """Return the name of every value of the observation."""
        return self._index

    def action_meaning(self) -> dict[str, Any]:
        """Return the scale of continuous actions, or the mark of discrete ones."""
        return self._meaning


def made(scenario: Scenario, **arguments: Any) -> gym.Env[Any, Any]:
    """Return the environment of a scenario, created as for agents and benchmarks."""
    own = get_family(scenario.family).agent_arguments(scenario.env_id)
    return gym.make(scenario.env_id, scenario=scenario, disable_env_checker=True, **own, **arguments)


def index_of(env: gym.Env[Any, Any]) -> list[str]:
    """Return the name of every value of the observation; indices if the environment has no names.

    Raises:
        SysgymError: If the observation is not a vector of numbers.
    """
    space = env.observation_space
    if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
        raise SysgymError(f"{env.unwrapped}: the observation is no vector of numbers: {space}")
    own: list[str] | None = getattr(env.unwrapped, "observation_index", None)
    return [f"observation[{index}]" for index in range(space.shape[0])] if own is None else own


class BoxAgent:
    """Agent that plays the mean action of a policy, or the action with the highest score.

    Args:
        checkpoint: The checkpoint.
        act: Function from an observation to an action; None: the decision of the checkpoint's network.

    Attributes:
        name: Name of the algorithm.
        meta: Metadata of the checkpoint.

    Raises:
        SysgymError: If the policy is not a network supported in NumPy.
    """

    def __init__(self, checkpoint: Checkpoint, act: Callable[[Any], Any] | None = None) -> None:
        self.meta = checkpoint.meta
        self.name = self.meta.agent
        self._path, self._network = checkpoint.path, checkpoint.policy
        if act is None:
            if checkpoint.policy is None:
                raise SysgymError(f"{checkpoint.path}: its policy is not a network that runs without torch")
            act = _decision(checkpoint)
        self._act = act

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Check that the environment matches the policy's training environment.

        Raises:
            SysgymError: If it does not match.
        """
        index, actions = index_of(env), env.action_space
        if index != self.meta.observation_index:
            raise other_observation(self._path, self.meta, env, index)
        if isinstance(actions, gym.spaces.Discrete):
            check_sizes(self._network, len(index), int(actions.n), self._path)
        elif isinstance(actions, gym.spaces.Box):
            check_sizes(self._network, len(index), actions.shape[0], self._path)

    def act(self, observation: Any) -> Any:
        """Return the action."""
        return self._act(observation)


def _decision(checkpoint: Checkpoint) -> Callable[[Any], Any]:
    network: Callable[[Any], NDArray[Any]] | None = checkpoint.policy
    assert network is not None
    if checkpoint.meta.action_scale.get("name") == CHOICE:
        return lambda observation: int(network(observation).argmax())
    scale = ActionScale.of(checkpoint.meta.action_scale, checkpoint.path)
    return lambda observation: scale.rates(network(observation))


class BoxLearning(Learning):
    """Learning with one plain network from the environment's observation to its action."""

    def only_problem(self, scenario: Scenario) -> Problem:
        """Return the learning problem of a scenario."""
        return BoxProblem(scenario)

    def agent(self, checkpoint: Checkpoint, *, trust: bool = False) -> PolicyAgent:
        """Return the agent that plays a checkpoint."""
        if checkpoint.policy is None and not self.chooses(checkpoint.meta):
            return LearnedAgent(checkpoint, trust=trust)
        return BoxAgent(checkpoint)

    def exported_agent(self, checkpoint: Checkpoint, runner: Runner) -> PolicyAgent:
        """Return the agent that plays an exported policy."""
        discrete = self.chooses(checkpoint.meta)

        def act(observation: Any) -> Any:
            action = runner(np.asarray(observation, np.float32)[None]).action[0]
            return int(action) if discrete else action

        agent = BoxAgent(checkpoint, act)
        agent.name = "onnx"
        return agent

    def graph(self, checkpoint: Checkpoint) -> PolicyGraph:
        """Return the whole policy of a checkpoint."""
        network, meta = checkpoint.policy, checkpoint.meta
        assert network is not None
        env = made(scenario_from_resolved(meta.scenario))
        env.close()
        space = env.observation_space
        assert isinstance(space, gym.spaces.Box)
        inputs = Inputs(n_inputs(network), low=bounds_of(space.low), high=bounds_of(space.high))
        if self.chooses(meta):
            return PolicyGraph(network, inputs, Choice(masked=False))
        return PolicyGraph(network, inputs, ActionScale.of(meta.action_scale, checkpoint.path))


BOXES = BoxLearning()
