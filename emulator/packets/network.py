"""Packet-level network in simulated time, the backend of the congestion control environments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Controls, FlowIds, Readings, checked_host_caps
from sysgym.emulator.packets.build import Assembly, connection_pools
from sysgym.emulator.packets.changes.change import changed
from sysgym.emulator.packets.changes.running import Running
from sysgym.emulator.packets.counters.counted import CountedNetwork
from sysgym.emulator.packets.counters.recording import (
    MOST_ROWS,
    Recording,
    TimedCalls,
    checked_flows,
    with_room_for_packets,
)
from sysgym.emulator.packets.counters.single_flows import multiply_windows, set_paces
from sysgym.emulator.packets.engine.events import MAX_TIME_NS
from sysgym.emulator.packets.engine.link_faults import LinkFaults
from sysgym.emulator.packets.engine.loop import EXTENDED, PLAIN, Loop
from sysgym.emulator.packets.engine.receivers.handler import receivers_address
from sysgym.emulator.packets.growth import extended, with_more_packets
from sysgym.emulator.packets.memory.records import TRANSPORT_FAILED
from sysgym.emulator.packets.own_transports import give_own_transports
from sysgym.emulator.packets.requirements import check_requirements, needs_extended_loop
from sysgym.emulator.packets.sizing.estimate import check_size
from sysgym.emulator.packets.stepping import cap_hosts
from sysgym.emulator.packets.topology import Topology, build_topology
from sysgym.emulator.packets.transport_errors import transport_failure
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.emulator.packets.transports.base import callback_addresses
from sysgym.emulator.packets.workloads import FlowSchedule, scenario_flows
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import SysgymError, TransportError

FloatArray = NDArray[np.float64]


class PacketNetwork(CountedNetwork):
    """Datacenter network at packet level: topology, queues, transports and a seeded workload.

    The same scenario, transport and seed give identical results in every process.

    Args:
        scenario: Scenario to simulate.
        transport: Congestion control of all flows: a registered name or a :class:`Transport`.
        flow_transports: Transports by flow, for flows with a transport of their own.

    Raises:
        UnknownName: If there is no transport of that name.
        SysgymError: If a transport's callbacks cannot be compiled.
    """

    def __init__(
        self,
        scenario: CongestionScenario,
        *,
        transport: str | Transport = "dctcp",
        flow_transports: Mapping[int, str | Transport] | None = None,
    ) -> None:
        check_size(scenario)
        self.scenario = scenario
        self.transport = self._law_on_hosts(transport)
        self.flow_transports: dict[int, Transport] = {
            flow_id: self._law_on_hosts(own) for flow_id, own in (flow_transports or {}).items()
        }
        check_requirements(scenario, self.transport, self.flow_transports.values())
        self.topology: Topology = build_topology(scenario.topology)
        self.line_rate_bps: FloatArray = self.topology.link_rate_bps[self.topology.host_uplink]
        self._faults = LinkFaults(scenario, self.topology)
        self._loop: Loop
        self._laws: tuple[Transport, ...]
        self.reset(0)

    @property
    def link_rate_bps(self) -> FloatArray:
        """Present rate of every link, bit/s, shape (n_links,); initially that of the topology."""
        return self._faults.link_rate_bps

    @property
    def now_ns(self) -> int:
        """Simulated time since the reset."""
        return int(self._state.world["now_ns"][0])

    @property
    def now_s(self) -> float:
        """Simulated time since the reset."""
        return self.now_ns * 1e-9

    @property
    def schedule(self) -> FlowSchedule:
        """The flows of this episode."""
        return self._schedule

    @property
    def running(self) -> Running:
        """The network as the values that :meth:`change` replaces; for reading only."""
        flows = self._schedule, self._state, self._ideal_fct_s
        laws = self._laws, bool(self.flow_transports), self._loop is EXTENDED
        return Running(self.scenario, self.topology, *flows, *laws, self._seed)

    @property
    def law(self) -> Transport:
        """Law of the flows that begin now: ``transport``, or the one that it was changed to."""
        return self.transport if self.flow_transports else self._laws[-1]

    @property
    def packet_hops(self) -> int:
        """Link crossings of data packets and ACKs since the reset, the unit of the simulator's work."""
        return int(self._state.world["hops"][0])

    def reset(self, seed: int, schedule: FlowSchedule | None = None) -> None:
        """Empty the network, lift all caps and go back to time 0.

        Args:
            seed: Seed of the workload, unless there is a schedule, and of all jitter.
            schedule: Flows to run instead of the scenario's workload.
        """
        rng = np.random.default_rng(seed)
        drawn = scenario_flows(self.scenario, self.topology, rng) if schedule is None else schedule
        self._schedule, self._seed = drawn, seed if schedule is None else None
        self._laws = tuple(
            {id(one): one for one in (self.transport, *self.flow_transports.values())}.values()
        )
        assembly = Assembly(
            self.scenario,
            self.topology,
            self.transport,
            drawn,
            extended=needs_extended_loop(self.scenario, self._laws, drawn),
        )
        self._state, self._ideal_fct_s = assembly.state, assembly.ideal_fct_s
        self._loop = EXTENDED if assembly.extended else PLAIN
        self._recording: Recording | None = None
        self._calls: TimedCalls | None = None
        self._failure: TransportError | None = None
        self._faults.begin(seed)
        self._state = self._faults.apply(self._state, 0)
        self._state.world["random_state"] = rng.integers(1, 2**63)
        self._give_flows_their_own_transports()
        self._let_compiled_code_in()
        if self.transport.rate_driven:
            self.set_host_rate_caps(self.line_rate_bps)

    def set_host_rate_caps(self, rate_bps: FloatArray) -> None:
        """Cap the send rate of each host, headers included, from now on.

        Args:
            rate_bps: Shape (n_hosts,), positive; ``inf`` lifts a cap (a rate-driven transport then sends at
                line rate).

        Raises:
            SysgymError: If the shape is wrong or a rate is not positive.
        """
        caps_bps = checked_host_caps(rate_bps, self.n_hosts)
        if self.transport.rate_driven:
            caps_bps = np.minimum(caps_bps, self.line_rate_bps)
        cap_hosts(self._address, caps_bps)
        self._resolve_halts()

    def scale_windows(self, flow_ids: NDArray[np.int64], factor: FloatArray | float) -> None:
        """Multiply congestion windows; each stays between one packet and the largest window.

        A flow that may now send more does so when its next ACK arrives.

        Args:
            flow_ids: Shape (n,).
            factor: One factor for all flows, or one for each.
        """
        multiply_windows(self._address, flow_ids, _one_each(factor, flow_ids))

    def set_flow_rates(self, flow_ids: NDArray[np.int64], rate_bps: FloatArray | float) -> None:
        """Set the pacing rates of single flows, from the next packet on, independently of their hosts' caps.

        Args:
            flow_ids: Shape (n,); their transport must be paced, such as ``PACED_FLOW``.
            rate_bps: One rate for all flows, or one for each, headers included, positive and finite.

        Raises:
            SysgymError: If nothing in this network is paced, so the rates would have no effect.
        """
        if self._loop is not EXTENDED:
            raise SysgymError(f"{self.scenario.name}: no flow of this network is paced")
        set_paces(self._address, flow_ids, _one_each(rate_bps, flow_ids))

    def change(self, settings: Mapping[str, Any], *, transport: str | Transport | None = None) -> None:
        """Change settings of the running network, from its present time until the next reset.

        Args:
            settings: New values by dotted key of the scenario. :func:`~.changes.running.changeable_keys` has
                the possible keys and when each one acts.
            transport: Law to which all flows go over; None: none. It must get along with the network's
                first one, see :func:`~.changes.laws.check_law`.

        Raises:
            UnknownName: If a key cannot change, or there is no such transport.
            ScenarioError: If a value is invalid.
            SysgymError: If a recording runs, or flows or law cannot change.
        """
        if self._recording is not None:
            raise SysgymError(f"{self.scenario.name}: a recording runs, so the network cannot change")
        law = None if transport is None else self._law_on_hosts(transport)
        after = changed(self.running, settings, law)
        self.scenario, self.topology, self._schedule = after.scenario, after.topology, after.schedule
        self._state, self._ideal_fct_s, self._laws = after.state, after.ideal_fct_s, after.laws
        self._loop = EXTENDED if after.extended else PLAIN
        self._let_compiled_code_in()

    def _law_on_hosts(self, law: str | Transport) -> Transport:
        """Return a law as the hosts of this network play it."""
        known = get_transport(law) if isinstance(law, str) else law
        return known.on_hosts(self.scenario.transport.loss_detection)

    def draw_schedule(self, seed: int) -> FlowSchedule:
        """Return the scenario's workload for a seed, as drawn by :meth:`reset`."""
        return scenario_flows(self.scenario, self.topology, np.random.default_rng(seed))

    @property
    def address(self) -> int:
        """Address of the world's record, for compiled readers; valid until the next reset."""
        return self._address

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy or a pickle: everything but the addresses of compiled functions."""
        self._note_failure()  # an exception's address is valid in this process only
        return {**self.__dict__, "_loop": None, "_extended": self._loop is EXTENDED}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Restore the state of the original, in this process or another one."""
        self._loop = EXTENDED if attributes.pop("_extended") else PLAIN
        self.__dict__.update({name: value for name, value in attributes.items() if name != "_loop"})
        self._bind_callbacks()
        self._let_compiled_code_in()
        if self._recording is not None:
            self._recording.bind(self._state)

    def advance(self, duration_s: float) -> None:
        """Let simulated time pass.

        Raises:
            TransportError: If a transport raises, or writes an invalid window or rate. The world then stands
                still, and raises again when called, until the next reset.
            SysgymError: If the end is beyond the largest simulated time (2.4 hours).
        """
        self.advance_to(self.now_ns + round(duration_s * 1e9))

    def advance_to(self, until_ns: int) -> None:
        """Let simulated time pass up to a time; raises as :meth:`advance`."""
        if until_ns > MAX_TIME_NS:
            raise SysgymError(
                f"simulated time ends at {MAX_TIME_NS * 1e-9:.0f} s, asked for {until_ns * 1e-9:.0f} s"
            )
        for stop_ns in self._faults.stops_ns(self.now_ns, until_ns):
            self._run_and_sample(stop_ns)
            self._state = self._faults.apply(self._state, stop_ns)
            self._say_when_python_is_needed()
        self._run_and_sample(until_ns)

    def record(
        self,
        links: Iterable[str] = (),
        flows: Iterable[int] = (),
        *,
        packets_of: Iterable[str] | None = None,
        sample_interval_s: float = 10e-6,
        max_packets: int = 1_000_000,
        max_rows: int = MOST_ROWS,
    ) -> Recording:
        """Record every packet of some links, and samples of their queues and of some flows, from now on.

        The recording ends with the next reset or recording. Without one there is no cost.

        Args:
            links: Names of links, such as ``west->east``, with shell wildcards ``*`` and ``?``.
            flows: Ids of flows.
            packets_of: Subset of the links whose packets are kept; None: all of them.
            sample_interval_s: Simulated time between samples, s.
            max_packets: Largest number of packets; later ones are only counted.
            max_rows: Largest number of samples of flows and links together.

        Raises:
            UnknownName: If a name matches no link.
            SysgymError: If a flow does not exist or a size is invalid.
        """
        chosen = self.topology.links_of(links)
        flow_ids = checked_flows(flows, len(self._state.flows))
        kept = chosen if packets_of is None else self.topology.links_of(packets_of)
        self._state = with_room_for_packets(extended(self._state, self.topology), kept, max_packets)
        self._state.world["duplicate_threshold"] = self.scenario.duplicate_threshold
        self._state.bind()
        self._loop = EXTENDED
        self._recording = Recording(
            self._state, chosen, flow_ids, sample_interval_s=sample_interval_s, max_rows=max_rows
        )
        self._let_compiled_code_in()
        return self._recording

    def call_every(self, interval_s: float, function: Callable[[], object]) -> None:
        """Call a function at all multiples of an interval of simulated time, until the next reset.

        The function may read the network but not change it.
        """
        self._calls = TimedCalls(max(round(interval_s * 1e9), 1), function)
        self._say_when_python_is_needed()

    def _run_and_sample(self, until_ns: int) -> None:
        recording, calls = self._recording, self._calls
        while calls is not None and (call_ns := calls.next_ns(self.now_ns)) <= until_ns:
            self._run_and_record(call_ns, recording)
            calls.function()
        self._run_and_record(until_ns, recording)
        self._say_when_python_is_needed()

    def _run_and_record(self, until_ns: int, recording: Recording | None) -> None:
        while recording is not None and (sample_ns := recording.next_ns(self.now_ns)) <= until_ns:
            self._run_until(sample_ns)
            recording.bind(self._state)
            recording.take(sample_ns, self.link_rate_bps)
        self._run_until(until_ns)

    def _run_until(self, until_ns: int) -> None:
        while not self._loop.run_until.ctypes(self._address, until_ns):
            self._resolve_halts()

    def apply(self, controls: Controls) -> None:
        """Set caps, paces and windows now; raises as the methods for each of them."""
        if controls.host_caps_bps is not None:
            self.set_host_rate_caps(controls.host_caps_bps)
        if controls.flow_rates_bps is not None:
            self.set_flow_rates(*controls.flow_rates_bps)
        if controls.window_factors is not None:
            self.scale_windows(*controls.window_factors)

    def step(self, controls: Controls, duration_s: float, *, read_flows: FlowIds | None = None) -> Readings:
        """Set caps, paces and windows, let time pass and read all counters; raises as :meth:`advance`."""
        self.apply(controls)
        self.advance(duration_s)
        of_flows = None if read_flows is None else self.flow_counters(read_flows)
        return Readings(self.now_s, 0.0, self.ports(), self.hosts(), of_flows)

    def close(self) -> None:
        """Do nothing: a simulated network holds memory only."""

    def _bind_callbacks(self) -> None:
        """Write the addresses of all transports' callbacks into the state, the common transport's first."""
        self._state = self._state._replace(callbacks=callback_addresses(self._laws))
        self._state.bind()
        self._address = int(self._state.world.ctypes.data)

    def _let_compiled_code_in(self) -> None:
        """Write the entry points for compiled code; see :mod:`sysgym.emulator.packets.stepping`."""
        world = self._state.world
        world["run_until"] = self._loop.run_until.address
        world["cap_hosts"] = self._loop.cap_hosts.address
        world["extended"] = self._loop is EXTENDED
        if world["receivers"][0]:
            world["receivers"] = receivers_address()
        self._say_when_python_is_needed()

    def _say_when_python_is_needed(self) -> None:
        """Set the time from which Python is needed.

        It is now while a recording runs, else the next change of a link or timed call, or the largest time.
        """
        change_ns = self._faults.next_ns(self.now_ns)
        next_ns = MAX_TIME_NS + 1 if change_ns is None else change_ns
        if self._calls is not None:
            next_ns = min(next_ns, self._calls.next_ns(self.now_ns))
        self._state.world["python_needed_ns"] = 0 if self._recording is not None else next_ns

    def _give_flows_their_own_transports(self) -> None:
        """Set callbacks, recovery and ECN of flows with their own transports, and pools of connections."""
        self._bind_callbacks()
        flows = self._state.flows
        give_own_transports(flows, self.scenario, self._laws, self.flow_transports)
        if self.scenario.transport.connections == "persistent":
            flows["pool"] = connection_pools(self._schedule, flows["transport"])

    def _resolve_halts(self) -> None:
        """Handle the reasons for a halt: too few packet slots, or a transport that failed."""
        while self._state.world["halted"][0]:
            self._note_failure()
            if self._failure is not None:
                raise self._failure
            self._state = with_more_packets(self._state)
            self._state.bind()
            self._loop.resume_senders.ctypes(self._address, 0)

    def _note_failure(self) -> None:
        """Read the failure of a transport, once."""
        if self._failure is None and self._state.world["halted"][0] & TRANSPORT_FAILED:
            self._failure = transport_failure(self._state, self.topology, self._laws)


def _one_each(value: FloatArray | float, flow_ids: NDArray[np.int64]) -> FloatArray:
    return np.full(flow_ids.shape, value, dtype=np.float64)
