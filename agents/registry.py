"""Agents by name.

A user's own agent is a class with ``name``, ``begin`` and ``act``, registered from the user's own file::

    from sysgym.agents import register_agent

    @register_agent("half")
    class Half:
        name = "half"
        def begin(self, env): self.shape = env.action_space.shape
        def act(self, observation): return np.full(self.shape, 0.5, np.float32)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from typing import Any, TypeVar

from sysgym.agents.protocol import Agent
from sysgym.scenarios.errors import SysgymError, UnknownName

Factory = TypeVar("Factory", bound=Callable[..., Any])


@dataclass(frozen=True)
class AgentInfo:
    """What is known of an agent before it is made.

    Attributes:
        name: What users type.
        summary: One line for lists.
        learned: Whether it needs a checkpoint.
        privileged: Whether it reads more than the observation.
        entry: ``module:factory`` or the factory itself.
        family: Whose environments it plays, such as ``"congestion"``; empty where it may serve several.
        env_id: The one environment of the family that it plays; empty where it plays all of them.
        trainer: ``module:function`` that trains it; empty where it is not learned, or by
            stable-baselines3.
        transport: In networks, the transport that it brings; empty where it takes any.
    """

    name: str
    summary: str
    entry: str | Callable[..., Any]
    learned: bool = False
    privileged: bool = False
    family: str = ""
    trainer: str = ""
    env_id: str = ""
    transport: str = ""

    @property
    def short_name(self) -> str:
        """The name within its family: a family's prefix is there only where two have an agent of one name."""
        return self.name.removeprefix(f"{self.family}/")

    def factory(self) -> Callable[..., Any]:
        """Return what makes the agent."""
        if not isinstance(self.entry, str):
            return self.entry
        module, _, attribute = self.entry.partition(":")
        found: Callable[..., Any] = getattr(import_module(module), attribute)
        return found


def _heuristic(name: str, factory: str, summary: str, *, privileged: bool = False) -> AgentInfo:
    entry = f"sysgym.agents.congestion.{name}:{factory}"
    env_id = "" if name in ("max", "random") else "sysgym/DatacenterCC-v0"
    return AgentInfo(name, summary, entry, privileged=privileged, family="congestion", env_id=env_id)


def _flow_sender(name: str, factory: str, summary: str, *, privileged: bool = False) -> AgentInfo:
    entry = f"sysgym.agents.congestion.flow:{factory}"
    env_id = "sysgym/FlowCC-v0"
    return AgentInfo(name, summary, entry, privileged=privileged, family="congestion", env_id=env_id)


def _straggler(name: str, entry: str, summary: str, *, privileged: bool = False) -> AgentInfo:
    return AgentInfo(
        name, summary, f"sysgym.agents.stragglers.{entry}", privileged=privileged, family="stragglers"
    )


def _placer(name: str, entry: str, summary: str, *, privileged: bool = False) -> AgentInfo:
    return AgentInfo(
        name, summary, f"sysgym.agents.placement.{entry}", privileged=privileged, family="placement"
    )


def _learned(name: str, summary: str, family: str = "") -> AgentInfo:
    return AgentInfo(name, summary, "sysgym.agents.learned.loading:load_agent", learned=True, family=family)


