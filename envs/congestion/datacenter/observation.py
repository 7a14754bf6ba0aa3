"""Observations of a controller: named groups of scale-free features of switch ports or hosts, in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sysgym.envs.congestion.datacenter.measurement import Fabric, Interval
from sysgym.envs.lifecycle import ArgumentError
from sysgym.scenarios.errors import UnknownName

FloatArray = NDArray[np.float64]
Observation = NDArray[np.float32]


@dataclass(frozen=True)
class FeatureGroup:
    """One kind of feature.

    Attributes:
        name: What users type.
        scope: Whether it has one value a switch port or one a host.
        unit: What 1 stands for.
        meaning: One line for tables.
        measure: Values from an interval, before clipping to [0, 1].
    """

    name: str
    scope: Literal["port", "host"]
    unit: str
    meaning: str
    measure: Callable[[Interval], FloatArray]


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Divide, with 0 where there is nothing to divide by."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0.0)


def _queue_delay(interval: Interval) -> FloatArray:
    delay_s = interval.queue_mean_bytes * 8.0 / interval.fabric.port_rate_bps
    return delay_s / (delay_s + interval.fabric.base_rtt_s)


def _drop_fraction(interval: Interval) -> FloatArray:
    return _share(interval.dropped_packets, interval.accepted_packets + interval.dropped_packets)


def _utilization(interval: Interval) -> FloatArray:
    return _share(interval.sent_bytes * 8.0, interval.fabric.port_rate_bps * interval.each_duration_s)


def _goodput(interval: Interval) -> FloatArray:
    full_bits = interval.fabric.line_rate_bps * (interval.fabric.payload_fraction * interval.each_duration_s)
    return _share(interval.delivered_bytes * 8.0, full_bits)


def _rtt(interval: Interval) -> FloatArray:
    base_s = interval.fabric.base_rtt_s
    excess = 1.0 - base_s / np.maximum(interval.rtt_mean_s, base_s)
    return np.nan_to_num(excess, nan=0.0)


FEATURES: dict[str, FeatureGroup] = {
    group.name: group
    for group in (
        FeatureGroup(
            "queue",
            "port",
            "fraction of the buffer",
            "queue at the end of the interval",
            lambda interval: interval.queue_bytes / interval.fabric.buffer_bytes,
        ),
        FeatureGroup(
            "queue_mean",
            "port",
            "fraction of the buffer",
            "mean queue over the interval",
            lambda interval: interval.queue_mean_bytes / interval.fabric.buffer_bytes,
        ),
        FeatureGroup(
            "queue_max",
            "port",
            "fraction of the buffer",
            "largest queue of the interval",
            lambda interval: interval.queue_max_bytes / interval.fabric.buffer_bytes,
        ),
        FeatureGroup(
            "queue_delay",
            "port",
            "d / (d + base RTT)",
            "mean queueing delay d, squashed: 0.5 doubles the base RTT",
            _queue_delay,
        ),
        FeatureGroup(
            "mark_fraction",
            "port",
            "fraction of packets",
            "packets marked of those accepted",
            lambda interval: _share(interval.marked_packets, interval.accepted_packets),
        ),
        FeatureGroup(
            "drop_fraction", "port", "fraction of packets", "packets dropped of those offered", _drop_fraction
        ),
        FeatureGroup(
            "utilization", "port", "fraction of the link rate", "bytes sent, headers included", _utilization
        ),
        FeatureGroup(
            "rate",
            "host",
            "fraction of the line rate",
            "send rate in force",
            lambda interval: interval.action,
        ),
        FeatureGroup(
            "goodput",
            "host",
            "fraction of the line rate",
            "payload delivered, against line rate less headers",
            _goodput,
        ),
        FeatureGroup(
            "rtt", "host", "1 - base RTT / RTT", "mean round trip; 0 without queueing or samples", _rtt
        ),
        FeatureGroup(
            "active",
            "host",
            "0 or 1",
            "whether the host has something left to send",
            lambda interval: (interval.active_flows > 0).astype(np.float64),
        ),
    )
}
"""All feature groups by name."""

DEFAULT_FEATURES = ("queue_delay", "mark_fraction", "utilization", "rate", "goodput", "rtt", "active")
"""Enough to see load, queueing and demand, and nothing twice."""


def get_feature_group(group: str | FeatureGroup) -> FeatureGroup:
    """Return a feature group by its name, or as it is; raises UnknownName."""
    if isinstance(group, FeatureGroup):
        return group
    if group not in FEATURES:
        raise UnknownName("feature group", group, FEATURES)
    return FEATURES[group]


class ObservationBuilder:
    """Puts frames of features together, newest first.

    Args:
        fabric: The network.
        features: Feature groups or their names, in the order of the observation.
        history: How many intervals the observation holds.

    Raises:
        UnknownName: If there is no such feature group.
        ArgumentError: If ``history`` is less than 1, or features are missing or named twice.
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
        # Looked up: what measures a group of ours cannot be pickled, and a copy needs no copy of it.
        return [self._own.get(name) or FEATURES[name] for name in self.features]

    def share(self, stack: Observation) -> None:
        """Keep the frames in a part of a larger array, shape (history, frame_size), from now on."""
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
        """Return where a feature group lies in the observation.

        Args:
            feature: Name of the group.
            age: 0 for the newest interval.

        Raises:
            UnknownName: If the observation does not have it.
        """
        if feature not in self._slices:
            raise UnknownName("feature of this observation", feature, self._slices)
        if not 0 <= age < self.history:
            raise ValueError(f"age: expected 0 to {self.history - 1}, got {age}")
        within, offset = self._slices[feature], age * self.frame_size
        return slice(within.start + offset, within.stop + offset)

    def reset(self, interval: Interval) -> None:
        """Begin an episode: the present stands in for the past that there is not."""
        self._stack[:] = self.frame(interval)

    def push(self, interval: Interval) -> None:
        """Put one more interval before the others."""
        self._stack[1:] = self._stack[:-1]
        self._stack[0] = self.frame(interval)

    def newest(self) -> Observation:
        """Return the observation, shape (size,)."""
        return self._stack.reshape(-1).copy()

    def frame(self, interval: Interval) -> Observation:
        """Return the features of one interval, shape (frame_size,); of many networks, (n, frame_size)."""
        frame = np.concatenate([group.measure(interval) for group in self._groups], axis=-1)
        clipped: Observation = np.clip(frame, 0.0, 1.0).astype(np.float32)
        return clipped
