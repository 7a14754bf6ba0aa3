"""Figures of fixed size that are drawn once and then updated where they change.

A frame has static parts (axes, names, scales), which are drawn into a background, and moving parts (curves,
colours, the time), which are drawn over a copy of the background. The background is redrawn only when a
scale, a time span or a legend changes. Width and height are even, as video codecs require.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation, Text

FloatArray = NDArray[np.float64]
Picture = NDArray[np.uint8]
Box = tuple[float, float, float, float]
"""Left, bottom, width and height in pixels, from the lower left corner."""

WIDTH, HEIGHT = 1280, 720
PANELS_LEFT, PANELS_WIDTH, PANELS_BOTTOM, PANELS_TOP = 812.0, 400.0, 54.0, 645.0
DPI = 100
LEGEND_SIZES = (11.5, 10.5, 9.5, 8.5)
"""Font sizes in points; a legend uses the largest that fits."""
LABEL_HEIGHT = 24.0
"""Height in pixels of the label of a constant."""
INK, SOFT, FAINT = "#1c1e21", "#5d646d", "#d9dee5"
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's palette, safe for colour-blind readers."""
SOLID, DASHED, CROSS = "■", "╍╍", "✕"
"""Marks of curves in a legend."""
TEXT_SHADE = 0.55
"""Factor that darkens a line's colour for text."""
NAME_GAP = 7.0
"""Pixels between a line's end and its name, and between a name and the frame's edge."""
NAME_HEIGHT = 14.0
"""Height in pixels of a name at a line's end."""
_STEPS = (1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def prefix_scale(value: float) -> tuple[float, str]:
    """Return the SI prefix best suited to a value: its factor and its letter."""
    return next(((scale, prefix) for scale, prefix in _UNITS if value >= scale), _UNITS[-1])


def time_scale(value_s: float) -> tuple[float, str]:
    """Return the unit best suited to a time: its length in seconds, and its name."""
    return next(((scale, unit) for scale, unit in _TIME_UNITS if value_s >= scale), _TIME_UNITS[-1])


def amount(value: float) -> str:
    """Return a value with three digits and an SI prefix, without the unit."""
    scale, prefix = prefix_scale(value)
    return f"{value / scale:.3g} {prefix}"


def time_text(value_s: float) -> str:
    """Return a time with its unit, four digits."""
    scale, unit = time_scale(value_s)
    return f"{value_s / scale:.4g} {unit}"


def round_up(value: float) -> float:
    """Return the next round number, so that a growing scale changes in few steps."""
    if not value > 0.0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(value))
    return float(power * next(step for step in _STEPS if step * power >= value * (1.0 - 1e-9)))


def clock(now_s: float, end_s: float) -> str:
    """Return a time with a fixed number of digits for the episode's length, so that titles do not shift."""
    scale, unit = time_scale(end_s)
    return f"{now_s / scale:.{0 if end_s / scale >= 1000 else 1 if end_s / scale >= 100 else 2}f} {unit}"


def span_end(time_s: FloatArray, end_s: float | None) -> float:
    """Return the end of the time axis: the end of the episode if known, else a time ahead of now."""
    begin_s, now_s = float(time_s[0]), float(time_s[-1])
    # Sums of intervals have rounding errors.
    if end_s is not None and end_s > begin_s and now_s <= end_s + 1e-6 * (end_s - begin_s):
        return end_s
    return begin_s + round_up(1.02 * (now_s - begin_s) if now_s > begin_s else 1e-3)


def darker(colour: str) -> str:
    """Return a colour darkened for use in text: with a contrast of at least 4.5:1 to white."""
    from matplotlib.colors import to_hex, to_rgb

    red, green, blue = (TEXT_SHADE * part for part in to_rgb(colour))
    return to_hex((red, green, blue))


def spread(heights: Sequence[float], room: float, top: float) -> list[float]:
    """Return the heights of labels, moved apart where they would overlap.

    Args:
        heights: Desired heights, ascending.
        room: Height of one label.
        top: Largest height allowed.
    """
    found: list[float] = []
    for height in heights:
        found.append(max(height, found[-1] + room) if found else height)
    for index in range(len(found) - 1, -1, -1):
        most = top if index == len(found) - 1 else found[index + 1] - room
        found[index] = min(found[index], most)
    return found


