"""Workloads of a congestion scenario: senders, receivers, sizes and times of flows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from sysgym.scenarios.errors import NOTHING, Problem
from sysgym.scenarios.schema.congestion.queue import MOST_CLASSES
from sysgym.scenarios.schema.congestion.topology import MOST_HOSTS, RateBps, TopologyTable
from sysgym.scenarios.schema.later_keys import GrownTable
from sysgym.scenarios.schema.tables import Table

LONGEST_EPISODE_S = 7200.0
MOST_FLOWS = 1_000_000
"""Largest number of long-lived flows, each of which keeps its state for the whole episode."""

PeriodS = Annotated[float, Field(ge=1e-6, le=LONGEST_EPISODE_S)]
JitterS = Annotated[float, Field(ge=0.0, le=LONGEST_EPISODE_S)]
SizeBytes = Annotated[int, Field(ge=1, le=2**40)]

Pairs = Annotated[
    Literal[
        "one_to_one", "stride", "staggered", "random", "random_bijective", "hotspot", "all_to_all", "iroko"
    ],
    Field(
        description=(
            "pairs of sender and receiver. one_to_one: host x to host x + n/2, on a dumbbell from west to"
            " east only,"
            " on a parking lot over all bottlenecks and across each;"
            " stride: host x to host x + stride; staggered: to the same edge switch with p_edge,"
            " the same pod with p_pod, otherwise another pod; random: any other host; random_bijective: a"
            " permutation; hotspot: all to a few hosts;"
            " all_to_all: every host to every other; iroko: west host i to east host i"
        )
    ),
]
Stride = Annotated[
    int,
    Field(
        ge=1,
        lt=MOST_HOSTS,
        description="distance between the hosts of a pair; used if pairs is stride",
    ),
]
EdgeShare = Annotated[
    float,
    Field(
        ge=0.0,
        le=1.0,
        description="probability of a destination on the same edge switch; used with staggered",
    ),
]
PodShare = Annotated[
    float,
    Field(
        ge=0.0,
        le=1.0,
        description="probability of a destination elsewhere in the pod; used with staggered",
    ),
]


class TrafficPart(GrownTable):
    """Workload that can be a part of a mix."""

    LATER: ClassVar[Mapping[str, Any]] = {"priority": 0}

    priority: Annotated[int, Field(ge=0, lt=MOST_CLASSES)] = Field(
        default=0,
        description="class of the packets if queue.classes is more than 1; a law may set another class",
    )


class LongLivedWorkload(TrafficPart):
    """Flows that never end, between the pairs of a traffic matrix."""

    kind: Literal["long_lived"] = Field(description="form of the traffic")
    pairs: Pairs
    stride: Stride = 8
    p_edge: EdgeShare = 0.2
    p_pod: PodShare = 0.3
    flows_per_pair: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=1, description="number of parallel flows of each pair"
    )
    start_jitter_s: JitterS = Field(
        default=0.0, description="flows start at times drawn between 0 and this, s"
    )

    @property
    def matrix(self) -> str:
        """Name of the traffic matrix."""
        return self.pairs

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the probabilities sum to at most 1."""
        yield from _share_problems(self.p_edge, self.p_pod)


