"""Hierarchies of accelerators: nested levels, each with the links that join its instances.

Devices are numbered by mixed radix over the levels, outermost digit most significant: with levels
``(rack, 1), (server, 2), (CPU, 2), (GPU, 4)`` the device is ``((rack*2 + server)*2 + CPU)*4 + GPU``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, get_args

from sysgym.scenarios.errors import Problem, ScenarioError, UnknownName

MOST_DEVICES = 2**20
"""Largest number of devices; tables of coordinates of more would fill the memory."""

Network = Literal["switch", "ring"]
NETWORKS: tuple[Network, ...] = get_args(Network)


@dataclass(frozen=True)
class Level:
    """One level of a hierarchy, and the links that join its instances.

    Attributes:
        name: Name in the singular, such as ``node``.
        cardinality: Instances of this level inside one instance of the level above; 1 or more.
        bandwidth_bytes_per_s: Bytes per second and direction of each uplink of an instance into the network
            that joins it with its siblings: a device's NVLinks at the innermost level, a node's NIC further
            out. In a ring this is the total that the instance can send, half of it to each neighbour.
        latency_s: Latency of one hop from an instance to a sibling, in seconds.
        uplinks: Parallel uplinks (NICs) of an instance. Its D devices are assigned to them in equal blocks:
            device i of D uses uplink ``i * uplinks // D``. Divides D.
        network: ``switch``: instances share nothing but uplinks on the way to their siblings;
            ``ring``: siblings in a ring.
    """

    name: str
    cardinality: int
    bandwidth_bytes_per_s: float
    latency_s: float
    uplinks: int = 1
    network: Network = "switch"

    def problems(self, place: str = "") -> Iterator[Problem]:
        """Yield the problems of the level by itself.

        Args:
            place: Prefix of the keys, such as ``levels[0].``.
        """
        if not self.name:
            yield Problem(f"{place}name", self.name, "a text that is not empty")
        for key in ("cardinality", "uplinks"):
            value = getattr(self, key)
            if not _whole(value) or value < 1:
                yield Problem(f"{place}{key}", value, "a whole number, at least 1")
        bandwidth, latency = self.bandwidth_bytes_per_s, self.latency_s
        if not _finite(bandwidth) or bandwidth <= 0:
            yield Problem(f"{place}bandwidth_bytes_per_s", bandwidth, "a finite number, more than 0")
        if not _finite(latency) or latency < 0:
            yield Problem(f"{place}latency_s", latency, "a finite number, at least 0")
        if self.network not in NETWORKS:
            yield Problem(f"{place}network", self.network, " or ".join(f'"{name}"' for name in NETWORKS))


@dataclass(frozen=True)
class Hierarchy:
    """Nested levels of accelerators; validated when created.

    Attributes:
        name: Name for messages and figures.
        levels: Outermost first; the instances of the last are the devices.
        references: Sources of the numbers.

    Raises:
        ScenarioError: A level is invalid, or two levels do not fit together; names the value and the expected
            one.
    """

    name: str
    levels: tuple[Level, ...]
    references: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(self.levels))
        object.__setattr__(self, "references", tuple(self.references))
        if problems := tuple(self._problems()):
            raise ScenarioError(f"<hierarchy {self.name}>", problems=problems)

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return len(self.levels)

    @property
    def n_devices(self) -> int:
        """Number of accelerators: the product of the cardinalities."""
        return math.prod(self.cardinalities)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Cardinality of every level, outermost first."""
        return tuple(int(level.cardinality) for level in self.levels)

    def devices_inside(self, level: int) -> int:
        """Return the number of devices in one instance of a level; 1 for the innermost level.

        Args:
            level: Index of the level, 0 for the outermost.
        """
        return math.prod(self.cardinalities[level + 1 :]) if level >= 0 else self.n_devices

    def level_index(self, name: str) -> int:
        """Return the index of the level of this name, 0 for the outermost.

        Raises:
            UnknownName: No level has this name.
        """
        names = [level.name for level in self.levels]
        if name not in names:
            raise UnknownName("level", name, names)
        return names.index(name)

    def device_name(self, device: int) -> str:
        """Return a device's place in words, such as ``node 2, gpu 5``, counted from 0.

        Levels of one instance are left out.
            device: Id of the device.

        Raises:
            ScenarioError: There is no such device.
        """
        if not 0 <= device < self.n_devices:
            expected = f"a device from 0 to {self.n_devices - 1}"
            raise ScenarioError(f"<hierarchy {self.name}>", "device", device, expected)
        words = []
        for index, level in enumerate(self.levels):
            inside = self.devices_inside(index)
            if level.cardinality > 1:
                words.append(f"{level.name} {device // inside % level.cardinality}")
        return ", ".join(words) or f"{self.levels[-1].name} 0"

    def to_dict(self) -> dict[str, Any]:
        """Return the hierarchy as JSON-serializable data."""
        data = dataclasses.asdict(self)
        return data | {"levels": list(data["levels"]), "references": list(self.references)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Hierarchy:
        """Return the hierarchy that :meth:`to_dict` described.

        Raises:
            ScenarioError: The data do not describe a hierarchy.
        """
        name = str(data.get("name", "hierarchy"))
        known = [field.name for field in dataclasses.fields(Level)]
        levels = []
        for index, level in enumerate(data.get("levels", ())):
            try:
                levels.append(Level(**level))
            except TypeError:
                got = sorted(level) if isinstance(level, Mapping) else level
                expected = f"a table with the keys {', '.join(known)} (uplinks and network may be absent)"
                raise ScenarioError(f"<hierarchy {name}>", f"levels[{index}]", got, expected) from None
        return cls(name, tuple(levels), tuple(data.get("references", ())))

    def _problems(self) -> Iterator[Problem]:
        found = [
            problem
            for index, level in enumerate(self.levels)
            for problem in level.problems(f"levels[{index}].")
        ]
        if found:
            yield from found
            return
        if not self.levels:
            yield Problem("levels", [], "at least one level")
            return
        names = [level.name for level in self.levels]
        for index, name in enumerate(names):
            if name in names[:index]:
                yield Problem(f"levels[{index}].name", name, "a name that no other level has")
        if self.n_devices > MOST_DEVICES:
            cards = " x ".join(map(str, self.cardinalities))
            yield Problem("levels", f"{cards} = {self.n_devices} devices", f"at most {MOST_DEVICES} devices")
        for index, level in enumerate(self.levels):
            inside = self.devices_inside(index)
            if inside % level.uplinks:
                yield Problem(
                    f"levels[{index}].uplinks",
                    level.uplinks,
                    f"a divisor of {inside}, the devices inside a {level.name}",
                    "every uplink serves an equal block of devices",
                )


def _whole(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral)


def _finite(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
