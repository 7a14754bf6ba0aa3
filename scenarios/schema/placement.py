"""Scenarios of the placement family: accelerators, parallelism axes, reductions and noisy measurements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.later_keys import GrownTable
from sysgym.scenarios.schema.placement_tables import Jobs, Joint, LogSd
from sysgym.scenarios.schema.problems import range_problems
from sysgym.scenarios.schema.scenario import Scenario
from sysgym.scenarios.schema.tables import FromList, Reward, Table

MOST_LEVELS = 4
"""Largest number of levels in observations."""

MOST_AXES = 4
"""Largest number of axes in observations and actions."""

MOST_REDUCTIONS = 4
"""Largest number of reductions of a problem in observations."""

MOST_PROGRAM_LEVELS = 3
"""Largest number of levels of a reduction whose program is built step by step."""

MOST_NODES = 4096
MOST_DRAWN_DEVICES = 4096

DEVICES_PER_NODE = {
    "p2-a100": 16,
    "p2-v100": 8,
    "dgx-1-v100": 8,
    "dgx-2": 16,
    "dgx-a100": 8,
    "dgx-h100": 8,
    "gb200-nvl72": 72,
    "tpu-v3": 8,
    "single": 1,
}
"""Devices per instance of the outermost level, by preset; link parameters are in the emulator."""

STATED = ("sysgym/CollectivePlacement-v0", "sysgym/ReductionProgram-v0")
"""Environments in which agents can be told another system than the true one."""

PresetName = Literal[
    "p2-a100",
    "p2-v100",
    "dgx-1-v100",
    "dgx-2",
    "dgx-a100",
    "dgx-h100",
    "gb200-nvl72",
    "tpu-v3",
    "single",
    "drawn",
]

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Ratio = Annotated[float, Field(gt=0.0, le=1.0)]
Bandwidth = Annotated[float, Field(gt=0.0, le=1e15)]
Latency = Annotated[float, Field(ge=0.0, le=1.0)]
Size = Annotated[float, Field(ge=0.0, le=1e15)]
Count = Annotated[int, Field(ge=1, le=2**20)]


class SystemLevel(Table):
    """Level of a system described in the file, with the links that join its instances."""

    name: str = Field(min_length=1, max_length=40, description="name of an instance, such as node")
    cardinality: Count = Field(description="number of instances inside one instance of the level above")
    bandwidth_bytes_per_s: Bandwidth = Field(
        description="bandwidth of each uplink of an instance, in each direction; in a ring, the total that"
        " the instance can send"
    )
    latency_s: Latency = Field(description="latency of one hop between siblings")
    uplinks: Count = Field(
        default=1,
        description="number of parallel uplinks (NICs) of an instance, each for an equal block of its"
        " devices",
    )
    network: Literal["switch", "ring"] = Field(default="switch", description="network between the siblings")


class DrawnSystems(Table):
    """Distribution of drawn systems, with wide ranges beyond the systems of today."""

    levels_min: Annotated[int, Field(ge=1, le=MOST_LEVELS)] = Field(
        default=2, description="minimum number of levels"
    )
    levels_max: Annotated[int, Field(ge=1, le=MOST_LEVELS)] = Field(
        default=3, description="maximum number of levels"
    )
    cardinalities: Annotated[
        tuple[Annotated[int, Field(ge=2, le=256)], ...],
        FromList,
        Field(
            min_length=1, max_length=32, description="values from which the cardinality of a level is drawn"
        ),
    ] = (2, 3, 4, 6, 8, 12, 16)
    devices_max: Annotated[int, Field(ge=2, le=MOST_DRAWN_DEVICES)] = Field(
        default=128, description="maximum number of devices; systems with more are drawn again"
    )
    bandwidth_min_bytes_per_s: Bandwidth = Field(
        default=20e9, description="minimum bandwidth of a device; log-uniform"
    )
    bandwidth_max_bytes_per_s: Bandwidth = Field(default=900e9, description="maximum bandwidth of a device")
    bandwidth_ratio_min: Ratio = Field(
        default=0.02,
        description="minimum bandwidth of an uplink, relative to an uplink of the level inside;"
        " log-uniform up to 1",
    )
    latency_min_s: Latency = Field(
        default=0.5e-6, description="minimum latency of the innermost level; log-uniform"
    )
    latency_max_s: Latency = Field(default=5e-6, description="maximum latency of the innermost level")
    latency_ratio_max: Annotated[float, Field(ge=1.0, le=1000.0)] = Field(
        default=10.0,
        description="maximum latency of a level, relative to the level inside; log-uniform from 1",
    )
    ring_fraction: Share = Field(default=0.25, description="share of levels that are rings")
    shared_fraction: Share = Field(
        default=0.5,
        description="share of levels whose instances have one uplink; the others have a drawn number of"
        " uplinks",
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check the ranges, and that at least one system is small enough."""
        yield from range_problems(self, "levels")
        yield from range_problems(self, "bandwidth", "_bytes_per_s")
        yield from range_problems(self, "latency", "_s")
        if self.latency_min_s == 0.0:
            yield Problem("latency_min_s", 0.0, "more than 0: latencies are drawn log-uniformly")
        least = min(self.cardinalities) ** self.levels_max
        if least > self.devices_max:
            yield Problem(
                "devices_max",
                self.devices_max,
                f"at least {least}, the smallest system of levels_max = {self.levels_max} levels",
            )


