"""The networks of one or many controllers, a row each: a decision of all of them is one compiled call.

A decision has stages, as in :mod:`sysgym.envs.congestion.senders`: the rates take effect, the interval
passes, and all counters are read. Where Python is needed on the way, a row stops at its stage, Python moves
that network on, and the call is made again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sysgym.emulator.compiling import compiled
from sysgym.emulator.packets.ideal import fair_host_rates, undelivered_bytes
from sysgym.emulator.packets.layout import cap_at, world_at
from sysgym.emulator.packets.memory import call_entry_point
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.readings import (
    N_HOST_COUNTERS,
    N_PORT_COUNTERS,
    clear_maxima,
    read_hosts,
    read_ports,
)
from sysgym.emulator.packets.single_flows import source_digest
from sysgym.emulator.packets.statistics import HostCounters, PortCounters
from sysgym.emulator.packets.stepping import reaches
from sysgym.emulator.packets.wire import FIXED_POINT_BITS
from sysgym.envs.congestion.measurement import Fabric, Interval, Reading
from sysgym.scenarios import CongestionScenario

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

ACTS, BEGINS, PASSES, DONE = 0, 1, 2, 3
"""Stages of a decision."""

CONTROLLER = np.dtype(
    [
        ("world", np.int64),  # address of its record
        ("has_law", np.int64),  # 1: the hosts' transport sets rates too, and the line rate is no cap
        ("flows_end", np.int64),  # 1: no more than what is left to send counts as ideal
        ("stage", np.int64),
        ("end_ns", np.int64),
        ("interval_s", np.float64),  # of the decision that is under way, or comes next
        ("payload_fraction", np.float64),
        ("began_s", np.float64),  # the newest interval
        ("ended_s", np.float64),
        ("episode_seed", np.int64),
        ("steps", np.int64),  # decisions so far
        ("episode_steps", np.int64),
    ],
    align=True,
)
"""One row: how the network is steered, and how far its decision is."""


class Controllers:
    """The networks of several worlds with the same hosts and links.

    Attributes:
        rows: What :data:`CONTROLLER` says, shape (n,).
        fabrics: Of each; where two are equal, they are the same object.
        rates: Rates in force as fractions of the line rate, shape (n, n_hosts).
        ideal_bytes: What each host would have delivered in the newest interval, shape (n, n_hosts).

    Args:
        n: Number of worlds.
        fabric: One of the networks; the others have as many hosts and links.
    """

    def __init__(self, n: int, fabric: Fabric) -> None:
        n_hosts, n_links = fabric.n_hosts, fabric.topology.n_links
        self.rows: NDArray[Any] = np.zeros(n, CONTROLLER)
        self.rates: FloatArray = np.ones((n, n_hosts))
        self.ideal_bytes: FloatArray = np.zeros((n, n_hosts))
        self._line_rate_bps: FloatArray = np.zeros((n, n_hosts))
        self._link_rate_bps: FloatArray = np.zeros((n, n_links))
        self._ports: FloatArray = np.zeros((2, N_PORT_COUNTERS, n, n_links))
        self._hosts: FloatArray = np.zeros((2, N_HOST_COUNTERS, n, n_hosts))
        self._networks: dict[int, PacketNetwork] = {}
        self.fabrics: list[Fabric] = [fabric] * n

    def begin(self, row: int, network: PacketNetwork, fabric: Fabric, episode_seed: int) -> Interval:
        """Take up an episode and let the end of its warm-up pass, without caps; returns that interval."""
        scenario, settings = network.scenario, self.rows
        self._networks[row] = network
        self.fabrics[row] = next((known for known in self.fabrics if known.equals(fabric)), fabric)
        settings["world"][row] = network.address
        settings["has_law"][row] = not network.transport.rate_driven
        settings["flows_end"][row] = scenario.workload.kind != "long_lived"
        settings["payload_fraction"][row] = fabric.payload_fraction
        settings["episode_seed"][row] = episode_seed
        settings["episode_steps"][row] = scenario.control.episode_steps
        self._line_rate_bps[row] = fabric.line_rate_bps
        self.rates[row] = 1.0
        self._warm_up(row, scenario, network)
        settings["steps"][row] = 0
        settings["interval_s"][row] = scenario.control.decision_interval_s
        return self.interval(row)

    def decide(self, row: int, rates: FloatArray) -> Interval:
        """Let one network's rates take effect and its interval pass; returns what was measured."""
        self.rates[row] = rates
        self.rows["stage"][row] = ACTS
        self.pass_intervals(row, row + 1)
        return self.interval(row)

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Go on where the original stood, with the addresses of the copied networks."""
        self.__dict__.update(attributes)
        for row, network in self._networks.items():
            self.rows["world"][row] = network.address

    def pass_intervals(self, first: int, behind_last: int) -> None:
        """Take the decisions of rows ``first`` and on to their end; rows that are done are left alone."""
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
                    network = self._networks[row]
                    network.advance_to(int(self.rows["end_ns"][row]))
                    self._link_rate_bps[row] = network.link_rate_bps

    def interval(self, row: int) -> Interval:
        """Return one network's newest interval, as it is now."""
        settings = self.rows[row]
        began, ended = (
            Reading(
                float(settings[moment]),
                PortCounters(*self._ports[place, :, row].copy()),
                HostCounters(*self._hosts[place, :, row].copy()),
            )
            for place, moment in enumerate(("began_s", "ended_s"))
        )
        rates, ideal_bytes = self.rates[row].copy(), self.ideal_bytes[row].copy()
        return Interval(self.fabrics[row], began, ended, rates, ideal_bytes)

    def intervals(self) -> Interval | None:
        """Return all networks' newest intervals as one, its arrays of shape (n, ...); they change with it.

        None where the networks differ in rates, delays or buffers, so that there is no common fabric.
        """
        fabric = self.fabrics[0]
        if any(other is not fabric for other in self.fabrics):  # equal ones are the same since they began
            return None
        began, ended = (
            Reading(self.rows[moment], PortCounters(*self._ports[place]), HostCounters(*self._hosts[place]))
            for place, moment in enumerate(("began_s", "ended_s"))
        )
        return Interval(fabric, began, ended, self.rates, self.ideal_bytes)

    def _warm_up(self, row: int, scenario: CongestionScenario, network: PacketNetwork) -> None:
        warmup_s, interval_s = scenario.control.warmup_s, scenario.control.decision_interval_s
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
def _set_rates(world_address: int, has_law: bool, rates: Any, line_rate_bps: Any) -> None:
    """Caps every host; with a law of its own, a host that may send at its line rate has no cap."""
    world = world_at(world_address, 0)
    for host_id in range(world.n_hosts):
        cap = cap_at(world.caps, host_id)
        cap.ns_per_byte_q20 = 0
        if rates[host_id] < 1.0 or not has_law:
            cap_bps = rates[host_id] * line_rate_bps[host_id]
            cap.ns_per_byte_q20 = int(np.rint(8e9 / cap_bps * 2.0**FIXED_POINT_BITS))
    call_entry_point(world.cap_hosts, world_address, 0)


