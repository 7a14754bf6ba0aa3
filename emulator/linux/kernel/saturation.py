"""Detection of saturated processors: packets wait for the machine instead of a link or a queue.

An emulator that forwards more slowly than its links measures itself. The sign is that every queue of the
network is empty while the machine has no idle time, which is checked a few times a second.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.topology import Topology

FloatArray = NDArray[np.float64]

_WINDOW_NS = 200_000_000
_LEAST_IDLE = 0.03
_MOST_OWN = 0.9
"""Share of one processor: a single thread does a world's traffic and packets, while others may be idle."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_FULL = 0.9
"""Share of a link's rate from which on the link counts as the bottleneck."""

_QUEUE_INTEGRAL, _SENT_BYTES = 1, 3


class CpuTime(NamedTuple):
    """Processor time since boot, in ticks of all processors together.

    Attributes:
        idle: Idle ticks.
        total: All ticks.
        own_ns: Processor time of this process, ns.
        packets_idle: Idle ticks of the processor that moves packets.
    """

    idle: int
    total: int
    own_ns: int = 0
    packets_idle: int = 0


def cpu_time(packet_processor: int | None = None) -> CpuTime:
    """Read /proc/stat, and this process's clock.

    Args:
        packet_processor: Processor that moves packets and nothing else of a world; None for none.
    """
    with open("/proc/stat", encoding="ascii") as file:
        ticks = dict(_line_of_ticks(line) for line in file if line.startswith("cpu"))
    everywhere = ticks["cpu"]
    of_packets = ticks.get(f"cpu{packet_processor}", [0] * len(everywhere))
    return CpuTime(_idle(everywhere), sum(everywhere), time.process_time_ns(), _idle(of_packets))


def _line_of_ticks(line: str) -> tuple[str, list[int]]:
    name, *ticks = line.split()[:9]
    return name, list(map(int, ticks))


def _idle(ticks: list[int]) -> int:
    return ticks[3] + ticks[4]  # idle, and waiting for a disk


class SaturationWatch:
    """Saturation watch of one episode.

    Args:
        topology: The network.
        packet_bytes: A full packet; a shorter mean queue counts as empty.
        packet_processor: Processor that moves packets and nothing else of the world; None for none.
    """

    def __init__(self, topology: Topology, packet_bytes: int, packet_processor: int | None = None) -> None:
        self._limits_bps = topology.link_rate_bps.copy()
        self._line_rate_bps = topology.link_rate_bps
        self._switch_ports = topology.switch_ports
        self._packet_bytes, self._packet_processor = packet_bytes, packet_processor
        self._before: tuple[int, CpuTime, FloatArray] | None = None
        self._told = False

    def set_cap(self, link: int, cap_bps: float) -> None:
        """Set the rate limit of a link."""
        self._limits_bps[link] = min(cap_bps, self._line_rate_bps[link])

    def look(self, present_ns: int, read_ports: Callable[[], FloatArray]) -> list[str]:
        """Return new warnings, at most one sentence in an episode.

        Args:
            present_ns: The current time.
            read_ports: Returns the counters of all ports, rows as in ``PortCounters``; rarely called.
        """
        if self._told or (self._before is not None and present_ns - self._before[0] < _WINDOW_NS):
            return []
        before, self._before = self._before, (present_ns, cpu_time(self._packet_processor), read_ports())
        return [] if before is None else self._compare(before, self._before)

    def _compare(
        self, before: tuple[int, CpuTime, FloatArray], after: tuple[int, CpuTime, FloatArray]
    ) -> list[str]:
        elapsed_s = (after[0] - before[0]) * 1e-9
        ticks = after[1].total - before[1].total
        idle = (after[1].idle - before[1].idle) / ticks if ticks else 1.0
        own = (after[1].own_ns - before[1].own_ns) / (after[0] - before[0])
        change = (after[2] - before[2]) / elapsed_s
        queue_bytes = change[_QUEUE_INTEGRAL, self._switch_ports].max(initial=0.0)
        carried_bps = 8 * change[_SENT_BYTES]
        is_full = bool(np.any(carried_bps > _FULL * self._limits_bps)) or queue_bytes > self._packet_bytes
        if is_full or (idle >= _LEAST_IDLE and own <= _MOST_OWN and self._packets_have_time(before, after)):
            return []
        self._told = True
        return [
            "the processors are the bottleneck, not a link: there was no time left while the queues of the"
            f" switches were empty and the fastest link carried {carried_bps.max() / 1e6:.0f} Mb/s;"
            " use slower links or a faster machine"
        ]

    def _packets_have_time(
        self, before: tuple[int, CpuTime, FloatArray], after: tuple[int, CpuTime, FloatArray]
    ) -> bool:
        """Return whether the processor that moves packets was idle for a part of the time.

        The kernel does not count all of the time in which an idle processor moves packets as busy, but none
        of it as idle: idle ticks are compared with the clock.
        """
        if self._packet_processor is None:
            return True
        ticks = (after[0] - before[0]) * 1e-9 * _TICKS_PER_S
        return after[1].packets_idle - before[1].packets_idle >= _LEAST_IDLE * ticks