class Series:
    """Growing array of rows.

    Args:
        width: Number of values in a row.
    """

    def __init__(self, width: int = 1) -> None:
        self._data: FloatArray = np.empty((64, width))
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, row: FloatArray | float) -> None:
        """Add a row."""
        if self._length == len(self._data):
            self._data = np.concatenate((self._data, np.empty_like(self._data)))
        self._data[self._length] = row
        self._length += 1

    @property
    def rows(self) -> FloatArray:
        """All rows, shape (length, width); a view."""
        return self._data[: self._length]

    @property
    def column(self) -> FloatArray:
        """The first value of every row, shape (length,)."""
        return self._data[: self._length, 0]


class Frame:
    """Picture that is redrawn repeatedly.

    Args:
        title: Title, in large type.
        subtitle: Subtitle, such as the name of the agent.
    """

    def __init__(self, title: str, subtitle: str) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor="white")
        self._canvas = FigureCanvasAgg(self.figure)
        self._moving: list[Any] = []
        self._background: Any = None
        self.text(20, 684, title, fontsize=19, fontweight="bold")
        self.text(20, 656, subtitle, fontsize=13.5, color=SOFT)
        self._time = self.moves(self.text(1262, 684, "", fontsize=19, fontweight="bold", ha="right"))
        self._step = self.moves(self.text(1262, 658, "", fontsize=12, color=SOFT, ha="right"))

    def text(self, x: float, y: float, words: str, **style: Any) -> Text:
        """Write text at a position in pixels."""
        return self.figure.text(x / WIDTH, y / HEIGHT, words, **{"color": INK, "fontsize": 12, **style})

    def axes(self, box: Box) -> Axes:
        """Add axes at a position in pixels."""
        left, bottom, width, height = box
        return self.figure.add_axes((left / WIDTH, bottom / HEIGHT, width / WIDTH, height / HEIGHT))

    def pixel_axes(self, box: Box) -> Axes:
        """Add axes without a frame, in units of pixels."""
        axes = self.axes(box)
        axes.set(xlim=(0, box[2]), ylim=(0, box[3]))
        axes.axis("off")
        return axes

    def width_of(self, text: Text) -> float:
        """Return the width of a text in pixels."""
        return float(text.get_window_extent(self._canvas.get_renderer()).width)

    def moves(self, artist: Any) -> Any:
        """Mark an artist as moving; later ones are drawn over earlier ones."""
        artist.set_animated(True)
        self._moving.append(artist)
        return artist

    def spoil(self) -> None:
        """Mark the background as outdated, so that the next frame redraws it."""
        self._background = None

    def set_time(self, now: str, step: str) -> None:
        """Show the simulated time and the number of the decision."""
        self._time.set_text(now)
        self._step.set_text(step)

    def pixels(self) -> Picture:
        """Return the current frame, shape (HEIGHT, WIDTH, 3)."""
        canvas = self._canvas
        if self._background is None:
            canvas.draw()
            self._background = canvas.copy_from_bbox(self.figure.bbox)
        else:
            canvas.restore_region(self._background)
        renderer = canvas.get_renderer()
        for artist in self._moving:
            artist.draw(renderer)
        return np.asarray(canvas.buffer_rgba(), dtype=np.uint8)[:, :, :3].copy()


