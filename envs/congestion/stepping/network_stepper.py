"""Batched stepping of whole networks: set the rate of every host, simulate an interval, read all counters.

If a network needs Python (for more packet memory, a link failure, or the recording of packets), its row stops
at its stage, Python advances the network, and the compiled call is repeated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.network import Network
from sysgym.emulator.packets.counters.fair_share import fair_host_rates, undelivered_bytes
from sysgym.emulator.packets.counters.readings import (
    N_HOST_COUNTERS,
    N_PORT_COUNTERS,
    clear_maxima,
    read_hosts,
    read_ports,
)
from sysgym.emulator.packets.counters.statistics import HostCounters, PortCounters
from sysgym.emulator.packets.memory.numba_records import record_dtype
from sysgym.emulator.packets.memory.records import world_at
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.stepping import after_ns, enforce_caps, now_ns, reaches, request_cap
from sysgym.envs.congestion.datacenter.derived import Derived
from sysgym.envs.congestion.datacenter.fair_rates import LoadedLinks
from sysgym.envs.congestion.datacenter.measurement import Fabric, Interval, Reading, Routing
from sysgym.envs.congestion.datacenter.paths import paths_of_hosts
from sysgym.envs.congestion.stepping.protocol import ACTS, BEGINS, DONE, PASSES, Rows, simulated
from sysgym.scenarios import CongestionScenario

FloatArray = NDArray[np.float64]


class ControlledNetwork:
    """Control settings and decision state of a network: the fields of :data:`CONTROLLED_NETWORK`."""

    world: int
    """Address of the network's record; 0 before the first episode and on the kernel."""
    has_law: int
    """1 if the transport of the hosts sets rates too, so that the line rate means no cap."""
    flows_end: int
    """1 if flows are finite, so that the data left to send limits the ideal."""
    stage: int
    """Stage of the current decision, or of the next one."""
    end_ns: int
    interval_s: float
    """Length of the newest interval."""
    payload_fraction: float
    began_s: float
    ended_s: float
    episode_seed: int
    steps: int
    """Number of decisions so far."""
    episode_steps: int


CONTROLLED_NETWORK = record_dtype(ControlledNetwork)


