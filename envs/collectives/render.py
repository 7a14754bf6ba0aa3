"""Pictures of a schedule: the network with the use of its links, and the links' transfers over time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.collectives.network import Network
from sysgym.emulator.collectives.schedule import Schedule
from sysgym.envs.collectives.metrics import Outcome
from sysgym.envs.pictures import Picture, new_figure, pixels
from sysgym.scenarios.schema.collectives import parse_topology

MOST_ROWS = 36
"""Most links in the timeline: the ones that are occupied longest."""

BAR_WIDTH = 48
COPY, REDUCE, INK, FAINT, BOUND = "#0072b2", "#d55e00", "#202020", "#9a9a9a", "#007a3d"
USE_COLOURS = "viridis_r"

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


@dataclass(frozen=True)
class SynthesisScene:
    """Data to draw.

    Attributes:
        title: Name of the scenario.
        schedule: The schedule so far.
        bound_s: Lower bound of its time.
        outcome: Outcome of the episode; None while it is in progress.
    """

    title: str
    schedule: Schedule
    bound_s: float
    outcome: Outcome | None

    @property
    def heading(self) -> str:
        """The task in words."""
        task = self.schedule.task
        collective = task.collective
        kind = collective.kind.value.replace("_", "-")
        return (
            f"{self.title}: {kind} of {_scaled(collective.size_bytes, _SIZES)} over {collective.n_members} "
            f"of {task.n_devices} devices of {task.network.name}, {collective.n_chunks} chunks"
        )

    @property
    def state(self) -> str:
        """The schedule in words."""
        schedule = self.schedule
        done = f"{schedule.n_transfers} transfers, {time(schedule.time_s)}; lower bound {time(self.bound_s)}"
        if self.outcome is None:
            return f"so far {done}"
        ratio = self.outcome.time_s / self.bound_s
        if self.outcome.valid:
            return f"{done}, {ratio:.3f} times the bound"
        one_by_one = f"counts as its transfers one after another, {ratio:.3f} times the bound"
        return f"{done}; not valid, an action that the mask forbids: {one_by_one}"


def time(value_s: float) -> str:
    """Return a time with its unit, three digits."""
    return _scaled(value_s, _TIMES)


def synthesis_text(scene: SynthesisScene) -> str:
    """Return the task, the schedule's time, and a bar for each of the busiest links."""
    schedule = scene.schedule
    network, busy_s = schedule.task.network, schedule.link_busy_s()
    longest_s = max(schedule.time_s, scene.bound_s)
    lines = [scene.heading, scene.state]
    for link in _busiest(schedule)[:12]:
        share = busy_s[link] / longest_s
        bar = ("#" * round(share * BAR_WIDTH)).ljust(BAR_WIDTH)
        lines.append(f"  {link_name(network, link):<26} |{bar}| {100 * share:3.0f} %")
    return "\n".join(lines) + "\n"


def synthesis_picture(scene: SynthesisScene) -> Picture:
    """Return a picture, shape (height, width, 3): the network on the left, the timeline on the right."""
    figure = new_figure(12.0, 6.2)
    figure.suptitle(f"{scene.heading}\n{scene.state}", fontsize=11)
    left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.25))
    _draw_network(figure, left, scene)
    _draw_timeline(right, scene)
    return pixels(figure)


def link_name(network: Network, link: int) -> str:
    """Return a link in words: ``device 3 > nvswitch 0``."""
    one = network.links[link]
    return f"{network.vertices[one.source]} > {network.vertices[one.target]}"


def positions(network: Network) -> NDArray[np.float64]:
    """Return places of the vertices in a picture, float64 [n_vertices, 2]: grids as such, others in a circle.

    Switches lie between the vertices that they join, those of switches nearer to the middle.
    """
    places = np.zeros((len(network.vertices), 2))
    n = network.n_devices
    parsed = parse_topology(network.name)
    if parsed is not None and parsed.kind in ("torus", "mesh") and len(parsed.sizes) > 1:
        at = np.array(np.unravel_index(np.arange(n), parsed.sizes)).T.astype(np.float64)
        columns, rows = at[:, -1], at[:, -2]
        if at.shape[1] == 3:  # layers are drawn behind each other
            columns, rows = columns + 0.32 * at[:, 0], rows + 0.22 * at[:, 0]
        places[:n] = np.column_stack([columns, -rows])
        return places
    angles = 2.0 * math.pi * np.arange(n) / n
    places[:n] = np.column_stack([np.sin(angles), np.cos(angles)])
    known = np.arange(len(places)) < n
    while not known.all():
        found = {}
        for vertex in np.flatnonzero(~known).tolist():
            near = [link.target for link in network.links if link.source == vertex and known[link.target]]
            if near:
                middle = places[near].mean(axis=0)
                angle = 2.0 * math.pi * (vertex - n) / max(len(places) - n, 1)
                aside = 0.22 * np.array([math.sin(angle), math.cos(angle)])
                found[vertex] = 0.7 * middle + (aside if np.abs(middle).max() < 0.3 else 0.0)
        if not found:
            break  # switches whose cables have all failed
        for placed, place in found.items():
            places[placed], known[placed] = place, True
    return places


