"""Rate caps of hosts, and the time that packets wait for them.

A capped host's ``htb`` class holds back the packets that its flows have handed to the interface ahead of time
(``transport.host_queue_packets``). The simulator holds back the flows themselves, so there a round trip
begins when the cap releases a packet. On the kernel it begins earlier: at 5 Mb/s, 9 packets or 21.6 ms
earlier.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.linux.kernel.fabric import Fabric
from sysgym.emulator.linux.kernel.queues import Queues
from sysgym.emulator.linux.kernel.saturation import SaturationWatch
from sysgym.emulator.packets.counters.rows import PORT_ROW

FloatArray = NDArray[np.float64]


class HostCaps:
    """The caps of one episode; none is set when it begins.

    Args:
        fabric: The network.
        queues: The queues of its ports.
        watch: The watch that is informed of caps.
        unit_bytes: Bytes that an interface sends at once: a full packet, or a bundle of packets.
    """

    def __init__(self, fabric: Fabric, queues: Queues, watch: SaturationWatch, unit_bytes: int) -> None:
        self._fabric, self._queues, self._watch, self._unit_bytes = fabric, queues, watch, unit_bytes
        self._uplinks = fabric.topology.host_uplink
        self._line_rate_bps: FloatArray = fabric.topology.link_rate_bps[self._uplinks]
        self._caps_bps = np.full(len(self._uplinks), np.inf)
        self._before = np.zeros((2, len(self._uplinks)))

    def set(self, caps_bps: FloatArray) -> None:
        """Set the largest send rate of each host, headers included, shape (n_hosts,); inf for no cap."""
        for link, cap_bps in zip(self._uplinks.tolist(), caps_bps.tolist(), strict=True):
            self._watch.set_cap(link, cap_bps)
            self._queues.set_host_cap(
                self._fabric.netns_pid(link), self._fabric.interfaces[link].name, cap_bps
            )
        self._caps_bps = np.array(caps_bps)

    def lift(self) -> None:
        """Lift all caps."""
        self.set(np.full(len(self._uplinks), np.inf))

    def wait_s(self, ports: FloatArray) -> FloatArray:
        """Return the time that a packet waited for its host's cap since the last call, shape (n_hosts,).

        The mean follows from Little's law, less half a packet on average: the port counts the remainder of
        the packet in transmission, and htb releases a packet when its turn begins.

        Args:
            ports: Counters of all ports, rows as ``PortCounters``.
        """
        now = ports[[PORT_ROW.queue_byte_s, PORT_ROW.sent_bytes]][:, self._uplinks]
        (queue_byte_s, sent_bytes), self._before = now - self._before, now
        wait_s = queue_byte_s / np.maximum(sent_bytes, 1.0) - 4.0 * self._unit_bytes / self._caps_bps
        return np.where((self._caps_bps < self._line_rate_bps) & (sent_bytes > 0), wait_s.clip(0.0), 0.0)
