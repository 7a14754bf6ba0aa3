"""Long cables: links with a delay beyond that of the kernel itself.

Such a cable is two virtual links with a namespace between them that routes nothing: an eBPF program forwards
every frame from one link to the other, where it waits in a ``netem`` queue for the link's delay. The delay
comes after the sender's shaper, as on a real cable: the port's queue and its counters do not include packets
on their way, and TCP treats packets that have left the interface as sent.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from sysgym.emulator.linux.kernel import links_and_routes, netlink
from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.emulator.linux.kernel.links_and_routes import Interface
from sysgym.emulator.linux.kernel.netlink import ROOT, Netlink, attribute, tc_message
from sysgym.emulator.linux.kernel.nodes import WaitingNode
from sysgym.emulator.packets.topology import Topology

OWN_DELAY_S = 50e-6
"""Delays up to this are left to the kernel, which takes some 10 to 30 us for each hop."""

Pair = tuple[Interface, Interface]

_HANDLE = 0x10000
_NETEM = struct.Struct("=6I")  # struct tc_netem_qopt
_NETEM_LATENCY64 = 10
_SMALLEST_PACKET_BYTES = 40
_LEAST_LIMIT, _LARGEST_LIMIT = 1000, 2**31 - 1


def is_delayed(topology: Topology) -> bool:
    """Return whether some link has a delay beyond that of the kernel itself."""
    return bool(np.any(topology.link_delay_s > OWN_DELAY_S))


class DelayLines:
    """The long cables of a network.

    Args:
        topology: The network; a cable is its links ``2i`` and ``2i + 1``.
        programs: The loaded eBPF programs.

    Attributes:
        node: The node whose namespace holds the middles of the cables; the caller sets its sysctls.
    """

    def __init__(self, topology: Topology, programs: Programs) -> None:
        self._topology, self._programs = topology, programs
        self.node = WaitingNode("cables")
        self._middles: dict[int, Pair] = {}
        self._connected = False

    def ready(self) -> None:
        """Wait until the namespace exists.

        Raises:
            BackendError: If it is not created.
        """
        self.node.ready()

    def pairs(self, cable: int, ends: Pair) -> list[Pair]:
        """Return the virtual links that make up a cable: one, or two if it is long.

        Args:
            cable: Index of the cable.
            ends: Interfaces of the nodes that it connects.
        """
        if self._delay_s(2 * cable, 2 * cable + 1) <= OWN_DELAY_S:
            return [ends]
        middles = self._middle(2 * cable + 2), self._middle(2 * cable + 3)
        self._middles[cable] = middles
        return [(ends[0], middles[0]), (middles[1], ends[1])]

    def connect(self) -> None:
        """Connect the two links of each long cable, once the virtual links are made.

        Raises:
            BackendUnavailable: The kernel has no netem.
            BackendError: The kernel refuses a request.
        """
        middles = self._all_middles()
        for middle in middles:
            self._programs.attach_wire(self.node.pid, middle.name)
        self.empty()
        connection = self._programs.sockets.of(self.node.pid)
        connection.request_all([links_and_routes.up(middle.ifindex) for middle in middles], "long cables")
        self._connected = True

    def is_running(self) -> bool:
        """Return whether the cables carry packets; their ends must be up, too."""
        if not self._connected:
            return False
        connection = self._programs.sockets.of(self.node.pid)
        return all(links_and_routes.is_running(connection, one.ifindex) for one in self._all_middles())

    def empty(self) -> None:
        """Discard the packets under way."""
        socket = self._programs.sockets.of(self.node.pid)
        for cable, (near, far) in self._middles.items():
            # Packets that leave by the far middle come from the near end: they are on the first of the two
            # links.
            for link, middle in ((2 * cable, far), (2 * cable + 1, near)):
                self._set_delay(socket, middle, link)

    def close(self) -> None:
        """End the namespace."""
        self.node.terminate()

    def _all_middles(self) -> list[Interface]:
        return [middle for pair in self._middles.values() for middle in pair]

    def _middle(self, index: int) -> Interface:
        mac = b"\x02\x01" + index.to_bytes(4, "big")
        return Interface(self.node.namespace.fd, f"cable{index}", index, mac, group=0)

    def _delay_s(self, *links: int) -> float:
        return float(self._topology.link_delay_s[list(links)].max())

    def _set_delay(self, socket: Netlink, middle: Interface, link: int) -> None:
        delay_s = self._delay_s(link)
        if delay_s <= 0:
            return
        gone = tc_message(middle.ifindex, 0, ROOT)
        socket.request(netlink.RTM_DELQDISC, 0, gone, f"empty {middle.name}", ignore=netlink.MISSING)
        options = _NETEM.pack(0, self._limit_packets(link), 0, 0, 0, 0)
        options += attribute(_NETEM_LATENCY64, struct.pack("=q", round(delay_s * 1e9)))
        body = tc_message(middle.ifindex, _HANDLE, ROOT) + attribute(netlink.TCA_KIND, "netem")
        netlink.add_queue(socket, body + attribute(netlink.TCA_OPTIONS, options), "netem")

    def _limit_packets(self, link: int) -> int:
        """Return twice the number of smallest packets that can be under way: none is ever lost here."""
        under_way = (
            float(self._topology.link_rate_bps[link]) / 8 * self._delay_s(link) / _SMALLEST_PACKET_BYTES
        )
        return _LEAST_LIMIT + math.ceil(min(2 * under_way, _LARGEST_LIMIT - _LEAST_LIMIT))