@njit(forceinline=True)
def _work_out_ideal(world: Any, row: Any, link_rate_bps: Any, out: Any) -> None:
    """Payload that the flows active now would deliver in the interval at max-min fair rates, by host."""
    fair_host_rates(world, link_rate_bps, out)
    for host_id in range(len(out)):
        out[host_id] *= row.payload_fraction * row.interval_s / 8.0
    if row.flows_end:
        left_bytes = np.empty(len(out))
        undelivered_bytes(world, left_bytes)
        for host_id in range(len(out)):
            out[host_id] = min(out[host_id], left_bytes[host_id])


def _compiled(digest: str) -> Callable[..., Any]:
    @compiled
    def pass_intervals(
        rows: Any,
        first: int,
        behind_last: int,
        rates: Any,
        line_rate_bps: Any,
        link_rate_bps: Any,
        ideal_bytes: Any,
        ports: Any,
        hosts: Any,
    ) -> int:
        """Takes each row from its stage as far as it gets; returns how many rows Python has to look at."""
        digest  # noqa: B018  (part of the cache key)
        n_left = 0
        for number in range(first, behind_last):
            row = rows[number]
            world = world_at(row.world, 0)
            if row.stage == ACTS:
                _set_rates(row.world, row.has_law != 0, rates[number], line_rate_bps[number])
                row.stage = BEGINS
            if row.stage == BEGINS:
                ports[0, :, number] = ports[1, :, number]
                hosts[0, :, number] = hosts[1, :, number]
                row.began_s = row.ended_s
                _work_out_ideal(world, row, link_rate_bps[number], ideal_bytes[number])
                clear_maxima(world)
                row.end_ns = world.now_ns + int(np.rint(row.interval_s * 1e9))
                row.stage = PASSES
            if row.stage == PASSES and reaches(row.world, row.end_ns):
                read_ports(world, ports[1, :, number])
                read_hosts(world, hosts[1, :, number])
                row.ended_s = world.now_ns * 1e-9
                row.steps += 1
                row.stage = DONE
            if row.stage != DONE:
                n_left += 1
        return n_left

    return pass_intervals


_pass_intervals = _compiled(source_digest(Path(__file__)))
