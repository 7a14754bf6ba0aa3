"""Live views: what families show of a running episode in a browser, and what can be changed meanwhile.

A family names a function (environment) -> :class:`LiveView` in the field ``live`` of its declaration. The
view describes the pictures once (:class:`Scene`) and reports numbers for them at successive times
(:class:`LaneFrame`). Scenes and frames are data for JSON: numbers, texts, lists. A frame is complete in
itself, except its events, so that frames can be left out if their events are added to the next one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

EnvT = TypeVar("EnvT")

Values = dict[str, Any]
"""Numbers, or lists of numbers or rows, by key."""


@dataclass(frozen=True)
class Panel:
    """Picture of one lane.

    Attributes:
        key: Key of its numbers in a frame's values.
        title: Heading.
    """

    KIND: ClassVar[str] = ""

    key: str
    title: str

    def to_json(self) -> dict[str, Any]:
        """Return the panel as data for JSON."""
        return {"kind": self.KIND, **asdict(self)}


@dataclass(frozen=True)
class NetworkPanel(Panel):
    """Graph whose links are coloured by use. Values: ``KEY`` and ``KEY_queue``, one number for each link.

    ``KEY`` is the use in percent, ``KEY_queue`` the queue before the link, in percent of ``queue_full``.

    Attributes:
        nodes: Name, x from 0 to 1, y in tiers from 0 at the bottom, and kind (``host``, ``switch``, ...) of
            each node.
        links: Numbers of source and target of each directed link.
        queue_full: Meaning of a full queue, such as ``500 kB``; empty if links have no queue.
        queue_full_bytes: The same as a number.
    """

    KIND: ClassVar[str] = "network"

    nodes: Sequence[tuple[str, float, float, str]] = ()
    links: Sequence[tuple[int, int]] = ()
    queue_full: str = ""
    queue_full_bytes: float = 0.0


BAR_STYLES = ("quiet", "busy", "bad", "good", "copy", "lost", "group", "mark")
"""Styles of bars that the page knows."""


@dataclass(frozen=True)
class BarsPanel(Panel):
    """Bars over time. Values: ``KEY``, rows of (row, begin, end, number of its state).

    Attributes:
        n_rows: Number of rows.
        states: Name of each state, and its style: ``quiet``, ``busy``, ``bad``, ``good``, ``copy``,
            ``lost``, ``group`` for a colour of its own, or ``mark``, which is drawn as a point at its begin.
        x_label: Label of the axis.
        x_unit: Unit of begin and end.
        line: Position of a vertical line, such as a threshold.
        line_label: Its label.

    Raises:
        ValueError: If there is no such style.
    """

    KIND: ClassVar[str] = "bars"

    n_rows: int = 0
    states: Sequence[tuple[str, str]] = ()
    x_label: str = ""
    x_unit: str = "s"
    line: float | None = None
    line_label: str = ""

    def __post_init__(self) -> None:
        """Check the styles."""
        if unknown := [style for _, style in self.states if style not in BAR_STYLES]:
            raise ValueError(f"{self.key}: expected styles of {', '.join(BAR_STYLES)}, got {unknown}")


@dataclass(frozen=True)
class LevelsPanel(Panel):
    """A horizontal bar for each name. Values: ``KEY``, one number for each.

    Attributes:
        names: Name of each bar.
        unit: Unit of the numbers: ``s``, ``bytes``, ``bit/s`` or a word.
        logarithmic: Whether the axis is.
    """

    KIND: ClassVar[str] = "levels"

    names: Sequence[str] = ()
    unit: str = ""
    logarithmic: bool = False


@dataclass(frozen=True)
class GridPanel(Panel):
    """Table of cells, each in a state. Values: ``KEY``, one number of a state for each cell, row by row.

    Attributes:
        rows: Name of each row.
        columns: Name of each column.
        states: Name of each state, and its style, as in :class:`BarsPanel`; those of style ``group`` have
            colours of their own.
    """

    KIND: ClassVar[str] = "grid"

    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    states: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Chart:
    """Curve over time, of all lanes in one picture.

    Attributes:
        key: Key of its number in a frame's values.
        title: Heading.
        unit: Unit of the number: ``bytes``, ``bit/s``, ``s`` or a word.
        line_of: Key of a control whose value is drawn as a horizontal line; empty: none.
    """

    key: str
    title: str
    unit: str
    line_of: str = ""


@dataclass(frozen=True)
class Fact:
    """Number shown in words, such as a count since the beginning.

    Attributes:
        key: Key of the number in a frame's values.
        label: Its name.
        unit: Its unit; empty for counts.
    """

    key: str
    label: str
    unit: str = ""


@dataclass(frozen=True)
class Control:
    """Setting that can change while an episode runs.

    Attributes:
        key: Name of the setting.
        label: Its name for readers.
        acts: When a change takes effect, such as ``at once``.
        value: Present value.
        low: Least value of a number.
        high: Largest value of a number.
        unit: Unit of the number.
        whole: Whether the number is whole.
        logarithmic: Whether equal steps of the slider are equal factors.
        choices: Possible values of a name; empty for a number.
        own: Whether every lane has its own value; else a change concerns all lanes.
    """

    key: str
    label: str
    acts: str
    value: float | str
    low: float = 0.0
    high: float = 0.0
    unit: str = ""
    whole: bool = False
    logarithmic: bool = False
    choices: Sequence[str] = ()
    own: bool = False


@dataclass(frozen=True)
class Scene:
    """Description of the pictures of a lane, and of what can be changed.

    Attributes:
        panels: Pictures.
        charts: Curves over time.
        facts: Numbers in words.
        events: Name of each kind of event, by kind, with the words for one and for several.
        places: Names of the places where events happen.
        controls: Settings.
        time_unit: Unit of the time of frames: ``s`` or a word, such as ``decisions``.
        end: Expected time of the last frame.
        interval: Time between frames for a whole episode in half a minute; 0: a frame for each decision.
    """

    panels: tuple[Panel, ...]
    charts: tuple[Chart, ...]
    facts: tuple[Fact, ...]
    end: float
    time_unit: str = "s"
    interval: float = 0.0
    events: dict[str, tuple[str, str]] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    controls: tuple[Control, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the scene as data for JSON."""
        return {**asdict(self), "panels": [panel.to_json() for panel in self.panels]}