_AGENTS: dict[str, AgentInfo] = {
    info.name: info
    for info in (
        _heuristic("max", "MaxAgent", "always the highest rate: the transport is left to itself"),
        _heuristic("random", "RandomAgent", "a uniformly random rate for every host, anew in every interval"),
        _heuristic(
            "fixed_fair",
            "FixedFairAgent",
            "every host's max-min fair share if all its flows were active, for good",
        ),
        _heuristic(
            "aimd", "AimdAgent", "additive increase, multiplicative decrease on marks and queues on the way"
        ),
        _heuristic(
            "oracle",
            "OracleAgent",
            "max-min fair rates of the flows active now, read off the network",
            privileged=True,
        ),
        _flow_sender("flow_fixed", "FlowFixedAgent", "one flow: the rate that it begins with, for good"),
        _flow_sender("flow_aimd", "FlowAimdAgent", "one flow: additive increase, multiplicative decrease"),
        _flow_sender(
            "flow_oracle",
            "FlowOracleAgent",
            "one flow: its max-min fair share now, read off the network",
            privileged=True,
        ),
        _straggler("none", "rules:NoneAgent", "never flags a task, never acts"),
        _straggler("flag_all", "rules:FlagAllAgent", "flags every task at the first chance"),
        _straggler("random_rate", "rules:RandomRateAgent", "flags a random tenth of the tasks"),
        _straggler(
            "stragglers/oracle",
            "oracle:OracleAgent",
            "flags exactly the tasks that will be stragglers, read off the job",
            privileged=True,
        ),
        _straggler("clock", "rules:ClockAgent", "flags what has run for 95 % of the threshold"),
        _straggler("spark", "rules:SparkAgent", "1.5 times the median once three quarters have finished"),
        _straggler("late", "rules:LateAgent", "the tenth that looks to have longest to go (Hadoop's LATE)"),
        _straggler(
            "mantri", "rules:MantriAgent", "restarts what probably has more than twice a fresh run to go"
        ),
        _straggler("dolly", "rules:DollyAgent", "clones every task of a small job at the start"),
        _straggler("gbtr", "nurd:GbtrAgent", "gradient-boosted regression on finished tasks"),
        _straggler(
            "nurd", "nurd:NurdAgent", "regression reweighted by calibrated propensity to finish (NURD)"
        ),
        _straggler("nurd_nc", "nurd:NurdNcAgent", "NURD without calibration"),
        _straggler("pu_en", "pu:PuElkanNotoAgent", "positive-unlabeled learning of Elkan and Noto"),
        _straggler("pu_bagging", "pu:PuBaggingAgent", "positive-unlabeled bagging of Mordelet and Vert"),
        _straggler(
            "wrangler", "wrangler:WranglerAgent", "a linear SVM with a confidence, fitted on other jobs"
        ),
        _straggler("tobit", "censored:TobitAgent", "linear regression with running tasks as censored"),
        _straggler("iforest", "outliers:IsolationForestAgent", "isolation forest on finished tasks"),
        *(
            _straggler(
                detector.lower(), f"outliers:{detector.title()}Agent", f"PyOD's {detector} on finished tasks"
            )
            for detector in ("ABOD", "CBLOF", "HBOS", "KNN", "LOF", "MCD", "OCSVM", "PCA")
        ),
        _placer("default", "simple:DefaultAgent", "axes in the order given; a single all-reduce"),
        _placer("placement/random", "simple:RandomAgent", "any action that the mask allows"),
        _placer(
            "greedy", "greedy:GreedyAgent", "what reduces most inside; the cheapest progress; nominally best"
        ),
        _placer(
            "blueconnect", "simple:BlueConnectAgent", "reduce-scatter inside, all-reduce across, all-gather"
        ),
        _placer("annealing", "annealing:AnnealingAgent", "simulated annealing with the closed-form model"),
        _placer("exhaustive", "exhaustive:ExhaustiveAgent", "exact: all placements, all programs (P2's way)"),
        _placer("topk", "topk:TopKAgent", "the k best by the model, then simulated or measured"),
        _placer("ucb", "measuring:UcbAgent", "measures what may be the best, each candidate on its own"),
        _placer(
            "bayes", "measuring:BayesAgent", "learns the levels' true bandwidths, measures what is worth it"
        ),
        _placer(
            "placement/oracle",
            "oracle:OracleAgent",
            "commits to the candidate that is truly the best, read off what is hidden",
            privileged=True,
        ),
        AgentInfo(
            "transfer",
            "learned: gradient boosting across jobs, on how a task stands among its siblings (LightGBM)",
            "sysgym.agents.learned.stragglers.transfer:Transfer",
            learned=True,
            family="stragglers",
            trainer="sysgym.agents.learned.stragglers.transfer:train_transfer",
        ),
        AgentInfo(
            "neural",
            "learned: DCTCP whose window a small network corrects once a round trip, in every flow (CMA-ES)",
            "sysgym.agents.learned.neural.agent:NeuralAgent",
            learned=True,
            family="congestion",
            trainer="sysgym.agents.learned.neural.search:train_neural",
            env_id="sysgym/DatacenterCC-v0",
            transport="neural",
        ),
        _learned("ppo", "proximal policy optimisation (stable-baselines3)"),
        AgentInfo(
            "ppo_hosts",
            "PPO with one network for every host, whatever their number (stable-baselines3)",
            "sysgym.agents.learned.loading:load_agent",
            learned=True,
            family="congestion",
            env_id="sysgym/DatacenterCC-v0",
        ),
        _learned("a2c", "advantage actor-critic (stable-baselines3)"),
        _learned(
            "reinforce", "policy gradient without a critic (stable-baselines3's A2C, its critic unused)"
        ),
        _learned("sac", "soft actor-critic (stable-baselines3)"),
        _learned("td3", "twin delayed deterministic policy gradient (stable-baselines3)"),
        _learned("ddpg", "deep deterministic policy gradient (stable-baselines3)"),
        _learned("tqc", "truncated quantile critics (sb3-contrib)"),
        _learned("trpo", "trust region policy optimisation (sb3-contrib)"),
        _learned("maskable_ppo", "PPO among the actions that are allowed (sb3-contrib)", "placement"),
        _learned(
            "maskable_ppo_set", "the same with one encoder shared by all choices (Deep Sets)", "placement"
        ),
        AgentInfo(
            "onnx",
            "a policy that sysgym export wrote, in ONNX Runtime; the file is its checkpoint",
            "sysgym.agents.learned.deploy.onnx_agent:load_onnx",
            learned=True,
        ),
    )
}


