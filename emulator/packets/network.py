"""A packet network in simulated time: the world behind the congestion control environments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.assembly import Assembly, ns_per_byte_q20, with_more_packets
from sysgym.emulator.packets.engine import EXTENDED, PLAIN, Loop
from sysgym.emulator.packets.events import MAX_TIME_NS
from sysgym.emulator.packets.fairness import max_min_rates
from sysgym.emulator.packets.layout import NOBODY, State
from sysgym.emulator.packets.statistics import (
    FlowTable,
    HostCounters,
    PortCounters,
    flow_table,
    host_counters,
    port_counters,
    queue_quantile_bytes,
)
from sysgym.emulator.packets.topology import Topology, build_topology
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.emulator.packets.transports.base import callback_addresses
from sysgym.emulator.packets.workloads import FlowSchedule, build_flows
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import SysgymError

FloatArray = NDArray[np.float64]


class PacketNetwork:
    """A datacenter network at packet level: topology, queues, transports and a seeded workload.

    The same scenario, transport and seed give the same bytes, in another process too.

    Args:
        scenario: What to simulate.
        transport: Congestion control of all flows: a registered name or a :class:`Transport`.

    Raises:
        UnknownName: If there is no transport of that name.
        SysgymError: If a transport's callbacks cannot be compiled.
    """

    def __init__(self, scenario: CongestionScenario, *, transport: str | Transport = "dctcp") -> None:
        self.scenario = scenario
        self.transport = get_transport(transport) if isinstance(transport, str) else transport
        self.topology: Topology = build_topology(scenario.topology)
        self.line_rate_bps: FloatArray = self.topology.link_rate_bps[self.topology.host_uplink]
        self._schedule: FlowSchedule
        self._state: State
        self._ideal_fct_s: FloatArray
        self._loop: Loop
        self.reset(0)

    @property
    def n_hosts(self) -> int:
        """Number of hosts."""
        return int(self.topology.n_hosts)

    @property
    def n_links(self) -> int:
        """Number of directed links, each with its output port."""
        return int(self.topology.n_links)

    @property
    def now_ns(self) -> int:
        """Simulated time since the reset."""
        return int(self._state.world["now_ns"][0])

    @property
    def now_s(self) -> float:
        """Simulated time since the reset."""
        return self.now_ns * 1e-9

    @property
    def packet_hops(self) -> int:
        """Packets, data or ACK.

        That have crossed a link since the reset: the unit of the simulator's work.
        """
        return int(self._state.world["hops"][0])

    def reset(self, seed: int, schedule: FlowSchedule | None = None) -> None:
        """Empties the network and goes back to time 0; caps are lifted.

        Args:
            seed: Of the workload, unless there is a schedule, and of the hosts' jitter.
            schedule: Flows to run instead of the scenario's workload.
        """
        rng = np.random.default_rng(seed)
        self._schedule = self._draw_schedule(rng) if schedule is None else schedule
        assembly = Assembly(
            self.scenario, self.topology, self.transport, self._schedule, extended=self._needs_extras()
        )
        self._state, self._ideal_fct_s = assembly.state, assembly.ideal_fct_s
        self._loop = EXTENDED if assembly.extended else PLAIN
        self._state.world["random_state"] = rng.integers(1, 2**63)
        if self.transport.rate_driven:
            self.set_host_rate_caps(self.line_rate_bps)

    def set_host_rate_caps(self, rate_bps: FloatArray) -> None:
        """Caps what each host sends, headers included, from now on.

        Args:
            rate_bps: Shape (n_hosts,), positive; ``inf`` lifts a cap (a rate-driven transport then has the
                line rate).

        Raises:
            SysgymError: If the shape is wrong or a rate is not positive.
        """
        caps_bps = np.asarray(rate_bps, dtype=np.float64)
        if caps_bps.shape != (self.n_hosts,) or not np.all(caps_bps > 0):
            raise SysgymError(
                f"host rate caps: got shape {caps_bps.shape}, least {caps_bps.min(initial=np.inf)}; "
                f"expected {self.n_hosts} positive rates in bit/s"
            )
        if self.transport.rate_driven:
            caps_bps = np.minimum(caps_bps, self.line_rate_bps)
        self._loop.cap_hosts(self._address, ns_per_byte_q20(caps_bps))
        self._grow_packet_pool_while_needed()

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle holds: everything but the addresses of compiled functions."""
        return {**self.__dict__, "_loop": None, "_extended": self._loop is EXTENDED}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Goes on where the original stood, in this process or another one."""
        self._loop = EXTENDED if attributes.pop("_extended") else PLAIN
        self.__dict__.update({name: value for name, value in attributes.items() if name != "_loop"})
        self._state = self._state._replace(callbacks=callback_addresses((self.transport,)))
        self._state.bind()

    def advance(self, duration_s: float) -> None:
        """Lets simulated time pass.

        Raises:
            SysgymError: If the end lies beyond the largest simulated time (2.4 hours).
        """
        until_ns = self.now_ns + round(duration_s * 1e9)
        if until_ns > MAX_TIME_NS:
            raise SysgymError(
                f"simulated time ends at {MAX_TIME_NS * 1e-9:.0f} s, asked for {until_ns * 1e-9:.0f} s"
            )
        while not self._loop.run_until(self._address, until_ns):
            self._grow_packet_pool_while_needed()

    def clear_maxima(self) -> None:
        """Begins a new interval for the largest queues."""
        links = self._state.links
        links["max_backlog_ns"] = np.maximum(links["busy_until_ns"] - self.now_ns, 0)

    def ports(self) -> PortCounters:
        """Counters of all output ports."""
        return port_counters(self._state)

    def hosts(self) -> HostCounters:
        """Counters of all hosts."""
        return host_counters(self._state)

    def flows(self) -> FlowTable:
        """Counters of all flows."""
        sizes = self._schedule.size_bytes.astype(np.int64)
        return flow_table(self._state, sizes, self._schedule.group.astype(np.int64), self._ideal_fct_s)

    def routes(self, *, acks: bool = False) -> NDArray[np.int32]:
        """Links that each flow's data (or its ACKs) take, shape (n_flows, longest route), padded with -1."""
        return self._state.routes[:, int(acks)].copy()

    def queue_quantile_bytes(self, quantile: float) -> FloatArray:
        """Time-weighted quantile of every port's queue since the reset, shape (n_links,)."""
        return queue_quantile_bytes(self._state, quantile)

    def oracle_rates_bps(self) -> FloatArray:
        """Max-min fair send rate of every host for the flows active now, room for ACKs left.

        Shape (n_hosts,).
        """
        flows = self._state.flows
        active = np.flatnonzero(flows["active"])
        ack_routes = self._state.routes[active, 1]
        capacity_bps = self.topology.link_rate_bps.copy()
        ack_share = self.scenario.transport.ack_bytes / self.scenario.transport.mtu_bytes
        capacity_bps[np.unique(ack_routes[ack_routes != NOBODY])] /= 1.0 + ack_share
        rates_bps = max_min_rates(self._state.routes[active, 0], capacity_bps)
        by_host_bps: FloatArray = np.zeros(self.n_hosts)
        np.add.at(by_host_bps, flows["src"][active], rates_bps)
        return by_host_bps

    @property
    def _address(self) -> int:
        return int(self._state.world.ctypes.data)

    def _grow_packet_pool_while_needed(self) -> None:
        while self._state.world["out_of_packets"][0]:
            self._state = with_more_packets(self._state)
            self._state.bind()
            self._loop.resume_senders(self._address)

    def _needs_extras(self) -> bool:
        """Whether the plain loop would leave out something that this world needs."""
        return self.transport.needs_extras or bool(np.any(self._schedule.needs))

    def _draw_schedule(self, rng: np.random.Generator) -> FlowSchedule:
        ends, control = self.scenario.transport, self.scenario.control
        return build_flows(
            self.scenario.workload,
            self.topology,
            rng,
            control.episode_s,
            mtu_bytes=ends.mtu_bytes,
            header_bytes=ends.header_bytes,
        )