class IncastWorkload(TrafficPart):
    """Synchronised N-to-1 bursts: in every round, all senders answer one receiver at once."""

    kind: Literal["incast"] = Field(description="form of the traffic")
    senders: Annotated[int, Field(ge=1, lt=MOST_HOSTS)] = Field(
        description="number of hosts that answer in a round"
    )
    request_bytes: SizeBytes = Field(description="payload that each sender sends in a round, bytes")
    period_s: PeriodS = Field(description="time from one round to the next, s")
    jitter_s: JitterS = Field(
        default=0.0, description="each sender starts at a time drawn between 0 and this into the round, s"
    )
    receiver: Literal["first", "drawn"] = Field(
        default="first",
        description="first: host 0 receives in every round; drawn: a host drawn for each round",
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the jitter stays within a round."""
        if self.jitter_s > self.period_s:
            yield Problem("jitter_s", self.jitter_s, f"at most period_s = {self.period_s:g}")


class PoissonWorkload(TrafficPart):
    """Flows of random sizes that arrive as a Poisson process at every sending host."""

    LATER: ClassVar[Mapping[str, Any]] = {**TrafficPart.LATER, "last_arrival_s": None}

    kind: Literal["poisson"] = Field(description="form of the traffic")
    load: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        description="offered load of each host that sends, headers included, as a fraction of its line rate"
    )
    flow_sizes: Literal["websearch", "facebook-hadoop", "alibaba-storage", "google-rpc", "fixed"] = Field(
        description="distribution of flow sizes"
    )
    fixed_bytes: SizeBytes | None = Field(
        default=None, description="size of every flow where flow_sizes is fixed, bytes"
    )
    destinations: Literal["random", "permutation", "hotspot", "stride", "staggered", "all_to_all"] = Field(
        default="random",
        description=(
            "destinations of a host's flows. random: each flow to any other host; permutation: all flows"
            " of a host to one host, and every host is the destination of one other; hotspot: all to a few"
            " hosts that only receive;"
            " stride: from host x to host x + stride; staggered: each to the same edge switch with p_edge,"
            " the same pod with p_pod, otherwise another pod; all_to_all: to all others in turn, equally"
            " often"
        ),
    )
    stride: Stride = 8
    p_edge: EdgeShare = 0.2
    p_pod: PodShare = 0.3
    last_arrival_s: PeriodS | None = Field(
        default=None,
        description=(
            "no flow arrives after this time, s, so that the network drains and flows that began late count"
            " with their own completion time; absent: flows arrive until the end of the episode"
        ),
    )

    @property
    def matrix(self) -> str:
        """Name of the traffic matrix."""
        return self.destinations

    def cross_checks(self) -> Iterator[Problem]:
        """Check that fixed sizes have a size, and that the probabilities sum to at most 1."""
        yield from _share_problems(self.p_edge, self.p_pod)
        if self.flow_sizes == "fixed" and self.fixed_bytes is None:
            yield Problem(
                "fixed_bytes",
                NOTHING,
                'a size in bytes, because flow_sizes = "fixed"',
                "add fixed_bytes = 100_000",
            )
        if self.flow_sizes != "fixed" and self.fixed_bytes is not None:
            yield Problem(
                "fixed_bytes",
                self.fixed_bytes,
                f'no such key with flow_sizes = "{self.flow_sizes}"',
                'delete it, or set flow_sizes = "fixed"',
            )


class OnOffWorkload(TrafficPart):
    """On-off traffic: each pair of hosts alternates between silence and sending messages at a rate."""

    kind: Literal["on_off"] = Field(description="form of the traffic")
    pairs: Pairs
    stride: Stride = 8
    p_edge: EdgeShare = 0.2
    p_pod: PodShare = 0.3
    rate_bps: RateBps = Field(description="send rate of a busy pair, headers included, bit/s")
    on_s: PeriodS = Field(description="mean duration for which a pair is busy, s")
    off_s: PeriodS = Field(description="mean duration for which a pair is silent, s")
    periods: Literal["exponential", "pareto"] = Field(
        default="exponential",
        description="distribution of both durations; the heavy tail of pareto makes the traffic of many"
        " pairs bursty on all time scales",
    )
    pareto_shape: Annotated[float, Field(gt=1.0, le=100.0)] = Field(
        default=1.5, description="tail index, above 1; used if periods is pareto"
    )
    message_bytes: SizeBytes = Field(
        default=14_600, description="a busy pair sends one flow of this payload after another, bytes"
    )

    @property
    def matrix(self) -> str:
        """Name of the traffic matrix."""
        return self.pairs

    @property
    def busy_fraction(self) -> float:
        """Mean fraction of the time for which a pair is busy."""
        return self.on_s / (self.on_s + self.off_s)

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the probabilities sum to at most 1."""
        yield from _share_problems(self.p_edge, self.p_pod)


class TrainingWorkload(TrafficPart):
    """Jobs that train a model on several hosts: iterations of computation and a collective.

    A collective consists of steps: a host sends when the messages that it waits for have arrived.
    """

    kind: Literal["training"] = Field(description="form of the traffic")
    collective: Literal["ring_all_reduce", "tree_all_reduce", "all_to_all"] = Field(
        description=(
            "collective operation of a job. ring_all_reduce: 2 (n - 1) steps of a share of 1/n to the"
            " next host; tree_all_reduce: everything up a binomial tree and down again; all_to_all: n - 1"
            " steps, in step s a share of 1/n to the host s further"
        )
    )
    job_hosts: Annotated[int, Field(ge=2, le=MOST_HOSTS)] = Field(description="number n of hosts of a job")
    jobs: Annotated[int, Field(ge=1, le=MOST_HOSTS // 2)] = Field(
        default=1, description="number of concurrent jobs, each on separate hosts"
    )
    size_bytes: SizeBytes = Field(
        description="payload that each host has to reduce or distribute in an iteration, bytes"
    )
    compute_s: JitterS = Field(
        description="time from a host's last data of an iteration to its first data of the next, s"
    )
    compute_jitter_s: JitterS = Field(
        default=0.0, description="maximum of the random time added to the compute time of a job, s"
    )
    start_jitter_s: JitterS = Field(
        default=0.0, description="a job's first collective begins at a time drawn between 0 and this, s"
    )
    placement: Literal["packed", "scattered"] = Field(
        default="packed",
        description="packed: the hosts of a job are neighbours, in order; scattered: drawn, in any order",
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that every share has at least one byte."""
        if self.size_bytes < self.job_hosts:
            yield Problem("size_bytes", self.size_bytes, f"a byte for each of job_hosts = {self.job_hosts}")


Part = Annotated[
    LongLivedWorkload | IncastWorkload | PoissonWorkload | OnOffWorkload | TrainingWorkload,
    Field(discriminator="kind"),
]
PartName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]


class MixWorkload(Table):
    """Several named workloads at once, such as foreground and background."""

    kind: Literal["mix"] = Field(description="form of the traffic")
    parts: Annotated[dict[PartName, Part], Field(min_length=1)] = Field(
        description="name -> workload: [workload.parts.NAME], with the keys of its kind"
    )


Workload = Annotated[
    LongLivedWorkload | IncastWorkload | PoissonWorkload | OnOffWorkload | TrainingWorkload | MixWorkload,
    Field(discriminator="kind", description="who sends what, and when"),
]
PartTable = LongLivedWorkload | IncastWorkload | PoissonWorkload | OnOffWorkload | TrainingWorkload
"""Table of any workload except a mix."""
WorkloadTable = PartTable | MixWorkload
"""Table of any workload."""


def _share_problems(p_edge: float, p_pod: float) -> Iterator[Problem]:
    if p_edge + p_pod > 1.0:
        yield Problem("p_pod", p_pod, f"at most 1 - p_edge = {1.0 - p_edge:g}")


def parts_of(workload: WorkloadTable) -> dict[str, PartTable]:
    """Return the workloads by dotted key, those of a mix or a single one."""
    if isinstance(workload, MixWorkload):
        return {f"workload.parts.{name}": part for name, part in workload.parts.items()}
    return {"workload": workload}


def drains(workload: WorkloadTable) -> bool:
    """Return whether arrivals end before the episode, so that all flows can finish."""
    parts = parts_of(workload).values()
    return any(isinstance(part, PoissonWorkload) and part.last_arrival_s is not None for part in parts)


def workload_problems(workload: WorkloadTable, topology: TopologyTable) -> Iterator[Problem]:
    """Yield the conflicts between the workload and the network, with keys relative to the scenario."""
    for key, part in parts_of(workload).items():
        yield from _part_problems(key, part, topology)


def _part_problems(key: str, part: PartTable, topology: TopologyTable) -> Iterator[Problem]:
    hosts = topology.n_hosts
    if isinstance(part, IncastWorkload) and part.senders >= hosts:
        yield Problem(
            f"{key}.senders",
            part.senders,
            f"at most {hosts - 1}: the topology has {hosts} hosts and one of them receives",
        )
    if isinstance(part, TrainingWorkload) and part.job_hosts * part.jobs > hosts:
        yield Problem(
            f"{key}.job_hosts",
            part.job_hosts,
            f"at most {hosts // part.jobs}: the topology has {hosts} hosts for {part.jobs} jobs",
        )
    if not isinstance(part, LongLivedWorkload | PoissonWorkload | OnOffWorkload):
        return
    matrix_key = f"{key}.destinations" if isinstance(part, PoissonWorkload) else f"{key}.pairs"
    needed = {"iroko": "dumbbell", "staggered": "fat_tree"}.get(part.matrix)
    if needed is not None and topology.kind != needed:
        yield Problem(
            matrix_key,
            part.matrix,
            f'pairs of hosts that a {topology.kind} has; these need topology.kind = "{needed}"',
        )
    if part.matrix == "stride" and part.stride >= hosts:
        yield Problem(f"{key}.stride", part.stride, f"less than the {hosts} hosts of the topology")
    if isinstance(part, LongLivedWorkload):
        pairs = hosts * (hosts - 1) if part.pairs == "all_to_all" else hosts
        if pairs * part.flows_per_pair > MOST_FLOWS:
            yield Problem(
                f"{key}.flows_per_pair",
                part.flows_per_pair,
                f"at most {MOST_FLOWS} flows; {pairs} pairs have {pairs * part.flows_per_pair}",
            )
