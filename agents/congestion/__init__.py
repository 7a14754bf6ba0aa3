"""Agents of the congestion family: heuristics, and the declarations of learned agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sysgym.agents.info import AgentInfo

if TYPE_CHECKING:
    from sysgym.agents.learned.congestion.sb3_vector_env import Sb3VectorEnv as Sb3VectorEnv

__all__ = ["AGENTS", "Sb3VectorEnv"]

_FAMILY = "congestion"
_NETWORK, _FLOW = "sysgym/DatacenterCC-v0", "sysgym/FlowCC-v0"


def _heuristic(
    name: str, entry: str, summary: str, env_id: str = _NETWORK, *, privileged: bool = False
) -> AgentInfo:
    entry = f"sysgym.agents.congestion.{entry}"
    return AgentInfo(name, summary, entry, privileged=privileged, family=_FAMILY, env_id=env_id)


AGENTS = (
    _heuristic("max", "max:MaxAgent", "always the highest rate, which does not restrict the transport", ""),
    _heuristic(
        "random", "random:RandomAgent", "a new uniformly random rate for every host in every interval", ""
    ),
    _heuristic(
        "fixed_fair",
        "fixed_fair:FixedFairAgent",
        "constant max-min fair share of every host, as if all flows were active",
    ),
    _heuristic(
        "fair_feedback",
        "fair_feedback:FairFeedbackAgent",
        "a fraction of every host's fair share, less a multiple of the queueing delay on its paths",
    ),
    _heuristic(
        "aimd",
        "aimd:AimdAgent",
        "additive increase, multiplicative decrease on marks and queues on the host's paths",
    ),
    _heuristic(
        "oracle",
        "oracle:OracleAgent",
        "max-min fair rates of the currently active flows, read from the network",
        privileged=True,
    ),
    _heuristic("flow_fixed", "flow:FlowFixedAgent", "one flow: constant initial rate", _FLOW),
    _heuristic(
        "flow_aimd", "flow:FlowAimdAgent", "one flow: additive increase, multiplicative decrease", _FLOW
    ),
    _heuristic(
        "flow_oracle",
        "flow:FlowOracleAgent",
        "one flow: its current max-min fair share, read from the network",
        _FLOW,
        privileged=True,
    ),
    AgentInfo(
        "neural",
        "DCTCP with a window correction by a small network once per round trip, in every flow (CMA-ES)",
        "sysgym.agents.learned.congestion.neural.agent:NeuralAgent",
        learned=True,
        family=_FAMILY,
        trainer="sysgym.agents.learned.congestion.neural.search:train_neural",
        env_id=_NETWORK,
        transport="neural",
        exporter="sysgym.agents.learned.congestion.neural.export:read_source",
        checkpoint_suffix=".json",
    ),
    AgentInfo(
        "adaptive_target",
        "queueing delay around a target that adapts to other laws, in every flow (CMA-ES)",
        "sysgym.agents.learned.congestion.adaptive_target.agent:AdaptiveTargetAgent",
        learned=True,
        family=_FAMILY,
        trainer="sysgym.agents.learned.congestion.adaptive_target.search:train_adaptive_target",
        env_id=_NETWORK,
        transport="adaptive_target",
        checkpoint_suffix=".json",
    ),
    AgentInfo(
        "adaptive_swift",
        "Swift with a target that adapts to other laws, in every flow (CMA-ES)",
        "sysgym.agents.learned.congestion.adaptive_swift.agent:AdaptiveSwiftAgent",
        learned=True,
        family=_FAMILY,
        trainer="sysgym.agents.learned.congestion.adaptive_swift.search:train_adaptive_swift",
        env_id=_NETWORK,
        transport="adaptive_swift",
        checkpoint_suffix=".json",
    ),
    AgentInfo(
        "tuned_swift",
        "Swift with constants found by the search for those of adaptive_target (CMA-ES)",
        "sysgym.agents.learned.congestion.tuned_swift.agent:TunedSwiftAgent",
        learned=True,
        family=_FAMILY,
        trainer="sysgym.agents.learned.congestion.tuned_swift.search:train_tuned_swift",
        env_id=_NETWORK,
        transport="tuned_swift",
        checkpoint_suffix=".json",
    ),
    AgentInfo(
        "ppo_hosts",
        "PPO with one network shared by any number of hosts (stable-baselines3)",
        "sysgym.agents.learned.loading:load_agent",
        learned=True,
        family=_FAMILY,
        env_id=_NETWORK,
        algorithm="sysgym.agents.learned.congestion.hosts.algorithm:PPO_HOSTS",
    ),
    AgentInfo(
        "ppo_paths",
        "PPO with one network shared by all hosts, which observes the ports on the host's own paths",
        "sysgym.agents.learned.loading:load_agent",
        learned=True,
        family=_FAMILY,
        env_id=_NETWORK,
        algorithm="sysgym.agents.learned.congestion.hosts.algorithm:PPO_PATHS",
    ),
    AgentInfo(
        "cma_paths",
        "rates linear in the observations of each host's own paths and in its fair rate (CMA-ES)",
        "sysgym.agents.learned.loading:load_agent",
        learned=True,
        family=_FAMILY,
        trainer="sysgym.agents.learned.congestion.hosts.search:train_cma_paths",
        over_hosts=True,
        env_id=_NETWORK,
    ),
)
"""Agents of the family, besides the general learning algorithms."""


if not TYPE_CHECKING:  # Type checkers that see this function accept any attribute.

    def __getattr__(name: str) -> Any:
        """Import the class at its first use; stable-baselines3 takes seconds."""
        if name == "Sb3VectorEnv":
            from sysgym.agents.learned.congestion.sb3_vector_env import Sb3VectorEnv

            return Sb3VectorEnv
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
