"""Networks with an agent's flow: its schedule, transport and fair share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.topology.max_min_fairness import max_min_rates
from sysgym.emulator.packets.topology.round_trips import longest_round_trip_s
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.emulator.packets.transports.paced import PACED, PACED_FLOW
from sysgym.emulator.packets.workloads import FlowSchedule
from sysgym.emulator.packets.workloads.schedule import LONG_LIVED, make_schedule, merged
from sysgym.envs.congestion.backends import law_of_agents, network_on
from sysgym.envs.congestion.flow.intervals import IntervalArray, flow_intervals
from sysgym.envs.congestion.flow.presets.base import Preset
from sysgym.envs.congestion.stepping.flow_kernels import (
    FLOW_PACE,
    HOST_CAP,
    NOTHING,
    SHORTEST_INTERVAL_S,
    WINDOW,
)
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import ScenarioError, SysgymError
from sysgym.scenarios.schema.congestion import Control
from sysgym.scenarios.schema.congestion.flow import Flow, flow_problems

OWN_FLOW_STREAM = 0xF10
"""Random stream of the agent's flow, distinct from that of the workload with the same seed."""

LEAST_BUFFER_PACKETS = 2

FIRST_INTERVAL_RTTS = 1.5

FLOW_ID = 0
"""Id of the agent's flow: the first of its network."""

_OWN = np.array([FLOW_ID])


class FlowWorld:
    """Networks of an agent's flow, a new one for each episode.

    Args:
        scenario: Scenario of the environment.
        backend: Name of the network backend.
        preset: Preset of the agent.
        transport: Congestion control law of the agent's flow, or its name; see :func:`sender_transport`.

    Attributes:
        flow: Table ``flow`` of the scenario.
        transport: Congestion control law of the agent's flow.
        network: Network of this episode; None before the first.
        slowest_link: Slowest link on the path of the flow.

    Raises:
        ScenarioError: If no flow of the scenario can be the agent's.
        UnknownName: If the transport of the agent's flow or of the other flows does not exist.
        SysgymError: If the preset multiplies a window and the transport has none, or none on the kernel.
    """

    def __init__(
        self, scenario: CongestionScenario, backend: str, preset: Preset, transport: str | Transport
    ) -> None:
        self.flow = flow_of(scenario)
        self.transport = sender_transport(preset, transport, self.flow)
        self._backend, self._preset = backend, preset
        self._law = law_of_agents(backend, self.transport, multiplied=preset.window)
        get_transport(self.flow.background)  # raise for an unknown name now, not in the first episode
        self.network: Network | None = None
        self._drawn: CongestionScenario | None = None
        self.slowest_link = 0

    def begin(self, drawn: CongestionScenario, seed: int) -> tuple[Network, dict[str, float], IntervalArray]:
        """Begin an episode.

        Args:
            drawn: The scenario of this episode.
            seed: Seed of the episode.

        Returns:
            The network, the control settings of the agent (fields of ``Agent``), and the constants of the
            flow.
        """
        flow = drawn.flow or self.flow
        network = self._network_of(drawn, flow)
        schedule = schedule_of(network, flow, seed)
        # The rate is then that of the host, the cheapest way to pace packets.
        alone = isinstance(network, PacketNetwork) and is_alone(schedule)
        if isinstance(network, PacketNetwork):
            network.flow_transports[FLOW_ID] = pacing_transport(self.transport, alone=alone)
        network.reset(seed, schedule)
        self.slowest_link = slowest_link(network, FLOW_ID)
        control = network.scenario.control
        intervals = flow_intervals(network, _OWN, control.min_rate_fraction)
        intervals["windowed"], intervals["action_step"] = not self.transport.rate_driven, flow.action_step
        settings = {
            "flow": FLOW_ID,
            "host": int(schedule.src[0]),
            "sets": what_it_sets(self._preset, self.transport, alone=alone),
            "has_law": not self.transport.rate_driven,
            "interval_s": first_interval_s(flow, control, float(intervals["base_rtt_s"][0])),
            "longest_s": control.decision_interval_s,
            "decision_rtts": flow.decision_rtts or 0.0,
            "episode_seed": seed,
            "episode_steps": control.episode_steps,
        }
        return network, settings, intervals

    def fair_rate_bps(self) -> float:
        """Return the current max-min fair share of the flow, headers included, leaving capacity for ACKs."""
        assert self.network is not None
        return float(fair_flow_rates_bps(self.network, _OWN)[0])

    def steady_fair_rate_bps(self) -> float | None:
        """Return the fair share if it is constant, because neither flows nor links change; otherwise None."""
        assert self.network is not None
        scenario = self.network.scenario
        changes = scenario.faults.rate_changes or scenario.faults.links
        steady = scenario.workload.kind == "long_lived" and not changes
        return self.fair_rate_bps() if steady else None

    def _network_of(self, drawn: CongestionScenario, flow: Flow) -> Network:
        if self.network is None or drawn != self._drawn:
            if self.network is not None:
                self.network.close()
            scenario = with_relative_buffer(drawn, flow)
            self.network = network_on(self._backend, scenario, flow.background, {FLOW_ID: self._law})
            self._drawn = drawn
        return self.network


