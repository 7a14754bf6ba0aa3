"""Time series of several contenders side by side: windows, rates, round trips and queues on common axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sysgym.envs.congestion.render.frame import INK, LINES, SOFT, prefix_scale, time_scale
from sysgym.errors import SysgymError
from sysgym.series import TimeSeries

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]

SUFFIXES = (".png", ".svg", ".pdf")
MOST_NAMED_FLOWS = 6
"""Maximum number of flows in colour; if there are more, all are pale lines, with a strong median line."""
MOST_PALE_FLOWS = 150
MOST_PORTS = 3
"""Maximum number of ports shown by default: those with the longest queues."""
PARTS = 250
"""Number of parts of the time for which a line shows means and a band ranges, if there are more samples."""
RATE_PARTS = 100
"""Number of parts for rates, which have no band; shorter parts would contain only a few packets."""
DPI = 150
_LABEL_ROOM = 0.085
"""Minimum distance between the labels of two lines, relative to the panel's height."""


@dataclass(frozen=True)
class Choice:
    """Part of the series to show.

    Attributes:
        from_s: Start of the time shown; None: 0.
        until_s: End of the time shown; None: the last sample.
        flows: Ids of flows; empty: all.
        ports: Names of ports; empty: those with the longest queues.
    """

    from_s: float | None = None
    until_s: float | None = None
    flows: Sequence[int] = ()
    ports: Sequence[str] = ()


@dataclass(frozen=True)
class _Panel:
    """Row of the picture.

    Attributes:
        column: Column of the series.
        name: Name in the picture.
        unit: Unit of the values, without prefix.
        parts: Number of parts of the time for which means are drawn; None: every sample is drawn.
        band: Whether to draw the minimum and maximum of each part too.
    """

    column: str
    name: str
    unit: str
    parts: int | None = PARTS
    band: bool = True

    def scale(self, largest: float) -> tuple[float, str]:
        """Return factor and name of a suitable unit for values up to ``largest``."""
        if self.unit == "s":
            return time_scale(largest)
        if self.unit == "packets":
            return 1.0, self.unit
        factor, prefix = prefix_scale(largest)
        return factor, prefix + self.unit


PANELS = (
    _Panel("cwnd_packets", "Congestion window", "packets", parts=None),
    _Panel("delivery_rate_bps", "Delivery rate", "b/s", parts=RATE_PARTS, band=False),
    _Panel("srtt_s", "Smoothed round trip", "s"),
    _Panel("queue_bytes", "Queue", "B"),
)


@dataclass(frozen=True)
class _Points:
    """Values over time, each with a minimum and a maximum.

    Attributes:
        who: Flow or port of each value; values are sorted by flow or port, then by time.
    """

    who: NDArray[np.int64]
    time_s: FloatArray
    values: FloatArray
    least: FloatArray
    most: FloatArray

    def of(self, who: int) -> _Points:
        """Return the values of one flow or port."""
        chosen = slice(*np.searchsorted(self.who, [who, who + 1]))
        return _Points(*(getattr(self, name)[chosen] for name in _POINT_FIELDS))

    def median(self) -> _Points:
        """Return the median over all flows or ports with a value, at each time."""
        order = np.lexsort((self.who, self.time_s))
        moments, first = np.unique(self.time_s[order], return_index=True)
        middle = np.array([np.median(part) for part in np.split(self.values[order], first[1:])])
        return _Points(np.zeros(len(moments), np.int64), moments, middle, middle, middle)


_POINT_FIELDS = ("who", "time_s", "values", "least", "most")


@dataclass(frozen=True)
class _Line:
    """Curve with its label; pale curves have no label."""

    points: _Points
    name: str
    colour: str
    pale: bool = False


