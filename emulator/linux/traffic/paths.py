"""Source ports that lead flows over the same paths as the simulator's flows.

The kernel's switches and the simulator's use different hashes, so which flows meet on a link would be another
random draw. To compare the two backends flow by flow, a flow's source port is incremented until the kernel
sends the flow where the simulator does, as an application may choose any port.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.linux.kernel.fabric import Fabric
from sysgym.emulator.packets.topology.routing import ecmp_routes
from sysgym.emulator.packets.workloads import FlowSchedule
from sysgym.emulator.packets.workloads.schedule import FIRST_EPHEMERAL_PORT, N_EPHEMERAL_PORTS

MOST_TRIES = 256
"""Most ports to try. A path of the fat-tree with k = 4 is one of four: more tries are not bad luck."""

_BOTH_WAYS_UP_TO = 128
"""Largest schedule whose ACKs are routed like the simulator's too, which takes about four times as long."""


class Paths:
    """Chooses the source ports of a schedule's flows.

    Args:
        fabric: The network.
        schedule: The flows.

    Attributes:
        n_astray: Number of flows for which no port with the right path was found.
    """

    def __init__(self, fabric: Fabric, schedule: FlowSchedule) -> None:
        self._fabric, self._schedule = fabric, schedule
        self._taken: set[tuple[int, int, int, int]] = set()
        self._there: NDArray[np.int32] | None = None
        self._back: NDArray[np.int32] | None = None
        self.n_astray = 0
        if fabric.has_choices and len(schedule.src):
            ends = (schedule.src, schedule.dst)
            ports = (schedule.src_port, schedule.dst_port)
            self._there = ecmp_routes(fabric.topology, *ends, *ports)
            if len(schedule.src) <= _BOTH_WAYS_UP_TO:
                self._back = ecmp_routes(fabric.topology, *ends[::-1], *ports[::-1])

    def source_port(self, flow: int, dst_port: int) -> int:
        """Return a port that no other flow between the same hosts has; call once for each flow.

        Args:
            flow: Index of the flow.
            dst_port: Destination port.
        """
        src, dst = int(self._schedule.src[flow]), int(self._schedule.dst[flow])
        first = int(self._schedule.src_port[flow]) - FIRST_EPHEMERAL_PORT
        fallback = 0
        for step in range(MOST_TRIES):
            port = FIRST_EPHEMERAL_PORT + (first + step) % N_EPHEMERAL_PORTS
            if (src, port, dst, dst_port) in self._taken:
                continue
            fallback = fallback or port
            if self._leads(flow, src, dst, port, dst_port):
                self._taken.add((src, port, dst, dst_port))
                return port
        self.n_astray += 1
        self._taken.add((src, fallback, dst, dst_port))
        return fallback

    def _leads(self, flow: int, src: int, dst: int, port: int, dst_port: int) -> bool:
        fabric, there, back = self._fabric, self._there, self._back
        if there is not None and not fabric.takes(there[flow], src, dst, port, dst_port):
            return False
        return back is None or fabric.takes(back[flow], dst, src, dst_port, port)
