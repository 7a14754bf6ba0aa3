"""Systems as directed graphs of devices and switches."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from sysgym.scenarios.errors import SysgymError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Link(NamedTuple):
    """Directed link between two vertices.

    Attributes:
        source: Vertex that sends.
        target: Vertex that receives.
        bandwidth_bytes_per_s: Bandwidth, more than 0.
        latency_s: Latency, at least 0.
    """

    source: int
    target: int
    bandwidth_bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, eq=False)
class Network:
    """Devices, switches and directed links.

    Devices hold data, reduce and forward it. Switches hold none: they forward what they receive while they
    receive it (cut-through), to one port; there is no reduction or multicast inside the network.

    Attributes:
        name: Name of the system.
        vertices: Names of the vertices: devices first, then switches.
        n_devices: Number of devices.
        links: The links.

    Raises:
        SysgymError: If a link is invalid, or a device cannot reach another one.
    """

    name: str
    vertices: tuple[str, ...]
    n_devices: int
    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        for index, link in enumerate(self.links):
            ends_exist = min(link[:2]) >= 0 and max(link[:2]) < len(self.vertices)
            numbers = math.isfinite(link.bandwidth_bytes_per_s) and math.isfinite(link.latency_s)
            if not ends_exist or link.source == link.target:
                raise SysgymError(
                    f"{self.name}: link {index}: expected two different vertices, got {link[:2]}"
                )
            if not numbers or link.bandwidth_bytes_per_s <= 0 or link.latency_s < 0:
                raise SysgymError(
                    f"{self.name}: link {index}: expected a bandwidth above 0 and a latency of at least 0,"
                    f" got {link.bandwidth_bytes_per_s:g} bytes/s and {link.latency_s:g} s"
                )
        if self.n_devices < 2 or not self.is_connected(range(len(self.links))):
            raise SysgymError(f"{self.name}: expected two devices or more, each of which reaches every other")

    @property
    def n_links(self) -> int:
        """Number of links."""
        return len(self.links)

    @cached_property
    def sources(self) -> IntArray:
        """Sending vertex of each link, int64 [n_links]."""
        return np.array([link.source for link in self.links], np.int64)

    @cached_property
    def targets(self) -> IntArray:
        """Receiving vertex of each link, int64 [n_links]."""
        return np.array([link.target for link in self.links], np.int64)

    @cached_property
    def bandwidths_bytes_per_s(self) -> FloatArray:
        """Bandwidth of each link, float64 [n_links]."""
        return np.array([link.bandwidth_bytes_per_s for link in self.links])

    @cached_property
    def latencies_s(self) -> FloatArray:
        """Latency of each link, float64 [n_links]."""
        return np.array([link.latency_s for link in self.links])

    @cached_property
    def cables(self) -> tuple[tuple[int, ...], ...]:
        """Links by cable: the links between two vertices, in both directions, sorted by the vertices."""
        found: dict[tuple[int, int], list[int]] = {}
        for index, link in enumerate(self.links):
            found.setdefault((min(link[:2]), max(link[:2])), []).append(index)
        return tuple(tuple(found[ends]) for ends in sorted(found))

    def is_connected(self, links: Iterable[int]) -> bool:
        """Return whether every device reaches every other one over these links."""
        kept = [self.links[index] for index in links]
        n = len(self.vertices)
        ends = ([link.source for link in kept], [link.target for link in kept])
        graph = csr_array((np.ones(len(kept)), ends), shape=(n, n))
        _, part = connected_components(graph, directed=True, connection="strong")
        return len(set(part[: self.n_devices].tolist())) == 1
