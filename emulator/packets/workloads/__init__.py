"""Workloads: flows drawn from a scenario's ``[workload]`` table.

To add a workload, write a module with a function that returns a :class:`FlowSchedule`, and add a branch to
:func:`_flows_of`.
"""

from __future__ import annotations

import numpy as np

from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.workloads.flow_sizes import FlowSizeDistribution, get_flow_sizes, list_flow_sizes
from sysgym.emulator.packets.workloads.incast import incast
from sysgym.emulator.packets.workloads.long_lived import long_lived
from sysgym.emulator.packets.workloads.matrices import traffic_matrix
from sysgym.emulator.packets.workloads.on_off import on_off
from sysgym.emulator.packets.workloads.poisson import poisson
from sysgym.emulator.packets.workloads.schedule import LONG_LIVED, NO_GROUP, FlowSchedule, merged
from sysgym.emulator.packets.workloads.training import training
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.schema.congestion import (
    IncastWorkload,
    LongLivedWorkload,
    MixWorkload,
    OnOffWorkload,
    PoissonWorkload,
    WorkloadTable,
)
from sysgym.scenarios.schema.congestion.traffic import PartTable

__all__ = [
    "LONG_LIVED",
    "NO_GROUP",
    "FlowSchedule",
    "FlowSizeDistribution",
    "build_flows",
    "get_flow_sizes",
    "list_flow_sizes",
    "scenario_flows",
    "traffic_matrix",
]


def scenario_flows(
    scenario: CongestionScenario, topology: Topology, rng: np.random.Generator
) -> FlowSchedule:
    """Draw the flows of an episode of a scenario.

    Args:
        scenario: The scenario.
        topology: Its network.
        rng: The only source of randomness; the same state gives the same flows.

    Raises:
        UnknownName: If the workload names an unknown matrix or distribution.
        SysgymError: If the workload does not fit the topology, or has more flows than fit in memory.
    """
    ends = scenario.transport
    return build_flows(
        scenario.workload,
        topology,
        rng,
        scenario.control.episode_s,
        mtu_bytes=ends.mtu_bytes,
        header_bytes=ends.header_bytes,
    )


def build_flows(
    workload: WorkloadTable,
    topology: Topology,
    rng: np.random.Generator,
    horizon_s: float,
    *,
    mtu_bytes: int = 1500,
    header_bytes: int = 40,
) -> FlowSchedule:
    """Draw the flows of an episode.

    Args:
        workload: The scenario's ``[workload]`` table.
        topology: The network.
        rng: The only source of randomness; the same state gives the same flows.
        horizon_s: Simulated time of the episode. Flows or rounds are generated up to it.
        mtu_bytes: Largest packet, headers included; needed with ``header_bytes`` for loads on the wire.
        header_bytes: Headers of a data packet.

    Raises:
        UnknownName: If the workload names an unknown matrix or distribution.
        SysgymError: If the workload does not fit the topology, or has more flows than fit in memory.
    """
    if isinstance(workload, MixWorkload):
        # Each part has its own generator, so changing one part does not affect the others.
        parts = [
            build_flows(part, topology, generator, horizon_s, mtu_bytes=mtu_bytes, header_bytes=header_bytes)
            for part, generator in zip(workload.parts.values(), rng.spawn(len(workload.parts)), strict=True)
        ]
        return merged(rng, parts)
    flows = _flows_of(workload, topology, rng, horizon_s, mtu_bytes, header_bytes)
    return flows._replace(priority=np.full_like(flows.src, workload.priority))


def _flows_of(
    part: PartTable,
    topology: Topology,
    rng: np.random.Generator,
    horizon_s: float,
    mtu_bytes: int,
    header_bytes: int,
) -> FlowSchedule:
    if isinstance(part, LongLivedWorkload):
        return long_lived(part, topology, rng)
    if isinstance(part, IncastWorkload):
        return incast(part, topology, rng, horizon_s)
    if isinstance(part, PoissonWorkload):
        return poisson(part, topology, rng, horizon_s, mtu_bytes=mtu_bytes, header_bytes=header_bytes)
    if isinstance(part, OnOffWorkload):
        return on_off(part, topology, rng, horizon_s, mtu_bytes=mtu_bytes, header_bytes=header_bytes)
    return training(part, topology, rng, horizon_s, mtu_bytes=mtu_bytes, header_bytes=header_bytes)
