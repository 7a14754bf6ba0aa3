"""Inputs and answers of a checkpoint's network in episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.checkpoint import Checkpoint
from sysgym.agents.learned.deploy.graph import PolicyGraph, layers, parts
from sysgym.agents.learned.deploy.quantize import int8_twin
from sysgym.agents.learned.learning import agent_that, learning_of, network_on_observations
from sysgym.agents.learned.problems import MASK
from sysgym.agents.learned.sets.network import RearrangedNet
from sysgym.agents.protocol import Agent, environment_arguments, play_episode
from sysgym.envs.action_scale import ActionScale
from sysgym.scenarios import get_family, scenario_from_resolved
from sysgym.scenarios.errors import SysgymError

Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Seen:
    """Inputs of a policy's network in some episodes.

    Attributes:
        inputs: Shape (n, size).
        masks: Masks of allowed actions, shape (n, n_actions); None if everything is allowed.
        episode: Index of the episode of each input, from 0, shape (n,).
        returns: Returns of the episodes.
    """

    inputs: Array
    masks: NDArray[np.bool_] | None
    episode: NDArray[np.int64]
    returns: FloatArray

    def thinned(self, n: int) -> Seen:
        """Return at most n of the inputs, evenly spaced."""
        last, n = len(self.inputs) - 1, min(n, len(self.inputs))
        rows = np.linspace(0, last, n).round().astype(np.int64)
        masks = None if self.masks is None else self.masks[rows]
        return replace(self, inputs=self.inputs[rows], masks=masks, episode=self.episode[rows])


def play_seeds(
    checkpoint: Checkpoint, agent: Agent, split: str, seeds: Sequence[int], begin: Callable[[int], None]
) -> FloatArray:
    """Play episodes of the checkpoint's scenario.

    Args:
        checkpoint: Checkpoint that defines the environment.
        agent: The agent.
        split: Split of the episodes.
        seeds: Episode seeds.
        begin: Callback with the index of each episode before it begins.

    Returns:
        The sum of rewards of each episode, shape (n_episodes,).
    """
    scenario = scenario_from_resolved(checkpoint.meta.scenario)
    arguments = {
        **get_family(scenario.family).agent_arguments(scenario.env_id),
        **environment_arguments(agent),
    }
    env = gym.make(scenario.env_id, scenario=scenario, split=split, disable_env_checker=True, **arguments)
    returns = []
    try:
        for number, seed in enumerate(seeds):
            begin(number)
            returns.append(play_episode(env, agent, seed=seed, options={"episode_seed": seed})[0])
    finally:
        env.close()
    return np.array(returns)


def watch(checkpoint: Checkpoint, split: str, seeds: Sequence[int]) -> Seen:
    """Play episodes with a policy and return the inputs of its network.

    Args:
        checkpoint: The policy.
        split: Split of the episodes.
        seeds: Episode seeds.

    Raises:
        SysgymError: If the policy is not a network supported in NumPy, or made no decision.
    """
    network = network_on_observations(checkpoint)
    inputs: list[Array] = []
    masks: list[NDArray[np.bool_]] = []
    episode: list[int] = []
    now = [0]

    def answer(observation: Any) -> Any:
        rows = np.atleast_2d(np.asarray(observation, dtype=np.float32))
        inputs.append(rows.copy())
        episode.extend([now[0]] * len(rows))
        return network(observation)

    agent = _TellingMasks(agent_that(checkpoint, answer), masks)
    returns = play_seeds(checkpoint, agent, split, seeds, lambda number: now.__setitem__(0, number))
    if not inputs:
        raise SysgymError(f"{checkpoint.path}: its policy made no decisions in {len(seeds)} episodes")
    return Seen(
        np.concatenate(inputs), np.stack(masks) if masks else None, np.array(episode, dtype=np.int64), returns
    )


class _TellingMasks:
    """Wrapper of an agent that records the masks in observations."""

    def __init__(self, agent: Agent, masks: list[NDArray[np.bool_]]) -> None:
        self.name, self._agent, self._masks = agent.name, agent, masks
        self.env_kwargs = environment_arguments(agent)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        self._agent.begin(env)

    def act(self, observation: Any) -> Any:
        if isinstance(observation, Mapping) and MASK in observation:
            self._masks.append(observation[MASK] > 0)
        return self._agent.act(observation)


def policy_of(checkpoint: Checkpoint) -> PolicyGraph:
    """Return a checkpoint's whole policy; raises SysgymError if it is not supported in NumPy."""
    network_on_observations(checkpoint)
    return learning_of(checkpoint.meta.family).graph_on_observations(checkpoint)


def int8_of(policy: PolicyGraph) -> PolicyGraph:
    """Return the policy with 8-bit weights; inputs, biases and activations are unchanged."""
    network: Any = policy.network
    if isinstance(network, RearrangedNet):
        net: Any = int8_twin(network.net)
        together: Any = replace(network, net=net)
        return replace(policy, network=together)
    return replace(policy, network=int8_twin(network))


def weights_of(checkpoint: Checkpoint) -> FloatArray:
    """Return all weights and biases of a checkpoint's network, concatenated."""
    network = network_on_observations(checkpoint)
    plain = parts(network.net if isinstance(network, RearrangedNet) else network)
    arrays = [array.ravel() for mlp in plain for layer in layers(mlp) for array in layer]
    return np.concatenate(arrays).astype(np.float64)


def is_discrete(graph: PolicyGraph) -> bool:
    """Return whether the actions of the policy are discrete."""
    return not isinstance(graph.outputs, ActionScale)


def shares_of_range(graph: PolicyGraph, actions: NDArray[Any]) -> FloatArray:
    """Return continuous actions as shares of the range of the action scale, from 0 to 1."""
    assert isinstance(graph.outputs, ActionScale)
    low, high = graph.outputs.low, graph.outputs.high
    shares: FloatArray = (np.asarray(actions, dtype=np.float64) - low) / (high - low)
    return shares


def answers(graph: PolicyGraph, inputs: Array, masks: NDArray[np.bool_] | None = None) -> NDArray[Any]:
    """Return the answers of a policy: choices, int64 (n,), or shares of the range, float64 (n, n_outputs)."""
    decided = graph(inputs, masks)
    return decided.action if is_discrete(graph) else shares_of_range(graph, decided.action)


def differences(one: NDArray[Any], other: NDArray[Any]) -> FloatArray:
    """Return the differences between the answers of two policies, shape (n,).

    A difference is 1 or 0 for discrete actions that differ or not; for continuous actions, it is the largest
    difference of a component, as a share of the range.
    """
    if one.ndim == 1:
        unequal: FloatArray = (one != other).astype(np.float64)
        return unequal
    largest: FloatArray = np.abs(one - other).max(axis=1)
    return largest
