"""Topologies of a congestion scenario: hosts, switches, links, and overrides of single links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from sysgym.scenarios.errors import NOTHING, Problem
from sysgym.scenarios.schema.later_keys import GrownTable
from sysgym.scenarios.schema.tables import FromList, Table

LARGEST_RATE_BPS = 1.6e12
"""Fastest link; two generations above 800 Gb/s Ethernet would need a finer clock than nanoseconds."""
MOST_HOSTS = 8192
MOST_SWITCHES = 8192

RateBps = Annotated[float, Field(ge=1e3, le=LARGEST_RATE_BPS)]
_SWITCH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_HOST_NAME = re.compile(r"h[0-9]+")

DelayS = Annotated[float, Field(ge=0.0, le=1.0)]


class LinkOverride(Table):
    """Override of single links; absent keys keep the common values."""

    link: str = Field(
        min_length=1,
        description=(
            'name of the link or links, such as "leaf0->spine1", one direction; "leaf0<->spine1", both; *'
            " stands for any text, ? for any character. If several overrides match a link, the last one"
            " applies"
        ),
    )
    rate_bps: RateBps | None = Field(default=None, description="rate, bit/s")
    delay_s: DelayS | None = Field(default=None, description="one-way propagation delay, s")
    buffer_bytes: Annotated[int, Field(ge=128, le=2**40)] | None = Field(
        default=None, description="buffer of the port that sends on the link, bytes"
    )
    ecn_threshold_bytes: Annotated[int, Field(ge=0, le=2**40)] | None = Field(
        default=None,
        description="marking threshold (ECN) of the port: packets that find more bytes in its queue are"
        " marked",
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the name has two ends and something is overridden."""
        if "->" not in self.link:
            yield Problem(
                "link", self.link, "two nodes with -> or <-> between them", 'write "leaf0->spine1" or "*->h0"'
            )
        if not self.model_fields_set & {"rate_bps", "delay_s", "buffer_bytes", "ecn_threshold_bytes"}:
            yield Problem(
                "rate_bps", NOTHING, "one of rate_bps, delay_s, buffer_bytes, ecn_threshold_bytes", "add one"
            )


class Cut(NamedTuple):
    """Links whose removal separates some hosts from the others.

    Attributes:
        name: Name of the links in messages.
        hosts: Number of hosts on one side.
        capacity_bps: Capacity of the links in each direction.
    """

    name: str
    hosts: int
    capacity_bps: float


class _Links(GrownTable):
    LATER: ClassVar[Mapping[str, Any]] = {"link_jitter_s": 0.0, "link_batch_s": 0.0}

    link_rate_bps: RateBps = Field(description="rate of every link, each direction, bit/s")
    link_delay_s: DelayS = Field(description="one-way propagation delay of every link, s")
    link_model: Literal["wire", "shaper"] = Field(
        default="wire",
        description=(
            "wire: a packet arrives one propagation delay after its last bit has been sent; shaper: a"
            " packet leaves the buffer and travels as soon as its turn comes, and its transmission time"
            " delays the packets behind it, as with the token bucket of Linux's virtual links. The bucket"
            " compensates for up to 250 us of idle time, or a tenth of a packet's transmission time if"
            " that is longer"
        ),
    )
    link_jitter_s: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.0,
        description=(
            "maximum of the random delay that a switch adds to each packet, s; the order is kept. Without"
            " jitter, a full queue may accept the packets of one input and drop all those of another,"
            " because they arrive in the same order whenever there is room for one (for hosts:"
            " transport.host_jitter_s)"
        ),
    )
    link_batch_s: Annotated[float, Field(ge=0.0, le=1e-3)] = Field(
        default=0.0,
        description=(
            "a shaped port accepts a packet that arrives up to this long before the turn of a waiting one,"
            " s: Linux first handles all timers that are due together, and then the packets sent by their"
            " ports"
        ),
    )
    overrides: Annotated[tuple[LinkOverride, ...], FromList] = Field(
        default=(), description="links with different parameters, [[topology.overrides]]"
    )

    @property
    def n_hosts(self) -> int:
        """Number of hosts."""
        raise NotImplementedError

    def cuts(self) -> Iterator[Cut]:
        """Yield the cuts that may carry less than the hosts behind them, without overrides."""
        yield from ()


