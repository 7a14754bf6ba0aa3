"""The traffic of a congestion scenario: who sends what to whom, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from sysgym.scenarios.errors import NOTHING, Problem
from sysgym.scenarios.schema.common import Table
from sysgym.scenarios.schema.network import MOST_HOSTS, Topology

LONGEST_EPISODE_S = 7200.0
MOST_FLOWS = 1_000_000
"""Most long-lived flows of an episode: each keeps its state for all of it."""


class LongLivedWorkload(Table):
    """Flows that never end; which hosts send to which is a traffic matrix."""

    kind: Literal["long_lived"] = Field(description="form of the traffic")
    pairs: Literal[
        "one_to_one", "stride", "staggered", "random", "random_bijective", "hotspot", "all_to_all", "iroko"
    ] = Field(
        description=(
            "who sends to whom. one_to_one: host x to host x + n/2, on a dumbbell from west to east only;"
            " stride: host x to host x + stride; staggered: to the same edge switch with p_edge,"
            " the same pod with p_pod, else another pod; random: any other host;"
            " random_bijective: a permutation; hotspot: all to a few;"
            " all_to_all: every host to every other; iroko: west host i to east host i"
        )
    )
    stride: Annotated[int, Field(ge=1, lt=MOST_HOSTS)] = Field(
        default=8, description="distance between the hosts of a pair; read where pairs is stride"
    )
    p_edge: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.2,
        description="probability of a destination on the same edge switch; read where pairs is staggered",
    )
    p_pod: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.3,
        description="probability of a destination elsewhere in the pod; read where pairs is staggered",
    )
    flows_per_pair: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=1, description="parallel flows of each pair"
    )
    start_jitter_s: Annotated[float, Field(ge=0.0, le=LONGEST_EPISODE_S)] = Field(
        default=0.0, description="flows start at times drawn between 0 and this, s"
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the probabilities leave room for the rest."""
        if self.p_edge + self.p_pod > 1.0:
            yield Problem("p_pod", self.p_pod, f"at most 1 - p_edge = {1.0 - self.p_edge:g}")


class IncastWorkload(Table):
    """Synchronised N-to-1 bursts: in every round all senders answer one receiver at once."""

    kind: Literal["incast"] = Field(description="form of the traffic")
    senders: Annotated[int, Field(ge=1, lt=MOST_HOSTS)] = Field(description="hosts that answer in a round")
    request_bytes: Annotated[int, Field(ge=1, le=2**40)] = Field(
        description="payload that each sender sends in a round, bytes"
    )
    period_s: Annotated[float, Field(ge=1e-6, le=LONGEST_EPISODE_S)] = Field(
        description="time from one round to the next, s"
    )
    jitter_s: Annotated[float, Field(ge=0.0, le=LONGEST_EPISODE_S)] = Field(
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


class PoissonWorkload(Table):
    """Flows of drawn sizes that arrive as a Poisson process at every host, each to a random other host."""

    kind: Literal["poisson"] = Field(description="form of the traffic")
    load: Annotated[float, Field(gt=0.0, le=1.5)] = Field(
        description="offered load, as a fraction of a host's line rate"
    )
    flow_sizes: Literal["websearch", "fixed"] = Field(description="distribution of flow sizes")
    fixed_bytes: Annotated[int, Field(ge=1, le=2**40)] | None = Field(
        default=None, description="size of every flow where flow_sizes is fixed, bytes"
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that fixed sizes have a size."""
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


Workload = Annotated[
    LongLivedWorkload | IncastWorkload | PoissonWorkload,
    Field(discriminator="kind", description="who sends what, and when"),
]


def workload_problems(workload: Workload, topology: Topology) -> Iterator[Problem]:
    """Yield what is wrong between the workload and the topology, keys relative to the scenario."""
    hosts = topology.n_hosts
    if isinstance(workload, IncastWorkload) and workload.senders >= hosts:
        yield Problem(
            "workload.senders",
            workload.senders,
            f"at most {hosts - 1}: the topology has {hosts} hosts and one of them receives",
        )
    if not isinstance(workload, LongLivedWorkload):
        return
    needed = {"iroko": "dumbbell", "staggered": "fat_tree"}.get(workload.pairs)
    if needed is not None and topology.kind != needed:
        yield Problem(
            "workload.pairs",
            workload.pairs,
            f'pairs of hosts that a {topology.kind} has; these need topology.kind = "{needed}"',
        )
    if workload.pairs == "stride" and workload.stride >= hosts:
        yield Problem("workload.stride", workload.stride, f"less than the {hosts} hosts of the topology")
    pairs = hosts * (hosts - 1) if workload.pairs == "all_to_all" else hosts
    if pairs * workload.flows_per_pair > MOST_FLOWS:
        yield Problem(
            "workload.flows_per_pair",
            workload.flows_per_pair,
            f"at most {MOST_FLOWS} flows; {pairs} pairs have {pairs * workload.flows_per_pair}",
        )