@dataclass(frozen=True)
class LaneFrame:
    """Numbers of one lane at one time.

    Attributes:
        time: Time in the scene's unit.
        values: Numbers for panels, charts and facts, by key.
        events: Kind, number of the place, and count of what happened since the previous frame.
    """

    time: float
    values: Values
    events: tuple[tuple[str, int, int], ...] = ()


Emit = Callable[[LaneFrame], None]


class LiveView(Protocol):
    """View of the episodes of one environment."""

    def watch(self, emit: Emit) -> None:
        """Begin to report frames, from the next reset on; called once, before it."""

    def scene(self) -> Scene:
        """Return the scene of the present episode; called after the reset."""

    def set_interval(self, interval: float) -> None:
        """Report frames at all multiples of an interval from now on, where frames are so frequent."""

    def after_step(self) -> None:
        """Report what a decision has changed; called after every step of the environment."""

    def change(self, key: str, value: float | str) -> None:
        """Change a setting, between two decisions.

        Raises:
            SysgymError: If the key or the value is not possible.
        """


class DecisionsView(ABC, Generic[EnvT]):
    """Base class of views with a frame for each decision and without settings.

    Args:
        env: The environment.
    """

    def __init__(self, env: EnvT) -> None:
        self._env = env
        self._emit: Emit

    def watch(self, emit: Emit) -> None:
        """Begin to report frames, from the next reset on."""
        self._emit = emit

    def scene(self) -> Scene:
        """Return the scene of the present episode, and report its first frame."""
        scene = self._scene()
        self._emit(self._frame())
        return scene

    def set_interval(self, interval: float) -> None:
        """Do nothing: there is a frame for each decision."""

    def after_step(self) -> None:
        """Report what a decision has changed."""
        self._emit(self._frame())

    def change(self, key: str, value: float | str) -> None:
        """Do nothing: there are no settings that could change."""

    @abstractmethod
    def _scene(self) -> Scene:
        """Return the scene of the present episode."""

    @abstractmethod
    def _frame(self) -> LaneFrame:
        """Return the numbers of the present state."""


def rounded(value: float) -> float:
    """Return a number with five significant digits, so that files stay small."""
    return float(f"{value:.5g}")