class DumbbellTopology(_Links):
    """Two switches joined by one core link, with equally many hosts on the west and the east side."""

    kind: Literal["dumbbell"] = Field(description="form of the network")
    hosts_per_side: Annotated[int, Field(ge=1, le=MOST_HOSTS // 2)] = Field(
        default=2, description="number of hosts on each of the two switches"
    )
    core_rate_bps: RateBps | None = Field(
        default=None, description="rate of the link between the switches, bit/s; absent: link_rate_bps"
    )

    @property
    def n_hosts(self) -> int:
        """Number of hosts on both sides."""
        return 2 * self.hosts_per_side

    @property
    def core_link_rate_bps(self) -> float:
        """Rate of the core link with the default applied, bit/s."""
        return self.link_rate_bps if self.core_rate_bps is None else self.core_rate_bps

    def cuts(self) -> Iterator[Cut]:
        """Yield the core link."""
        yield Cut("the core link", self.hosts_per_side, self.core_link_rate_bps)


class SingleSwitchTopology(_Links):
    """All hosts on one switch."""

    kind: Literal["single_switch"] = Field(description="form of the network")
    hosts: Annotated[int, Field(ge=2, le=MOST_HOSTS)] = Field(description="number of hosts on the switch")

    @property
    def n_hosts(self) -> int:
        """Number of hosts."""
        return self.hosts


class FatTreeTopology(_Links):
    """Fat tree of k-port switches: k pods, k*k/4 core switches, k**3/4 hosts (Al-Fares, SIGCOMM 2008)."""

    kind: Literal["fat_tree"] = Field(description="form of the network")
    k: Annotated[int, Field(ge=2, le=32, multiple_of=2)] = Field(
        description="number of ports of a switch, even"
    )

    @property
    def n_hosts(self) -> int:
        """Number of hosts, k**3/4."""
        return self.k**3 // 4


class LeafSpineTopology(_Links):
    """Two tiers: hosts on leaf switches, one uplink from every leaf to every spine switch."""

    kind: Literal["leaf_spine"] = Field(description="form of the network")
    leaves: Annotated[int, Field(ge=1, le=MOST_SWITCHES)] = Field(
        description="number of leaf switches (racks)"
    )
    spines: Annotated[int, Field(ge=1, le=MOST_SWITCHES)] = Field(description="number of spine switches")
    hosts_per_leaf: Annotated[int, Field(ge=1, le=MOST_HOSTS)] = Field(
        description="number of hosts on each leaf"
    )
    uplink_rate_bps: RateBps | None = Field(
        default=None, description="rate of the links between leaves and spines, bit/s; absent: link_rate_bps"
    )

    @property
    def n_hosts(self) -> int:
        """Number of hosts on all leaves."""
        return self.leaves * self.hosts_per_leaf

    @property
    def uplink_link_rate_bps(self) -> float:
        """Rate of an uplink with the default applied, bit/s."""
        return self.link_rate_bps if self.uplink_rate_bps is None else self.uplink_rate_bps

    @property
    def oversubscription(self) -> float:
        """Ratio of a leaf's host capacity to its uplink capacity: 1 is full bisection, 2 means 2:1."""
        return self.hosts_per_leaf * self.link_rate_bps / (self.spines * self.uplink_link_rate_bps)

    def cuts(self) -> Iterator[Cut]:
        """Yield the uplinks of a leaf."""
        if self.leaves > 1:
            yield Cut("a leaf's uplinks", self.hosts_per_leaf, self.spines * self.uplink_link_rate_bps)

    def cross_checks(self) -> Iterator[Problem]:
        """Check the number of hosts and links."""
        if not 2 <= self.n_hosts <= MOST_HOSTS:
            yield Problem(
                "hosts_per_leaf",
                self.hosts_per_leaf,
                f"2 to {MOST_HOSTS} hosts in all; {self.leaves} leaves make {self.n_hosts}",
            )
        if self.leaves * self.spines > 2**17:
            yield Problem("spines", self.spines, f"at most {2**17} uplinks in all; these are too many")


class ParkingLotTopology(_Links):
    """Chain of bottlenecks: one pair of hosts whose path crosses all, and one pair across each.

    Switches 0 to n form a row. The first half of the hosts sends, the second half receives: host 0 from
    switch 0 to host n + 1 at switch n, and host i (1 to n) over bottleneck i alone to host n + 1 + i.
    """

    kind: Literal["parking_lot"] = Field(description="form of the network")
    bottlenecks: Annotated[int, Field(ge=1, le=512)] = Field(
        description="number of links between switches, in a row"
    )
    core_rate_bps: RateBps | None = Field(
        default=None, description="rate of the links between switches, bit/s; absent: link_rate_bps"
    )

    @property
    def n_hosts(self) -> int:
        """Number of hosts: a pair for the long path and one for each bottleneck."""
        return 2 * (self.bottlenecks + 1)

    @property
    def core_link_rate_bps(self) -> float:
        """Rate of a link between switches with the default applied, bit/s."""
        return self.link_rate_bps if self.core_rate_bps is None else self.core_rate_bps

    def cuts(self) -> Iterator[Cut]:
        """Yield the bottlenecks."""
        # Before bottleneck i are the long sender, the first i cross senders and the first i - 1 receivers.
        for i in range(1, self.bottlenecks + 1):
            yield Cut(f"bottleneck {i}", 2 * i, self.core_link_rate_bps)


class GraphCable(Table):
    """Cable between two switches; absent keys have the common values."""

    ends: Annotated[tuple[str, str], FromList] = Field(description="names of the two switches")
    rate_bps: RateBps | None = Field(default=None, description="rate, each direction, bit/s")
    delay_s: DelayS | None = Field(default=None, description="one-way propagation delay, s")


class GraphTopology(_Links):
    """Any network: named switches, cables between them, and hosts on some or all of them."""

    kind: Literal["graph"] = Field(description="form of the network")
    switches: Annotated[tuple[str, ...], FromList, Field(min_length=1, max_length=MOST_SWITCHES)] = Field(
        description="name of every switch"
    )
    cables: Annotated[tuple[GraphCable, ...], FromList, Field(max_length=2**17)] = Field(
        default=(),
        description=("cables between switches, [[topology.cables]]; flows are spread over parallel cables"),
    )
    hosts_per_switch: Annotated[int, Field(ge=0, le=MOST_HOSTS)] = Field(
        default=1, description="number of hosts on every switch; ignored if host_switches is given"
    )
    host_switches: Annotated[tuple[str, ...], FromList, Field(max_length=MOST_HOSTS)] = Field(
        default=(), description="switch of each host, if the switches have different numbers of hosts"
    )

    @property
    def n_hosts(self) -> int:
        """Number of hosts."""
        return len(self.places)

    @property
    def places(self) -> tuple[str, ...]:
        """The switch of each host."""
        return self.host_switches or tuple(
            switch for switch in self.switches for _ in range(self.hosts_per_switch)
        )

    def cross_checks(self) -> Iterator[Problem]:
        """Check names, hosts and cables, and that every switch can be reached."""
        known = set(self.switches)
        if len(known) < len(self.switches):
            twice = next(name for name in self.switches if self.switches.count(name) > 1)
            yield Problem("switches", twice, "another name for each switch")
        for index, name in enumerate(self.switches):
            if not _SWITCH_NAME.fullmatch(name) or _HOST_NAME.fullmatch(name):
                yield Problem(
                    f"switches[{index}]",
                    name,
                    "letters, digits and _ . -, not h and a number, which are the names of hosts",
                )
        if not 2 <= self.n_hosts <= MOST_HOSTS:
            yield Problem("hosts_per_switch", self.hosts_per_switch, f"2 to {MOST_HOSTS} hosts in all")
        for index, name in enumerate(self.host_switches):
            if name not in known:
                yield Problem(f"host_switches[{index}]", name, "one of topology.switches")
        for index, cable in enumerate(self.cables):
            ends = frozenset(cable.ends)
            if unknown := ends - known:
                yield Problem(f"cables[{index}].ends", sorted(unknown)[0], "two of topology.switches")
            elif len(ends) < 2:
                yield Problem(f"cables[{index}].ends", " and ".join(cable.ends), "two different switches")
        if len(known) == len(self.switches) and (lost := self._unreached()):
            yield Problem("cables", lost, f"a path from {self.switches[0]} to every switch")

    def _unreached(self) -> str:
        """Return a switch that cannot be reached from the first one; empty if there is none."""
        neighbours: dict[str, list[str]] = {name: [] for name in self.switches}
        for cable in self.cables:
            if set(cable.ends) <= neighbours.keys():
                one, other = cable.ends
                neighbours[one].append(other)
                neighbours[other].append(one)
        reached, ahead = {self.switches[0]}, [self.switches[0]]
        while ahead:
            for name in neighbours[ahead.pop()]:
                if name not in reached:
                    reached.add(name)
                    ahead.append(name)
        return next((name for name in self.switches if name not in reached), "")


Topology = Annotated[
    DumbbellTopology
    | SingleSwitchTopology
    | FatTreeTopology
    | LeafSpineTopology
    | ParkingLotTopology
    | GraphTopology,
    Field(discriminator="kind", description="hosts, switches and links"),
]

TopologyTable = (
    DumbbellTopology
    | SingleSwitchTopology
    | FatTreeTopology
    | LeafSpineTopology
    | ParkingLotTopology
    | GraphTopology
)
"""Table of any topology."""