def draw_side_by_side(series: Sequence[TimeSeries], path: Path, choice: Choice) -> None:
    """Write a picture with a column for each time series.

    Args:
        series: One to four time series.
        path: File to write: .png, .svg or .pdf.
        choice: Part of the series to show.

    Raises:
        SysgymError: A flow is missing in one of the series, or a port in all of them; there is no sample in
            the chosen time; the format is unknown; or the file cannot be written.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    check_picture(path)
    from_s, until_s = _span(series, choice)
    ports = _ports(series, choice)
    n_columns = len(series)
    layout = ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08)
    figure = Figure(figsize=(2.2 + 5.4 * n_columns, 10.5), layout=layout, facecolor="white")
    grid: Any = figure.subplots(len(PANELS), n_columns, sharex=True, sharey="row", squeeze=False)
    time_factor, time_unit = time_scale(until_s)
    for row, panel in enumerate(PANELS):
        columns = [_lines(one, panel, choice, ports, from_s, until_s) for one in series]
        levels = [_levels(one, ports) if panel.column == "queue_bytes" else {} for one in series]
        largest = max((float(line.points.most.max()) for lines in columns for line in lines), default=1.0)
        shown = {name: value for each in levels for name, value in each.items() if value <= 1.5 * largest}
        top = 1.08 * max([largest, *shown.values()]) or 1.0
        factor, unit = panel.scale(top)
        for column, lines in enumerate(columns):
            axes = grid[row][column]
            _draw_lines(axes, lines, factor, time_factor)
            _draw_levels(
                axes, {name: levels[column][name] for name in shown if name in levels[column]}, factor
            )
            axes.set(xlim=(from_s / time_factor, until_s / time_factor), ylim=(0.0, top / factor))
            if column == 0:
                axes.set_ylabel(f"{panel.name} ({unit})", fontsize=11, color=INK)
            if not lines:
                words = "it has no window" if panel.column == "cwnd_packets" else "no sample"
                axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", fontsize=11, color=SOFT)
            _name_lines(axes, lines, top)
    for axes, one in zip(grid[0], series, strict=True):
        # Names from files must not be parsed as formulas.
        axes.set_title(
            one.about["contender"], fontsize=14, fontweight="bold", color=INK, pad=10, parse_math=False
        )
    for axes in grid[-1]:
        axes.set_xlabel(f"Simulated time ({time_unit})", fontsize=11, color=INK)
    figure.suptitle(_title(series), fontsize=12, color=SOFT, parse_math=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=DPI)
    except OSError as error:
        raise SysgymError(f"{path}: the picture cannot be written: {error.strerror}") from None


def check_picture(path: Path) -> None:
    """Raise SysgymError unless the format of the file's suffix is supported."""
    if path.suffix.lower() not in SUFFIXES:
        raise SysgymError(f"{path}: expected a name that ends in {', '.join(SUFFIXES)}")


def _title(series: Sequence[TimeSeries]) -> str:
    """Return scenario and seed as a title if they are the same for all series; otherwise an empty text."""
    places = {(one.about.get("scenario"), one.about.get("seed")) for one in series}
    scenario, seed = places.pop()
    return f"{scenario}, seed {seed}" if not places and scenario is not None else ""


def _span(series: Sequence[TimeSeries], choice: Choice) -> tuple[float, float]:
    last_s = max((float(one.ports["time_s"].max(initial=0.0)) for one in series), default=0.0)
    from_s = choice.from_s or 0.0
    until_s = last_s if choice.until_s is None else min(choice.until_s, last_s)
    if not from_s < until_s:
        raise SysgymError(f"no sample from {from_s:g} s to {until_s:g} s; the last one is at {last_s:g} s")
    return from_s, until_s


def _ports(series: Sequence[TimeSeries], choice: Choice) -> list[str]:
    """Return the ports to show: those chosen by the user, or those with the longest mean queues."""
    recorded = {one.port_names[port] for one in series for port in np.unique(one.ports["port"])}
    for name in choice.ports:
        if name not in recorded:
            raise SysgymError(f'port "{name}" was not recorded; the ports are {_some(sorted(recorded))}')
    if choice.ports:
        return list(dict.fromkeys(choice.ports))
    mean_bytes: dict[str, float] = {}
    for one in series:
        for port in np.unique(one.ports["port"]):
            queues = one.ports["queue_mean_bytes"][one.ports["port"] == port]
            name = one.port_names[port]
            mean_bytes[name] = max(mean_bytes.get(name, 0.0), float(queues.mean()))
    longest = max(mean_bytes.values(), default=0.0)
    ranked = sorted(mean_bytes, key=lambda name: (-mean_bytes[name], name))
    return [name for name in ranked[:MOST_PORTS] if mean_bytes[name] >= 0.05 * longest]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _lines(
    one: TimeSeries, panel: _Panel, choice: Choice, ports: Sequence[str], from_s: float, until_s: float
) -> list[_Line]:
    """Return the curves of one panel; those with labels are last, so that they are drawn on top."""
    edges_s = None if panel.parts is None else np.linspace(from_s, until_s, panel.parts + 1)
    if panel.column == "queue_bytes":
        shown = {
            one.port_names.index(name): place for place, name in enumerate(ports) if name in one.port_names
        }
        queues = _within(one.ports, "port", list(shown), from_s, until_s)
        points = _points(queues, "port", panel, edges_s)
        return [
            _Line(points.of(port), one.port_names[port], LINES[place % 6]) for port, place in shown.items()
        ]
    if missing := sorted(set(choice.flows) - set(np.unique(one.flows["flow"]).tolist())):
        raise SysgymError(f"flow {missing[0]} has no sample in the series of {one.about['contender']}")
    points = _points(_within(one.flows, "flow", choice.flows, from_s, until_s), "flow", panel, edges_s)
    ids = np.unique(points.who).tolist()
    if len(ids) <= MOST_NAMED_FLOWS:
        return [_Line(points.of(flow), f"flow {flow}", LINES[place]) for place, flow in enumerate(ids)]
    some = [ids[round(place)] for place in np.linspace(0, len(ids) - 1, min(len(ids), MOST_PALE_FLOWS))]
    pale = [_Line(points.of(flow), "", LINES[5], pale=True) for flow in some]
    return [*pale, _Line(points.median(), f"median of\n{len(ids)} flows", LINES[0])]


