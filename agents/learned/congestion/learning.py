"""Interface of the congestion family to learned agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.agent import LearnedAgent
from sysgym.agents.learned.checkpoint import Checkpoint, CheckpointMeta
from sysgym.agents.learned.congestion.bounds import OF_CONTROLLERS, OF_FLOWS
from sysgym.agents.learned.congestion.hosts.agent import HostsAgent
from sysgym.agents.learned.congestion.hosts.network import hosts_graph, hosts_network
from sysgym.agents.learned.congestion.hosts.rows import HostRows
from sysgym.agents.learned.congestion.problems import FlowRates, HostRates, Rates, rates_like
from sysgym.agents.learned.deploy.graph import Inputs, PolicyGraph, bounds_of, n_inputs
from sysgym.agents.learned.learning import Learning, PolicyAgent, Runner, graph_of
from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.problems import Problem
from sysgym.agents.learned.sets.network import SetNet
from sysgym.agents.learned.training.algorithms import is_over_hosts
from sysgym.agents.learned.trust.bound import Bound
from sysgym.envs.action_scale import SCALES, ActionScale
from sysgym.scenarios import Scenario, scenario_from_resolved
from sysgym.scenarios.errors import SysgymError

CONTROLLERS, FLOWS = "sysgym/DatacenterCC-v0", "sysgym/FlowCC-v0"


class RateLearning(Learning):
    """Learning of rates of all hosts, of one flow, or of every host by a shared network."""

    def problem(
        self,
        scenario: Scenario,
        env_kwargs: Mapping[str, Any],
        action_scale: str,
        *,
        over_hosts: bool = False,
    ) -> Problem:
        """Return the learning problem of a scenario."""
        if over_hosts and scenario.env_id != CONTROLLERS:
            raise SysgymError(f"{scenario.name}: one policy for all hosts plays {CONTROLLERS} only")
        if scenario.env_id != FLOWS:
            kind = HostRates if over_hosts else Rates
            return kind(scenario, env_kwargs, action_scale)
        for name, choice, only in (
            ("features", env_kwargs.get("features"), None),
            ("action_scale", action_scale, "log"),
        ):
            if choice != only:
                raise SysgymError(
                    f"{scenario.name}: the sender of a flow has no choice of {name}, got {choice!r};"
                    " its preset decides (flow.preset)"
                )
        return FlowRates(scenario, env_kwargs)

    def problem_like(self, env: Any, scenario: Scenario) -> Problem:
        """Return the learning problem with the observations and actions of an environment."""
        return rates_like(env, scenario)

    def agent(self, checkpoint: Checkpoint, *, trust: bool = False) -> PolicyAgent:
        """Return the agent that plays a checkpoint."""
        is_network = checkpoint.policy is None or isinstance(checkpoint.policy, Mlp | SetNet)
        if is_network and is_over_hosts(checkpoint.meta.agent, checkpoint.meta.family):
            return HostsAgent(checkpoint)
        return LearnedAgent(checkpoint, trust=trust)

    def exported_agent(self, checkpoint: Checkpoint, runner: Runner) -> PolicyAgent:
        """Return the agent that plays an exported policy."""
        return _Exported(checkpoint, runner)

    def graph(self, checkpoint: Checkpoint) -> PolicyGraph:
        """Return the whole policy of a checkpoint."""
        meta, network = checkpoint.meta, checkpoint.policy
        scale = ActionScale.of(meta.action_scale, checkpoint.path)
        if isinstance(network, SetNet):
            raise SysgymError(
                f"{checkpoint.path}: {meta.agent} plays networks of any size and cannot be exported;"
                " distill it first (sysgym study distillation): the student is a plain network"
            )
        assert network is not None
        space = _observation_space(meta)
        inputs = Inputs(n_inputs(network), low=bounds_of(space.low), high=bounds_of(space.high))
        return PolicyGraph(network, inputs, scale)

    def chooses(self, meta: CheckpointMeta) -> bool:
        """Return False: actions are continuous."""
        return False

    def network(self, checkpoint: Checkpoint) -> Any:
        """Return a checkpoint's network as a function of the environment's observations."""
        network = checkpoint.policy
        return (
            hosts_network(checkpoint.meta.observation_index, network)
            if isinstance(network, SetNet)
            else network
        )

    def graph_on_observations(self, checkpoint: Checkpoint) -> PolicyGraph:
        """Return the whole policy of a checkpoint, including networks for any number of hosts."""
        meta = checkpoint.meta
        if not isinstance(checkpoint.policy, SetNet):
            return graph_of(checkpoint)
        network = hosts_network(meta.observation_index, checkpoint.policy)
        scale = ActionScale.of(meta.action_scale, checkpoint.path)
        return hosts_graph(network, len(meta.observation_index), scale)

    def action_scale(self, meta: CheckpointMeta) -> str:
        """Return the name of the action scale of a checkpoint, as an argument of training."""
        name = str(meta.action_scale.get("name"))
        return name if name in SCALES and meta.env_id != FLOWS else "log"

    def signature(self, observation_index: Sequence[str], *, over_hosts: bool = False) -> Sequence[str]:
        """Return the properties that two observations must share for one policy to play both."""
        return HostRows(observation_index).features if over_hosts else observation_index

    def bounds(self, env_id: str) -> Mapping[str, Bound] | None:
        """Return a mapping from kinds of features to bounds of their measurement errors."""
        return {CONTROLLERS: OF_CONTROLLERS, FLOWS: OF_FLOWS}.get(env_id)


class _Exported(LearnedAgent):
    """Agent that plays an exported policy, which includes the action scale."""

    def __init__(self, checkpoint: Checkpoint, runner: Runner) -> None:
        super().__init__(checkpoint)
        self.name, self._runner = "onnx", runner

    def act(self, observation: Any) -> NDArray[np.float32]:
        action: NDArray[np.float32] = self._runner(np.asarray(observation, np.float32)[None]).action[0]
        return self._action_for(action)


def _observation_space(meta: CheckpointMeta) -> gym.spaces.Box:
    scenario = scenario_from_resolved(meta.scenario)
    env = gym.make(meta.env_id, scenario=scenario, disable_env_checker=True, **meta.env_kwargs)
    try:
        space = env.observation_space
    finally:
        env.close()
    assert isinstance(space, gym.spaces.Box)
    return space


LEARNING = RateLearning()
