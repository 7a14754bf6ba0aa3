"""Observations of a controller: named groups of scale-free features of ports or hosts, in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sysgym.envs.congestion.datacenter.measurement import Fabric, Interval
from sysgym.envs.congestion.datacenter.paths import largest_on_paths
from sysgym.envs.lifecycle import ArgumentError
from sysgym.scenarios.errors import UnknownName

FloatArray = NDArray[np.float64]
Observation = NDArray[np.float32]


@dataclass(frozen=True)
class FeatureGroup:
    """A named group of features.

    Attributes:
        name: Name of the group.
        scope: Whether the group has one value per switch port or per host.
        unit: Unit, of which a value of 1 is one.
        meaning: One-line description for tables.
        measure: Function that returns the values of an interval, before clipping to [0, 1].
        on_paths: Whether it needs the paths of hosts, ``interval.routing``.
    """

    name: str
    scope: Literal["port", "host"]
    unit: str
    meaning: str
    measure: Callable[[Interval], FloatArray]
    on_paths: bool = False


def _of_ports(name: str) -> Callable[[Interval], FloatArray]:
    """Return the function that returns a feature of ports, which compiled code has computed."""
    return lambda interval: getattr(interval.derived.ports, name)


def _of_hosts(name: str) -> Callable[[Interval], FloatArray]:
    """Return the function that returns a feature of hosts."""
    return lambda interval: getattr(interval.derived.hosts, name)


def _on_paths(name: str) -> Callable[[Interval], FloatArray]:
    """Return the function that returns the largest value of a feature of ports on the paths of hosts."""

    def measure(interval: Interval) -> FloatArray:
        assert interval.routing is not None
        return largest_on_paths(interval.routing.uses, getattr(interval.derived.ports, name))

    return measure


def _fair_rate(interval: Interval) -> FloatArray:
    """Return the fair rate of each host, which ``fixed_fair`` sets."""
    assert interval.routing is not None
    return interval.routing.fair_rates


def _ideal(interval: Interval) -> FloatArray:
    """Return the ideal of the default reward by host, in the unit of goodput; 0 in an empty interval."""
    fabric = interval.fabric
    full_bits = fabric.line_rate_bps * (fabric.payload_fraction * interval.duration_s[..., np.newaxis])
    ideal_bits = interval.ideal_bytes * 8.0
    return np.divide(ideal_bits, full_bits, out=np.zeros_like(ideal_bits), where=full_bits > 0.0)


_PORT_FEATURES = (
    ("queue", "fraction of the buffer", "queue at the end of the interval"),
    ("queue_mean", "fraction of the buffer", "mean queue over the interval"),
    ("queue_max", "fraction of the buffer", "largest queue of the interval"),
    ("queue_delay", "d / (d + base RTT)", "mean queueing delay d, squashed: 0.5 doubles the base RTT"),
    ("mark_fraction", "fraction of packets", "packets marked of those accepted"),
    ("drop_fraction", "fraction of packets", "packets dropped of those offered"),
    ("utilization", "fraction of the link rate", "bytes sent, headers included"),
)
_HOST_FEATURES = (
    ("rate", "fraction of the line rate", "send rate in force"),
    ("goodput", "fraction of the line rate", "payload delivered, against line rate less headers"),
    ("rtt", "1 - base RTT / RTT", "mean round trip; 0 without queueing or samples"),
    ("active", "0 or 1", "whether the host has something left to send"),
)
_PATH_FEATURES = ("queue_delay", "mark_fraction", "utilization")

FEATURES: dict[str, FeatureGroup] = {
    **{
        name: FeatureGroup(name, "port", unit, meaning, _of_ports(name))
        for name, unit, meaning in _PORT_FEATURES
    },
    **{
        name: FeatureGroup(name, "host", unit, meaning, _of_hosts(name))
        for name, unit, meaning in _HOST_FEATURES
    },
    **{
        f"path_{name}": FeatureGroup(
            f"path_{name}", "host", unit, f"on the host's paths, largest: {meaning}", _on_paths(name), True
        )
        for name, unit, meaning in _PORT_FEATURES
        if name in _PATH_FEATURES
    },
    "fair_rate": FeatureGroup(
        "fair_rate",
        "host",
        "fraction of the line rate",
        "max-min fair send rate with all flows of the episode active, room for ACKs included",
        _fair_rate,
        True,
    ),
    "ideal": FeatureGroup(
        "ideal",
        "host",
        "fraction of the line rate",
        "payload at the max-min fair rates of the flows active when the interval began, like goodput",
        _ideal,
    ),
}
"""All feature groups by name; ``derived.py`` and ``paths.py`` have their formulas."""

DEFAULT_FEATURES = ("queue_delay", "mark_fraction", "utilization", "rate", "goodput", "rtt", "active")
"""Default feature groups: load, queueing and demand, without redundancy."""

PATH_FEATURES = (*(f"path_{name}" for name in _PATH_FEATURES), "fair_rate")
"""Features of the paths of each host, and its fair rate."""


def get_feature_group(group: str | FeatureGroup) -> FeatureGroup:
    """Return a feature group given by name or as an object; raises UnknownName or ArgumentError."""
    if isinstance(group, FeatureGroup):
        return group
    if not isinstance(group, str):
        raise ArgumentError(f"features: expected names or FeatureGroup objects, got {group!r}")
    if group not in FEATURES:
        raise UnknownName("feature group", group, FEATURES)
    return FEATURES[group]


class ObservationBuilder:
    """Builder of observations from the features of the latest intervals, newest first.

    Args:
        fabric: The network.
        features: Feature groups or their names, in the order of the observation.
        history: Number of intervals in the observation.

    Raises:
        UnknownName: If there is no such feature group.
        ArgumentError: If ``history`` is less than 1, or there are no features, duplicate ones, or one of
            another type.
    """

    def __init__(self, fabric: Fabric, features: Sequence[str | FeatureGroup], history: int) -> None:
        groups = [get_feature_group(one) for one in features]
        names = tuple(group.name for group in groups)
        if not names or len(set(names)) != len(names):
            raise ArgumentError(f"features: expected one or more names, none of them twice, got {names}")
        if history < 1:
            raise ArgumentError(f"history: expected at least 1 interval, got {history}")
        self.features = names
        self._own = {group.name: group for group in groups if FEATURES.get(group.name) is not group}
        self.history = history
        self._owners = {"port": fabric.port_names, "host": fabric.host_names}
        widths = [len(self._owners[group.scope]) for group in self._groups]
        ends = np.cumsum(widths)
        self._slices = {
            name: slice(int(end) - width, int(end))
            for name, width, end in zip(self.features, widths, ends, strict=True)
        }
        self.frame_size = int(ends[-1])
        self.size = self.frame_size * history
        self._stack: Observation = np.zeros((history, self.frame_size), dtype=np.float32)

    @property
    def _groups(self) -> list[FeatureGroup]:
        # Looked up by name: the functions of built-in groups cannot be pickled, and copies can share them.
        return [self._own.get(name) or FEATURES[name] for name in self.features]

    @property
    def own_features(self) -> list[str]:
        """Names of the feature groups that are the caller's objects, not groups of :data:`FEATURES`."""
        return list(self._own)

    @property
    def on_paths(self) -> bool:
        """Whether a feature needs the paths of hosts."""
        return any(group.on_paths for group in self._groups)

    def share(self, stack: Observation) -> None:
        """Store the frames in a part of a larger array, shape (history, frame_size), from now on."""
        self._stack = stack

    @property
    def index(self) -> list[str]:
        """Name of every value, ``goodput[h1] (fraction of the line rate)``; older ones end in ``, t-1``."""
        names = []
        for age in range(self.history):
            past = f", t-{age}" if age else ""
            for group in self._groups:
                names += [
                    f"{group.name}[{owner}] ({group.unit}){past}" for owner in self._owners[group.scope]
                ]
        return names

    def part(self, feature: str, age: int = 0) -> slice:
        """Return the slice of a feature group in the observation.

        Args:
            feature: Name of the group.
            age: 0 for the newest interval.

        Raises:
            UnknownName: If the observation does not include the group.
            ValueError: If the observation does not include an interval of this age.
        """
        if feature not in self._slices:
            raise UnknownName("feature of this observation", feature, self._slices)
        if not 0 <= age < self.history:
            raise ValueError(f"age: expected 0 to {self.history - 1}, got {age}")
        within, offset = self._slices[feature], age * self.frame_size
        return slice(within.start + offset, within.stop + offset)

    def reset(self, interval: Interval) -> None:
        """Begin an episode: all earlier intervals repeat the first one."""
        self._stack[:] = self.frame(interval)

    def push(self, interval: Interval) -> None:
        """Add an interval as the newest one."""
        self._stack[1:] = self._stack[:-1]
        self._stack[0] = self.frame(interval)

    def newest(self) -> Observation:
        """Return the observation, shape (size,)."""
        return self._stack.reshape(-1).copy()

    def frame(self, interval: Interval) -> Observation:
        """Return the features of one interval, shape (frame_size,); for many networks, (n, frame_size)."""
        frame = np.concatenate([group.measure(interval) for group in self._groups], axis=-1)
        clipped: Observation = np.clip(frame, 0.0, 1.0).astype(np.float32)
        return clipped
