"""Congestion control of datacenter networks, by one controller or by each sender."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sysgym.scenarios.family import Disturbances, Environment, Evaluation, Family, Metric, Transports

_AS_A_WHOLE = Evaluation(
    reference="dctcp",
    headline=Metric("fct_slowdown_p99", "FCT slowdown, p99", False),
    benefit=Metric("goodput_bps", "Goodput", True),
    cost=Metric("queue_delay_p99_s", "Queueing delay, p99", False),
    metrics_entry="sysgym.envs.congestion.datacenter.metrics:EPISODE_METRICS",
    enough_benefit=0.9,
)
_OF_ONE_FLOW = replace(
    _AS_A_WHOLE,
    headline=Metric("goodput_bps", "Goodput", True),
    cost=Metric("queue_delay_mean_s", "Queueing delay, mean", False),
    metrics_entry="sysgym.envs.congestion.flow.metrics:EPISODE_METRICS",
)

FAMILY = Family(
    name="congestion",
    scenario="sysgym.scenarios.schema.congestion:CongestionScenario",
    environments=(
        Environment(
            "sysgym/DatacenterCC-v0",
            "sysgym.envs.congestion.datacenter.datacenter_cc:DatacenterCC",
            "sysgym.envs.congestion.datacenter.vector:DatacenterCCVector",
            agent_arguments={"action_scale": "native"},
            discount=None,  # algorithms have factors for rates, whose effects end soon
        ),
        Environment(
            "sysgym/FlowCC-v0",
            "sysgym.envs.congestion.flow.flow_cc:FlowCC",
            "sysgym.envs.congestion.flow.vector:FlowCCVector",
            evaluation=_OF_ONE_FLOW,
            agent_arguments={"action_scale": "native"},
            discount=None,  # algorithms have factors for rates, whose effects end soon
        ),
    ),
    evaluation=_AS_A_WHOLE,
    agents="sysgym.agents.congestion:AGENTS",
    learning="sysgym.agents.learned.congestion.learning:LEARNING",
    transports=Transports("sysgym.emulator.packets.transports", driven="paced", uncapped="max"),
    backends=("packets", "linux"),
    disturbances=Disturbances(
        noise=True,
        late_actions=True,
        link_failure="sysgym.envs.congestion.disturbances:with_failed_link",
        kernel_backend="linux",
    ),
    describe="sysgym.envs.congestion.show.words:in_words",
    draw="sysgym.envs.congestion.show.picture:draw",
    estimate="sysgym.envs.congestion.show.estimate:estimate_work",
    compile="sysgym.emulator.packets.engine.loop:compile_loops",
    live="sysgym.envs.congestion.live.view:live_view",
    parallel={"sysgym/ParallelCC-v0": "sysgym.envs.congestion.parallel:ParallelCC"},
)


def parallel_env(*arguments: Any, **named: Any) -> Any:
    """Return an environment in which every flow or host is an agent (PettingZoo's ParallelEnv).

    Args:
        *arguments: Arguments of :class:`sysgym.envs.congestion.parallel.ParallelCC`.
        **named: The same as keywords: ``scenario``, ``agents``, ``split``, ``preset``, ...

    Raises:
        MissingExtra: If the extra ``multiagent`` is not installed.
    """
    from sysgym.envs.congestion.parallel import ParallelCC

    return ParallelCC(*arguments, **named)