class System(GrownTable):
    """Accelerators: a preset, levels in the file, a random draw by the seed, or the file of another tool."""

    LATER: ClassVar[Mapping[str, Any]] = {"stated_log_sd": 0.0}

    source: Literal["preset", "drawn", "levels", "astra-sim", "taccl"] = Field(
        default="preset", description="source of the system"
    )
    preset: PresetName | None = Field(
        default=None,
        description="name of the preset; drawn: like source = drawn, so that a split can mix presets and"
        " drawn systems",
    )
    nodes: Annotated[int, Field(ge=1, le=MOST_NODES)] = Field(
        default=1,
        description="number of instances of the outermost level (nodes, racks, rows) of a preset or TACCL"
        " file",
    )
    levels: Annotated[
        tuple[SystemLevel, ...],
        FromList,
        Field(max_length=MOST_LEVELS, description="levels, outermost first, if source = levels"),
    ] = ()
    file: str = Field(default="", description="path of an ASTRA-sim network YAML or TACCL topology JSON file")
    drawn: DrawnSystems = Field(default_factory=DrawnSystems, description="what drawn systems are like")
    stated_log_sd: LogSd = Field(
        default=0.0,
        description="CollectivePlacement and ReductionProgram: log standard deviation of the ratio, of"
        " median 1, of each level's stated to its true bandwidth and latency; agents see the stated values",
    )

    @property
    def is_drawn(self) -> bool:
        """Whether the episode's seed draws the system."""
        return self.source == "drawn" or (self.source == "preset" and self.preset == "drawn")

    @property
    def is_own(self) -> bool:
        """Whether the user describes the system, in the scenario or in a file."""
        return self.source not in ("preset", "drawn")

    @property
    def n_devices(self) -> int | None:
        """Number of devices; None if the scenario alone does not determine it."""
        if self.source == "levels":
            return math.prod(level.cardinality for level in self.levels)
        if self.source == "preset" and self.preset in DEVICES_PER_NODE:
            return self.nodes * DEVICES_PER_NODE[self.preset]
        return None

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the keys match the source, and the levels against each other."""
        needed = {"preset": "preset", "levels": "levels", "astra-sim": "file", "taccl": "file"}
        given = {"preset": self.preset, "levels": list(self.levels), "file": self.file}
        own = needed.get(self.source)
        for key, value in given.items():
            if key == own and not value:
                yield Problem(key, value, f'something with source = "{self.source}"', f"add the key {key}")
            if key != own and value:
                shown = [level.name for level in self.levels] if key == "levels" else value
                source = {"preset": '"preset"', "levels": '"levels"', "file": '"astra-sim" or "taccl"'}[key]
                yield Problem(key, shown, f'none with source = "{self.source}"', f"or source = {source}")
        if self.nodes > 1 and not (self.source == "taccl" or (self.source == "preset" and self.preset)):
            yield Problem("nodes", self.nodes, f'no nodes with source = "{self.source}"', "delete the key")
        if self.preset == "single" and self.nodes > 1:
            yield Problem("nodes", self.nodes, 'one node with preset = "single"')
        if self.source == "levels":
            yield from self._level_problems()

    def _level_problems(self) -> Iterator[Problem]:
        names = [level.name for level in self.levels]
        for index, level in enumerate(self.levels):
            if level.name in names[:index]:
                yield Problem(f"levels[{index}].name", level.name, "a name that no other level has")
            inside = math.prod(other.cardinality for other in self.levels[index + 1 :])
            if inside % level.uplinks:
                yield Problem(
                    f"levels[{index}].uplinks",
                    level.uplinks,
                    f"a divisor of {inside}, the devices inside a {level.name}",
                    "every uplink serves an equal block of devices",
                )


class ReductionSpec(Table):
    """Reduction required by the program."""

    axes: Annotated[
        tuple[Annotated[int, Field(ge=0, lt=MOST_AXES)], ...],
        FromList,
        Field(min_length=1, max_length=MOST_AXES, description="axes that are reduced, counted from 0"),
    ]
    size_bytes: Size = Field(description="bytes of the vector on each device")

    def cross_checks(self) -> Iterator[Problem]:
        """Check that no axis occurs twice."""
        if len(set(self.axes)) < len(self.axes):
            yield Problem("axes", list(self.axes), "each axis once")


class ProblemTable(Table):
    """Axes and reductions, with absent ones drawn by the episode's seed, and the criterion for placements."""

    axes: Annotated[
        tuple[Annotated[int, Field(ge=1, le=2**20)], ...],
        FromList,
        Field(
            max_length=MOST_AXES,
            description="size of each axis of parallelism; their product is the number of devices; none:"
            " drawn",
        ),
    ] = ()
    axes_min: Annotated[int, Field(ge=1, le=MOST_AXES)] = Field(
        default=2, description="minimum number of drawn axes"
    )
    axes_max: Annotated[int, Field(ge=1, le=MOST_AXES)] = Field(
        default=3, description="maximum number of drawn axes"
    )
    reductions: Annotated[
        tuple[ReductionSpec, ...],
        FromList,
        Field(
            max_length=MOST_REDUCTIONS, description="reductions, performed one after another; empty: drawn"
        ),
    ] = ()
    reductions_min: Annotated[int, Field(ge=1, le=MOST_REDUCTIONS)] = Field(
        default=1, description="minimum number of drawn reductions"
    )
    reductions_max: Annotated[int, Field(ge=1, le=MOST_REDUCTIONS)] = Field(
        default=3, description="maximum number of drawn reductions, each over different axes"
    )
    two_axes_fraction: Share = Field(
        default=0.2,
        description="share of drawn reductions over two axes if there are three or more axes",
    )
    size_min_bytes: Size = Field(default=1e6, description="minimum size of a drawn reduction; log-uniform")
    size_max_bytes: Size = Field(default=4e9, description="maximum size of a drawn reduction")
    placement: Literal["drawn", "default", "best"] = Field(
        default="drawn", description="placement for which a program is built if the agent does not place"
    )
    program_levels_min: Annotated[int, Field(ge=1, le=MOST_PROGRAM_LEVELS)] = Field(
        default=1, description="minimum number of levels that the reduction of a program episode spans"
    )
    programs: Literal["all_reduce", "synthesized"] = Field(
        default="all_reduce",
        description="reductions used to evaluate a placement: one all-reduce, or the best program",
    )
    program_steps: Annotated[int, Field(ge=1, le=8)] = Field(
        default=5, description="maximum number of collectives in a program"
    )
    algorithm: Literal["ring", "halving_doubling", "tree", "auto"] = Field(
        default="ring",
        description="algorithm of the collectives in the cost model; auto: the fastest of them",
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check ranges, and that reductions are over existing axes."""
        for name, suffix in (("axes", ""), ("reductions", ""), ("size", "_bytes")):
            yield from range_problems(self, name, suffix)
        if self.size_min_bytes == 0.0 and not self.reductions:
            yield Problem("size_min_bytes", 0.0, "more than 0: sizes are drawn log-uniformly")
        n_axes = len(self.axes) or self.axes_min
        for index, reduction in enumerate(self.reductions):
            if max(reduction.axes) >= n_axes:
                yield Problem(
                    f"reductions[{index}].axes",
                    list(reduction.axes),
                    f"axes from 0 to {n_axes - 1}",
                    "" if self.axes else "axes are drawn: every episode has axes_min of them",
                )


class PlacementScenario(GrownTable, Scenario):
    """Scenario of collective placement: systems, problems and measurements."""

    LATER: ClassVar[Mapping[str, Any]] = {"jobs": None}
    VARIABLE_TABLES: ClassVar[tuple[str, ...]] = ("system", "problem", "joint", "jobs")
    FIXED_KEYS: ClassVar[tuple[str, ...]] = ("problem.program_steps", "joint.candidates")

    family: Literal["placement"] = Field(description="family of problems; determines the keys of the file")
    system: System = Field(description="the accelerators, and the links between them")
    problem: ProblemTable = Field(default_factory=ProblemTable, description="axes and reductions")
    joint: Joint = Field(default_factory=Joint, description="what the environment with measurements hides")
    jobs: Jobs | None = Field(default=None, description="jobs that share the system (MultiJobPlacement)")
    reward: Reward = Field(default_factory=Reward, description="reward of the environment")

    def cross_checks(self) -> Iterator[Problem]:
        """Check the axes against the number of devices."""
        if self.system.stated_log_sd and self.env_id not in STATED:
            expected = f"0 in {self.env_id}: only {' and '.join(STATED)} can state another system"
            advice = "joint.truth and its keys hide the true system of JointPlacement"
            yield Problem("system.stated_log_sd", self.system.stated_log_sd, expected, advice)
        axes, devices = self.problem.axes, self.system.n_devices
        if not axes:
            return
        shown = f"{' x '.join(map(str, axes))} = {math.prod(axes)}"
        if self.system.is_drawn:
            yield Problem("problem.axes", list(axes), "no axes if the system is drawn", "delete the key")
        elif devices is not None and math.prod(axes) != devices:
            expected = f"axes whose product is {devices}, the number of devices"
            yield Problem("problem.axes", shown, expected)