class TimePanel:
    """Plot of a quantity over time; the upper limit grows in round steps as needed.

    Args:
        frame: Frame to draw in.
        row: Index of the panel's row on the right, from the top.
        name: Name of the quantity.
        unit: Unit without prefix: ``B``, ``b/s``, ``s`` or ``%`` (shown as it is).
        floor: Lowest upper limit.
        n_rows: Number of rows; the last shows the unit of time.
    """

    def __init__(
        self, frame: Frame, row: int, name: str, unit: str, *, floor: float, n_rows: int = 3
    ) -> None:
        pitch = (PANELS_TOP - PANELS_BOTTOM) / n_rows
        box = (PANELS_LEFT, PANELS_TOP - (row + 1) * pitch, PANELS_WIDTH, pitch - 62.0)
        self._frame, self._box, self._name, self._unit = frame, box, name, unit
        self._bottom = bottom = row == n_rows - 1
        self.axes = frame.axes(box)
        self.axes.grid(color="#e8ebef", linewidth=1.0)
        self.axes.set_axisbelow(True)
        self.axes.spines[["top", "right"]].set_visible(False)
        self.axes.spines[["left", "bottom"]].set_color(SOFT)
        self.axes.tick_params(labelsize=11.5, labelcolor=INK, color=SOFT, labelbottom=bottom)
        self.axes.locator_params(axis="y", nbins=4)
        self.axes.locator_params(axis="x", nbins=6)
        if bottom:
            self.axes.set_xlabel("simulated time", fontsize=12, color=INK, labelpad=2)
        self._headline = frame.text(
            box[0] - 48, box[1] + box[3] + 25, "", fontsize=13, fontweight="bold", va="baseline"
        )
        self._legend: list[Text] = []
        self._levels: list[tuple[float, Any, Any]] = []
        self._lines: list[Line2D] = []
        self._names: dict[Line2D, Annotation] = {}
        self.limit = 0.0
        self._scale = self._time_scale = 1.0
        self._end_s = 0.0
        self._begin_s = 0.0
        self._now = frame.moves(self.axes.axvline(0.0, color=SOFT, linewidth=1.2, alpha=0.8))
        self.raise_limit(floor)

    def line(self, colour: str, *, steps: bool = False, width: float = 2.2, **style: Any) -> Line2D:
        """Add a curve."""
        (made,) = self.axes.plot(
            [], [], color=colour, linewidth=width, drawstyle="steps-pre" if steps else "default", **style
        )
        self._frame.moves(made)
        self._lines.append(made)
        return made

    def band(self, colour: str, alpha: float) -> Any:
        """Add a band between two curves."""
        from matplotlib.collections import PolyCollection

        made = PolyCollection([], facecolor=colour, edgecolor="none", alpha=alpha)
        self.axes.add_collection(made, autolim=False)
        return self._frame.moves(made)

    def level(self, value: float, words: str, *, dotted: bool = False) -> None:
        """Draw a constant with its name; both are hidden while the constant exceeds the upper limit."""
        drawn = self.axes.axhline(0.0, color=INK, linewidth=1.3, linestyle=":" if dotted else "--")
        label = self.axes.annotate(
            words,
            (0.0, 0.0),
            xycoords=("axes fraction", "data"),
            xytext=(3.0, 3.0),
            textcoords="offset points",
            ha="left",
            fontsize=11,
            color=INK,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.75},
        )
        self._levels.append((value, self._frame.moves(drawn), label))
        self._place_levels()

    def names_on_top(self) -> None:
        """Draw the names of constants and curves over all existing curves."""
        for _, _, label in self._levels:
            self._frame.moves(label)
        for line in self._lines:
            self._names[line] = self._frame.moves(
                self.axes.annotate(
                    "", (0.0, 0.0), xycoords=("data", "axes fraction"), xytext=(5.0, 0.0),
                    textcoords="offset points", fontsize=10.5, va="center", annotation_clip=False,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.7},
                )
            )  # fmt: skip

    def legend(self, entries: Sequence[tuple[str, str, str]]) -> None:
        """Write a legend in a row above the axes.

        Args:
            entries: Mark (``SOLID``, ``DASHED`` or ``CROSS``), name and colour of each entry.
        """
        for text in self._legend:
            text.remove()
        y = self._box[1] + self._box[3] + 7
        for size in LEGEND_SIZES:
            self._legend = []
            x = self._box[0] - 48.0
            for mark, name, colour in entries:
                for words, ink, room in ((mark, colour, 3.0), (name, INK, 13.0)):
                    self._legend.append(
                        self._frame.text(x, y, words, fontsize=size, color=ink, va="baseline")
                    )
                    x += self._frame.width_of(self._legend[-1]) + room
            if x <= WIDTH:
                break
            if size != LEGEND_SIZES[-1]:
                for text in self._legend:
                    text.remove()
        self._frame.spoil()

    def name_lines(self, names: Sequence[tuple[Line2D, str, str]]) -> None:
        """Write names at the current ends of curves, moved apart; call after :meth:`names_on_top`.

        Args:
            names: Curve, name and colour of each; curves without points are skipped.
        """
        for text in self._names.values():
            text.set_visible(False)
        (left, right), (low, high) = self.axes.get_xlim(), self.axes.get_ylim()
        ends = []
        for line, name, colour in names:
            x, y = line.get_data()
            x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
            there = np.flatnonzero(np.isfinite(y))
            if line.get_visible() and len(there):
                share = (float(y[there[-1]]) - low) / (high - low)
                ends.append((share * self._box[3], line, name, colour, float(x[there[-1]])))
        ends.sort(key=lambda end: (end[0], end[2]))
        heights = spread([end[0] for end in ends], NAME_HEIGHT, self._box[3])
        for height, (_, line, name, colour, x_end) in zip(heights, ends, strict=True):
            text = self._names[line]
            text.xy = (x_end, height / self._box[3])
            text.set_text(name)
            text.set_color(darker(colour))
            text.set_visible(True)
            begins = self._box[0] + self._box[2] * (x_end - left) / (right - left) + NAME_GAP
            shift = min(0.0, WIDTH - NAME_GAP - begins - self._frame.width_of(text))
            text.xyann = ((NAME_GAP + shift) * 72.0 / DPI, 0.0)

    def shows(self, time_s: FloatArray) -> NDArray[np.bool_]:
        """Return a mask of the times that are not before the beginning of the axis."""
        found: NDArray[np.bool_] = time_s >= self._begin_s
        return found

    def raise_limit(self, value: float) -> None:
        """Raise the upper limit if necessary to show a value."""
        if not value > self.limit:
            return
        self.limit = round_up(value)
        self._scale, prefix = self._unit_scale(self.limit)
        self.axes.set_ylim(0.0, 1.04 * self.limit / self._scale)
        self._headline.set_text(f"{self._name} ({prefix}{'' if self._unit == 's' else self._unit})")
        self._place_levels()
        self._frame.spoil()

    def set_span(self, begin_s: float, end_s: float, last_s: float | None = None) -> None:
        """Set the time span of the axis.

        Args:
            begin_s: Beginning of the axis.
            end_s: End of the axis.
            last_s: End of the episode, which determines the unit; None: the end of the axis.
        """
        if (begin_s, end_s) == (self._begin_s, self._end_s):
            return
        self._begin_s, self._end_s = begin_s, end_s
        self._time_scale, unit = time_scale(end_s if last_s is None else last_s)
        room = 0.012 * (end_s - begin_s)
        self.axes.set_xlim((begin_s - room) / self._time_scale, (end_s + room) / self._time_scale)
        if self._bottom:
            self.axes.set_xlabel(f"simulated time ({unit})", fontsize=12, color=INK, labelpad=2)
        self._frame.spoil()

    def draw(self, line: Line2D, time_s: FloatArray, values: FloatArray) -> None:
        """Set the points of a curve."""
        line.set_data(time_s / self._time_scale, values / self._scale)

    def draw_band(
        self, band: Any, time_s: FloatArray, low: FloatArray, high: FloatArray, *, steps: bool = True
    ) -> None:
        """Set the edges of a band; with steps, each value holds from the previous time to its own."""
        if len(time_s) < 2:
            band.set_verts([])
            return
        x, down, up = time_s / self._time_scale, *(np.nan_to_num(edge) / self._scale for edge in (low, high))
        if steps:
            x, down, up = np.repeat(x, 2)[:-1], np.repeat(down, 2)[1:], np.repeat(up, 2)[1:]
        band.set_verts([np.column_stack((np.append(x, x[::-1]), np.append(up, down[::-1])))])

    def set_now(self, now_s: float) -> None:
        """Mark the current time."""
        self._now.set_xdata([now_s / self._time_scale] * 2)

    def _unit_scale(self, limit: float) -> tuple[float, str]:
        if self._unit == "%":
            return 0.01, ""
        scale: Callable[[float], tuple[float, str]] = time_scale if self._unit == "s" else prefix_scale
        return scale(limit)

    def _place_levels(self) -> None:
        for value, drawn, label in self._levels:
            shown = value <= self.limit
            drawn.set_ydata([value / self._scale] * 2)
            label.xy = (0.0, value / self._scale)
            # The label is below the line if there is room, because fewer curves cross it there.
            below = value / self.limit * self._box[3] > LABEL_HEIGHT
            label.xyann = (3.0, -3.0 if below else 3.0)
            label.set_va("top" if below else "bottom")
            drawn.set_visible(shown)
            label.set_visible(shown)
