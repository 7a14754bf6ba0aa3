"""Scenarios of the collectives family: a system of links, a collective, faults, and candidate transfers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.scenario import Scenario
from sysgym.scenarios.schema.tables import Reward, Table

MOST_DEVICES = 1024
"""Largest number of devices of a named topology."""

Positive = Annotated[float, Field(gt=0.0, le=1e15)]
Latency = Annotated[float, Field(ge=0.0, le=1.0)]
Ratio = Annotated[float, Field(gt=0.0, le=1.0)]


class Shape(NamedTuple):
    """Meaning of the sizes in the name of a topology.

    Attributes:
        sizes: What each size is, in words; for tori and meshes that of each of one to three dimensions.
        per_device: Sizes whose product is the number of devices.
    """

    sizes: tuple[str, ...]
    per_device: int


SHAPES: dict[str, Shape] = {
    "ring": Shape(("devices",), 1),
    "fully-connected": Shape(("devices",), 1),
    "hypercube": Shape(("devices, a power of two",), 1),
    "torus": Shape(("length of each dimension",), 0),
    "mesh": Shape(("length of each dimension",), 0),
    "dgx1": Shape(("nodes of eight devices",), 1),
    "nodes": Shape(("nodes", "devices of a node"), 2),
    "rails": Shape(("nodes", "devices of a node"), 2),
    "leaf-spine": Shape(("leaves", "devices of a leaf", "spines"), 2),
}
"""Named topologies; the generators are in the emulator."""

FILE_TOPOLOGY = "file"
_GRIDS = ("torus", "mesh")
_NAME = re.compile(rf"({'|'.join(SHAPES)})-(\d{{1,4}}(?:x\d{{1,4}}){{0,2}})")


class TopologyName(NamedTuple):
    """Parts of the name of a topology, such as ``torus-4x4``."""

    kind: str
    sizes: tuple[int, ...]

    @property
    def n_devices(self) -> int:
        """Number of devices."""
        counted = SHAPES[self.kind].per_device or len(self.sizes)
        return math.prod(self.sizes[:counted]) * (8 if self.kind == "dgx1" else 1)


def parse_topology(name: str) -> TopologyName | None:
    """Return the parts of the name of a topology; None if there is no such topology."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    parsed = TopologyName(found[1], tuple(map(int, found[2].split("x"))))
    sizes = parsed.sizes
    fits = 1 <= len(sizes) <= 3 if parsed.kind in _GRIDS else len(sizes) == len(SHAPES[parsed.kind].sizes)
    if not fits or min(sizes) < 1 or not 2 <= parsed.n_devices <= MOST_DEVICES:
        return None
    if parsed.kind == "hypercube" and sizes[0] & (sizes[0] - 1):
        return None
    return parsed


class SystemLinks(Table):
    """Devices, switches, and the links that join them: a named topology, or another tool's file."""

    topology: str = Field(
        min_length=1,
        max_length=60,
        description=(
            "`ring-8`, `fully-connected-8`, `hypercube-8`, `torus-4x4`, `mesh-3x3x2`, `dgx1-2` (nodes), "
            "`nodes-2x8` (nodes, devices), `rails-2x8`, `leaf-spine-4x4x2` (leaves, devices, spines), "
            "or `file`"
        ),
    )
    bandwidth_bytes_per_s: Positive = Field(
        default=25e9,
        description="bandwidth of a link between devices, or of a device's port, in each direction",
    )
    latency_s: Latency = Field(
        default=0.7e-6, description="latency from device to device over one link or one switch"
    )
    nics: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1,
        description="number of NICs of a node (dgx1, nodes); each serves an equal block of its devices",
    )
    uplink_bandwidth_bytes_per_s: Positive = Field(
        default=12.5e9, description="bandwidth of a NIC (dgx1, nodes, rails), or from a leaf to a spine"
    )
    uplink_latency_s: Latency = Field(
        default=2.6e-6, description="latency from device to device beyond the node or leaf"
    )
    file: str = Field(default="", description="path of a file, with topology = file")
    format: Literal["astra-sim", "taccl"] = Field(
        default="astra-sim",
        description="format of the file: ASTRA-sim's network YAML or TACCL's topology JSON",
    )
    nodes: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1, description="number of nodes of a TACCL file"
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check the name of the topology, and that a file is given where one is read."""
        parsed = parse_topology(self.topology)
        if self.topology == FILE_TOPOLOGY:
            if not self.file:
                yield Problem("file", self.file, 'a path with topology = "file"', "add the key file")
        elif parsed is None:
            shapes = "; ".join(
                f"{kind}-{'x'.join(f'({size})' for size in SHAPES[kind].sizes)}" for kind in SHAPES
            )
            yield Problem(
                "topology", self.topology, f"2 to {MOST_DEVICES} devices as one of: {shapes}; or file"
            )
        elif self.file:
            yield Problem("file", self.file, f'no file with topology = "{self.topology}"', "delete the key")
        elif parsed.kind in ("dgx1", "nodes"):
            devices = 8 if parsed.kind == "dgx1" else parsed.sizes[1]
            if devices % self.nics:
                expected = f"a divisor of {devices}, the devices of a node"
                yield Problem("nics", self.nics, expected, "every NIC serves an equal block of devices")


class Faults(Table):
    """Faults, drawn by the episode's seed. A cable is a link with the link in the other direction."""

    failed_cables: Annotated[int, Field(ge=0, le=64)] = Field(
        default=0, description="number of absent cables; limited so that all devices stay connected"
    )
    slow_cables: Annotated[int, Field(ge=0, le=1024)] = Field(
        default=0, description="number of cables with less bandwidth, in both directions"
    )
    slow_ratio: Ratio = Field(
        default=0.25, description="bandwidth of a slow cable, relative to a healthy one"
    )


class CollectiveTable(Table):
    """The collective whose schedule is synthesised."""

    operation: Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast"] = Field(
        default="all_gather", description="the collective"
    )
    size_bytes: Positive = Field(
        default=1e9,
        description="size of the vector, complete on a device after the collective (all-gather) or before"
        " it (the others)",
    )
    chunks: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1,
        description="number of equal pieces of a device's part of the vector; broadcast: of the whole vector",
    )
    group_fraction: Ratio = Field(
        default=1.0, description="share of the devices that take part, drawn by the seed; at least two"
    )


class Candidates(Table):
    """Candidate transfers of which the agent chooses one at each step."""

    most: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=64, description="maximum number of candidates in an observation: those that arrive first"
    )
    per_hop: Annotated[int, Field(ge=1, le=64)] = Field(
        default=4, description="maximum number of candidates between the same two devices over the same links"
    )


class CollectivesScenario(Scenario):
    """Scenario of collective synthesis: links, faults, a collective, and candidates."""

    VARIABLE_TABLES: ClassVar[tuple[str, ...]] = ("system", "faults", "collective", "candidates")
    FIXED_KEYS: ClassVar[tuple[str, ...]] = ("candidates.most",)

    family: Literal["collectives"] = Field(description="family of problems; determines the keys of the file")
    system: SystemLinks = Field(description="devices, switches and links")
    faults: Faults = Field(default_factory=Faults, description="absent and slow links")
    collective: CollectiveTable = Field(default_factory=CollectiveTable, description="what is communicated")
    candidates: Candidates = Field(default_factory=Candidates, description="what an agent chooses from")
    reward: Reward = Field(default_factory=Reward, description="reward of the environment")
