"""Network tables of a congestion scenario beside topology and queues: routing and faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import NOTHING, Problem
from sysgym.scenarios.schema.later_keys import GrownTable
from sysgym.scenarios.schema.tables import FromList, Range, Table

SHORTEST_CHANGE_S, LONGEST_CHANGE_S = 1e-6, 7200.0
"""Bounds of the time between two changes of a link's rate."""


class Routing(GrownTable):
    """Choice of switches among equally short paths."""

    LATER: ClassVar[Mapping[str, Any]] = {"flowlet_gap_s": None}

    ecmp: Literal["flow", "flowlet", "packet"] = Field(
        default="flow",
        description=(
            "flow: by a hash of the 5-tuple, so that a flow keeps its path; packet: every packet takes a"
            " random path (packet spraying), and packets arrive out of order; flowlet: a flow takes a new"
            " random path after a pause (Vanini et al., Let It Flow, 2017)"
        ),
    )
    flowlet_gap_s: Annotated[float, Field(ge=0.0, le=7200.0)] | None = Field(
        default=None,
        description=(
            "flowlet: a packet that arrives at a switch at least this long after the previous one of its"
            " flow takes a new path, s; to keep packets in order, choose a value above the difference of"
            " the path delays; 0: like packet"
        ),
    )
    reordering_packets: Annotated[int, Field(ge=1, le=65536)] | None = Field(
        default=None,
        description=(
            "number of packets that must arrive beyond a hole before it counts as a loss (RFC 5681: 3);"
            " absent: 3, or 64 with packet spraying"
        ),
    )

    @property
    def duplicate_threshold(self) -> int:
        """Number of packets beyond a hole that make it a loss, with the default applied."""
        if self.reordering_packets is not None:
            return self.reordering_packets
        return 64 if self.ecmp == "packet" else 3

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the gap between flowlets is there where it is needed, and only there."""
        if self.ecmp == "flowlet" and self.flowlet_gap_s is None:
            yield Problem("flowlet_gap_s", NOTHING, 'a time in s, because ecmp = "flowlet"')
        if self.ecmp != "flowlet" and self.flowlet_gap_s is not None:
            yield Problem(
                "flowlet_gap_s",
                self.flowlet_gap_s,
                f'no such key with ecmp = "{self.ecmp}"',
                'set ecmp = "flowlet"',
            )


class LinkFault(Table):
    """Links that are down for an interval, and lose the packets on them and sent to them."""

    link: str = Field(
        min_length=1,
        description=(
            'name of a link such as "h0->west", with * and ? as in file names; "<->": both directions'
        ),
    )
    down_s: Annotated[float, Field(ge=0.0, le=7200.0)] = Field(description="time of the failure, s")
    up_s: Annotated[float, Field(gt=0.0, le=7200.0)] | None = Field(
        default=None, description="time of the repair, s; absent: never"
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check the order of the times."""
        if self.up_s is not None and self.up_s <= self.down_s:
            yield Problem("up_s", self.up_s, f"later than down_s = {self.down_s:g}")


class RateChange(Table):
    """Links whose rate changes repeatedly at random times, drawn with the episode's seed."""

    link: str = Field(
        min_length=1,
        description=(
            'name of a link such as "west->east", with * and ? as in file names; "<->": both directions.'
            " All links that match the pattern change together"
        ),
    )
    interval_s: Range = Field(
        description="time from the beginning to the first change and between changes: { low, high, scale }, s"
    )
    factor: Range | None = Field(
        default=None,
        description="new rate, relative to the rate of the link in the topology: { low, high, scale }",
    )
    rate_bps: Range | None = Field(
        default=None, description="new rate: { low, high, scale }, bit/s; an alternative to factor"
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that rates are drawn in one way, and that times and rates are positive."""
        if (self.factor is None) == (self.rate_bps is None):
            got = NOTHING if self.factor is None else "factor and rate_bps"
            yield Problem("rate_bps", got, "factor or rate_bps, one of them")
        least = (
            ("interval_s", self.interval_s, SHORTEST_CHANGE_S, LONGEST_CHANGE_S),
            ("factor", self.factor, 1e-6, 1e6),
            ("rate_bps", self.rate_bps, 1e3, 1e13),
        )
        for key, ends, low, high in least:
            if ends is not None and not (low <= ends.low and ends.high <= high):
                yield Problem(key, {"low": ends.low, "high": ends.high}, f"from {low:g} to {high:g}")


class Faults(Table):
    """Faults of links."""

    loss_probability: Annotated[float, Field(ge=0.0, lt=1.0)] = Field(
        default=0.0, description="probability that a packet is lost on each link that it crosses"
    )
    links: Annotated[tuple[LinkFault, ...], FromList] = Field(
        default=(), description="links that fail, and the times of failure and repair"
    )
    rate_changes: Annotated[tuple[RateChange, ...], FromList] = Field(
        default=(), description="links whose rate changes within an episode"
    )
    reroute_s: Annotated[float, Field(ge=0.0, le=7200.0)] = Field(
        default=0.01,
        description="time from a failure or repair until all switches choose paths accordingly, s",
    )
