"""Client of the Linux backend, with the same interface as the packet simulator's network."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.linux.processors import ThreadKeptOff
from sysgym.emulator.linux.service import messages as m
from sysgym.emulator.linux.service.connection import START_ONE, Connection, Disconnected
from sysgym.emulator.linux.service.discovery import (
    PrivateService,
    let_go,
    running_service,
    share_private_service,
)
from sysgym.emulator.linux.service.keys import KEYS_VARIABLE
from sysgym.emulator.linux.service.runtime import ENDPOINT_VARIABLE, pid_namespace, start_ticks
from sysgym.emulator.network import Controls, FlowIds, PerFlow, Readings, checked_host_caps
from sysgym.emulator.packets.counters.rows import FlowCounterArray, as_records
from sysgym.emulator.packets.counters.statistics import FlowTable, HostCounters, PortCounters
from sysgym.emulator.packets.topology import Topology, build_topology
from sysgym.emulator.packets.topology.routing import ecmp_routes
from sysgym.emulator.packets.workloads import FlowSchedule, scenario_flows
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import BackendError, BackendUnavailable, SysgymError

FloatArray = NDArray[np.float64]
MessageT = TypeVar("MessageT", bound=m.Message)

OPEN_WITHIN_S = 120.0
"""Time limit for opening a session; a first start compiles programs for this kernel."""

ANSWER_WITHIN_S = 30.0

_MEASURED = frozenset(("queue_bytes", "queue_byte_s", "queue_max_bytes", "paused_s", "rtt_sum_s"))


class LinuxNetwork:
    """A scenario's network on the real Linux kernel, in a world process of a privileged service.

    Time is real and passes between calls, too. Counters are those read at the end of the last
    :meth:`advance`, :meth:`step`, :meth:`reset` or :meth:`refresh`, so that they describe exactly that
    interval.

    Where links are fast (500 Mb/s), packets have a processor of their own, and the thread that makes the
    network stays off it until :meth:`close`, with the threads that it starts.

    Args:
        scenario: Scenario to build.
        transport: Name of the congestion control of all flows.
        flow_transports: Exceptions, from flow to the name of its congestion control.
        parameters: Parameters of the transports that have some, such as ``neural``, by name.
        service: Endpoint of a service, ``ipc://FILE`` or ``tcp://HOST:PORT``. None uses the one named by
            ``$SYSGYM_EMULATOR``; without it, root starts a private service, which ends with its last
            network, and other users connect to the service that runs on this machine.
        keys: Folder of keys, for tcp. None uses the one named by ``$SYSGYM_EMULATOR_KEYS``.

    Raises:
        BackendUnavailable: If no service can be reached or started, or the kernel lacks a feature, which is
            named.
        BackendError: If the world could not be built.
        ScenarioError: If the kernel cannot express the scenario; names the field.
        UnknownName: If a transport does not exist.
    """

    def __init__(
        self,
        scenario: CongestionScenario,
        *,
        transport: str = "dctcp",
        flow_transports: Mapping[int, str] | None = None,
        parameters: Mapping[str, Sequence[float]] | None = None,
        service: str | None = None,
        keys: Path | None = None,
    ) -> None:
        self.scenario, self.transport = scenario, transport
        self.flow_transports = dict(flow_transports or {})
        self.parameters = {law: list(values) for law, values in (parameters or {}).items()}
        self.topology: Topology = build_topology(scenario.topology)
        self.line_rate_bps: FloatArray = self.topology.link_rate_bps[self.topology.host_uplink]
        self.warnings: tuple[str, ...] = ()
        self._private: PrivateService | None = None
        self._service: Connection | None = None
        self._world: Connection | None = None
        self._opened: m.Opened | None = None
        self._kept_off: ThreadKeptOff | None = None
        self._readings: Readings
        self._schedule: FlowSchedule
        try:
            self._connect(service, keys)
            self.reset(0)
        except BaseException:
            self.close()
            raise

    def _connect(self, service: str | None, keys: Path | None) -> None:
        named = service or os.environ.get(ENDPOINT_VARIABLE)
        if named is None and os.geteuid() == 0:
            self._private = share_private_service()
            named = self._private.endpoint
        endpoint = named or running_service()
        if keys is None and KEYS_VARIABLE in os.environ:
            keys = Path(os.environ[KEYS_VARIABLE])
        self._service = Connection(endpoint, keys)
        try:
            # A service that has just started compiles first.
            self._service.ask(m.Hello(), m.Greeting, timeout_s=60.0)
        except Disconnected as error:
            raise BackendUnavailable("linux", str(error), START_ONE) from None
        me = m.Client(pid=os.getpid(), start_ticks=start_ticks(os.getpid()), pid_namespace=pid_namespace())
        request = m.Open.of(
            scenario=self.scenario.resolved(),
            transport=self.transport,
            flow_transports=sorted(self.flow_transports.items()),
            parameters=self.parameters,
            client=me if endpoint.startswith("ipc:") else None,
        )
        self._opened = self._service.ask(request, m.Opened, OPEN_WITHIN_S)
        if self._opened.packet_processor is not None and request.client is not None:
            self._kept_off = ThreadKeptOff(self._opened.packet_processor)
        self._world = Connection(_reachable(self._opened.endpoint, endpoint), keys)
        world = self._ask(m.Attach(token=self._opened.token), m.World)
        if (world.n_links, world.n_hosts) != (self.n_links, self.n_hosts):
            raise BackendError(
                f"the world has {world.n_hosts} hosts, {world.n_links} links; expected this topology's"
            )

    @property
    def n_hosts(self) -> int:
        """Number of hosts."""
        return int(self.topology.n_hosts)

    @property
    def n_links(self) -> int:
        """Number of directed links, each with its output port."""
        return int(self.topology.n_links)

    @property
    def link_rate_bps(self) -> FloatArray:
        """Current rate of every link, shape (n_links,). On the kernel it is always that of the topology."""
        rates_bps: FloatArray = self.topology.link_rate_bps
        return rates_bps

    def routes(self, *, acks: bool = False) -> NDArray[np.int32]:
        """Return the links that each flow's data or ACKs take.

        The routes are the simulator's: source ports are chosen so that the kernel's flows take the same
        paths.

        Args:
            acks: Return the routes of ACKs instead of data.

        Returns:
            Shape (n_flows, longest route), padded with -1.
        """
        flows = self._schedule
        if acks:
            return ecmp_routes(self.topology, flows.dst, flows.src, flows.dst_port, flows.src_port)
        return ecmp_routes(self.topology, flows.src, flows.dst, flows.src_port, flows.dst_port)

    @property
    def now_s(self) -> float:
        """Time from the reset to the last reading, by the kernel's monotonic clock."""
        return self._readings.now_s

    @property
    def jitter_s(self) -> float:
        """Delay of the end of the last interval, in seconds."""
        return self._readings.jitter_s

    @property
    def schedule(self) -> FlowSchedule:
        """The flows of this episode."""
        return self._schedule

    def draw_schedule(self, seed: int) -> FlowSchedule:
        """Return the scenario's workload for a seed, the same flows as on the simulator."""
        return scenario_flows(self.scenario, self.topology, np.random.default_rng(seed))

    def reset(self, seed: int, schedule: FlowSchedule | None = None) -> None:
        """Empty the network and go back to time 0; caps are lifted.

        Args:
            seed: Seed of the workload; not used if ``schedule`` is given.
            schedule: Flows to run instead of the scenario's workload.
        """
        chosen = self.draw_schedule(seed) if schedule is None else schedule
        if len(chosen.src) > m.MAX_FLOWS:
            raise SysgymError(f"{len(chosen.src)} flows; the Linux backend has room for {m.MAX_FLOWS}")
        request = m.Reset.of(seed=seed, schedule=m.Schedule.from_flows(chosen))
        self._keep(self._ask(request, m.Readings, timeout_s=2 * ANSWER_WITHIN_S))
        self._schedule = chosen

    def set_host_rate_caps(self, rate_bps: FloatArray) -> None:
        """Cap the rate at which each host sends, headers included, from now on.

        Args:
            rate_bps: Shape (n_hosts,), positive; ``inf`` lifts a cap.

        Raises:
            SysgymError: If the shape is wrong or a rate is not positive.
        """
        self.apply(Controls(host_caps_bps=rate_bps))

    def set_flow_rates(self, flow_ids: FlowIds, rate_bps: FloatArray | float) -> None:
        """Set the pacing rates of single flows, independently of their hosts' other flows.

        Args:
            flow_ids: Shape (n,).
            rate_bps: One rate for all flows or one for each, headers included, positive and finite.
        """
        self.apply(Controls(flow_rates_bps=PerFlow(flow_ids, rate_bps)))

    def set_windows(self, flow_ids: FlowIds, packets: FloatArray | float) -> None:
        """Set the congestion windows of flows of the transport ``learned``.

        Args:
            flow_ids: Shape (n,).
            packets: One window for all flows or one for each.
        """
        self._ask(m.Apply.of(windows=_pairs(PerFlow(flow_ids, packets))), m.Ok)

    def scale_windows(self, flow_ids: FlowIds, factor: FloatArray | float) -> None:
        """Multiply congestion windows from each flow's next ACK on; a window is never below one packet.

        Args:
            flow_ids: Shape (n,); flows whose transport is ``learned`` or begins with ``scaled_``.
            factor: One factor for all flows or one for each.
        """
        self.apply(Controls(window_factors=PerFlow(flow_ids, factor)))

    def apply(self, controls: Controls) -> None:
        """Set caps, pacing rates and windows now.

        Raises:
            SysgymError: If the caps have the wrong shape or are not positive.
        """
        told = self._told(controls)
        if any(value is not None for value in told.values()):
            self._ask(m.Apply.of(**told), m.Ok)

    def advance(self, duration_s: float) -> None:
        """Let time pass, then read all counters."""
        self._pass_interval(Controls(), duration_s, None)

    def step(self, controls: Controls, duration_s: float, *, read_flows: FlowIds | None = None) -> Readings:
        """Set caps, pacing rates and windows, let time pass, and read all counters in one round trip.

        Args:
            controls: Controls to set before the interval.
            duration_s: Length of the interval; 0 sets and reads at once.
            read_flows: Flows whose counters are returned.
        """
        if duration_s == 0.0:
            self.apply(controls)
            return self.refresh(read_flows)
        return self._pass_interval(controls, duration_s, read_flows)

    def _pass_interval(self, controls: Controls, duration_s: float, read_flows: FlowIds | None) -> Readings:
        request = m.Step.of(
            duration_s=float(duration_s),
            **self._told(controls),
            read_flows=None if read_flows is None else _ids(read_flows),
        )
        return self._keep(self._ask(request, m.Readings, timeout_s=duration_s + ANSWER_WITHIN_S))

    def refresh(self, read_flows: FlowIds | None = None) -> Readings:
        """Read all counters now."""
        request = m.Read.of(read_flows=None if read_flows is None else _ids(read_flows))
        return self._keep(self._ask(request, m.Readings))

    def ports(self) -> PortCounters:
        """Return the counters of all output ports."""
        return self._readings.ports

    def hosts(self) -> HostCounters:
        """Return the counters of all hosts."""
        return self._readings.hosts

    def flow_counters(self, flow_ids: FlowIds) -> FlowCounterArray:
        """Return the current counters of some flows, records of the type ``FLOW_COUNTERS``, shape (n,)."""
        found = self.refresh(flow_ids).flow_counters
        assert found is not None
        return found

    def flows(self) -> FlowTable:
        """Return the current counters of all flows."""
        answer = self._ask(m.ReadFlows(), m.Flows)
        return FlowTable(*(getattr(answer, name) for name in FlowTable._fields))

    def queue_quantile_bytes(self, quantile: float) -> FloatArray:
        """Return the time-weighted quantile of every port's queue since the reset, shape (n_links,)."""
        return self._ask(m.QueueQuantiles.of(quantile=quantile), m.Numbers).values

    def oracle_rates_bps(self) -> FloatArray:
        """Return the max-min fair send rate of every host for the flows active now, shape (n_hosts,)."""
        return self._ask(m.OracleRates(), m.Numbers).values

    def clear_maxima(self) -> None:
        """Begin a new interval for the maxima of the queues."""
        self._ask(m.ClearMaxima(), m.Ok)

    def close(self) -> None:
        """End the session and wait until its network is removed; closing twice is harmless.

        A private service ends with the last of its networks.
        """
        world, service, private = self._world, self._service, self._private
        self._world = self._service = self._private = None
        if self._kept_off is not None:
            self._kept_off.release()
            self._kept_off = None
        if world is not None:
            with contextlib.suppress(SysgymError):
                world.ask(m.Bye(), m.Ok, timeout_s=5.0)
            world.close()
        if service is not None:
            if world is not None:
                self._session_exit(service, within_s=10.0)
            service.close()
        if private is not None:
            let_go(private)

    def __enter__(self) -> LinuxNetwork:
        """Return the network itself, which is closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the network."""
        self.close()

    def __del__(self) -> None:
        """Close the network when it is garbage collected."""
        if "_private" in self.__dict__ and not sys.is_finalizing():
            self.close()

    def _ask(
        self, request: m.Message, answer: type[MessageT], timeout_s: float = ANSWER_WITHIN_S
    ) -> MessageT:
        if self._world is None:
            raise BackendError("this network is closed")
        try:
            return self._world.ask(request, answer, timeout_s)
        except Disconnected as error:
            raise self._death(error) from None

    def _death(self, error: BackendError) -> BackendError:
        """Return the error that says why the world ended, as its service reports it."""
        answer = None if self._service is None else self._session_exit(self._service, within_s=5.0)
        if answer is None:
            told = "and its service does not answer: has it been stopped?"
            return BackendError(f"the world has gone, {told} ({error.message})")
        if answer.alive:
            return BackendError(f"the world has gone: {error.message}")
        return BackendError(answer.words, answer.log)

    def _session_exit(self, service: Connection, within_s: float) -> m.SessionExit | None:
        """Return the service's report of an ended session, or None if there is none."""
        answer = None
        if self._opened is not None:
            question = m.ExitQuery(session=self._opened.session, token=self._opened.token)
            end = time.monotonic() + within_s
            with contextlib.suppress(SysgymError):
                while time.monotonic() < end:
                    answer = service.ask(question, m.SessionExit, timeout_s=within_s)
                    if not answer.alive:
                        break
                    time.sleep(0.01)
        return answer

    def _keep(self, read: m.Readings) -> Readings:
        self.warnings += tuple(read.new_warnings)
        self._readings = Readings(
            now_s=read.now_s,
            jitter_s=read.jitter_s,
            ports=PortCounters(*_columns(PortCounters._fields, read.ports, {"sent_bytes"})),
            hosts=HostCounters(*_columns(HostCounters._fields, read.hosts, set())),
            flow_counters=None if read.flow_counters is None else as_records(read.flow_counters),
        )
        return self._readings

    def _told(self, controls: Controls) -> dict[str, Any]:
        """Return the fields of a message that express these controls."""
        caps_bps, rates_bps, factors = (
            controls.host_caps_bps,
            controls.flow_rates_bps,
            controls.window_factors,
        )
        return {
            "host_caps_bps": None if caps_bps is None else checked_host_caps(caps_bps, self.n_hosts),
            "flow_rates": None if rates_bps is None else _pairs(rates_bps),
            "window_factors": None if factors is None else _pairs(factors),
        }


def _reachable(world: str, service: str) -> str:
    """Return a world's address as seen from this machine.

    A service that listens on all addresses does not know which of them the client uses.
    """
    if not world.startswith("tcp://"):
        return world
    return service.rpartition(":")[0] + ":" + world.rpartition(":")[2]


def _ids(flow_ids: FlowIds) -> FlowIds:
    return np.ascontiguousarray(flow_ids, dtype=np.int64)


def _pairs(per_flow: PerFlow) -> tuple[FlowIds, FloatArray]:
    flow_ids, values = per_flow
    chosen = _ids(flow_ids)
    each = np.ascontiguousarray(np.broadcast_to(np.asarray(values, dtype=np.float64), chosen.shape))
    return chosen, each


def _columns(names: tuple[str, ...], rows: FloatArray, also_measured: set[str]) -> Iterator[Any]:
    """Yield the rows as columns; counts become integers again, measured values stay floats."""
    measured = _MEASURED | also_measured
    return (row if name in measured else row.astype(np.int64) for name, row in zip(names, rows, strict=True))
