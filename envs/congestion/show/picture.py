"""Picture of a congestion scenario: its network, traffic matrix and flow starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.topology import Topology, build_topology
from sysgym.emulator.packets.topology.geometry import node_positions, plane_positions
from sysgym.emulator.packets.workloads import LONG_LIVED, FlowSchedule, scenario_flows
from sysgym.envs.pictures import new_figure, write_picture
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.units import metric_text, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, SOFT, HOST, SWITCH = "#1c1e21", "#6b7280", "#0072b2", "#3f4650"
LINKS = ("#9aa3ad", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
"""Colours of links, the most frequent kind first (Okabe and Ito's palette, safe for the colour-blind)."""
MOST_HOST_NAMES, MOST_SWITCH_NAMES = 40, 16
"""Largest number of nodes of a tier that are all named; in larger tiers, the first and last only."""
MANY_FLOWS = 4000
"""Number of flows above which their marks are drawn small and pale."""


def draw(scenario: CongestionScenario, path: Path) -> None:
    """Write the picture; the suffix of the file determines the format.

    Args:
        scenario: Scenario to draw, with the traffic of its first test episode.
        path: File to write: .png, .svg or .pdf.

    Raises:
        SysgymError: If the format is unknown, or the file cannot be written.
    """
    seed = scenario.splits.test.first_seed
    episode = scenario.draw("test", seed)
    topology = build_topology(episode.topology)
    flows = scenario_flows(episode, topology, np.random.default_rng(seed))
    figure = new_figure(12.0, 10.5, dpi=150)
    grid = figure.add_gridspec(2, 2, height_ratios=(1.15, 1), width_ratios=(1, 1.25))
    figure.suptitle(f"{scenario.name}: {scenario.title}", fontsize=15, fontweight="bold", color=INK)
    figure.supxlabel(f"Traffic of the test episode with seed {seed}", fontsize=10, color=SOFT)
    draw_network(figure.add_subplot(grid[0, :]), topology)
    _draw_matrix(figure.add_subplot(grid[1, 0]), topology, flows)
    _draw_starts(figure.add_subplot(grid[1, 1]), topology, flows, episode.horizon_s)
    write_picture(figure, path)


def draw_network(axes: Axes, topology: Topology) -> None:
    """Draw hosts, switches and cables; colours and widths distinguish rates."""
    from matplotlib.collections import LineCollection

    in_plane = topology.kind == "graph"
    positions = plane_positions(topology) if in_plane else node_positions(topology)
    kinds = [_kind(topology, link) for link in range(0, topology.n_links, 2)]
    ordered = sorted(set(kinds), key=lambda kind: (-kinds.count(kind), kind))
    ends = positions[np.column_stack((topology.link_source[::2], topology.link_target[::2]))]
    for index, kind in enumerate(ordered):
        chosen = [place for place, known in enumerate(kinds) if known == kind]
        axes.add_collection(
            LineCollection(
                list(ends[chosen]),
                colors=LINKS[index % len(LINKS)],
                linewidths=0.9 if len(kinds) > 150 else 1.6 + 0.8 * min(index, 1),
                linestyles="solid" if index < len(LINKS) else "dashed",
                zorder=1,
                label=kind,
            )
        )
    tiers = (np.arange(topology.n_nodes) >= topology.n_hosts) * 1.0 if in_plane else positions[:, 1]
    for tier in np.unique(tiers):
        nodes = np.flatnonzero(tiers == tier)
        is_host = tier == 0
        crowded = len(nodes) > (MOST_HOST_NAMES if is_host else MOST_SWITCH_NAMES)
        axes.scatter(
            positions[nodes, 0],
            positions[nodes, 1],
            s=(16 if crowded else 120) if is_host else (90 if crowded else 300),
            marker="o" if is_host else "s",
            color=HOST if is_host else SWITCH,
            zorder=3,
        )
        shown = [nodes[0], nodes[-1]] if crowded else nodes
        turned = len(shown) > 18
        for node in shown:
            x, y = positions[node]
            axes.annotate(
                topology.node_names[node],
                (x, y),
                xytext=(0, -10 if is_host else 13),
                textcoords="offset points",
                ha="center",
                va="top" if is_host else "bottom",
                rotation=90 if turned and is_host else 0,
                fontsize=9 if len(shown) > 12 else 10.5,
                color=INK,
                zorder=4,
                bbox=None
                if is_host
                else {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85},
            )
    top = float(tiers.max())
    below, above = (0.05, 0.1) if in_plane else (0.35 + 0.1 * top, 0.35 + 0.08 * top)
    axes.set(xlim=(-0.04, 1.04), ylim=(-below, top + above))
    axes.axis("off")
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.01),
        ncols=3,
        frameon=False,
        fontsize=10,
        title=(
            f"{topology.n_hosts} hosts, {topology.n_switches}"
            f" switch{'es' if topology.n_switches > 1 else ''}, {topology.n_links // 2} cables"
        ),
        title_fontsize=10,
    )