def _draw_network(figure: Any, axes: Any, scene: SynthesisScene) -> None:
    from matplotlib.collections import LineCollection

    schedule = scene.schedule
    network, places = schedule.task.network, positions(schedule.task.network)
    longest_s = max(schedule.time_s, scene.bound_s)
    share = schedule.link_busy_s() / longest_s
    begin, end = places[network.sources], places[network.targets]
    way = end - begin
    length = np.maximum(np.hypot(way[:, 0], way[:, 1]), 1e-9)[:, None]
    # Links of a cable lie side by side; everyone keeps to the right.
    aside = np.column_stack([way[:, 1], -way[:, 0]]) / length * 0.018 * np.ptp(places, axis=0).max()
    if schedule.task.network.name.startswith("torus"):
        # Links that close a dimension are stubs that leave the grid.
        closing = (length > 1.5)[:, 0]
        end[closing] = begin[closing] - 0.35 * (way / length)[closing]
    bandwidths = network.bandwidths_bytes_per_s
    widths = 1.2 + 2.2 * np.sqrt(bandwidths / bandwidths.max())
    lines = LineCollection(
        list(np.stack([begin + aside, end + aside], axis=1)), array=share, cmap=USE_COLOURS, linewidths=widths
    )
    lines.set_clim(0.0, 1.0)
    axes.add_collection(lines)
    n = network.n_devices
    members = np.isin(np.arange(n), schedule.task.collective.members)
    size = 190 if n <= 32 else 60
    axes.scatter(*places[n:].T, marker="s", s=0.7 * size, color="white", edgecolors=FAINT, zorder=3)
    axes.scatter(*places[:n][members].T, s=size, color=INK, zorder=3)
    axes.scatter(*places[:n][~members].T, s=size, color="white", edgecolors=INK, zorder=3)
    if n <= 32:
        for device in range(n):
            colour = "white" if members[device] else INK
            axes.annotate(
                str(device), places[device], ha="center", va="center", fontsize=8, color=colour, zorder=4
            )
    axes.set_aspect("equal")
    axes.axis("off")
    axes.margins(0.08)
    axes.set_title("links by share of the time in use; thick: fast; squares: switches", fontsize=9)
    figure.colorbar(lines, ax=axes, orientation="horizontal", shrink=0.7, pad=0.01, label="in use")


def _draw_timeline(axes: Any, scene: SynthesisScene) -> None:
    schedule = scene.schedule
    network, hops = schedule.task.network, schedule.task.hops
    rows = {link: row for row, link in enumerate(sorted(_busiest(schedule)[:MOST_ROWS]))}
    scale, unit = next(
        (found for found in _TIMES if max(schedule.time_s, scene.bound_s) >= found[0]), _TIMES[-1]
    )
    starts_s = schedule.timing.starts_s
    for index, hop in enumerate(schedule.hops.tolist()):
        for place, link in enumerate(hops.paths[hop].tolist()):
            if link in rows:
                width_s = schedule.task.occupancies_s[hop, place]
                colour = REDUCE if index < schedule.n_reducing else COPY
                axes.barh(
                    rows[link], width_s / scale, left=starts_s[index] / scale, height=0.8, color=colour,
                    edgecolor="white", linewidth=0.5,
                )  # fmt: skip
    axes.axvline(scene.bound_s / scale, color=BOUND, linestyle="--", linewidth=1.2)
    names = [link_name(network, link) for link in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=6 if len(rows) > 24 else 8)
    axes.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    axes.set_xlim(0.0, 1.05 * max(schedule.time_s, scene.bound_s) / scale)
    axes.set_xlabel(f"time ({unit}); dashed: lower bound")
    shown = "" if len(rows) == network.n_links else f" ({len(rows)} of {network.n_links}, the busiest)"
    axes.set_title(f"transfers by link{shown}; blue: copies, orange: partial sums", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def _busiest(schedule: Schedule) -> list[int]:
    """Return the links, the one that is occupied longest first."""
    order: list[int] = np.argsort(-schedule.link_busy_s(), kind="stable").tolist()
    return order


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    scale, unit = next((found for found in units if value >= found[0]), units[-1])
    number = value / scale
    return f"{number:.3g} {unit}" if number < 999.5 else f"{number:.0f} {unit}"
