"""Emulated world: a scenario on the real kernel, behind the environments with ``backend="linux"``.

A single thread moves the flows' data while time passes, and answers requests in between. Time is wall-clock
time. It begins with the first :meth:`World.advance` after a reset and does not wait: the time that an agent
takes to decide is part of the interval that follows.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.linux.expressible import check_expressible, differences
from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.emulator.linux.kernel.caps import HostCaps
from sysgym.emulator.linux.kernel.early_detection import EarlyDetection
from sysgym.emulator.linux.kernel.fabric import Fabric
from sysgym.emulator.linux.kernel.queues import PortSettings, Queues
from sysgym.emulator.linux.kernel.saturation import SaturationWatch
from sysgym.emulator.linux.processors import STEERING_SETTING, processor_for_packets
from sysgym.emulator.linux.traffic.bundles import packets_a_bundle
from sysgym.emulator.linux.traffic.clock import now_ns, sharpen_timers
from sysgym.emulator.linux.traffic.congestion_controls import Laws
from sysgym.emulator.linux.traffic.flow_records import FlowRecords, no_flows
from sysgym.emulator.linux.traffic.paths import Paths
from sysgym.emulator.linux.traffic.pool import ConnectionPool
from sysgym.emulator.linux.traffic.runner import Traffic
from sysgym.emulator.linux.traffic.sockets import ConnectionMaker
from sysgym.emulator.linux.traffic.windows import largest_window_bytes
from sysgym.emulator.packets.counters.statistics import ideal_completion_s
from sysgym.emulator.packets.topology import Topology, build_topology
from sysgym.emulator.packets.topology.max_min_fairness import max_min_rates
from sysgym.emulator.packets.topology.routing import ecmp_routes
from sysgym.emulator.packets.workloads import FlowSchedule, scenario_flows
from sysgym.emulator.packets.workloads.schedule import SERVICE_PORT
from sysgym.scenarios import CongestionScenario, scenario_from_resolved
from sysgym.scenarios.errors import ScenarioError

FloatArray = NDArray[np.float64]
Pairs = tuple[NDArray[np.int64], FloatArray]

PORTS_A_SESSION, SLOTS_A_SESSION = 256, 4096
"""Port records and flow slots of one world; a service's programs have enough of them for 16 worlds."""

HOST_BUFFER_BYTES = 64 << 20
"""Queue of a host's interface; it drops nothing, as TCP itself queues at most a millisecond's worth there."""

_DRAIN_BYTES = 3000


