"""Picture of a network: switches as boxes that contain the queues of their ports, links as arrows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.topology import Topology
from sysgym.envs.congestion.render.frame import FAINT, INK, SOFT, Box, Frame, prefix_scale
from sysgym.envs.congestion.render.layout import NetworkLayout

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

LINK_COLOURS = ("#d3d9e0", "#a9c8e6", "#4f97cf", "#1562a8", "#06254f")
QUEUE_COLOURS = ("#fffaf0", "#fdc35c", "#f4812f", "#c93312", "#6d0505")
"""Colours from empty to full. Both scales go from light to dark, so that they are legible without colour."""
HOST = "#3f4650"
ROOM: Box = (16.0, 84.0, 726.0, 556.0)
"""Box of the network; the colour scales are below the box."""
BAR_HEIGHT = 26.0
"""Least height of a cell in pixels for a queue to have a bar as well as a colour."""
LEAST_LANES = 8.0
"""Least distance of ports in pixels at which the two directions of a cable are drawn apart."""
ROOM_FOR_HOST_NAME, ROOM_FOR_SWITCH_NAME = 29.0, 46.0
KINDS = {"agg": "aggregation"}
"""Full names of abbreviated kinds of switches."""


class NetworkPanel:
    """Network with links coloured by utilization and queues by length.

    Args:
        frame: Frame to draw in.
        topology: The network.
        port_links: Link of every port whose queue is shown, shape (n_ports,).
        path: Links of a path to highlight; None: none.
        queue_word: Name of the queue statistic shown, such as its mean over the interval.
    """

    def __init__(
        self,
        frame: Frame,
        topology: Topology,
        port_links: IntArray,
        path: IntArray | None = None,
        queue_word: str = "largest queue",
    ) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        self._frame, self._topology, self._path = frame, topology, path
        self._width, self._height = ROOM[2], ROOM[3]
        self._axes = frame.pixel_axes(ROOM)
        self._link_colours = LinearSegmentedColormap.from_list("links", LINK_COLOURS)
        self._queue_colours = LinearSegmentedColormap.from_list("queues", QUEUE_COLOURS)
        self._layout = layout = NetworkLayout(topology, port_links, self._width, self._height)
        self._cells = layout.cells
        self._bars = bool(len(self._cells.ports)) and float(self._cells.size[:, 1].min()) >= BAR_HEIGHT
        self._captions: list[Any] = []
        self._draw_boxes()
        self._links, self._lanes = self._draw_links()
        self._queues, self._thresholds = self._draw_queues()
        self._hosts = self._draw_hosts()
        for caption in self._captions:
            frame.moves(caption)  # over the links
        self._queue_axis: Any = None
        self._draw_scales(ROOM, queue_word)
        self._limit_bytes = 0.0

    def place(self, node: int) -> tuple[float, float]:
        """Return the position of a host or switch, in pixels from the lower left corner of the panel."""
        if node < self._topology.n_hosts:
            return float(self._layout.x[node]), self._layout.host_y
        left, bottom, width, height = self._layout.boxes[node]
        return left + 0.5 * width, bottom + 0.5 * height

    def update(
        self,
        utilization: FloatArray,
        queue_bytes: FloatArray,
        limit_bytes: float,
        active: NDArray[np.bool_],
        threshold_bytes: float | None,
        host_colours: Mapping[int, str],
        receivers: NDArray[np.bool_] | None = None,
    ) -> None:
        """Show an interval.

        Args:
            utilization: Utilization of every link, as a fraction of its rate, shape (n_links,).
            queue_bytes: Queue of every port, shape (n_ports,).
            limit_bytes: Upper end of the scale of queues.
            active: Whether a host has data to send, shape (n_hosts,).
            threshold_bytes: Marking threshold.
            host_colours: Colours of hosts that have a curve; the others are grey.
            receivers: Whether a host only receives data, shape (n_hosts,); None: no receivers are marked.
        """
        if limit_bytes != self._limit_bytes:
            self._limit_bytes = limit_bytes
            self._rescale(limit_bytes, threshold_bytes)
        shown = np.clip(utilization, 0.0, 1.0)
        self._links.set_array(np.maximum.reduceat(shown[self._lanes.ravel()], self._lane_begins()))
        cells = self._cells
        if len(cells.ports):
            share = np.clip(
                np.maximum.reduceat(queue_bytes[cells.ports], cells.begin) / limit_bytes, 0.0, 1.0
            )
            if self._bars:
                self._queues.set_verts(cells.rectangles(share))
            self._queues.set_array(share)
        colours = [host_colours.get(host, HOST) for host in range(self._topology.n_hosts)]
        self._hosts.set_facecolor(
            [colour if busy else "white" for colour, busy in zip(colours, active, strict=True)]
        )
        self._hosts.set_edgecolor(colours)
        marked = np.zeros(self._topology.n_hosts) if receivers is None else receivers.astype(np.float64)
        self._receivers.set_sizes(marked * (1.5 * self._diameter * 72 / 100) ** 2)

    def _lane_begins(self) -> IntArray:
        n_lanes, links_each = self._lanes.shape
        begins: IntArray = np.arange(n_lanes, dtype=np.int64) * links_each
        return begins

    def _draw_boxes(self) -> None:
        from matplotlib.collections import PolyCollection

        boxes = np.array(list(self._layout.boxes.values()))
        low, high = boxes[:, :2], boxes[:, :2] + boxes[:, 2:]
        corners = np.stack(
            (low, np.column_stack((high[:, 0], low[:, 1])), high, np.column_stack((low[:, 0], high[:, 1]))), 1
        )
        self._axes.add_collection(
            PolyCollection(list(corners), facecolor="#f3f5f8", edgecolor="#7b8591", linewidth=1.2, zorder=2)
        )
        if len(self._cells.ports):
            self._axes.add_collection(
                PolyCollection(
                    list(self._cells.rectangles()),
                    facecolor="white",
                    edgecolor="#c2c9d1",
                    linewidth=0.7,
                    zorder=3,
                )
            )
        names = self._topology.node_names
        for tier in range(1, int(self._layout.tiers.max()) + 1):
            nodes = [int(node) for node in np.flatnonzero(self._layout.tiers == tier)]
            narrowest = min(self._layout.boxes[node][2] for node in nodes)
            if narrowest < ROOM_FOR_SWITCH_NAME or self._layout.boxes[nodes[0]][3] <= 50:
                kind = KINDS.get(name := re.sub(r"[\d_]+$", "", names[nodes[0]]), name)
                _, bottom, _, height = self._layout.boxes[nodes[0]]
                self._captions.append(
                    self._axes.text(
                        0.0,
                        bottom + height + 6.0,
                        f"{len(nodes)} {kind} switches",
                        fontsize=12,
                        color=INK,
                        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2, "alpha": 0.9},
                    )
                )
                continue
            has_up = any(
                self._layout.tiers[self._topology.link_target[link]] > tier
                for node in nodes
                for link in np.flatnonzero(self._topology.link_source == node)
            )
            for node in nodes:
                left, bottom, width, height = self._layout.boxes[node]
                y = bottom + 0.5 * height if has_up else bottom + height - 11.0
                self._axes.text(
                    left + 0.5 * width, y, names[node], fontsize=min(12.5, 1.12 * width / len(names[node])),
                    color=INK, ha="center", va="center", zorder=5,
                )  # fmt: skip

    def _draw_links(self) -> tuple[Any, IntArray]:
        """Draw an arrow for each link, or a line for each cable if there is no room."""
        from matplotlib.collections import PolyCollection

        topology = self._topology
        for host in range(topology.n_hosts):
            self._layout.attach[int(topology.host_uplink[host])] = (
                float(self._layout.x[host]),
                self._layout.host_y + 7.0,
            )
        begin = np.array([self._layout.attach[link] for link in range(topology.n_links)])
        end = begin[np.arange(topology.n_links) ^ 1]
        pitch = self._least_pitch(begin)
        apart = pitch >= LEAST_LANES
        width = float(np.clip(0.26 * pitch, 1.3, 9.0))
        lanes: IntArray = np.arange(topology.n_links, dtype=np.int64).reshape(-1, 1)
        if not apart:
            lanes, begin, end = lanes.reshape(-1, 2), begin[::2], end[::2]
        along = end - begin
        length = np.maximum(np.hypot(along[:, 0], along[:, 1]), 1.0)[:, None]
        along = along / length
        # Links are drawn on the right side of their cable.
        right = np.column_stack((along[:, 1], -along[:, 0]))
        if apart:
            begin, end = begin + 0.62 * width * right, end + 0.62 * width * right
        half, tip = 0.5 * width * right, (1.5 * width if apart else 0.0) * along
        shape = np.stack(
            (begin - half, begin + half, end + half - tip, end, end - half - tip)
            if apart
            else (begin - half, begin + half, end + half, end - half),
            1,
        )
        if self._path is not None and len(self._path):
            self._outline(np.asarray(self._path), begin, end, width, apart)
        made = PolyCollection(list(shape), cmap=self._link_colours, edgecolor="none", zorder=1)
        made.set_clim(0.0, 1.0)
        self._axes.add_collection(made)
        return self._frame.moves(made), lanes

    def _outline(self, path: IntArray, begin: FloatArray, end: FloatArray, width: float, apart: bool) -> None:
        from matplotlib.collections import LineCollection

        rows = path if apart else path // 2
        self._axes.add_collection(
            LineCollection(
                list(np.stack((begin[rows], end[rows]), 1)),
                colors="#e69f00", linewidths=(width + 7.0) * 0.72, alpha=0.75, capstyle="butt", zorder=0.5,
            )
        )  # fmt: skip

    def _least_pitch(self, begin: FloatArray) -> float:
        """Return the smallest distance between adjacent links of one node."""
        least = self._layout.host_pitch
        for node in self._layout.boxes:
            links = np.flatnonzero(self._topology.link_source == node)
            for y in np.unique(begin[links, 1]):
                x = np.sort(begin[links[begin[links, 1] == y], 0])
                if len(x) > 1:
                    least = min(least, float(np.diff(x).min()))
        return least

    def _draw_queues(self) -> tuple[Any, Any]:
        from matplotlib.collections import LineCollection, PolyCollection

        queues = PolyCollection(
            list(self._cells.rectangles()), cmap=self._queue_colours, edgecolor="none", zorder=4
        )
        queues.set_clim(0.0, 1.0)
        self._axes.add_collection(queues)
        thresholds = LineCollection([], colors=INK, linewidths=1.1, zorder=5)
        self._axes.add_collection(thresholds)
        return self._frame.moves(queues), self._frame.moves(thresholds)

    def _draw_hosts(self) -> Any:
        topology = self._topology
        x = self._layout.x[: topology.n_hosts]
        diameter = self._diameter = float(np.clip(0.55 * self._layout.host_pitch, 3.5, 17.0))
        rings = self._axes.scatter(
            x,
            np.full(len(x), self._layout.host_y),
            s=0.0,
            facecolor="none",
            edgecolor=INK,
            linewidths=1.4 if diameter > 6 else 0.7,
            zorder=4,
        )
        self._receivers = self._frame.moves(rings)
        made = self._axes.scatter(
            x,
            np.full(len(x), self._layout.host_y),
            s=(diameter * 72 / 100) ** 2,
            linewidths=1.4 if diameter > 6 else 0.6,
            zorder=4,
        )
        step = 1
        while step * self._layout.host_pitch < ROOM_FOR_HOST_NAME + (8.0 if topology.n_hosts > 99 else 0.0):
            step *= 2
        for host in np.argsort(x)[::step]:
            self._axes.text(
                x[host],
                self._layout.host_y - max(0.75 * diameter + 2.0, 8.0),
                topology.node_names[host],
                fontsize=11.5 if step * self._layout.host_pitch > 36.0 else 10.0,
                color=INK,
                ha="center",
                va="top",
            )
        self._axes.text(
            self._width,
            self._layout.host_y - 34,
            "● host with data to send   ○ idle   ◎ receiver",
            fontsize=11,
            color=SOFT,
            ha="right",
            va="top",
        )
        return self._frame.moves(made)

    def _draw_scales(self, box: Box, queue_word: str) -> None:
        each = len(self._cells.ports) == len(self._cells.begin)
        queue_word += " at the port" if each else " at ports up, ports down"
        width = 0.5 * box[2] - 40.0
        gradient = np.linspace(0.0, 1.0, 256)[None, :]
        for index, (colours, words) in enumerate(
            ((self._link_colours, "link use in the last interval"), (self._queue_colours, queue_word))
        ):
            left = box[0] + 10.0 + index * (0.5 * box[2] + 20.0)
            axes = self._frame.axes((left, box[1] - 52.0, width, 13.0))
            axes.imshow(gradient, aspect="auto", cmap=colours, extent=(0.0, 1.0, 0.0, 1.0))
            axes.set_yticks([])
            axes.spines[:].set_color(FAINT)
            axes.tick_params(labelsize=11.5, length=4, color=SOFT, labelcolor=INK)
            axes.set_title(words, fontsize=12, color=INK, pad=5, loc="left")
            if index == 0:
                axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100 %"])
            else:
                self._queue_axis = axes

    def _rescale(self, limit_bytes: float, threshold_bytes: float | None) -> None:
        """Update the scale of queues and the marking threshold."""
        scale, prefix = prefix_scale(limit_bytes)
        shares, words = [0.0, 1.0], ["0", f"{limit_bytes / scale:.3g} {prefix}B"]
        threshold = (threshold_bytes or 0.0) / limit_bytes
        if 0.12 < threshold < 0.72:
            shares.append(threshold)
            words.append(f"K = {threshold * limit_bytes / scale:.3g}")
        elif threshold <= 0.12:
            shares.append(0.5)
            words.append(f"{0.5 * limit_bytes / scale:.3g}")
        self._queue_axis.set_xticks(shares, words)
        for old in list(self._queue_axis.lines):
            old.remove()
        lines: list[FloatArray] = []
        if threshold_bytes is not None and threshold_bytes < limit_bytes:
            share = threshold_bytes / limit_bytes
            self._queue_axis.axvline(share, color=INK, linewidth=1.6)
            cells = self._cells
            if self._bars:
                low = cells.corner + np.column_stack((np.zeros(len(cells.size)), share * cells.size[:, 1]))
                high = low + np.column_stack((cells.size[:, 0], np.zeros(len(cells.size))))
                lines = list(np.stack((low, high), 1))
        self._thresholds.set_segments(lines)
        self._frame.spoil()
