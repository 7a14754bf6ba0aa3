"""Scenarios of the congestion family: network, queues, end hosts, traffic and the decision interval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import NOTHING, Problem
from sysgym.scenarios.schema.common import Reward, Scenario, Table

LONGEST_EPISODE_S = 7200.0
LARGEST_RATE_BPS = 1.6e12
"""Fastest link: two generations above today's 800 Gb/s Ethernet would want a finer clock than nanoseconds."""
MOST_HOSTS = 8192
MOST_FLOWS = 1_000_000
"""Most long-lived flows of an episode: each keeps its state for all of it."""

RateBps = Annotated[float, Field(ge=1e3, le=LARGEST_RATE_BPS)]
DelayS = Annotated[float, Field(ge=0.0, le=1.0)]


class _Links(Table):
    link_rate_bps: RateBps = Field(description="rate of every link, each direction, bit/s")
    link_delay_s: DelayS = Field(description="one-way propagation delay of every link, s")

    @property
    def n_hosts(self) -> int:
        """Number of hosts."""
        raise NotImplementedError


class DumbbellTopology(_Links):
    """Two switches joined by one core link; as many hosts on the west as on the east side."""

    kind: Literal["dumbbell"] = Field(description="form of the network")
    hosts_per_side: Annotated[int, Field(ge=1, le=MOST_HOSTS // 2)] = Field(
        default=2, description="hosts on each of the two switches"
    )
    core_rate_bps: RateBps | None = Field(
        default=None, description="rate of the link between the switches, bit/s; absent: link_rate_bps"
    )

    @property
    def n_hosts(self) -> int:
        """Number of hosts, both sides."""
        return 2 * self.hosts_per_side

    @property
    def core_link_rate_bps(self) -> float:
        """Rate of the core link with the default applied, bit/s."""
        return self.link_rate_bps if self.core_rate_bps is None else self.core_rate_bps


class SingleSwitchTopology(_Links):
    """All hosts on one switch."""

    kind: Literal["single_switch"] = Field(description="form of the network")
    hosts: Annotated[int, Field(ge=2, le=MOST_HOSTS)] = Field(description="hosts on the switch")

    @property
    def n_hosts(self) -> int:
        """Number of hosts."""
        return self.hosts


class FatTreeTopology(_Links):
    """Fat tree of k-port switches: k pods, k*k/4 core switches, k**3/4 hosts (Al-Fares, SIGCOMM 2008)."""

    kind: Literal["fat_tree"] = Field(description="form of the network")
    k: Annotated[int, Field(ge=2, le=32, multiple_of=2)] = Field(description="ports of a switch, even")

    @property
    def n_hosts(self) -> int:
        """Number of hosts, k**3/4."""
        return self.k**3 // 4


Topology = Annotated[
    DumbbellTopology | SingleSwitchTopology | FatTreeTopology,
    Field(discriminator="kind", description="hosts, switches and links"),
]


class Queue(Table):
    """First-in first-out queues, limited in bytes, that mark above a step threshold."""

    buffer_bytes: Annotated[int, Field(ge=1500, le=2**40)] = Field(
        description="buffer of every switch port, bytes"
    )
    ecn_threshold_bytes: Annotated[int, Field(ge=0, le=2**40)] | None = Field(
        default=None,
        description="packets that find more than this in the queue are marked (ECN), bytes; absent: never",
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the threshold can be reached."""
        if self.ecn_threshold_bytes is None:
            return
        if self.ecn_threshold_bytes > self.buffer_bytes:
            yield Problem(
                "ecn_threshold_bytes",
                self.ecn_threshold_bytes,
                f"at most buffer_bytes = {self.buffer_bytes}",
                "lower the threshold, or leave it out for queues that never mark",
            )


class Transport(Table):
    """End-host constants common to all congestion control laws."""

    mtu_bytes: Annotated[int, Field(ge=128, le=9216)] = Field(
        default=1500, description="largest packet on the wire, headers included, bytes"
    )
    header_bytes: Annotated[int, Field(ge=0, le=256)] = Field(
        default=40, description="headers of a data packet (IPv4 and TCP without options: 40), bytes"
    )
    ack_bytes: Annotated[int, Field(ge=20, le=9216)] = Field(
        default=60, description="size of a pure ACK on the wire, bytes"
    )
    initial_window_packets: Annotated[int, Field(ge=1, le=2**20)] = Field(
        default=10, description="congestion window of a new flow, packets (RFC 6928: 10)"
    )
    min_rto_s: Annotated[float, Field(ge=1e-6, le=60.0)] = Field(
        default=0.01, description="shortest retransmission time-out, s (Linux: 0.2)"
    )
    max_rto_s: Annotated[float, Field(ge=1e-6, le=3600.0)] = Field(
        default=1.0, description="longest retransmission time-out, s"
    )
    max_window_packets: Annotated[int, Field(ge=2, le=2**20)] = Field(
        default=4096, description="largest window of a flow, packets; a power of two"
    )
    host_queue_packets: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=8,
        description=(
            "full packets that a host hands to its network card ahead of time; more waits in the flows,"
            " which take turns (Linux: fair queueing with TCP small queues)"
        ),
    )
    host_jitter_s: Annotated[float, Field(ge=0.0, le=1.0)] | None = Field(
        default=None,
        description=(
            "a host delays each packet by a time drawn between 0 and this, s; absent: the time to send one"
            " full packet. Hosts are never quite in step; without jitter, equal flows lock into phase"
        ),
    )

    @property
    def payload_bytes(self) -> int:
        """Payload of a full packet (the maximum segment size), bytes."""
        return self.mtu_bytes - self.header_bytes

    def cross_checks(self) -> Iterator[Problem]:
        """Check sizes, windows and time-outs against each other."""
        if self.header_bytes >= self.mtu_bytes:
            yield Problem("header_bytes", self.header_bytes, f"less than mtu_bytes = {self.mtu_bytes}")
        if self.ack_bytes > self.mtu_bytes:
            yield Problem("ack_bytes", self.ack_bytes, f"at most mtu_bytes = {self.mtu_bytes}")
        if self.max_window_packets & (self.max_window_packets - 1):
            below = 1 << (self.max_window_packets.bit_length() - 1)
            yield Problem(
                "max_window_packets",
                self.max_window_packets,
                "a power of two",
                f"use {below} or {2 * below}",
            )
        if self.initial_window_packets > self.max_window_packets:
            yield Problem(
                "initial_window_packets",
                self.initial_window_packets,
                f"at most max_window_packets = {self.max_window_packets}",
            )
        if self.min_rto_s > self.max_rto_s:
            yield Problem("min_rto_s", self.min_rto_s, f"at most max_rto_s = {self.max_rto_s}")


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


class Control(Table):
    """The controller's clock and limits."""

    decision_interval_s: Annotated[float, Field(ge=1e-6, le=3600.0)] = Field(
        description="simulated time between decisions, s"
    )
    episode_steps: Annotated[int, Field(ge=1, le=10_000_000)] = Field(description="decisions in an episode")
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
    """One world of congestion control."""

    VARIABLE_TABLES: ClassVar[tuple[str, ...]] = ("topology", "queue", "transport", "workload")
    FIXED_KEYS: ClassVar[tuple[str, ...]] = (
        "topology.kind",
        "topology.hosts_per_side",
        "topology.hosts",
        "topology.k",
    )

    family: Literal["congestion"] = Field(description="family of problems; decides which keys the file has")
    topology: Topology
    queue: Queue = Field(description="switch ports and network cards")
    transport: Transport = Field(default_factory=Transport, description="end hosts")
    workload: Workload
    control: Control = Field(description="decision interval, episode and action limits")
    reward: Reward = Field(default_factory=Reward, description="what the environment pays for")

    @property
    def horizon_s(self) -> float:
        """Simulated time of an episode, warm-up included, s."""
        return self.control.episode_s

    def cross_checks(self) -> Iterator[Problem]:
        """Check tables against each other."""
        yield from self._check_queue()
        yield from self._check_workload()

    def _check_queue(self) -> Iterator[Problem]:
        if self.queue.buffer_bytes < self.transport.mtu_bytes:
            yield Problem(
                "queue.buffer_bytes",
                self.queue.buffer_bytes,
                f"room for one packet of transport.mtu_bytes = {self.transport.mtu_bytes}",
                "a queue that holds no full packet drops all of them",
            )

    def _check_workload(self) -> Iterator[Problem]:
        workload, hosts = self.workload, self.topology.n_hosts
        if isinstance(workload, IncastWorkload) and workload.senders >= hosts:
            yield Problem(
                "workload.senders",
                workload.senders,
                f"at most {hosts - 1}: the topology has {hosts} hosts and one of them receives",
            )
        if not isinstance(workload, LongLivedWorkload):
            return
        needed = {"iroko": "dumbbell", "staggered": "fat_tree"}.get(workload.pairs)
        if needed is not None and self.topology.kind != needed:
            yield Problem(
                "workload.pairs",
                workload.pairs,
                f'pairs of hosts that a {self.topology.kind} has; these need topology.kind = "{needed}"',
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