def _within(
    records: NDArray[np.void], key: str, chosen: Sequence[int], from_s: float, until_s: float
) -> NDArray[np.void]:
    """Return the records in the time shown, of the chosen flows or ports, or of all if none were chosen."""
    inside = (records["time_s"] >= from_s) & (records["time_s"] <= until_s)
    if chosen:
        inside &= np.isin(records[key], chosen)
    return records[inside]


def _points(records: NDArray[np.void], key: str, panel: _Panel, edges_s: FloatArray | None) -> _Points:
    """Return the samples with a value, or their means over parts of the time if there are many."""
    records = records[np.isfinite(records[panel.column])]
    records = records[np.lexsort((records["time_s"], records[key]))]
    who, time_s, values = records[key], records["time_s"], records[panel.column].astype(np.float64)
    if edges_s is None or len(np.unique(time_s)) < len(edges_s) or not len(records):
        return _Points(who, time_s, values, values, values)
    part = np.searchsorted(edges_s, time_s, side="left")
    first = np.flatnonzero(np.r_[True, (np.diff(who) != 0) | (np.diff(part) != 0)])
    counts = np.diff(np.r_[first, len(values)])
    means = np.add.reduceat(values, first) / counts
    least, most = means, means
    if panel.band:
        least, most = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    middles_s = (edges_s - 0.5 * (edges_s[1] - edges_s[0]))[part[first]]
    return _Points(who[first], middles_s, means, least, most)


def _levels(one: TimeSeries, ports: Sequence[str]) -> dict[str, float]:
    """Return the marking threshold and the buffer size of the first port shown."""
    known = one.about.get("ports", {}).get(ports[0], {}) if ports else {}
    words = {"ecn_threshold_bytes": "ECN threshold", "buffer_bytes": "buffer"}
    return {word: float(known[key]) for key, word in words.items() if known.get(key) is not None}


def _draw_lines(axes: Axes, lines: Sequence[_Line], factor: float, time_factor: float) -> None:
    axes.grid(color="#e8ebef", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)
    axes.tick_params(labelsize=9.5, labelcolor=INK, color=SOFT)
    for line in lines:
        points = line.points
        time = points.time_s / time_factor
        if not line.pale:
            axes.fill_between(
                time, points.least / factor, points.most / factor, color=line.colour, alpha=0.2, linewidth=0
            )
        axes.plot(
            time,
            points.values / factor,
            color=line.colour,
            linewidth=0.7 if line.pale else 1.4,
            alpha=0.35 if line.pale else 1.0,
        )


def _draw_levels(axes: Axes, levels: dict[str, float], factor: float) -> None:
    for name, value in levels.items():
        axes.axhline(value / factor, color=INK, linewidth=1.0, linestyle="--")
        axes.annotate(
            name,
            (0.0, value / factor),
            xycoords=("axes fraction", "data"),
            xytext=(4, 3),
            textcoords="offset points",
            fontsize=9,
            color=INK,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8},
        )


def _name_lines(axes: Axes, lines: Sequence[_Line], top: float) -> None:
    """Write the label of each line beside its end; move labels apart that would overlap."""
    named = sorted(
        ((float(line.points.values[-1]) / top, line) for line in lines if line.name), key=lambda item: item[0]
    )
    places = _apart(np.array([height for height, _ in named]))
    for place, (_, line) in zip(places, named, strict=True):
        axes.annotate(
            line.name,
            (1.0, place),
            xycoords="axes fraction",
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=line.colour,
            annotation_clip=False,
            parse_math=False,
        )


def _apart(heights: FloatArray) -> FloatArray:
    """Return ascending heights, relative to the panel's height, moved apart below a maximum of 1."""
    places = heights.copy()
    for index in range(1, len(places)):
        places[index] = max(places[index], places[index - 1] + _LABEL_ROOM)
    if len(places):
        places[-1] = min(places[-1], 1.0)
    for index in range(len(places) - 2, -1, -1):
        places[index] = min(places[index], places[index + 1] - _LABEL_ROOM)
    return places
