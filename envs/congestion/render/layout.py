"""Layout of a network in a picture: switches as boxes, with ports on the sides facing their links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.topology.geometry import node_positions, node_tiers
from sysgym.envs.congestion.render.frame import Box

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MARGIN = 46.0
HOST_Y = 46.0
LEAST_PORT_WIDTH = 5.5
"""Least width of a port in pixels; a row of narrower ports is one cell, which shows the longest queue."""
GAP_BESIDE = 2.4
"""Extra gap between hosts of different switches, in host pitches, if links join switches of one tier."""


@dataclass(frozen=True)
class Cells:
    """Cells of a picture that show queues.

    Attributes:
        corner: Lower left corners, shape (n_cells, 2).
        size: Widths and heights, shape (n_cells, 2).
        ports: Ports of all cells, concatenated.
        begin: Index in ``ports`` of each cell's first port.
    """

    corner: FloatArray
    size: FloatArray
    ports: IntArray
    begin: IntArray

    def rectangles(self, height: FloatArray | float = 1.0) -> FloatArray:
        """Return corners of rectangles that fill a share of each cell, shape (n_cells, 4, 2)."""
        low, high = (
            self.corner,
            self.corner
            + self.size * np.column_stack((np.ones(len(self.size)), np.zeros(len(self.size)) + height)),
        )
        return np.stack(
            (low, np.column_stack((high[:, 0], low[:, 1])), high, np.column_stack((low[:, 0], high[:, 1]))), 1
        )


class NetworkLayout:
    """Positions in pixels: hosts in a row at the bottom, switches in tiers above them.

    Args:
        topology: The network.
        port_links: Link of every port whose queue is shown, shape (n_ports,).
        width: Available width.
        height: Available height.

    Attributes:
        x: Horizontal position of every node, shape (n_nodes,).
        host_y: Vertical position of the hosts.
        host_pitch: Smallest distance between two hosts.
        tiers: Tier of every node, 0 for hosts, shape (n_nodes,).
        boxes: Box of every switch.
        attach: Mapping from links to the points where they leave their source; links of hosts are omitted.
        cells: Cells of the queues.
    """

    def __init__(self, topology: Topology, port_links: IntArray, width: float, height: float) -> None:
        self._topology, self._width, self._height = topology, width, height
        self._port_of_link = {int(link): port for port, link in enumerate(port_links)}
        self._positions, self.tiers = node_positions(topology), node_tiers(topology)
        self._beside = self.tiers[topology.link_source] == self.tiers[topology.link_target]
        self.x = self._spread()
        self.boxes: dict[int, Box] = {}
        self.attach: dict[int, tuple[float, float]] = {}
        self._lay_out()
        self.cells = self._place_ports()

    def _spread(self) -> FloatArray:
        """Return the horizontal position of every node in pixels, shape (n_nodes,)."""
        topology, x = self._topology, self._positions[:, 0].copy()
        if self._beside.any():
            order = np.argsort(x[: topology.n_hosts], kind="stable")
            edges = topology.host_edge[order]
            gaps = np.concatenate(([0.0], np.diff(edges) != 0)) * GAP_BESIDE
            x[order] = np.arange(len(order)) + np.cumsum(gaps)
            x[: topology.n_hosts] /= max(float(x[: topology.n_hosts].max()), 1.0)
            for switch in np.unique(edges):
                x[switch] = x[: topology.n_hosts][topology.host_edge == switch].mean()
        margin = 74.0 if topology.n_hosts <= 4 else MARGIN
        return margin + x * (self._width - 2 * margin)

    def _lay_out(self) -> None:
        """Assign every switch a box: leaves as wide as their hosts, higher switches evenly spaced."""
        topology, n_tiers = self._topology, int(self.tiers.max())
        room = (self._height - HOST_Y - 26.0) / n_tiers
        height = min(0.42 * room, 180.0)
        gap = min(room - height, 230.0)
        self.host_y = HOST_Y + 0.4 * max(self._height - HOST_Y - 26.0 - n_tiers * (height + gap), 0.0)
        hosts_x = self.x[: topology.n_hosts]
        self.host_pitch = float(np.diff(np.sort(hosts_x)).min()) if topology.n_hosts > 1 else 200.0
        for tier in range(1, n_tiers + 1):
            nodes = np.flatnonzero(self.tiers == tier)
            x = self.x[nodes]
            pitch = float(np.diff(np.sort(x)).min()) if len(nodes) > 1 else self._width
            bottom = self.host_y + gap + (tier - 1) * (height + gap)
            most = pitch - min(16.0, 0.16 * pitch)
            for node, middle in zip(nodes, x, strict=True):
                links = topology.link_source == node
                below = topology.link_target[links]
                below = below[self.tiers[below] == tier - 1]
                width = max(44.0 * max(len(below), 2), min(most, 70.0))
                if tier == 1:
                    width = max(float(np.ptp(hosts_x[below])) + min(self.host_pitch, 56.0), min(most, 70.0))
                width = min(width, most)
                left, right = middle - 0.5 * width, middle + 0.5 * width
                for link in np.flatnonzero(links & self._beside):
                    if self.x[topology.link_target[link]] > middle:
                        right = right + self._side_width() + 6.0
                    else:
                        left = left - self._side_width() - 6.0
                left, right = max(left, 2.0), min(right, self._width - 2.0)
                self.boxes[int(node)] = (left, bottom, right - left, height)

    def _side_width(self) -> float:
        """Return the width of the queue of a port at the side of a switch."""
        return float(np.clip(0.6 * self.host_pitch, 8.0, 26.0))

    def _place_ports(self) -> Cells:
        """Place every port of a switch at the side facing its link, with a cell for its queue."""
        topology = self._topology
        corners: list[tuple[float, float]] = []
        sizes: list[tuple[float, float]] = []
        members: list[list[int]] = []
        for node, (left, bottom, width, height) in self.boxes.items():
            links = np.flatnonzero(topology.link_source == node)
            there = topology.link_target[links]
            order = np.argsort(self._positions[there, 0], kind="stable")
            links, there = links[order], there[order]
            tier = self.tiers[node]
            down, up = links[self.tiers[there] < tier], links[self.tiers[there] > tier]
            beside = links[self.tiers[there] == tier]
            name_strip = 18.0 if height > 50 else 0.0
            rows = 1 if not len(up) else 2
            room = (height - name_strip - 8.0) / rows - (2.0 if rows > 1 else 0.0)
            for link in beside:
                to_right = self._positions[topology.link_target[link], 0] > self._positions[node, 0]
                side = self._side_width()
                edge = left + width if to_right else left
                self.attach[int(link)] = (edge, bottom + 0.5 * height)
                corners.append((edge - side - 3.0 if to_right else edge + 3.0, bottom + 4.0))
                sizes.append((side, height - name_strip - 8.0))
                members.append([int(link)])
            for row, y, edge_y in (
                (down, bottom + 4.0, bottom),
                (up, bottom + height - 4.0 - room, bottom + height),
            ):
                if not len(row):
                    continue
                slot = width / len(row)
                x = left + slot * (np.arange(len(row)) + 0.5)
                if tier == 1 and row is down:
                    x = self.x[topology.link_target[row]]
                    slot = min(slot, self.host_pitch)
                for link, port_x in zip(row, x, strict=True):
                    self.attach[int(link)] = (float(port_x), edge_y)
                if slot < LEAST_PORT_WIDTH:
                    corners.append((left + 1.5, y))
                    sizes.append((width - 3.0, room))
                    members.append([int(link) for link in row])
                    continue
                cell = min(0.74 * slot, 34.0)
                for link, port_x in zip(row, x, strict=True):
                    corners.append((float(port_x) - 0.5 * cell, y))
                    sizes.append((cell, room))
                    members.append([int(link)])
        ports = [
            [self._port_of_link[link] for link in cell if link in self._port_of_link] for cell in members
        ]
        kept = [index for index, cell in enumerate(ports) if cell]
        lengths = [len(ports[index]) for index in kept]
        return Cells(
            corner=np.array([corners[index] for index in kept]).reshape(-1, 2),
            size=np.array([sizes[index] for index in kept]).reshape(-1, 2),
            ports=np.array([port for index in kept for port in ports[index]], dtype=np.int64),
            begin=np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64)
            if kept
            else np.zeros(0, np.int64),
        )
