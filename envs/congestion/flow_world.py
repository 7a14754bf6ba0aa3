"""The network of an episode of single flows: which flow is whose, over which transport, and what is fair."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.topology.max_min_fairness import max_min_rates
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.emulator.packets.transports.paced import PACED, PACED_FLOW
from sysgym.emulator.packets.workloads import FlowSchedule
from sysgym.emulator.packets.workloads.schedule import LONG_LIVED, make_schedule, merged
from sysgym.envs.congestion.flow_presets import Preset
from sysgym.envs.congestion.measurement import longest_base_rtt_s
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import ScenarioError, SysgymError
from sysgym.scenarios.schema.flow import Flow, flow_problems

OWN_FLOW_STREAM = 0xF10
"""Keeps the ports of the agent's flow apart from what the workload draws with the same seed."""

LEAST_BUFFER_PACKETS = 2


def flow_of(scenario: CongestionScenario) -> Flow:
    """Return the table of the agent's flow; all defaults where the scenario has none.

    Raises:
        ScenarioError: If no flow of the scenario can be the agent's.
    """
    flow = scenario.flow or Flow()
    problems = list(flow_problems(flow, scenario.topology, scenario.workload))
    if problems:
        raise ScenarioError(f"<{scenario.name}>", problems=problems)
    return flow


def history_of(preset: Preset, history: int | None, flow: Flow) -> int:
    """Return how many intervals the observation has: the caller's word, the scenario's, the preset's.

    Raises:
        SysgymError: If it is not positive.
    """
    chosen = history if history is not None else flow.history if flow.history is not None else preset.history
    if chosen < 1:
        raise SysgymError(f"history: got {chosen}, expected 1 or more intervals")
    return chosen


def sender_transport(preset: Preset, transport: str | Transport, flow: Flow) -> Transport:
    """Return the law of the agent's flow: none where the agent sets the rate, the one underneath in Orca.

    Raises:
        UnknownName: If there is no such transport.
        SysgymError: If the preset multiplies a window and the transport has none.
    """
    found = get_transport(transport) if isinstance(transport, str) else transport
    if not preset.window:
        return found
    if found == PACED:
        found = get_transport(flow.base_transport)
    if found.rate_driven:
        raise SysgymError(
            f'the preset "{preset.name}" multiplies a window, and the transport "{found.name}" has none;'
            " use cubic, dctcp or another law with a window"
        )
    return found


def with_relative_buffer(scenario: CongestionScenario, flow: Flow) -> CongestionScenario:
    """Return the scenario with buffers of ``flow.buffer_bdp`` bandwidth-delay products, if it has that key.

    The product is that of the slowest link and the longest round trip of the empty network.
    """
    if flow.buffer_bdp is None:
        return scenario
    topology, ends = build_topology(scenario.topology), scenario.transport
    rtt_s = longest_base_rtt_s(topology, ends.mtu_bytes, ends.ack_bytes)
    product_bytes = float(topology.link_rate_bps.min()) * rtt_s / 8.0
    buffer_bytes = max(round(flow.buffer_bdp * product_bytes), LEAST_BUFFER_PACKETS * ends.mtu_bytes)
    queue = scenario.queue.model_copy(update={"buffer_bytes": buffer_bytes})
    return scenario.model_copy(update={"queue": queue})


def pacing_transport(transport: Transport, *, alone: bool) -> Transport:
    """Return the law of a flow that its agent paces.

    Args:
        transport: Its law.
        alone: Whether its host sends nothing else. The rate is then the host's, which is the cheapest way to
            space packets; otherwise it is the flow's own.
    """
    return PACED_FLOW if transport == PACED and not alone else transport


def schedule_of(network: PacketNetwork, flow: Flow, seed: int) -> FlowSchedule:
    """Return an episode's flows, the agent's first."""
    schedule = network.draw_schedule(seed)
    if flow.sender is None or flow.receiver is None:
        return schedule
    rng = np.random.default_rng([OWN_FLOW_STREAM, seed])
    own = make_schedule(rng, [flow.sender], [flow.receiver], size_bytes=LONG_LIVED, start_ns=0)
    return merged(rng, [own, schedule])


def slowest_link(network: PacketNetwork, flow_id: int) -> int:
    """Return the slowest link on a flow's path, the first if several are."""
    links = network.routes()[flow_id]
    links = links[links >= 0]
    return int(links[network.topology.link_rate_bps[links].argmin()])


def is_alone(schedule: FlowSchedule) -> bool:
    """Return whether the host of flow 0 has no other flow."""
    return int((schedule.src == schedule.src[0]).sum()) == 1


def fair_flow_rates_bps(network: PacketNetwork, flow_ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return max-min fair rates of some flows among all that are active now, room for ACKs left.

    A flow that is not active counts as if it were.

    Args:
        network: The world.
        flow_ids: Shape (n,).

    Returns:
        bit/s on the wire, headers included, shape (n,).
    """
    table = network.flows()
    active = table.started & np.isnan(table.finish_s)
    active[flow_ids] = True
    of_active = np.cumsum(active) - 1
    data, acks = network.routes()[active], network.routes(acks=True)[active]
    capacity_bps = network.link_rate_bps.astype(np.float64)
    ends = network.scenario.transport
    capacity_bps[np.unique(acks[acks >= 0])] /= 1.0 + ends.ack_bytes / ends.mtu_bytes
    rates_bps: NDArray[np.float64] = max_min_rates(data, capacity_bps)[of_active[flow_ids]]
    return rates_bps
