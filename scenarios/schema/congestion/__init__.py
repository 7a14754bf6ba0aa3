"""Scenarios of the congestion family: network, queues, end hosts, traffic and the decision interval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.congestion.flow import Flow, flow_problems
from sysgym.scenarios.schema.congestion.network import Faults, LinkFault, RateChange, Routing
from sysgym.scenarios.schema.congestion.offered import offered_problems
from sysgym.scenarios.schema.congestion.queue import Queue
from sysgym.scenarios.schema.congestion.topology import (
    DumbbellTopology,
    FatTreeTopology,
    LeafSpineTopology,
    LinkOverride,
    ParkingLotTopology,
    SingleSwitchTopology,
    Topology,
    TopologyTable,
)
from sysgym.scenarios.schema.congestion.traffic import (
    LONGEST_EPISODE_S,
    IncastWorkload,
    LongLivedWorkload,
    MixWorkload,
    OnOffWorkload,
    PoissonWorkload,
    TrainingWorkload,
    Workload,
    WorkloadTable,
    parts_of,
    workload_problems,
)
from sysgym.scenarios.schema.congestion.transport import Transport
from sysgym.scenarios.schema.scenario import Scenario
from sysgym.scenarios.schema.tables import Reward, Table

__all__ = [
    "CongestionScenario",
    "Control",
    "DumbbellTopology",
    "FatTreeTopology",
    "Faults",
    "Flow",
    "IncastWorkload",
    "LeafSpineTopology",
    "LinkFault",
    "LinkOverride",
    "LongLivedWorkload",
    "MixWorkload",
    "OnOffWorkload",
    "ParkingLotTopology",
    "PoissonWorkload",
    "Queue",
    "RateChange",
    "Routing",
    "SingleSwitchTopology",
    "Topology",
    "TopologyTable",
    "TrainingWorkload",
    "Transport",
    "Workload",
    "WorkloadTable",
]


MOST_RATE_CHANGES = 100_000
"""Largest number of rate changes of a link in an episode."""


class Control(Table):
    """Clock and limits of the controller."""

    decision_interval_s: Annotated[float, Field(ge=1e-6, le=3600.0)] = Field(
        description="simulated time between decisions, s"
    )
    episode_steps: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        description="number of decisions in an episode"
    )
    min_rate_fraction: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        default=0.001, description="lowest action: send rate as a fraction of the host's line rate"
    )
    warmup_s: Annotated[float, Field(ge=0.0, le=LONGEST_EPISODE_S)] = Field(
        default=0.0, description="simulated time before the first decision, s"
    )

    @property
    def episode_s(self) -> float:
        """Simulated time of an episode, warm-up included, s."""
        return self.warmup_s + self.episode_steps * self.decision_interval_s

    def cross_checks(self) -> Iterator[Problem]:
        """Check the length of an episode."""
        if self.episode_s > LONGEST_EPISODE_S:
            yield Problem(
                "episode_steps",
                self.episode_steps,
                f"an episode of at most {LONGEST_EPISODE_S:g} simulated seconds; it has {self.episode_s:g}",
                "use fewer steps or a shorter decision interval",
            )


class CongestionScenario(Scenario):
    """Scenario of congestion control."""

    VARIABLE_TABLES: ClassVar[tuple[str, ...]] = (
        "topology",
        "queue",
        "transport",
        "routing",
        "faults",
        "workload",
        "flow",
    )
    FIXED_KEYS: ClassVar[tuple[str, ...]] = (
        "topology.kind",
        "topology.hosts_per_side",
        "topology.hosts",
        "topology.k",
        "flow.preset",
        "flow.history",
        "topology.leaves",
        "topology.spines",
        "topology.hosts_per_leaf",
        "topology.bottlenecks",
        "topology.switches",
        "topology.cables",
        "topology.hosts_per_switch",
        "topology.host_switches",
    )

    family: Literal["congestion"] = Field(description="family of problems; determines the keys of the file")
    topology: Topology
    queue: Queue = Field(description="switch ports and network cards")
    transport: Transport = Field(default_factory=Transport, description="end hosts")
    routing: Routing = Field(default_factory=Routing, description="choice among equally short paths")
    faults: Faults = Field(default_factory=Faults, description="faults of links")
    workload: Workload
    control: Control = Field(description="decision interval, episode and action limits")
    reward: Reward = Field(default_factory=Reward, description="reward of the environment")
    flow: Flow | None = Field(default=None, description="the flow whose sender is the agent (FlowCC)")

    @property
    def horizon_s(self) -> float:
        """Simulated time of an episode, warm-up included, s."""
        return self.control.episode_s

    @property
    def duplicate_threshold(self) -> int:
        """Number of packets beyond a hole that make it a loss: one for selective repeat on a single path."""
        routing = self.routing
        if (
            self.transport.loss_detection == "selective_repeat"
            and routing.reordering_packets is None
            and routing.ecmp != "packet"
        ):
            return 1
        return routing.duplicate_threshold

    def cross_checks(self) -> Iterator[Problem]:
        """Check tables against each other."""
        yield from self._check_queue()
        for key, part in parts_of(self.workload).items():
            if part.priority >= self.queue.classes:
                yield Problem(
                    f"{key}.priority",
                    part.priority,
                    f"less than queue.classes = {self.queue.classes}",
                    "give the ports more classes",
                )
        if self.flow is not None:
            yield from flow_problems(self.flow, self.topology, self.workload)
        yield from self._check_faults()
        problems = tuple(workload_problems(self.workload, self.topology))
        yield from problems
        if not problems:
            yield from offered_problems(self.workload, self.topology, self.transport)

    def _check_faults(self) -> Iterator[Problem]:
        queues = "queue.pfc_pause_bytes" if self.queue.pfc_pause_bytes is not None else "queue.classes"
        if self.topology.link_model == "shaper" and self.queue.is_list:
            yield Problem(
                "topology.link_model",
                "shaper",
                f'"wire" with {queues}',
                "pauses and priorities are a matter of when bits are on wires",
            )
        yield from self._check_batch()
        if self.queue.trim and not self.transport.detects_by_time:
            yield Problem(
                "transport.loss_detection",
                self.transport.loss_detection,
                '"rack" with queue.trim: reports of trimmed packets are no duplicate ACKs',
            )
        if self.faults.links and self.queue.pfc_pause_bytes is not None:
            yield Problem(
                "faults.links",
                [fault.link for fault in self.faults.links],
                "no failing links with queue.pfc_pause_bytes",
                "a link that fails while it is paused would stop its neighbours for good",
            )
        for index, change in enumerate(self.faults.rate_changes):
            if self.queue.is_list:
                yield Problem(
                    f"faults.rate_changes[{index}].link",
                    change.link,
                    f"no changing links with {queues}",
                    "the buffer for a pause depends on the link's rate, and so do the limits of classes",
                )
            most = self.control.episode_s / float(change.interval_s.low)
            if most > MOST_RATE_CHANGES:
                yield Problem(
                    f"faults.rate_changes[{index}].interval_s",
                    change.interval_s.low,
                    f"at most {MOST_RATE_CHANGES} changes in an episode of {self.control.episode_s:g} s",
                    "use longer intervals or shorter episodes",
                )

    def _check_batch(self) -> Iterator[Problem]:
        batch_s, key = self.topology.link_batch_s, "topology.link_batch_s"
        if batch_s > 0.0 and self.topology.link_model != "shaper":
            yield Problem(key, batch_s, '0 without topology.link_model = "shaper"', "wires have no timers")

    def _check_queue(self) -> Iterator[Problem]:
        if self.queue.buffer_bytes < self.transport.mtu_bytes:
            yield Problem(
                "queue.buffer_bytes",
                self.queue.buffer_bytes,
                f"room for one packet of transport.mtu_bytes = {self.transport.mtu_bytes}",
                "a queue that holds no full packet drops all of them",
            )
        for number, limit_bytes in enumerate(self.queue.class_buffer_bytes or ()):
            if limit_bytes < self.transport.mtu_bytes and self.queue.carries_data(number):
                yield Problem(
                    "queue.class_buffer_bytes",
                    limit_bytes,
                    f"room for one packet of transport.mtu_bytes = {self.transport.mtu_bytes}",
                    "a class that holds no full packet drops all of them",
                )
        for index, override in enumerate(self.topology.overrides):
            buffer_bytes = override.buffer_bytes
            if buffer_bytes is not None and buffer_bytes < self.transport.mtu_bytes:
                yield Problem(
                    f"topology.overrides[{index}].buffer_bytes",
                    buffer_bytes,
                    f"room for one packet of transport.mtu_bytes = {self.transport.mtu_bytes}",
                    "a queue that holds no full packet drops all of them",
                )
