"""The Linux backend as environments see it: the same face as the packet simulator's network."""

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
"""A first start compiles programs for this kernel."""

ANSWER_WITHIN_S = 30.0

_MEASURED = frozenset(("queue_bytes", "queue_byte_s", "queue_max_bytes", "paused_s", "rtt_sum_s"))


class LinuxNetwork:
    """A scenario's network on the real Linux kernel, in a world process of a privileged service.

    Time is real: it passes also between calls. Counters are those of the end of the last :meth:`advance`,
    :meth:`step`, :meth:`reset` or :meth:`refresh`, so that what an interval is judged by is that interval.

    Args:
        scenario: What to build.
        transport: Congestion control of all flows, by name.
        flow_transports: Flow -> its own.
        parameters: Of the transport ``neural``.
        service: Where a service listens, ``ipc://FILE`` or ``tcp://HOST:PORT``; None: what
            ``$SYSGYM_EMULATOR`` names; else, for root, a private service, which ends with its last network;
            else the one that runs on this machine.
        keys: Folder of keys, for tcp; None: what ``$SYSGYM_EMULATOR_KEYS`` names.

    Raises:
        BackendUnavailable: If no service can be reached or started, or the kernel lacks something; says what.
        BackendError: If the world could not be built.
        ScenarioError: If the kernel cannot express the scenario; names the field.
        UnknownName: If there is no such transport.
    """

    def __init__(
        self,
        scenario: CongestionScenario,
        *,
        transport: str = "dctcp",
        flow_transports: Mapping[int, str] | None = None,
        parameters: Sequence[float] = (),
        service: str | None = None,
        keys: Path | None = None,
    ) -> None:
        self.scenario, self.transport = scenario, transport
        self.flow_transports = dict(flow_transports or {})
        self.parameters = tuple(parameters)
        self.topology: Topology = build_topology(scenario.topology)
        self.line_rate_bps: FloatArray = self.topology.link_rate_bps[self.topology.host_uplink]
        self.warnings: tuple[str, ...] = ()
        self._private: PrivateService | None = None
        self._service: Connection | None = None
        self._world: Connection | None = None
        self._opened: m.Opened | None = None
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
            parameters=list(self.parameters),
            client=me if endpoint.startswith("ipc:") else None,
        )
        self._opened = self._service.ask(request, m.Opened, OPEN_WITHIN_S)
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
        """Present rate of every link, shape (n_links,): the kernel's links keep the topology's."""
        rates_bps: FloatArray = self.topology.link_rate_bps
        return rates_bps

    def routes(self, *, acks: bool = False) -> NDArray[np.int32]:
        """Links that each flow's data (or its ACKs) take, shape (n_flows, longest route), padded with -1.

        Those of the simulator: the kernel's flows are given ports that lead them along the same paths.
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
        """By how much the last interval's end came late."""
        return self._readings.jitter_s

    @property
    def schedule(self) -> FlowSchedule:
        """The flows of this episode."""
        return self._schedule

    def draw_schedule(self, seed: int) -> FlowSchedule:
        """Return the scenario's workload for a seed: the flows that the simulator has for it."""
        return scenario_flows(self.scenario, self.topology, np.random.default_rng(seed))

    def reset(self, seed: int, schedule: FlowSchedule | None = None) -> None:
        """Empties the network and goes back to time 0; caps are lifted.

        Args:
            seed: Of the workload, unless there is a schedule.
            schedule: Flows to run instead of the scenario's workload.
        """
        chosen = self.draw_schedule(seed) if schedule is None else schedule
        if len(chosen.src) > m.MAX_FLOWS:
            raise SysgymError(f"{len(chosen.src)} flows; the Linux backend has room for {m.MAX_FLOWS}")
        request = m.Reset.of(seed=seed, schedule=m.Schedule.from_flows(chosen))
        self._keep(self._ask(request, m.Readings, timeout_s=2 * ANSWER_WITHIN_S))
        self._schedule = chosen

    def set_host_rate_caps(self, rate_bps: FloatArray) -> None:
        """Caps what each host sends, headers included, from now on.

        Args:
            rate_bps: Shape (n_hosts,), positive; ``inf`` lifts a cap.

        Raises:
            SysgymError: If the shape is wrong or a rate is not positive.
        """
        self.apply(Controls(host_caps_bps=rate_bps))

    def set_flow_rates(self, flow_ids: FlowIds, rate_bps: FloatArray | float) -> None:
        """Paces single flows, whatever else their hosts send.

        Args:
            flow_ids: Shape (n,).
            rate_bps: One for all or one for each, headers included, positive and finite.
        """
        self.apply(Controls(flow_rates_bps=PerFlow(flow_ids, rate_bps)))

    def set_windows(self, flow_ids: FlowIds, packets: FloatArray | float) -> None:
        """Sets the congestion windows of flows of the transport ``learned``.

        Args:
            flow_ids: Shape (n,).
            packets: One for all or one for each.
        """
        self._ask(m.Apply.of(windows=_pairs(PerFlow(flow_ids, packets))), m.Ok)

    def scale_windows(self, flow_ids: FlowIds, factor: FloatArray | float) -> None:
        """Multiplies congestion windows, from the flows' next ACK on; at least one packet remains.

        Args:
            flow_ids: Shape (n,); their transport is ``learned`` or begins with ``scaled_``.
            factor: One for all or one for each.
        """
        self.apply(Controls(window_factors=PerFlow(flow_ids, factor)))

    def apply(self, controls: Controls) -> None:
        """Set caps, paces and windows now.

        Raises:
            SysgymError: If the caps have the wrong shape or are not positive.
        """
        told = self._told(controls)
        if any(value is not None for value in told.values()):
            self._ask(m.Apply.of(**told), m.Ok)

    def advance(self, duration_s: float) -> None:
        """Let time pass, and read all counters at the end."""
        self._pass_interval(Controls(), duration_s, None)

    def step(self, controls: Controls, duration_s: float, *, read_flows: FlowIds | None = None) -> Readings:
        """Set caps, paces and windows, let time pass, and read everything: one round trip.

        Args:
            controls: What to set before.
            duration_s: Length of the interval; 0 sets and reads.
            read_flows: Flows whose counters are wanted.
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
        """Reads all counters now."""
        request = m.Read.of(read_flows=None if read_flows is None else _ids(read_flows))
        return self._keep(self._ask(request, m.Readings))

    def ports(self) -> PortCounters:
        """Counters of all output ports."""
        return self._readings.ports

    def hosts(self) -> HostCounters:
        """Counters of all hosts."""
        return self._readings.hosts

    def flow_counters(self, flow_ids: FlowIds) -> FlowCounterArray:
        """Return the counters of some flows now, records of the type ``FLOW_COUNTERS``, shape (n,)."""
        found = self.refresh(flow_ids).flow_counters
        assert found is not None
        return found

    def flows(self) -> FlowTable:
        """Counters of all flows now."""
        answer = self._ask(m.ReadFlows(), m.Flows)
        return FlowTable(*(getattr(answer, name) for name in FlowTable._fields))

    def queue_quantile_bytes(self, quantile: float) -> FloatArray:
        """Time-weighted quantile of every port's queue since the reset, shape (n_links,)."""
        return self._ask(m.QueueQuantiles.of(quantile=quantile), m.Numbers).values

    def oracle_rates_bps(self) -> FloatArray:
        """Max-min fair send rate of every host for the flows active now, shape (n_hosts,)."""
        return self._ask(m.OracleRates(), m.Numbers).values

    def clear_maxima(self) -> None:
        """Begins a new interval for the largest queues."""
        self._ask(m.ClearMaxima(), m.Ok)

    def close(self) -> None:
        """Ends the session and waits until it is taken down; more than once is harmless.

        A private service ends with the last of its networks.
        """
        world, service, private = self._world, self._service, self._private
        self._world = self._service = self._private = None
        if world is not None:
            with contextlib.suppress(SysgymError):
                world.ask(m.Bye(), m.Ok, timeout_s=5.0)
            world.close()
        if service is not None:
            if world is not None:
                self._story(service, within_s=10.0)
            service.close()
        if private is not None:
            let_go(private)

    def __enter__(self) -> LinuxNetwork:
        """Itself; closed at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes."""
        self.close()

    def __del__(self) -> None:
        """What is forgotten is closed."""
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
        """Why the world has gone, as its service tells it."""
        story = None if self._service is None else self._story(self._service, within_s=5.0)
        if story is None:
            told = "and its service does not answer: has it been stopped?"
            return BackendError(f"the world has gone, {told} ({error.message})")
        if story.alive:
            return BackendError(f"the world has gone: {error.message}")
        return BackendError(story.words, story.log)

    def _story(self, service: Connection, within_s: float) -> m.Story | None:
        """What the service says of this session once it has ended; None where it says nothing."""
        story = None
        if self._opened is not None:
            question = m.WhatHappened(session=self._opened.session, token=self._opened.token)
            end = time.monotonic() + within_s
            with contextlib.suppress(SysgymError):
                while time.monotonic() < end:
                    story = service.ask(question, m.Story, timeout_s=within_s)
                    if not story.alive:
                        break
                    time.sleep(0.01)
        return story

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
        """Return the fields of a message that say what is set."""
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
    """A world's address as seen from here: a service that listens on all addresses knows none of them."""
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
    """What is counted, not measured, becomes whole numbers again."""
    measured = _MEASURED | also_measured
    return (row if name in measured else row.astype(np.int64) for name, row in zip(names, rows, strict=True))
