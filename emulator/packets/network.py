"""A packet network in simulated time: the world behind the congestion control environments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets import layout
from sysgym.emulator.packets.engine import cap_hosts, resume_senders, run_until
from sysgym.emulator.packets.events import (
    FLOW_START,
    MAX_SOURCES,
    MAX_TIME_NS,
    N_CLOCKS,
    SAMPLE_TICK,
    SOURCE_BITS,
    TIMER_TICK,
)
from sysgym.emulator.packets.fairness import max_min_rates
from sysgym.emulator.packets.layout import LONG_LIVED_PACKETS, NEVER_NS, NOBODY, State
from sysgym.emulator.packets.ports import FIXED_POINT_BITS, QUEUE_BUCKETS
from sysgym.emulator.packets.routing import ecmp_routes
from sysgym.emulator.packets.statistics import (
    FlowTable,
    HostCounters,
    PortCounters,
    flow_table,
    host_counters,
    ideal_completion_s,
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

QUEUE_SAMPLES_PER_INTERVAL = 16
TIMER_TICKS_PER_MIN_RTO = 8


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
        if self.topology.n_links + self.topology.n_hosts + N_CLOCKS > MAX_SOURCES:
            raise SysgymError(f"{scenario.name}: more than {MAX_SOURCES} links and hosts")
        self.line_rate_bps: FloatArray = self.topology.link_rate_bps[self.topology.host_uplink]
        self._callbacks = callback_addresses((self.transport,))
        self._schedule: FlowSchedule
        self._state: State
        self._ideal_fct_s: FloatArray
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
        self._state = self._new_state(self._schedule)
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
        cap_hosts(self._address, _ns_per_byte_q20(caps_bps))
        self._grow_packet_pool_while_needed()

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle holds: everything but the addresses of compiled functions."""
        return {**self.__dict__, "_callbacks": None}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Goes on where the original stood, in this process or another one."""
        self.__dict__.update(attributes)
        self._callbacks = callback_addresses((self.transport,))
        self._state = self._state._replace(callbacks=self._callbacks)
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
        while not run_until(self._address, until_ns):
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
            packets = self._state.packets
            grown = np.zeros(2 * len(packets), layout.PACKET)
            grown[: len(packets)] = packets
            _link_free_packets(grown, len(packets), int(self._state.world["first_free_packet"][0]))
            self._state.world["first_free_packet"] = len(packets)
            self._state.world["free_packets"] += len(packets)
            self._state = self._state._replace(packets=grown)
            self._state.bind()
            resume_senders(self._address)

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

    def _new_state(self, schedule: FlowSchedule) -> State:
        world = self._new_world()
        routes = self._new_routes(schedule)
        world["n_flows"] = len(routes)
        world["route_stride"] = routes.shape[2]
        flows, bitmap_words = self._new_flows(schedule, routes)
        packets = np.zeros(max(1024, 64 * self.n_hosts), layout.PACKET)
        _link_free_packets(packets, 0, NOBODY)
        world["free_packets"] = len(packets)
        hosts = np.zeros(self.n_hosts, layout.HOST)
        hosts["first_active"] = NOBODY
        hosts["turn"] = NOBODY
        hosts["last_sent_ns"] = -MAX_TIME_NS
        hosts["uplink"] = self.topology.host_uplink
        full_packet_ns = self.scenario.transport.mtu_bytes * 8e9 / self.line_rate_bps
        hosts["backlog_limit_ns"] = np.rint(self.scenario.transport.host_queue_packets * full_packet_ns)
        heap = np.full(self.n_links + self.n_hosts + N_CLOCKS + 2, NEVER_NS)
        heap[: int(world["heap_size"][0])] = self._first_events(world, schedule)
        state = State(
            world=world,
            links=self._new_links(),
            packets=packets,
            flows=flows,
            hosts=hosts,
            routes=routes,
            heap=heap,
            received=np.zeros(bitmap_words, np.uint64),
            sacked=np.zeros(bitmap_words, np.uint64),
            queue_histogram=np.zeros((self.n_links, QUEUE_BUCKETS), np.uint32),
            event=np.zeros(1, layout.EVENT),
            callbacks=self._callbacks,
        )
        state.bind()
        return state

    def _new_world(self) -> NDArray[np.void]:
        ends = self.scenario.transport
        interval_ns = round(self.scenario.control.decision_interval_s * 1e9)
        world = np.zeros(1, layout.WORLD)
        world["n_links"] = self.n_links
        world["n_hosts"] = self.n_hosts
        world["heap_size"] = N_CLOCKS
        world["timer_tick_ns"] = max(round(ends.min_rto_s * 1e9 / TIMER_TICKS_PER_MIN_RTO), 1)
        world["sample_tick_ns"] = max(interval_ns // QUEUE_SAMPLES_PER_INTERVAL, 1)
        world["payload_bytes"] = ends.mtu_bytes - ends.header_bytes
        world["header_bytes"] = ends.header_bytes
        world["ack_bytes"] = ends.ack_bytes
        world["min_rto_ns"] = round(ends.min_rto_s * 1e9)
        world["max_rto_ns"] = round(ends.max_rto_s * 1e9)
        world["max_window_packets"] = ends.max_window_packets
        return world

    def _first_events(self, world: NDArray[np.void], schedule: FlowSchedule) -> list[int]:
        first_start_ns = int(schedule.start_ns[0]) if len(schedule.start_ns) else MAX_TIME_NS
        times_ns = {
            FLOW_START: first_start_ns,
            TIMER_TICK: int(world["timer_tick_ns"][0]),
            SAMPLE_TICK: int(world["sample_tick_ns"][0]),
        }
        clocks = self.n_links + self.n_hosts
        return sorted((time_ns << SOURCE_BITS) | (clocks + clock) for clock, time_ns in times_ns.items())

    def _new_links(self) -> NDArray[np.void]:
        topology, queue = self.topology, self.scenario.queue
        links = np.zeros(self.n_links, layout.LINK)
        ns_per_byte = 8e9 / topology.link_rate_bps
        links["ns_per_byte_q20"] = _ns_per_byte_q20(topology.link_rate_bps)
        links["delay_ns"] = np.rint(topology.link_delay_s * 1e9)
        # Hosts neither drop nor mark: what the card cannot take waits in the flows.
        links["buffer_ns"] = np.where(topology.from_host, NEVER_NS, np.rint(queue.buffer_bytes * ns_per_byte))
        links["mark_above_ns"] = NEVER_NS
        if queue.ecn_threshold_bytes is not None:
            threshold_ns = np.rint(queue.ecn_threshold_bytes * ns_per_byte)
            links["mark_above_ns"] = np.where(topology.from_host, NEVER_NS, threshold_ns)
        jitter_s = self.scenario.transport.host_jitter_s
        full_packet_ns = self.scenario.transport.mtu_bytes * ns_per_byte
        jitter_ns = full_packet_ns if jitter_s is None else np.full(self.n_links, jitter_s * 1e9)
        links["jitter_ns"] = np.where(topology.from_host, np.rint(jitter_ns), 0)
        links["head"] = NOBODY
        links["tail"] = NOBODY
        return links

    def _new_routes(self, schedule: FlowSchedule) -> NDArray[np.int32]:
        forward = ecmp_routes(self.topology, schedule.src, schedule.dst, schedule.src_port, schedule.dst_port)
        back = ecmp_routes(self.topology, schedule.dst, schedule.src, schedule.dst_port, schedule.src_port)
        routes = np.full((len(schedule.src), 2, max(forward.shape[1], back.shape[1]) + 1), NOBODY, np.int32)
        routes[:, 0, : forward.shape[1]] = forward
        routes[:, 1, : back.shape[1]] = back
        return routes

    def _new_flows(self, schedule: FlowSchedule, routes: NDArray[np.int32]) -> tuple[NDArray[np.void], int]:
        ends, topology = self.scenario.transport, self.topology
        payload_bytes = ends.mtu_bytes - ends.header_bytes
        sized = schedule.size_bytes >= 0
        n_packets = np.where(sized, -(-schedule.size_bytes // payload_bytes), LONG_LIVED_PACKETS)
        last_packet_bytes = np.where(
            sized, schedule.size_bytes - (n_packets - 1) * payload_bytes, payload_bytes
        )
        window = np.minimum(n_packets, ends.max_window_packets)
        words = -(-window // 64)
        flows = np.zeros(len(schedule.src), layout.FLOW)
        flows["cwnd"] = ends.initial_window_packets
        flows["ssthresh"] = np.inf
        flows["min_rtt_ns"] = NEVER_NS
        base_rtt_s = self._base_rtt_s(routes)
        flows["base_rtt_ns"] = np.rint(base_rtt_s * 1e9)
        flows["line_rate_bps"] = self.line_rate_bps[schedule.src]
        # The connection's set-up has measured one RTT: SRTT + 4 RTTVAR is then three times that (RFC 6298,
        # 2.2).
        flows["rto_ns"] = np.rint(np.clip(3.0 * base_rtt_s, ends.min_rto_s, ends.max_rto_s) * 1e9)
        flows["rto_deadline_ns"] = NEVER_NS
        flows["n_packets"] = n_packets
        flows["last_packet_bytes"] = last_packet_bytes
        flows["window_mask"] = ends.max_window_packets - 1
        flows["bitmap_offset"] = np.cumsum(words) - words
        flows["start_ns"] = schedule.start_ns
        flows["src"] = schedule.src
        flows["dst"] = schedule.dst
        flows["recovery"] = self.transport.recovery_code
        flows["ecn_capable"] = self.transport.ecn_capable
        flows["finish_ns"] = -1
        ideal_s = ideal_completion_s(
            routes[:, 0],
            ends.mtu_bytes,
            n_packets,
            last_packet_bytes + ends.header_bytes,
            topology.link_rate_bps,
            topology.link_delay_s,
        )
        self._ideal_fct_s = np.where(sized, ideal_s, np.nan)
        return flows, int(words.sum())

    def _base_rtt_s(self, routes: NDArray[np.int32]) -> FloatArray:
        ends, topology = self.scenario.transport, self.topology
        total_s = np.zeros(len(routes))
        for direction, size_bytes in ((0, ends.mtu_bytes), (1, ends.ack_bytes)):
            hop_s = size_bytes * 8 / topology.link_rate_bps + topology.link_delay_s
            total_s += np.where(routes[:, direction] == NOBODY, 0.0, hop_s[routes[:, direction]]).sum(axis=1)
        return total_s


def _ns_per_byte_q20(rate_bps: FloatArray) -> NDArray[np.int64]:
    """Time of a byte in fixed point; 0 for an infinite rate."""
    return np.rint(8e9 / rate_bps * 2.0**FIXED_POINT_BITS).astype(np.int64)


def _link_free_packets(packets: NDArray[np.void], first: int, behind_last: int) -> None:
    """Chains the slots from ``first`` on into the list of free ones."""
    packets["next"][first:] = np.arange(first + 1, len(packets) + 1)
    packets["next"][-1] = behind_last
