"""Kinds of agents of the multi-agent environment: flows or hosts of a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from sysgym.emulator.network import Network
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.topology.round_trips import longest_round_trip_s
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.transports.paced import PACED, PACED_FLOW
from sysgym.emulator.packets.workloads import scenario_flows
from sysgym.envs.congestion.backends import PACKETS, law_of_agents, network_on
from sysgym.envs.congestion.flow.intervals import IntervalArray, flow_intervals, host_intervals
from sysgym.envs.congestion.flow.presets import Preset
from sysgym.envs.congestion.flow.world import first_interval_s, sender_transport, with_relative_buffer
from sysgym.envs.congestion.stepping.flow_kernels import FLOW_PACE, HOST_CAP, NO_FLOW, WINDOW
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.congestion.flow import Flow


class AgentKind(ABC):
    """Base of kinds of agents: networks of a scenario whose agents are of one kind.

    Args:
        scenario: The scenario.
        preset: Preset of every agent.
        transport: Congestion control law of all flows, or its name.
        backend: Name of the network backend.

    Attributes:
        transport: Congestion control law of all flows.

    Raises:
        UnknownName: If there is no such transport.
        SysgymError: If preset, transport and scenario leave the agents nothing to control.
    """

    def __init__(
        self, scenario: CongestionScenario, preset: Preset, transport: str | Transport, backend: str
    ) -> None:
        self._scenario, self._preset, self._backend = scenario, preset, backend
        self._flow = scenario.flow or Flow()
        self.transport = sender_transport(preset, transport, self._flow)
        self._network: Network | None = None
        self._drawn: CongestionScenario | None = None
        self._check()

    def begin(self, drawn: CongestionScenario, seed: int) -> tuple[Network, dict[str, Any], IntervalArray]:
        """Begin an episode.

        Args:
            drawn: The scenario of this episode.
            seed: Seed of the episode.

        Returns:
            The network, the settings of the agents (fields of ``AGENT`` records), and an interval for each
            agent with the constants of the episode.
        """
        network = self._network_of(drawn)
        network.reset(seed)
        flow, control = drawn.flow or self._flow, network.scenario.control
        intervals = self._constants(network, control.min_rate_fraction)
        intervals["windowed"] = self._preset.window
        intervals["action_step"] = flow.action_step
        settings = {
            "interval_s": first_interval_s(flow, control, float(intervals["base_rtt_s"].max())),
            "longest_s": control.decision_interval_s,
            "decision_rtts": flow.decision_rtts or 0.0,
            "episode_steps": control.episode_steps,
            **self._targets(network),
        }
        return network, settings, intervals

    @property
    @abstractmethod
    def law(self) -> str | Transport:
        """Transport of the networks."""

    @abstractmethod
    def names(self, split: str) -> list[str]:
        """Return the names of all agents that the episodes of a split can have."""

    @abstractmethod
    def _check(self) -> None:
        """Raise SysgymError if the agents would have nothing to control."""

    @abstractmethod
    def _constants(self, network: Network, least: float) -> IntervalArray:
        """Return an interval for each agent; ``least`` is the lowest rate as a fraction of the line rate."""

    @abstractmethod
    def _targets(self, network: Network) -> dict[str, Any]:
        """Return the flows or hosts of the agents and the quantity they set, as fields of ``AGENT``."""

    def _network_of(self, drawn: CongestionScenario) -> Network:
        if self._network is None or drawn != self._drawn:
            if self._network is not None:
                self._network.close()
            relative = with_relative_buffer(drawn, drawn.flow or Flow())
            self._network, self._drawn = network_on(self._backend, relative, self.law), drawn
        return self._network


class FlowAgents(AgentKind):
    """Agents that control the flows of a long-lived workload, ``flow_0``, ``flow_1``, ..., by start time."""

    @property
    def law(self) -> str | Transport:
        """Transport of the networks, whose rates or windows the agents set."""
        pacing = PACED_FLOW if self.transport == PACED else self.transport
        return law_of_agents(self._backend, pacing, multiplied=self._preset.window)

    def names(self, split: str) -> list[str]:
        """Return the names for the largest number of flows in an episode; the number may vary."""
        counts = [self._scenario]
        for key, values in self._scenario.splits[split].varied.items():
            if key.startswith("workload."):
                counts = [one.with_overrides({key: value}) for one in counts for value in values]
        schedules = (
            scenario_flows(one, build_topology(one.topology), np.random.default_rng(0)) for one in counts
        )
        return [f"flow_{number}" for number in range(max(len(schedule.src) for schedule in schedules))]

    def _check(self) -> None:
        if self._scenario.workload.kind != "long_lived":
            raise SysgymError(
                f'{self._scenario.name}: its flows end, so they cannot be agents; use agents="hosts", or a'
                " scenario of long-lived flows"
            )
        if not self._preset.window and not self.transport.rate_driven:
            raise SysgymError(
                f'the transport "{self.transport.name}" sets its flows\' rates itself: use "paced", "orca"'
                ' as the preset, or agents="hosts", whose rates are caps'
            )

    def _constants(self, network: Network, least: float) -> IntervalArray:
        return flow_intervals(network, np.arange(len(network.schedule.src)), least)

    def _targets(self, network: Network) -> dict[str, Any]:
        return {
            "flow": np.arange(len(network.schedule.src)),
            "host": network.schedule.src,
            "sets": WINDOW if self._preset.window else FLOW_PACE,
            "has_law": False,
        }


class HostAgents(AgentKind):
    """Agents that control the hosts, named after them; their rates cap the rates of the transport."""

    @property
    def law(self) -> str | Transport:
        """Transport of the networks."""
        return self.transport if self._backend == PACKETS else self.transport.name

    def names(self, split: str) -> list[str]:
        """Return the names of the hosts."""
        topology = build_topology(self._scenario.topology)
        return list(topology.node_names[: topology.n_hosts])

    def _check(self) -> None:
        if self._preset.window:
            raise SysgymError(f'the preset "{self._preset.name}" multiplies a window, but a host has none')

    def _constants(self, network: Network, least: float) -> IntervalArray:
        ends = network.scenario.transport
        rtt_s = longest_round_trip_s(network.topology, ends.mtu_bytes, ends.ack_bytes)
        return host_intervals(network, rtt_s, least)

    def _targets(self, network: Network) -> dict[str, Any]:
        hosts = np.arange(network.n_hosts)
        return {
            "flow": NO_FLOW,
            "host": hosts,
            "sets": HOST_CAP,
            "has_law": not self.transport.rate_driven,
        }


KINDS: dict[str, type[AgentKind]] = {"flows": FlowAgents, "hosts": HostAgents}
"""Kinds of agents by name."""