def register_agent(
    name: str, *, summary: str = "", privileged: bool = False, family: str = ""
) -> Callable[[Factory], Factory]:
    """Make an agent known by name; use as a decorator on its class or on a function that makes it.

    Args:
        name: What users type; registering it again replaces it.
        summary: One line for lists; the docstring's first line if absent.
        privileged: Whether it reads more than the observation.
        family: Whose environments it plays; empty: any.
    """

    def register(factory: Factory) -> Factory:
        first_line = (factory.__doc__ or "").strip().partition("\n")[0]
        _AGENTS[name] = AgentInfo(name, summary or first_line, factory, privileged=privileged, family=family)
        return factory

    return register


def list_agents(family: str | None = None) -> list[str]:
    """Return the names of agents, heuristics first, in the order they were registered.

    Args:
        family: Only agents that may play this family, by their names within it; None: all agents.
    """
    if family is None:
        return list(_AGENTS)
    return [info.short_name for info in _AGENTS.values() if info.family in ("", family)]


def agent_info(name: str, family: str | None = None) -> AgentInfo:
    """Return what is known of an agent.

    Args:
        name: One of :func:`list_agents`.
        family: Whose agent is meant where two families have one of that name, such as ``oracle``.

    Raises:
        UnknownName: If there is no such agent.
    """
    if f"{family}/{name}" in _AGENTS:
        return _AGENTS[f"{family}/{name}"]
    if name not in _AGENTS:
        raise UnknownName("agent", name, _AGENTS)
    return _AGENTS[name]


def make_agent(
    name: str,
    *,
    checkpoint: str | PathLike[str] | None = None,
    family: str | None = None,
    trust: bool = False,
    **parameters: Any,
) -> Agent:
    """Make an agent.

    Args:
        name: One of :func:`list_agents`.
        checkpoint: What training wrote; needed by learned agents, wrong for others.
        family: Whose agent is meant where two families have one of that name, such as ``oracle``.
        trust: Whether code in the checkpoint may run; see docs/trust.md.
        **parameters: Passed to the agent's class.

    Raises:
        UnknownName: If there is no such agent.
        SysgymError: If a checkpoint is missing, is not one, or is not of this agent, or if the agent has no
            such parameter.
    """
    info = agent_info(name, family)
    if info.learned:
        if checkpoint is None:
            raise SysgymError(
                f'the agent "{name}" is learned and needs a checkpoint: sysgym train {name} SCENARIO'
            )
        if reserved := {"checkpoint", "expected", "trust"} & set(parameters):
            raise SysgymError(f'the agent "{name}" has no parameter {", ".join(sorted(reserved))}')
        parameters = {"checkpoint": checkpoint, "expected": name, **parameters}
        if trust and "trust" in inspect.signature(info.factory()).parameters:
            parameters["trust"] = True
    elif checkpoint is not None:
        raise SysgymError(f'the agent "{name}" takes no checkpoint')
    factory = info.factory()
    try:
        inspect.signature(factory).bind(**parameters)
    except TypeError as error:
        raise SysgymError(f'the agent "{name}" cannot be made with {parameters}: {error}') from error
    agent: Agent = factory(**parameters)
    return agent
