"""Construction of a simulation's State at time 0 from scenario, topology, transport and schedule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.counters.statistics import ideal_completion_s
from sysgym.emulator.packets.engine.event_queue.tournament import new_tournament
from sysgym.emulator.packets.engine.event_queue.wheel import new_wheel, wheel_form
from sysgym.emulator.packets.engine.events import (
    FLOW_START,
    MAX_SOURCES,
    MAX_TIME_NS,
    N_CLOCKS,
    SAMPLE_TICK,
    SOURCE_BITS,
    TIMER_TICK,
    TRANSPORT_TICK,
    extended_sources,
)
from sysgym.emulator.packets.engine.forwarding import (
    flow_hashes,
    forwarding_table,
    host_places,
    looks_up_paths,
)
from sysgym.emulator.packets.engine.ports import QUEUE_BUCKETS
from sysgym.emulator.packets.engine.queues.pfc import FRAME_BYTES, FRAMES_A_LINK
from sysgym.emulator.packets.engine.receivers.layout import new_inboxes, new_messages
from sysgym.emulator.packets.engine.shared_buffer import switch_memories
from sysgym.emulator.packets.engine.wire import ns_per_byte_q20
from sysgym.emulator.packets.growth import link_free_packets, new_ports
from sysgym.emulator.packets.memory import records
from sysgym.emulator.packets.memory.flow_record import (
    FLOW,
    HYSTART,
    HYSTART_PLUS_PLUS,
    STANDARD_SLOW_START,
    TRANSMISSION,
)
from sysgym.emulator.packets.memory.message_records import ARRIVAL, CREDIT, INBOX, MESSAGE
from sysgym.emulator.packets.memory.records import LONG_LIVED_PACKETS, NEVER_NS, NOBODY
from sysgym.emulator.packets.memory.state import State
from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.topology.graph import shaper_burst_s
from sysgym.emulator.packets.topology.routing import ecmp_routes
from sysgym.emulator.packets.transports.base import Transport, callback_addresses
from sysgym.emulator.packets.workloads import FlowSchedule
from sysgym.emulator.packets.world_settings import set_hosts, set_paths, set_queues
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import ScenarioError, SysgymError

FloatArray = NDArray[np.float64]
Records = NDArray[np.void]

QUEUE_SAMPLES_PER_INTERVAL = 16
SLOW_STARTS = {"standard": STANDARD_SLOW_START, "hystart": HYSTART, "hystart++": HYSTART_PLUS_PLUS}
GRANTS_A_HOST = 16
"""Packet slots reserved for the grants of each host; without a slot a grant waits for the next answer."""


class Assembly:
    """Builder of the State of one world.

    Args:
        scenario: What to simulate.
        topology: Its network.
        transport: Congestion control of all flows.
        schedule: The flows.

    Attributes:
        state: The world at time 0.
        ideal_fct_s: Completion time of every flow on an empty network, s, shape (n_flows,); nan for a flow
            that never ends.

    Raises:
        SysgymError: If there are more flows than events can have sources.
    """

    def __init__(
        self,
        scenario: CongestionScenario,
        topology: Topology,
        transport: Transport,
        schedule: FlowSchedule,
        *,
        extended: bool,
    ) -> None:
        self.scenario, self.topology, self.transport = scenario, topology, transport
        self.n_hosts, self.n_links, self.n_flows = topology.n_hosts, topology.n_links, len(schedule.src)
        self.line_rate_bps: FloatArray = topology.link_rate_bps[topology.host_uplink]
        self.extended = extended
        self._check_sources()
        if self._lossless:
            self._check_headroom()
        self.ideal_fct_s: FloatArray
        self.state = self._new_state(schedule)

    def _check_sources(self) -> None:
        sources = self.n_sources
        if sources > MAX_SOURCES:
            raise SysgymError(
                f"{self.scenario.name}: {self.n_links} links, {self.n_hosts} hosts and {self.n_flows} flows"
                f" are {sources} sources of events; at most {MAX_SOURCES} are possible"
            )

    @property
    def n_sources(self) -> int:
        """Number of sources of events."""
        if self.extended:
            return extended_sources(self.n_links, self.n_hosts, self.n_flows)
        return self.n_links + self.n_hosts + N_CLOCKS

    def _check_headroom(self) -> None:
        """Check that buffers have room for the data that a port sends until it obeys a pause request.

        This time is the cable's delay in both directions, plus the packets being sent at its two ends, plus
        jitter of the data and of the pause frame.
        """
        topology, queue = self.topology, self.scenario.queue
        mtu_bytes = self.scenario.transport.mtu_bytes
        jitter_s = self._jitter_s()
        delays_s = 2 * topology.link_delay_s + jitter_s + jitter_s[np.arange(self.n_links) ^ 1]
        overshoot_bytes = delays_s * topology.link_rate_bps / 8 + 3 * mtu_bytes + FRAME_BYTES
        link = int(np.argmax(overshoot_bytes))
        room_bytes = queue.buffer_bytes - (queue.pfc_pause_bytes or 0)
        if overshoot_bytes[link] > room_bytes:
            raise ScenarioError(
                self.scenario.name,
                "queue.pfc_pause_bytes",
                queue.pfc_pause_bytes,
                f"at most {max(queue.buffer_bytes - int(overshoot_bytes[link]) - 1, 0)}: after a pause was"
                f" asked for, link {topology.link_names[link]} still brings {overshoot_bytes[link]:.0f}"
                f" bytes, and there is room for {room_bytes}",
            )

    def _jitter_s(self) -> FloatArray:
        hosts_s: float | FloatArray | None = self.scenario.transport.host_jitter_s
        if hosts_s is None:
            hosts_s = self.scenario.transport.mtu_bytes * 8 / self.topology.link_rate_bps
        return np.where(self.topology.from_host, hosts_s, self.scenario.topology.link_jitter_s)

    def _new_state(self, schedule: FlowSchedule) -> State:
        world = self._new_world()
        routes = self._new_routes(schedule)
        world["n_flows"] = len(routes)
        world["route_stride"] = routes.shape[2]
        world["n_scheduled"] = np.searchsorted(schedule.start_ns, NEVER_NS)
        flows, bitmap_words = self._new_flows(schedule, routes)
        successors = self._make_flows_wait(flows, schedule)
        places, n_columns = host_places(self.topology)
        world["n_columns"] = n_columns
        table = forwarding_table(self.topology) if self._by_table else (np.zeros(1, np.int32),) * 2
        n_flowlets = routes.size if world["by_flowlet"][0] else 1
        flowlets = np.zeros(n_flowlets, records.FLOWLET)
        flowlets["last_ns"] = -MAX_TIME_NS
        memories, memory_ports = np.zeros(1, records.MEMORY), np.zeros(1, np.int32)
        if world["shared_buffer_bytes"][0]:
            memories, memory_ports = switch_memories(self.topology)
        capacity = max(1024, 64 * self.n_hosts) + int(world["reserved_packets"][0])
        packets = np.zeros(capacity, records.PACKET)
        link_free_packets(packets, 0, NOBODY)
        world["free_packets"] = len(packets)
        hosts = np.zeros(self.n_hosts, records.HOST)
        hosts["first_active"] = NOBODY
        hosts["turn"] = NOBODY
        hosts["last_sent_ns"] = -MAX_TIME_NS
        hosts["uplink"] = self.topology.host_uplink
        full_packet_ns = self.scenario.transport.mtu_bytes * 8e9 / self.line_rate_bps
        # A packet that a shaped link charges for has left the queue.
        queued_packets = self.scenario.transport.host_queue_packets + int(self.topology.shaped)
        hosts["backlog_limit_ns"] = np.rint(queued_packets * full_packet_ns)
        events = self._first_events(world, schedule)
        wheel_size, shift = wheel_form(self.topology, routes, self.scenario.transport.mtu_bytes)
        world["wheel_size"] = wheel_size
        world["wheel_shift"] = SOURCE_BITS + shift
        driven = self.transport.receiver is not None
        keeps_transmissions = driven or self.scenario.transport.detects_by_time
        n_transmissions = 64 * bitmap_words if keeps_transmissions else 1
        messages, inboxes = np.zeros(1, MESSAGE), np.zeros(1, INBOX)
        if driven:
            messages = new_messages(flows, self.scenario.transport.mtu_bytes)
            inboxes = new_inboxes(self.topology)
        links = self._new_links()
        state = State(
            world=world,
            links=links,
            packets=packets,
            segments=np.zeros(capacity, records.SEGMENT),
            flows=flows,
            hosts=hosts,
            routes=routes,
            **new_tournament(world, events, self.n_sources)._asdict(),
            **new_wheel(wheel_size, self.n_sources)._asdict(),
            received=np.zeros(bitmap_words, np.uint64),
            sacked=np.zeros(bitmap_words, np.uint64),
            transmissions=np.zeros(n_transmissions, TRANSMISSION),
            sent_times=np.zeros(n_transmissions, np.int64),
            queue_histogram=np.zeros((self.n_links, QUEUE_BUCKETS), np.uint32),
            event=np.zeros(1, records.EVENT),
            callbacks=callback_addresses((self.transport,)),
            notes=np.zeros(capacity if self.extended else 1, records.NOTE),
            stamps=np.zeros(capacity if self.transport.needs_int else 1, records.STAMPS),
            ports=self._new_ports() if self.extended else np.zeros(1, records.PORT),
            places=places,
            table_rows=table[0],
            table_links=table[1],
            successors=successors,
            captured=np.zeros(1, records.CAPTURED),
            memories=memories,
            memory_ports=memory_ports,
            flowlets=flowlets,
            messages=messages,
            inboxes=inboxes,
            credits=np.zeros(capacity if driven else 1, CREDIT),
            arrival=np.zeros(1, ARRIVAL),
            class_queues=self._new_class_queues(links),
            caps=np.zeros(self.n_hosts, np.int64),
        )
        state.bind()
        return state

    def _new_world(self) -> Records:
        ends = self.scenario.transport
        interval_ns = round(self.scenario.control.decision_interval_s * 1e9)
        world = np.zeros(1, records.WORLD)
        world["n_links"] = self.n_links
        world["n_hosts"] = self.n_hosts
        world["sample_tick_ns"] = max(interval_ns // QUEUE_SAMPLES_PER_INTERVAL, 1)
        set_hosts(world, ends)
        set_paths(world, self.scenario)
        set_queues(world, self.scenario.queue)
        world["shaped_links"] = self.topology.shaped
        world["reserved_packets"] = self._reserved_packets()
        world["keeps_stamps"] = self.transport.needs_int
        world["cnp_interval_ns"] = self.transport.cnp_interval_ns
        world["transport_tick_ns"] = round(self.transport.tick_s * 1e9)
        if self.transport.receiver is not None:
            world["receivers"] = 1  # the network writes the handler's address here
            world["pull_spacing"] = self.transport.receiver.pull_spacing
            world["reserved_packets"] += GRANTS_A_HOST * self.n_hosts
        return world

    def _reserved_packets(self) -> int:
        return FRAMES_A_LINK * self.n_links * self.scenario.queue.classes if self._lossless else 0

    @property
    def _lossless(self) -> bool:
        return self.scenario.queue.pfc_pause_bytes is not None

    @property
    def _by_table(self) -> bool:
        return looks_up_paths(self.scenario)

    def _first_events(self, world: Records, schedule: FlowSchedule) -> NDArray[np.int64]:
        scheduled = schedule.start_ns[schedule.start_ns < NEVER_NS]
        first_start_ns = int(scheduled[0]) if len(scheduled) else MAX_TIME_NS
        times_ns = {
            FLOW_START: first_start_ns,
            TIMER_TICK: int(world["timer_tick_ns"][0]),
            SAMPLE_TICK: int(world["sample_tick_ns"][0]),
        }
        if self.transport.tick_s > 0:
            times_ns[TRANSPORT_TICK] = int(world["transport_tick_ns"][0])
        clocks = self.n_links + self.n_hosts
        keys = [(time_ns << SOURCE_BITS) | (clocks + clock) for clock, time_ns in times_ns.items()]
        return np.array(keys, np.int64)

    def _new_links(self) -> Records:
        topology, queue = self.topology, self.scenario.queue
        links = np.zeros(self.n_links, records.LINK)
        ns_per_byte = 8e9 / topology.link_rate_bps
        links["ns_per_byte_q20"] = ns_per_byte_q20(topology.link_rate_bps)
        links["delay_ns"] = np.rint(topology.link_delay_s * 1e9)
        # Hosts neither drop nor mark: data that the card cannot accept waits in the flows.
        buffer_bytes = topology.buffers_bytes(queue.buffer_bytes)
        if topology.shaped:  # the packet whose time is charged has left the buffer; buckets are full
            buffer_bytes = buffer_bytes + self.scenario.transport.mtu_bytes
            packet_s = self.scenario.transport.mtu_bytes * ns_per_byte * 1e-9
            links["busy_until_ns"] = -np.rint(shaper_burst_s(packet_s) * 1e9)
        # A room that is free sooner is a buffer that is larger by what the link sends until then.
        buffer_ns = np.rint(buffer_bytes * ns_per_byte) + round(self.scenario.topology.link_batch_s * 1e9)
        links["buffer_ns"] = np.where(topology.from_host, NEVER_NS, buffer_ns)
        threshold = np.inf if queue.ecn_threshold_bytes is None else float(queue.ecn_threshold_bytes)
        thresholds = np.where(
            np.isnan(topology.link_ecn_threshold_bytes), threshold, topology.link_ecn_threshold_bytes
        )
        marks = ~topology.from_host & np.isfinite(thresholds)
        links["mark_above_ns"] = NEVER_NS
        links["mark_above_ns"][marks] = np.rint(thresholds[marks] * ns_per_byte[marks])
        links["jitter_ns"] = np.rint(self._jitter_s() * 1e9)
        links["head"] = NOBODY
        links["tail"] = NOBODY
        return links

    def _new_class_queues(self, links: Records) -> Records:
        queue = self.scenario.queue
        if not queue.is_list:
            return np.zeros(1, records.CLASS_QUEUE)
        queues = np.zeros((self.n_links, queue.classes), records.CLASS_QUEUE)
        for key in ("head", "tail", "before_tail"):
            queues[key] = NOBODY
        queues["quantum_bytes"] = np.rint(np.array(queue.shares) * self.scenario.transport.mtu_bytes)
        for key in ("buffer_ns", "mark_above_ns"):
            queues[key] = links[key][:, None]
        ns_per_byte = 8e9 / self.topology.link_rate_bps
        if queue.class_buffer_bytes is not None:
            own_ns = np.rint(np.outer(ns_per_byte, queue.class_buffer_bytes))
            queues["buffer_ns"] = np.where(self.topology.from_host[:, None], NEVER_NS, own_ns)
        if queue.class_ecn_threshold_bytes is not None:
            own_ns = np.rint(np.outer(ns_per_byte, queue.class_ecn_threshold_bytes))
            queues["mark_above_ns"] = np.where(self.topology.from_host[:, None], NEVER_NS, own_ns)
        return queues

    def _new_routes(self, schedule: FlowSchedule) -> NDArray[np.int32]:
        forward = ecmp_routes(self.topology, schedule.src, schedule.dst, schedule.src_port, schedule.dst_port)
        back = ecmp_routes(self.topology, schedule.dst, schedule.src, schedule.dst_port, schedule.src_port)
        routes = np.full((len(schedule.src), 2, max(forward.shape[1], back.shape[1]) + 1), NOBODY, np.int32)
        routes[:, 0, : forward.shape[1]] = forward
        routes[:, 1, : back.shape[1]] = back
        return routes

    def _new_flows(self, schedule: FlowSchedule, routes: NDArray[np.int32]) -> tuple[Records, int]:
        ends, topology = self.scenario.transport, self.topology
        payload_bytes = ends.mtu_bytes - ends.header_bytes
        sized = schedule.size_bytes >= 0
        n_packets = np.where(sized, -(-schedule.size_bytes // payload_bytes), LONG_LIVED_PACKETS)
        last_packet_bytes = np.where(
            sized, schedule.size_bytes - (n_packets - 1) * payload_bytes, payload_bytes
        )
        window = np.minimum(n_packets, ends.max_window_packets)
        words = -(-window // 64)
        flows = np.zeros(len(schedule.src), FLOW)
        flows["cwnd"] = ends.initial_window_packets
        flows["ssthresh"] = np.inf
        flows["min_rtt_ns"] = NEVER_NS
        base_rtt_s = self._base_rtt_s(routes)
        flows["base_rtt_ns"] = np.rint(base_rtt_s * 1e9)
        flows["line_rate_bps"] = self.line_rate_bps[schedule.src]
        flows["packet_bytes"] = ends.mtu_bytes
        # The handshake has measured one RTT, so 4 RTTVAR is twice that RTT (RFC 6298, 2.2).
        if ends.detects_by_time:  # see sender.update_rtt
            first_rto_s = base_rtt_s + np.maximum(2.0 * base_rtt_s, ends.min_rto_s)
        else:
            first_rto_s = np.maximum(3.0 * base_rtt_s, ends.min_rto_s)
        flows["rto_ns"] = np.rint(np.minimum(first_rto_s, ends.max_rto_s) * 1e9)
        if ends.loss_detection == "linux" and not ends.handshake:
            # Its connections are open, so the estimate began with a handshake on the empty path. Without it,
            # the first packet's round trip through a full queue would be the whole of it, and probes late.
            flows["srtt_ns"] = flows["base_rtt_ns"]
            flows["rttvar_ns"] = flows["base_rtt_ns"] / 2
        flows["timer_deadline_ns"] = NEVER_NS
        flows["n_packets"] = n_packets
        flows["last_packet_bytes"] = last_packet_bytes
        flows["receive_window_packets"] = ends.receive_window_packets
        flows["window_mask"] = ends.max_window_packets - 1
        flows["bitmap_offset"] = np.cumsum(words) - words
        flows["start_ns"] = schedule.start_ns
        flows["src"] = schedule.src
        flows["dst"] = schedule.dst
        flows["recovery"] = self.transport.recovery_code(ends.loss_detection)
        flows["reduces_by_prr"] = self.transport.reduces_by_prr
        flows["needs_credit"] = self.transport.receiver is not None
        flows["credit_packets"] = ends.initial_window_packets
        if self.transport.receiver is not None:
            flows["cwnd"] = ends.max_window_packets
        flows["first_transmission"] = 64 * flows["bitmap_offset"]
        flows["oldest_resent_ns"] = NEVER_NS
        flows["highest_resent"] = NOBODY
        flows["reordering_steps"] = 1
        flows["slow_start"] = SLOW_STARTS[ends.slow_start]
        flows["ecn_capable"] = self.transport.ecn_capable
        flows["finish_ns"] = -1
        flows["pool"] = flows["first_idle"] = NOBODY
        if self._by_table:
            ends_out = (schedule.src, schedule.dst, schedule.src_port, schedule.dst_port)
            ends_back = (schedule.dst, schedule.src, schedule.dst_port, schedule.src_port)
            flows["hash_out"] = flow_hashes(*ends_out)
            flows["hash_back"] = flow_hashes(*ends_back)
        flows["hops"] = (routes[:, 0] != NOBODY).sum(axis=1)
        flows["held_ack_slot"] = NOBODY
        flows["priority"] = schedule.priority
        ack_class = self.scenario.queue.ack_class
        if self.transport.receiver is not None and ack_class is None:
            ack_class = self.scenario.queue.classes - 1  # ACKs and grants are the receiver's clock
        flows["ack_priority"] = NOBODY if ack_class is None else ack_class
        flows["quick_acks"] = ends.quick_acks
        flows["last_cnp_ns"] = -MAX_TIME_NS
        ideal_s = ideal_completion_s(
            routes[:, 0],
            ends.mtu_bytes,
            n_packets,
            last_packet_bytes + ends.header_bytes,
            topology,
        )
        self.ideal_fct_s = np.where(sized, ideal_s, np.nan)
        return flows, int(words.sum())

    def _make_flows_wait(self, flows: Records, schedule: FlowSchedule) -> NDArray[np.int32]:
        """Write the dependencies into the flows, and return the waiting flows, by the flows they wait for."""
        first, waiting = schedule.successors()
        flows["waits_for"] = schedule.needs
        flows["after_delay_ns"] = schedule.after_delay_ns
        flows["first_successor"] = first[:-1]
        flows["n_successors"] = np.diff(first)
        return waiting if len(waiting) else np.zeros(1, np.int32)

    def _new_ports(self) -> Records:
        ports = new_ports(self.topology)
        queue = self.scenario.queue
        if queue.red_min_bytes is not None and queue.red_max_bytes is not None:
            ns_per_byte = np.where(self.topology.from_host, 0.0, 8e9 / self.topology.link_rate_bps)
            ports["red_min_ns"] = queue.red_min_bytes * ns_per_byte
            ports["red_max_ns"] = queue.red_max_bytes * ns_per_byte
        return ports

    def _base_rtt_s(self, routes: NDArray[np.int32]) -> FloatArray:
        ends, topology = self.scenario.transport, self.topology
        total_s = np.zeros(len(routes))
        for direction, size_bytes in ((0, ends.mtu_bytes), (1, ends.ack_bytes)):
            hop_s = topology.hop_s(size_bytes)
            total_s += np.where(routes[:, direction] == NOBODY, 0.0, hop_s[routes[:, direction]]).sum(axis=1)
        return total_s


def connection_pools(schedule: FlowSchedule, transports: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the first flow between the same hosts and with the same law, which keeps their idle connections.

    Args:
        schedule: The flows.
        transports: Number of each flow's transport, shape (n_flows,).

    Returns:
        Shape (n_flows,); NOBODY for flows without an end.
    """
    ends = np.column_stack([schedule.src, schedule.dst, transports])
    _, first, pair = np.unique(ends, axis=0, return_index=True, return_inverse=True)
    return np.where(schedule.size_bytes >= 0, first[pair.reshape(-1)], NOBODY)
