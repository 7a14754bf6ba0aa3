"""Congestion controls of the kernel by the names of transports, and the controls that agents set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.linux.kernel.bpf_programs import LEARNED, LEARNED_WITHOUT_ECN, Programs, scaling
from sysgym.emulator.linux.kernel.parameters import PARAMETERS, in_fixed_point
from sysgym.emulator.linux.laws import (
    BASE_LAWS,
    KERNEL_TRANSPORTS,
    MANAGED_TRANSPORTS,
    SCALED,
    SCALED_TRANSPORTS,
)
from sysgym.emulator.linux.traffic.sockets import PACED_BUT_NOT_LIMITED, Connection, Law
from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.workloads.schedule import FlowSchedule
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import SysgymError, UnknownName

FloatArray = NDArray[np.float64]

N_SLOTS = 4095


class OpenFlows(Protocol):
    """Interface to the flows that are open."""

    def connection(self, flow: int) -> Connection | None:
        """Return a flow's connection; None if it is not open."""

    def slot(self, flow: int) -> int:
        """Return the mark of a flow's socket; 0 if it has none."""


class Laws:
    """Congestion controls of a world's flows.

    Args:
        scenario: The scenario.
        topology: Its network.
        programs: The loaded eBPF programs.
        transport: Congestion control of all flows.
        flow_transports: Exceptions, from flow to its congestion control.
        first_slot: Slots ``first_slot + 1 .. first_slot + N_SLOTS`` are this world's.
        parameter_set: Index of this world's sets of parameters.
        parameters: Parameters of the laws that have some, by the law's name.

    Attributes:
        laws: One law for each transport, the common one first.
        reports: Reports of connections with a slot, ``FLOW_RECORD``; None if no law is one of our programs.

    Raises:
        UnknownName: If the kernel has no such transport.
        BackendUnavailable: If this machine lacks the transport.
        SysgymError: If a law lacks its parameters, or they are too large for the kernel.
    """

    def __init__(
        self,
        scenario: CongestionScenario,
        topology: Topology,
        programs: Programs,
        transport: str,
        flow_transports: Mapping[int, str],
        *,
        first_slot: int,
        parameter_set: int = 0,
        parameters: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        self.programs = programs
        self.slots = range(first_slot + 1, first_slot + 1 + N_SLOTS)
        self._names = list(dict.fromkeys([transport, *flow_transports.values()]))
        self._own = {flow: self._names.index(name) for flow, name in flow_transports.items()}
        self.laws = [self._law(name) for name in self._names]
        self._line_rate_bps: FloatArray = topology.link_rate_bps[topology.host_uplink]
        self._schedule: FlowSchedule | None = None
        ends = scenario.transport
        self._initial_window, self._largest_window = ends.initial_window_packets, ends.max_window_packets
        self._payload_share = ends.payload_bytes / ends.mtu_bytes
        self._path_measured = ends.path_delay == "least_seen"
        self._mtu_bytes, self._parameter_set = ends.mtu_bytes, parameter_set
        self._actions: NDArray[Any] | None = None
        self.reports: NDArray[Any] | None = None
        for law in PARAMETERS.keys() & self._names:
            programs.parameters(law)[parameter_set] = in_fixed_point(law, (parameters or {}).get(law, ()))
        if any(law.needs_slot or law.reports for law in self.laws):
            self._actions, self.reports = programs.flow_slots()

    def of_flow(self, flow: int) -> int:
        """Return the index of a flow's law."""
        return self._own.get(flow, 0)

    def of_flows(self, schedule: FlowSchedule) -> NDArray[np.int64]:
        """Return the index of every flow's law, shape (n_flows,)."""
        self._schedule = schedule
        laws = np.zeros(len(schedule.src), dtype=np.int64)
        for flow, law in self._own.items():
            if flow < len(laws):
                laws[flow] = law
        return laws

    def prepare_slot(self, flow: int, slot: int) -> None:
        """Write the initial controls of a flow with a slot, before its socket is made."""
        assert self._actions is not None
        assert self._schedule is not None
        self.programs.clear_flow(slot)
        law, name = self.laws[self.of_flow(flow)], self._names[self.of_flow(flow)]
        actions = self._actions
        line_rate_bps = float(self._line_rate_bps[self._schedule.src[flow]])
        if law.parameters:
            actions["parameters"][slot] = self._parameter_set
            actions["line_ns"][slot] = round(8e9 * self._mtu_bytes / line_rate_bps)
            actions["path_measured"][slot] = self._path_measured
        if not law.managed:
            return
        actions["most_packets"][slot] = self._largest_window
        if name in SCALED_TRANSPORTS:
            actions["base"][slot] = BASE_LAWS[name.removeprefix(SCALED)]
            return
        is_learned = name == LEARNED
        actions["cwnd_packets"][slot] = self._initial_window if is_learned else self._largest_window
        # A socket that paces queues a millisecond's worth of its rate at its interface, so it needs a rate.
        # Other sockets queue a few packets only (net/ipv4/tcp_limit_output_bytes).
        rate = self._payload_bytes_per_s(line_rate_bps) if name != "paced" else 0
        actions["pacing_bytes_per_s"][slot] = rate

    def set_rates(self, flows: OpenFlows, flow_ids: NDArray[np.int64], rates_bps: FloatArray) -> None:
        """Set pacing rates: of managed flows through the shared memory, of others by a socket option."""
        for flow, rate_bps in zip(flow_ids.tolist(), rates_bps.tolist(), strict=True):
            connection = flows.connection(flow)
            if connection is None:
                continue
            rate = self._payload_bytes_per_s(rate_bps)
            if not self.laws[self.of_flow(flow)].paces:
                connection.set_rate(rate)
            if connection.slot:
                assert self._actions is not None
                self._actions["pacing_bytes_per_s"][connection.slot] = rate

    def set_windows(self, flows: OpenFlows, flow_ids: NDArray[np.int64], packets: FloatArray) -> None:
        """Set the windows of managed flows.

        Raises:
            SysgymError: If a flow is not managed.
        """
        for flow, window in zip(flow_ids.tolist(), packets.tolist(), strict=True):
            slot = self._managed_slot(flows, flow)
            if slot:
                assert self._actions is not None
                self._actions["cwnd_packets"][slot] = min(max(round(window), 1), self._largest_window)

    def scale_windows(self, flows: OpenFlows, flow_ids: NDArray[np.int64], factors: FloatArray) -> None:
        """Multiply the windows of managed flows from their next ACK on; a window is never below one packet.

        Raises:
            SysgymError: If a flow is not managed.
        """
        for flow, factor in zip(flow_ids.tolist(), factors.tolist(), strict=True):
            slot = self._managed_slot(flows, flow)
            if not slot:
                continue
            assert self._actions is not None
            assert self.reports is not None
            fixed = int(self._actions["cwnd_packets"][slot])
            if fixed:
                self._actions["cwnd_packets"][slot] = min(max(round(fixed * factor), 1), self._largest_window)
                continue
            before = int(self._actions["scaling"][slot])
            if before >> 32 != self.reports["scaled"][slot]:  # no ACK has arrived since the previous order
                factor *= (before & 0xFFFFFFFF) * 2.0**-20
            self._actions["scaling"][slot] = scaling((before >> 32) + 1, factor)

    def _managed_slot(self, flows: OpenFlows, flow: int) -> int:
        law = self.of_flow(flow)
        if not self.laws[law].managed:
            raise SysgymError(
                f'flow {flow}: the window belongs to its congestion control, "{self._names[law]}"; transports'
                f" whose window can be set: {', '.join((*MANAGED_TRANSPORTS, *SCALED_TRANSPORTS))}"
            )
        return flows.slot(flow)

    def _law(self, name: str) -> Law:
        if name in MANAGED_TRANSPORTS:
            paces = name != "paced"  # flows of paced are limited by their host's cap
            return Law(
                self.programs.congestion_control(LEARNED),
                managed=True,
                paces=paces,
                reports=True,
                rate_driven=name != LEARNED,
            )
        if name in SCALED_TRANSPORTS:
            with_ecn = name.removeprefix(SCALED) == "dctcp"
            found = self.programs.congestion_control(LEARNED if with_ecn else LEARNED_WITHOUT_ECN)
            return Law(found, managed=True, reports=True)
        if name in PARAMETERS:
            return Law(self.programs.congestion_control(name), reports=True, parameters=True)
        if name not in KERNEL_TRANSPORTS:
            known = (*KERNEL_TRANSPORTS, *PARAMETERS, *MANAGED_TRANSPORTS, *SCALED_TRANSPORTS)
            raise UnknownName("transport of the Linux backend", name, known)
        return Law(self.programs.congestion_control(name), reports=self.programs.reports(name))

    def _payload_bytes_per_s(self, rate_bps: float) -> int:
        """Convert a rate of whole packets to the rate of payload that the kernel paces."""
        return int(min(max(rate_bps / 8 * self._payload_share, 1.0), PACED_BUT_NOT_LIMITED))