def first_interval_s(flow: Flow, control: Control, base_rtt_s: float) -> float:
    """Return the length of the interval before the first decision: ACKs return in it, as in Aurora."""
    first_s = max(FIRST_INTERVAL_RTTS * base_rtt_s, SHORTEST_INTERVAL_S)
    return first_s if flow.decision_rtts is not None else max(first_s, control.decision_interval_s)


def what_it_sets(preset: Preset, transport: Transport, *, alone: bool) -> int:
    """Return the quantity that an action changes.

    A flow that is alone on its host is capped there, which is the cheapest way to pace packets.
    """
    if preset.window:
        return WINDOW
    return HOST_CAP if alone else FLOW_PACE if transport.rate_driven else NOTHING


def flow_of(scenario: CongestionScenario) -> Flow:
    """Return the table ``flow`` of a scenario; the defaults if it has none.

    Raises:
        ScenarioError: If no flow of the scenario can be the agent's.
    """
    flow = scenario.flow or Flow()
    problems = list(flow_problems(flow, scenario.topology, scenario.workload))
    if problems:
        raise ScenarioError(f"<{scenario.name}>", problems=problems)
    return flow


def history_of(preset: Preset, history: int | None, flow: Flow) -> int:
    """Return the number of intervals in the observation, set by the caller, the scenario or the preset.

    Raises:
        SysgymError: If the number is not positive.
    """
    chosen = history if history is not None else flow.history if flow.history is not None else preset.history
    if chosen < 1:
        raise SysgymError(f"history: got {chosen}, expected 1 or more intervals")
    return chosen


def sender_transport(preset: Preset, transport: str | Transport, flow: Flow) -> Transport:
    """Return the law of the agent's flow: none if the agent sets the rate, the underlying one for Orca.

    Raises:
        UnknownName: If there is no such transport.
        SysgymError: If the preset multiplies a window, and the transport has none or overwrites it.
    """
    found = get_transport(transport) if isinstance(transport, str) else transport
    if not preset.window:
        return found
    if found == PACED:
        found = get_transport(flow.base_transport)
    if found.rate_driven:
        raise SysgymError(
            f'the preset "{preset.name}" multiplies a window, but the transport "{found.name}" has none;'
            " use cubic, dctcp or another law with a window"
        )
    if found.overwrites_window:
        raise SysgymError(
            f'the preset "{preset.name}" multiplies the window, but the transport "{found.name}" derives it'
            " from its own state at every ACK, so that actions would have no effect; use cubic, dctcp or"
            " another law that adapts its window"
        )
    return found


def with_relative_buffer(scenario: CongestionScenario, flow: Flow) -> CongestionScenario:
    """Return the scenario with buffers of ``flow.buffer_bdp`` bandwidth-delay products, if that key is set.

    The product is that of the slowest link and the longest round-trip time of the empty network.
    """
    if flow.buffer_bdp is None:
        return scenario
    topology, ends = build_topology(scenario.topology), scenario.transport
    rtt_s = longest_round_trip_s(topology, ends.mtu_bytes, ends.ack_bytes)
    product_bytes = float(topology.link_rate_bps.min()) * rtt_s / 8.0
    buffer_bytes = max(round(flow.buffer_bdp * product_bytes), LEAST_BUFFER_PACKETS * ends.mtu_bytes)
    queue = scenario.queue.model_copy(update={"buffer_bytes": buffer_bytes})
    return scenario.model_copy(update={"queue": queue})


def pacing_transport(transport: Transport, *, alone: bool) -> Transport:
    """Return the law of a flow that its agent paces.

    Args:
        transport: Congestion control law of the flow.
        alone: Whether its host has no other flow. The rate is then that of the host, which is the cheapest
            way to pace packets; otherwise it is that of the flow.
    """
    return PACED_FLOW if transport == PACED and not alone else transport


def schedule_of(network: Network, flow: Flow, seed: int) -> FlowSchedule:
    """Return the flows of an episode, the agent's first."""
    schedule = network.draw_schedule(seed)
    if flow.sender is None or flow.receiver is None:
        return schedule
    rng = np.random.default_rng([OWN_FLOW_STREAM, seed])
    own = make_schedule(rng, [flow.sender], [flow.receiver], size_bytes=LONG_LIVED, start_ns=0)
    return merged(rng, [own, schedule])


def slowest_link(network: Network, flow_id: int) -> int:
    """Return the slowest link on the path of a flow, the first of several."""
    links = network.routes()[flow_id]
    links = links[links >= 0]
    return int(links[network.topology.link_rate_bps[links].argmin()])


def is_alone(schedule: FlowSchedule) -> bool:
    """Return whether the host of flow 0 has no other flow."""
    return int((schedule.src == schedule.src[0]).sum()) == 1


def fair_flow_rates_bps(network: Network, flow_ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return max-min fair rates of some flows among all active ones, with capacity left for ACKs.

    The given flows count as active.

    Args:
        network: The network.
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