class World:
    """A scenario's network in the kernel of this machine, its flows and its counters.

    Args:
        sid: Id of the service, four hex digits.
        scenario_resolved: Result of ``scenario.resolved()``.
        transport: Congestion control of all flows: ``cubic``, ``reno``, ``bbr``, ``dctcp``, ``newvegas``,
            ``neural``, ``adaptive_target``, ``adaptive_swift``, ``paced``, ``paced_flow``, ``learned``,
            ``scaled_cubic``, ``scaled_dctcp`` or ``scaled_reno``.
        flow_transports: Exceptions, from flow to its congestion control.
        programs: The loaded eBPF programs.
        session: Number of this world within the service, 0 to 15.
        parameters: Parameters of the laws that have some, by the law's name.

    Attributes:
        topology: The network.
        warnings: Warnings for the user, a sentence each; the list grows.
        bundle_packets: Most packets that travel as one; 1 means that each travels by itself.
        packet_processor: Processor that moves the packets; the world's process should stay off it. None: the
            kernel chooses.
        overruns: Intervals of this episode that had already ended when they were requested.

    Raises:
        ScenarioError: If the kernel cannot express the scenario; names the field.
        BackendUnavailable: If this machine lacks a requirement; names it and how to install it.
        BackendError: If the kernel refuses a request.
    """

    def __init__(
        self,
        sid: str,
        scenario_resolved: Mapping[str, Any],
        transport: str,
        flow_transports: Mapping[int, str],
        programs: Programs,
        *,
        session: int = 0,
        parameters: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        scenario = scenario_from_resolved(dict(scenario_resolved))
        if not isinstance(scenario, CongestionScenario):
            raise ScenarioError(scenario.name, "family", scenario.family, "congestion")
        self.sid = sid
        self.scenario = scenario
        self.topology: Topology = build_topology(scenario.topology)
        check_expressible(scenario, self.topology, PORTS_A_SESSION - 1)
        self.warnings: list[str] = differences(scenario)
        self.overruns = 0
        self._closed = False
        self._laws = Laws(
            scenario,
            self.topology,
            programs,
            transport,
            flow_transports,
            first_slot=session * SLOTS_A_SESSION,
            parameter_set=session,
            parameters=parameters,
        )
        first_port = session * PORTS_A_SESSION + 1
        self._ports = np.arange(first_port, first_port + self.topology.n_links)
        self._traffic: Traffic | None = None
        self._zero_ns = 0
        self._end_ns: int | None = None  # of the last interval; None before the first
        self.bundle_packets = packets_a_bundle(scenario, self.topology)
        if self.bundle_packets > 1 and scenario.transport.segmentation_offload_bytes is None:
            self.warnings.append(
                f"packets travel in bundles of up to {self.bundle_packets} (TSO) to spare the processor"
            )
        self.packet_processor = processor_for_packets(self.topology, session)
        self._fabric = Fabric(
            self.topology,
            scenario.transport,
            first_port=first_port,
            bundle_packets=self.bundle_packets,
            programs=programs,
            packet_processor=self.packet_processor,
        )
        try:
            if STEERING_SETTING in self._fabric.absent:
                self.packet_processor = None
            self._queues = Queues(programs)
            self._set_ports()
            self._maker = ConnectionMaker(
                self._fabric,
                self._laws.laws,
                first_port=SERVICE_PORT,
                window_bytes=largest_window_bytes(scenario, self.topology),
            )
            self.warnings += [
                f"the kernel lacks or refuses the setting net/{path}" for path in self._fabric.absent
            ]
            sharpen_timers()
            self._schedule = no_flows()
            self._begin_episode()
        except BaseException:
            self.close()
            raise

    @property
    def n_hosts(self) -> int:
        """Number of hosts."""
        return int(self.topology.n_hosts)

    def reset(self, seed: int, schedule: FlowSchedule | None = None) -> None:
        """Begin an episode: sockets closed, queues empty, counters zero, caps lifted, connections open.

        Args:
            seed: Seed of the workload; not used if ``schedule`` is given.
            schedule: Flows to run instead of the scenario's workload.

        Raises:
            BackendError: If connections cannot be opened.
        """
        if schedule is None:
            schedule = scenario_flows(self.scenario, self.topology, np.random.default_rng(seed))
        if self._traffic is not None:
            self._traffic.close()
            self._traffic = None
        self._schedule = schedule
        self._empty_queues()
        self._begin_episode()

    def apply(
        self,
        host_caps_bps: FloatArray | None = None,
        flow_rates: Pairs | None = None,
        windows: Pairs | None = None,
        window_factors: Pairs | None = None,
    ) -> None:
        """Set an agent's controls; None leaves a control unchanged.

        Args:
            host_caps_bps: Largest send rate of each host, headers included, shape (n_hosts,); inf for no cap.
            flow_rates: Flows and their rates, bit/s, headers included.
            windows: Flows and their congestion windows, packets; only of flows whose transport is
                ``learned``, ``paced`` or ``paced_flow``, or begins with ``scaled_``.
            window_factors: Such flows and the factors of their windows.

        Raises:
            SysgymError: If a flow's window is set by its own congestion control.
        """
        if host_caps_bps is not None:
            self._caps.set(np.asarray(host_caps_bps, dtype=np.float64))
        assert self._traffic is not None
        if flow_rates is not None:
            self._laws.set_rates(self._traffic, *flow_rates)
        if windows is not None:
            self._laws.set_windows(self._traffic, *windows)
        if window_factors is not None:
            self._laws.scale_windows(self._traffic, *window_factors)

    def advance(self, duration_s: float) -> float:
        """Let time pass until ``duration_s`` after the end of the previous interval.

        If that time has passed already, the interval ends ``duration_s`` from now, and :attr:`overruns`
        grows.

        Returns:
            Delay of the interval's end, in seconds.
        """
        traffic = self._traffic
        assert traffic is not None
        if self._end_ns is None:
            traffic.begin()
            self._zero_ns = self._end_ns = now_ns()
        wanted_ns = self._end_ns + round(duration_s * 1e9)
        end_ns = wanted_ns
        if wanted_ns <= now_ns():
            self.overruns += 1
            end_ns = now_ns() + round(duration_s * 1e9)
        traffic.run(end_ns)
        late_s = (now_ns() - wanted_ns) * 1e-9
        self._end_ns = end_ns
        self._note_warnings(end_ns)
        return late_s

    def wait(self, fds: Sequence[int], timeout_s: float) -> None:
        """Move traffic until one of the files can be read or the time is over."""
        assert self._traffic is not None
        self._traffic.run(now_ns() + round(timeout_s * 1e9), fds, spin=False)

    def readings(self) -> dict[str, Any]:
        """Return all counters since the reset.

        Returns:
            ``ports`` (11, n_links) and ``hosts`` (11, n_hosts), with rows as in ``PortCounters`` and
            ``HostCounters``, and ``now_s``, the time of the reading.
        """
        assert self._traffic is not None
        self._traffic.sample()
        now_s = 0.0 if self._end_ns is None else (now_ns() - self._zero_ns) * 1e-9
        ports = self._queues.readings(self._ports)
        self._records.take_off(self._caps.wait_s(ports))
        return {"ports": ports, "hosts": self._records.hosts(), "now_s": now_s}

    def flows(self) -> dict[str, NDArray[Any]]:
        """Return the columns of a ``FlowTable``, shape (n_flows,)."""
        assert self._traffic is not None
        self._traffic.sample()
        return self._records.table(self._ideal_fct_s())

    def flow_counters(self, flow_ids: NDArray[np.int64]) -> FloatArray:
        """Return the counters of some flows as of the last readings.

        Returns:
            Shape (n, 13), columns as in ``single_flows``.
        """
        return self._records.counters(np.asarray(flow_ids, dtype=np.int64))

    def queue_quantiles(self, quantile: float) -> FloatArray:
        """Return time-weighted quantiles of the ports' queues in bytes since the reset, shape (n_links,)."""
        return self._queues.quantiles(self._ports, quantile)

    def clear_maxima(self) -> None:
        """Begin a new interval for the maxima of the queues."""
        self._queues.clear_maxima(self._ports)

    def oracle_rates_bps(self) -> FloatArray:
        """Return the max-min fair send rate of every host for the flows active now, with room left for ACKs.

        The routes are those that the kernels of the switches choose. The result has shape (n_hosts,).
        """
        assert self._traffic is not None
        rates_bps = np.zeros(self.n_hosts)
        flows = self._traffic.active_flows
        if flows:
            ways = [self._routes(flow) for flow in flows]
            ends = self.scenario.transport
            room_bps = self.topology.link_rate_bps.copy()
            carry_acks = np.unique(np.concatenate([back for _, back in ways]))
            room_bps[carry_acks] /= 1.0 + ends.ack_bytes / ends.mtu_bytes
            of_flow = max_min_rates(_padded([way for way, _ in ways]), room_bps)
            np.add.at(rates_bps, self._schedule.src[flows], of_flow)
        return rates_bps

    def close(self) -> None:
        """Close the sockets and remove the network; closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        if self._traffic is not None:
            self._traffic.close()
        if hasattr(self, "_maker"):
            self._maker.close()
        self._laws.programs.sockets.close()  # sockets keep namespaces alive; they are opened again on demand
        self._fabric.close()

    def _set_ports(self) -> None:
        topology, queue = self.topology, self.scenario.queue
        early = EarlyDetection.of_queue(queue, self.scenario.transport.mtu_bytes)
        for link, interface in enumerate(self._fabric.interfaces):
            buffer_bytes: float = topology.link_buffer_bytes[link]
            threshold: float | None = topology.link_ecn_threshold_bytes[link]
            if np.isnan(buffer_bytes):
                buffer_bytes = queue.buffer_bytes
            if threshold is None or np.isnan(threshold):
                threshold = queue.ecn_threshold_bytes
            if topology.from_host[link]:  # hosts neither drop nor mark
                buffer_bytes, threshold = HOST_BUFFER_BYTES, None
            settings = PortSettings(
                rate_bps=float(topology.link_rate_bps[link]),
                buffer_bytes=int(buffer_bytes),
                ecn_threshold_bytes=None if threshold is None else int(threshold),
                early_detection=None if topology.from_host[link] else early,
                loss_probability=self.scenario.faults.loss_probability,
            )
            self._queues.set_port(
                self._fabric.netns_pid(link), interface.name, settings, int(self._ports[link])
            )

    def _empty_queues(self) -> None:
        """Discard long queues after the sockets have closed, and lift caps; short queues drain."""
        self._fabric.empty_cables()
        for link, interface in enumerate(self._fabric.interfaces):
            pid = self._fabric.netns_pid(link)
            if self._queues.counters(pid, interface.name).backlog_bytes > _DRAIN_BYTES:
                self._queues.reset_port(pid, interface.name)
        self._caps.lift()

    def _begin_episode(self) -> None:
        schedule, ends = self._schedule, self.scenario.transport
        self._records = FlowRecords(
            schedule,
            self.n_hosts,
            header_bytes=ends.header_bytes,
            payload_bytes=ends.payload_bytes,
            reports=self._laws.reports,
        )
        law_of_flow = self._laws.of_flows(schedule)
        paths = Paths(self._fabric, schedule)
        persistent = ends.connections == "persistent"
        pool = ConnectionPool(schedule, law_of_flow.tolist()) if persistent else None
        self._traffic = Traffic(schedule, self._records, self._maker, self._laws, law_of_flow, paths, pool)
        if paths.n_astray:
            self.warnings.append(f"{paths.n_astray} flows take other paths than on the simulator")
        self._way_of_flow: dict[int, tuple[NDArray[np.int32], NDArray[np.int32]]] = {}
        self._ideal_s: FloatArray | None = None
        self._end_ns = None
        self._watch = SaturationWatch(self.topology, ends.mtu_bytes, self.packet_processor)
        self._caps = HostCaps(self._fabric, self._queues, self._watch, ends.mtu_bytes * self.bundle_packets)
        self.overruns = 0
        self._n_failures = 0
        for port in self._ports.tolist():
            self._laws.programs.clear_port(port)
        gc.freeze()  # objects that live as long as the episode need not be scanned during it

    def _routes(self, flow: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the links of a flow's data and of its ACKs."""
        way = self._way_of_flow.get(flow)
        if way is None:
            assert self._traffic is not None
            src, dst = int(self._schedule.src[flow]), int(self._schedule.dst[flow])
            src_port = self._traffic.source_port(flow)
            dst_port = self._traffic.destination_port(flow)
            way = (
                self._fabric.route(src, dst, src_port, dst_port),
                self._fabric.route(dst, src, dst_port, src_port),
            )
            self._way_of_flow[flow] = way
        return way

    def _ideal_fct_s(self) -> FloatArray:
        """Return ideal completion times, computed as on the simulator for a path of the same length."""
        if self._ideal_s is None:
            schedule, ends = self._schedule, self.scenario.transport
            sized = schedule.size_bytes >= 0
            n_packets = np.where(sized, -(-schedule.size_bytes // ends.payload_bytes), 1)
            last_bytes = np.where(sized, schedule.size_bytes - (n_packets - 1) * ends.payload_bytes, 1)
            routes = (
                ecmp_routes(self.topology, schedule.src, schedule.dst, schedule.src_port, schedule.dst_port)
                if len(sized)
                else np.empty((0, 1), np.int32)
            )
            ideal_s = ideal_completion_s(
                routes,
                ends.mtu_bytes,
                n_packets,
                last_bytes + ends.header_bytes,
                self.topology,
            )
            self._ideal_s = np.where(sized, ideal_s, np.nan)
        return self._ideal_s

    def _note_warnings(self, present_ns: int) -> None:
        assert self._traffic is not None
        self.warnings += self._traffic.failures[self._n_failures :]
        self._n_failures = len(self._traffic.failures)
        if self._traffic.active_flows:
            self.warnings += self._watch.look(present_ns, lambda: self._queues.readings(self._ports))


def _padded(routes: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    table = np.full((len(routes), max(map(len, routes))), -1, dtype=np.int32)
    for row, route in zip(table, routes, strict=True):
        row[: len(route)] = route
    return table
