"""Changes of link rates within an episode.

A queue is represented by its drain time, so a new rate rescales times: the times of packets that have not
left yet, the limits, and the statistics that are kept as times. Packets on the cable are not affected.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.packets.engine.event_queue.tournament import add, has_event, remove
from sysgym.emulator.packets.engine.events import event_key
from sysgym.emulator.packets.engine.wire import ns_per_byte_q20
from sysgym.emulator.packets.memory.records import NEVER_NS, NOBODY
from sysgym.emulator.packets.memory.state import State
from sysgym.emulator.packets.topology import Topology
from sysgym.scenarios.schema.congestion.network import RateChange
from sysgym.scenarios.schema.tables import Range

RATES_STREAM = 0x8A7E
"""Separates these draws from the workload's draws with the same seed."""


class RateChanges:
    """Rate changes of an episode, drawn anew for each episode.

    Args:
        changes: Rate changes of the scenario.
        links: Links affected by each change, one array per change.
        topology: The network, with the initial rates.
        horizon_s: Time after which nothing changes, s.

    Attributes:
        link_rate_bps: Present rate of every link, shape (n_links,).
        stops_ns: Times at which something changes, ascending.
    """

    def __init__(
        self,
        changes: tuple[RateChange, ...],
        links: list[NDArray[np.int64]],
        topology: Topology,
        horizon_s: float,
    ) -> None:
        self._changes, self._links, self._topology, self._horizon_s = changes, links, topology, horizon_s
        self.link_rate_bps: NDArray[np.float64] = topology.link_rate_bps
        self.stops_ns: list[int] = []
        self._what: list[tuple[int, float]] = []

    def draw(self, seed: int) -> None:
        """Draw the changes of an episode, and restore the initial rates."""
        self.link_rate_bps = self._topology.link_rate_bps
        drawn = []
        for number, change in enumerate(self._changes):
            rng = np.random.default_rng([RATES_STREAM, number, seed])
            time_s = _drawn(change.interval_s, rng)
            while time_s < self._horizon_s:
                rate = change.rate_bps if change.factor is None else change.factor
                assert rate is not None
                drawn.append((round(time_s * 1e9), number, _drawn(rate, rng)))
                time_s += _drawn(change.interval_s, rng)
        drawn.sort()
        self.stops_ns = [time_ns for time_ns, _, _ in drawn]
        self._what = [(number, value) for _, number, value in drawn]

    def apply(self, state: State, now_ns: int) -> None:
        """Apply the changes due at exactly ``now_ns``, which must be the present simulated time."""
        end = bisect_right(self.stops_ns, now_ns)
        begin = bisect_right(self.stops_ns, now_ns - 1)
        for number, value in self._what[begin:end]:
            links = self._links[number]
            rates_bps = self.link_rate_bps.copy()
            factor = self._changes[number].factor
            rates_bps[links] = value if factor is None else value * self._topology.link_rate_bps[links]
            self.link_rate_bps = rates_bps
            self.link_rate_bps.flags.writeable = False
            for link_id in links:
                rate_bps = float(rates_bps[link_id])
                first_q20 = int(ns_per_byte_q20(float(self._topology.link_rate_bps[link_id])))
                new_q20 = int(ns_per_byte_q20(rate_bps))
                state.ports["rate_bps"][link_id] = round(rate_bps)
                state.ports["drain_scale"][link_id] = first_q20 / new_q20
                _change_rate(state.world, state.links, state.ports, state.packets, link_id, new_q20)


def _drawn(ends: Range, rng: np.random.Generator) -> float:
    return float(ends.at(float(rng.random())))


@cached_kernel()
def _change_rate(worlds: Any, links: Any, ports: Any, packets: Any, link_id: int, new_q20: int) -> None:
    """Change a link's rate now; the integral of its queue must be up to date."""
    world, link, port = worlds[0], links[link_id], ports[link_id]
    now_ns = world.now_ns
    ratio = new_q20 / link.ns_per_byte_q20
    link.ns_per_byte_q20 = new_q20
    backlog_ns = max(link.busy_until_ns - now_ns, 0)
    slot = link.head
    while slot != NOBODY:
        packet = packets[slot]
        # Part of the time until arrival in which the packet waits and is sent; the rest is the cable's delay.
        leaves_ns = min(max(packet.arrival_ns - link.delay_ns - now_ns, 0), backlog_ns)
        packet.arrival_ns += int(leaves_ns * ratio + 0.5) - leaves_ns
        link.last_arrival_ns = packet.arrival_ns
        slot = packet.next
    if backlog_ns > 0:
        link.busy_until_ns = now_ns + int(backlog_ns * ratio + 0.5)
    link.max_backlog_ns = int(link.max_backlog_ns * ratio + 0.5)
    link.backlog_integral_ns2 *= ratio
    if link.buffer_ns < NEVER_NS:
        link.buffer_ns = int(link.buffer_ns * ratio + 0.5)
    if link.mark_above_ns < NEVER_NS:
        link.mark_above_ns = int(link.mark_above_ns * ratio + 0.5)
    port.red_min_ns *= ratio
    port.red_max_ns *= ratio
    port.red_average_ns *= ratio
    host_source = world.n_links + port.sends_for_host if port.sends_for_host != NOBODY else NOBODY
    if link.head != NOBODY:
        remove(world, link_id)
        add(world, link_id, event_key(packets[link.head].arrival_ns, link_id))
    if host_source != NOBODY and has_event(world, host_source):  # the host recomputes its next send time
        remove(world, host_source)
        add(world, host_source, event_key(now_ns, host_source))