def _kind(topology: Topology, link: int) -> str:
    """Return the properties of a cable in both directions."""

    def one_way(way: int) -> str:
        text = metric_text("rate_bps", float(topology.link_rate_bps[way]), exact=True)
        text += ", " + metric_text("delay_s", float(topology.link_delay_s[way]), exact=True)
        buffer_bytes = float(topology.link_buffer_bytes[way])
        if not np.isnan(buffer_bytes):
            text += f", buffer {metric_text('buffer_bytes', buffer_bytes, exact=True)}"
        return text

    there, back = one_way(link), one_way(link ^ 1)
    return there if there == back else f"{there} / back {back}"


def _draw_matrix(axes: Axes, topology: Topology, flows: FlowSchedule) -> None:
    """Draw the traffic matrix of the whole episode."""
    endless = bool(np.any(flows.size_bytes == LONG_LIVED))
    n = topology.n_hosts
    weights = np.ones(len(flows.src)) if endless else flows.size_bytes.astype(np.float64)
    matrix: Any = np.bincount(flows.src.astype(np.int64) * n + flows.dst, weights, minlength=n * n)
    matrix = matrix.reshape(n, n)
    unit = unit_of("flows" if endless else "x_bytes", [float(matrix.max())])
    shown = np.ma.masked_equal(matrix / unit.size, 0)
    image = axes.imshow(shown, cmap="YlGnBu", interpolation="nearest", vmin=0)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.85)
    bar.set_label("flows" if endless else f"offered, {unit.symbol}", color=INK)
    step = max(1, 2 ** int(np.ceil(np.log2(n / 16))))
    axes.set(
        xlabel="receiver (host)",
        ylabel="sender (host)",
        title="Who sends to whom",
        xticks=range(0, n, step),
        yticks=range(0, n, step),
    )
    axes.tick_params(labelsize=9)


def _draw_starts(axes: Axes, topology: Topology, flows: FlowSchedule, horizon_s: float) -> None:
    """Draw the flow starts of every host; areas grow with flow sizes."""
    start_s = _starts_s(topology, flows)
    timed = start_s <= horizon_s
    unit = unit_of("x_s", [horizon_s])
    endless = flows.size_bytes == LONG_LIVED
    sizes = np.maximum(flows.size_bytes[timed], 1)
    # Six decades of size are mapped to areas from 4 to 100 points.
    area = 4.0 + 16.0 * np.clip(np.log10(sizes / 100.0), 0.0, 6.0)
    area[endless[timed]] = 40.0
    axes.hlines(
        flows.src[endless],
        start_s[endless] / unit.size,
        horizon_s / unit.size,
        color=HOST,
        alpha=0.35,
        linewidth=2.5,
    )
    many = timed.sum() > MANY_FLOWS
    axes.scatter(
        start_s[timed] / unit.size,
        flows.src[timed],
        s=area * (0.4 if many else 1.0) * min(1.0, 32 / topology.n_hosts),
        color=HOST,
        alpha=0.3 if many else 0.5,
        edgecolors="none",
        rasterized=True,
    )
    title = "When flows start" if np.all(endless) else "When flows start (area: size)"
    if np.any(flows.needs):
        title += "; those that wait\nfor others as on an empty network"
    axes.set(
        xlabel=f"time, {unit.symbol}",
        ylabel="sender (host)",
        title=title,
        xlim=(-0.01 * horizon_s / unit.size, 1.01 * horizon_s / unit.size),
        ylim=(topology.n_hosts - 0.5, -0.5),
    )
    axes.grid(color="#e5e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9)


def _starts_s(topology: Topology, flows: FlowSchedule) -> NDArray[np.float64]:
    """Return the start times of flows if each is sent at its host's line rate, without congestion."""
    line_rate_bps = topology.link_rate_bps[topology.host_uplink]
    start_s: NDArray[np.float64] = flows.start_ns.astype(np.float64) * 1e-9
    own_s = np.maximum(flows.size_bytes, 0) * 8.0 / line_rate_bps[flows.src]
    for flow in np.flatnonzero(flows.needs):
        awaited = flows.after[flow]
        awaited = awaited[awaited >= 0]
        start_s[flow] = (start_s[awaited] + own_s[awaited]).max() + flows.after_delay_ns[flow] * 1e-9
    return start_s