class NetworkStepper:
    """Stepper of several networks with the same hosts and links.

    Attributes:
        rows: :data:`CONTROLLED_NETWORK` records, shape (n,).
        fabrics: Fabric of each network; equal fabrics are the same object.
        rates: Rates in force as fractions of the line rate, shape (n, n_hosts).
        ideal_bytes: Ideal payload of each host in the newest interval, shape (n, n_hosts).

    Args:
        n: Number of networks.
        fabric: Fabric of one of the networks; all have the same numbers of hosts and links.
        has_law: Whether the transport of the hosts sets rates too, so that the line rate means no cap.
        with_routing: Whether intervals contain routing, which takes n_hosts * n_ports bytes per network.
    """

    def __init__(self, n: int, fabric: Fabric, *, has_law: bool, with_routing: bool = False) -> None:
        n_hosts, n_links = fabric.n_hosts, fabric.topology.n_links
        self.rows: Rows = np.zeros(n, CONTROLLED_NETWORK)
        self.rows["has_law"], self.rows["stage"] = has_law, DONE
        self.rates: FloatArray = np.ones((n, n_hosts))
        self.ideal_bytes: FloatArray = np.zeros((n, n_hosts))
        self._routing = (
            Routing(np.zeros((n, n_hosts, fabric.n_ports), np.bool_), np.zeros((n, n_hosts)))
            if with_routing
            else None
        )
        self._line_rate_bps: FloatArray = np.zeros((n, n_hosts))
        self._link_rate_bps: FloatArray = np.zeros((n, n_links))
        # Counters at the beginning and the end of the newest interval.
        self._ports: FloatArray = np.zeros((2, N_PORT_COUNTERS, n, n_links))
        self._hosts: FloatArray = np.zeros((2, N_HOST_COUNTERS, n, n_hosts))
        self._simulated: dict[int, PacketNetwork] = {}
        self.fabrics: list[Fabric] = [fabric] * n

    def begin(self, row: int, network: Network, fabric: Fabric, episode_seed: int) -> Interval:
        """Begin an episode and simulate the end of its warm-up, without caps; return that interval."""
        scenario, rows = network.scenario, self.rows
        self._attach(row, network)
        self.fabrics[row] = next((known for known in self.fabrics if known.equals(fabric)), fabric)
        rows["flows_end"][row] = scenario.workload.kind != "long_lived"
        rows["payload_fraction"][row] = fabric.payload_fraction
        rows["episode_seed"][row] = episode_seed
        rows["episode_steps"][row] = scenario.control.episode_steps
        self._line_rate_bps[row] = fabric.line_rate_bps
        if self._routing is not None:
            self._routing.uses[row] = paths_of_hosts(network, fabric)
            self._routing.fair_rates[row] = LoadedLinks(network, fabric).static_shares()
        self.rates[row] = 1.0
        self._warm_up(row, scenario)
        rows["steps"][row] = 0
        rows["interval_s"][row] = scenario.control.decision_interval_s
        return self.interval(row)

    def decide(self, row: int, rates: FloatArray) -> Interval:
        """Apply the rates of one network and simulate its interval; return the measurements."""
        self.rates[row] = rates
        self.rows["stage"][row] = ACTS
        self.pass_intervals(row, row + 1)
        return self.interval(row)

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Restore the state of the original, with the addresses of the copied networks."""
        self.__dict__.update(attributes)
        for row, network in self._simulated.items():
            self.rows["world"][row] = network.address

    def pass_intervals(self, first: int, behind_last: int) -> None:
        """Complete the decisions of rows ``first`` and following; finished rows are skipped."""
        while _pass_intervals(
            self.rows,
            first,
            behind_last,
            self.rates,
            self._line_rate_bps,
            self._link_rate_bps,
            self.ideal_bytes,
            self._ports,
            self._hosts,
        ):
            for row in range(first, behind_last):
                if self.rows["stage"][row] == PASSES:
                    network = self._simulated[row]
                    network.advance_to(int(self.rows["end_ns"][row]))
                    self._link_rate_bps[row] = network.link_rate_bps

    def interval(self, row: int) -> Interval:
        """Return a copy of the newest interval of one network."""
        settings, alone = self.rows[row], slice(row, row + 1)
        ports, hosts = self._ports[:, :, alone].copy(), self._hosts[:, :, alone].copy()
        began, ended = (
            Reading(
                float(settings[moment]), PortCounters(*ports[place, :, 0]), HostCounters(*hosts[place, :, 0])
            )
            for place, moment in enumerate(("began_s", "ended_s"))
        )
        rates, ideal_bytes = self.rates[alone].copy(), self.ideal_bytes[alone].copy()
        known = self._routing
        routing = None if known is None else Routing(known.uses[row].copy(), known.fair_rates[row].copy())
        interval = Interval(self.fabrics[row], began, ended, rates[0], ideal_bytes[0], routing)
        duration_s = interval.duration_s[np.newaxis]
        derived = Derived.of_one(self.fabrics[row].arrays, ports, hosts, duration_s, rates, ideal_bytes)
        interval.__dict__["derived"] = derived  # the cached property would copy the arrays
        return interval

    def since(self, began: Reading, row: int) -> Interval:
        """Return the measurements of one network from an earlier reading on, without an ideal."""
        newest = self.interval(row)
        return Interval(newest.fabric, began, newest.after, newest.action, np.zeros_like(newest.ideal_bytes))

    def intervals(self) -> Interval | None:
        """Return the newest intervals of all networks as one, with arrays of shape (n, ...) that are views.

        Return None if the networks differ in rates, delays or buffers, so that they have no common fabric.
        """
        fabric = self.fabrics[0]
        if any(other is not fabric for other in self.fabrics):  # begin() stores equal fabrics as one object
            return None
        began, ended = (
            Reading(self.rows[moment], PortCounters(*self._ports[place]), HostCounters(*self._hosts[place]))
            for place, moment in enumerate(("began_s", "ended_s"))
        )
        interval = Interval(fabric, began, ended, self.rates, self.ideal_bytes, self._routing)
        interval.__dict__["derived"] = Derived.of(
            fabric.arrays, self._ports, self._hosts, interval.duration_s, self.rates, self.ideal_bytes
        )
        return interval

    def _attach(self, row: int, network: Network) -> None:
        """Store the network of an episode."""
        self._simulated[row] = simulated(network)
        self.rows["world"][row] = self._simulated[row].address

    def _warm_up(self, row: int, scenario: CongestionScenario) -> None:
        """Simulate the warm-up, and measure its last interval."""
        warmup_s, interval_s = scenario.control.warmup_s, scenario.control.decision_interval_s
        network = self._simulated[row]
        if warmup_s > interval_s:
            network.advance(warmup_s - interval_s)
        self._link_rate_bps[row] = network.link_rate_bps
        self.rows["interval_s"][row] = 0.0
        self._measure_from_now(row)
        self.rows["interval_s"][row] = min(interval_s, warmup_s)
        self._measure_from_now(row)

    def _measure_from_now(self, row: int) -> None:
        self.rows["stage"][row] = BEGINS
        self.pass_intervals(row, row + 1)


@njit(forceinline=True)
def _set_rates(controlled: ControlledNetwork, rates: FloatArray, line_rate_bps: FloatArray) -> None:
    """Set the cap of every host; with a congestion control law, the line rate means no cap."""
    for host_id in range(len(rates)):
        capped = rates[host_id] < 1.0 or controlled.has_law == 0
        cap_bps = rates[host_id] * line_rate_bps[host_id] if capped else math.inf
        request_cap(controlled.world, host_id, cap_bps)
    enforce_caps(controlled.world)


@njit(forceinline=True)
def _work_out_ideal(controlled: ControlledNetwork, link_rate_bps: FloatArray, out: FloatArray) -> None:
    """Compute the payload that active flows would deliver in the interval at max-min fair rates, by host."""
    world = world_at(controlled.world, 0)
    fair_host_rates(world, link_rate_bps, out)
    for host_id in range(len(out)):
        out[host_id] *= controlled.payload_fraction * controlled.interval_s / 8.0
    if controlled.flows_end:
        left_bytes = np.empty(len(out))
        undelivered_bytes(world, left_bytes)
        for host_id in range(len(out)):
            out[host_id] = min(out[host_id], left_bytes[host_id])


@cached_kernel("sysgym.emulator.packets")
def _pass_intervals(
    rows: Rows,
    first: int,
    behind_last: int,
    rates: FloatArray,
    line_rate_bps: FloatArray,
    link_rate_bps: FloatArray,
    ideal_bytes: FloatArray,
    ports: FloatArray,
    hosts: FloatArray,
) -> int:
    """Advance each row from its stage as far as possible; return the number that Python must handle."""
    n_left = 0
    for number in range(first, behind_last):
        row = rows[number]
        if row.stage == ACTS:
            _set_rates(row, rates[number], line_rate_bps[number])
            row.stage = BEGINS
        if row.stage == BEGINS:
            ports[0, :, number] = ports[1, :, number]
            hosts[0, :, number] = hosts[1, :, number]
            row.began_s = row.ended_s
            _work_out_ideal(row, link_rate_bps[number], ideal_bytes[number])
            clear_maxima(world_at(row.world, 0))
            row.end_ns = after_ns(now_ns(row.world), row.interval_s)
            row.stage = PASSES
        if row.stage == PASSES and reaches(row.world, row.end_ns):
            read_ports(world_at(row.world, 0), ports[1, :, number])
            read_hosts(world_at(row.world, 0), hosts[1, :, number])
            row.ended_s = now_ns(row.world) * 1e-9
            row.steps += 1
            row.stage = DONE
        if row.stage != DONE:
            n_left += 1
    return n_left
