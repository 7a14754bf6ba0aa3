"""Network tables of a congestion scenario beside the topology: queues, routing and faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import NOTHING, Problem
from sysgym.scenarios.schema.common import FromList, Range, Table
from sysgym.scenarios.schema.later_keys import GrownTable

SHORTEST_CHANGE_S, LONGEST_CHANGE_S = 1e-6, 7200.0
"""Bounds of the time between two changes of a link's rate."""


class Queue(GrownTable):
    """FIFO queues, limited in bytes, with marking above a step threshold or at random."""

    LATER: ClassVar[Mapping[str, Any]] = {"shared_buffer_bytes": None, "shared_buffer_alpha": None}

    buffer_bytes: Annotated[int, Field(ge=1500, le=2**40)] = Field(
        description="buffer of every switch port, bytes"
    )
    ecn_threshold_bytes: Annotated[int, Field(ge=0, le=2**40)] | None = Field(
        default=None,
        description="packets that find more than this in the queue are marked (ECN), bytes; absent: never",
    )
    discipline: Literal["fifo", "red"] = Field(
        default="fifo",
        description=(
            "fifo: tail drop and, if there is a threshold, a step mark; red: random early detection"
            " (Floyd and Jacobson, 1993), read with the keys red_..."
        ),
    )
    red_min_bytes: Annotated[int, Field(ge=0, le=2**40)] | None = Field(
        default=None, description="red: no packet is marked while the average queue is below this, bytes"
    )
    red_max_bytes: Annotated[int, Field(ge=1, le=2**40)] | None = Field(
        default=None, description="red: average queue at which red_max_probability is reached, bytes"
    )
    red_max_probability: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=0.1, description="red: probability of a mark at red_max_bytes"
    )
    red_gentle: bool = Field(
        default=True,
        description="red: from red_max_bytes to twice that the probability rises to 1, else it jumps there",
    )
    red_weight: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=0.002, description="red: weight of a new sample in the average queue; 1: the queue itself"
    )
    red_action: Literal["mark", "drop"] = Field(
        default="mark",
        description="red: mark packets of ECN-capable flows and let the others pass, or drop any",
    )
    pfc_pause_bytes: Annotated[int, Field(ge=1500, le=2**40)] | None = Field(
        default=None,
        description=(
            "priority flow control (IEEE 802.1Qbb): a switch that holds more than this of what came over a"
            " link asks its far end to pause, bytes; absent: none. buffer_bytes is then the room for what"
            " came over each link"
        ),
    )
    pfc_resume_bytes: Annotated[int, Field(ge=0, le=2**40)] | None = Field(
        default=None,
        description="a paused link may go on when less than this is held, bytes; absent: half of the above",
    )

    shared_buffer_bytes: Annotated[int, Field(ge=1500, le=2**40)] | None = Field(
        default=None,
        description=(
            "memory that all ports of a switch share, bytes; absent: every port has its own. buffer_bytes is"
            " then the most of it that one port may take"
        ),
    )
    shared_buffer_alpha: Annotated[float, Field(gt=0.0, le=1024.0)] | None = Field(
        default=None,
        description=(
            "a port accepts a packet while its queue is at most this many times the free memory (dynamic"
            " thresholds, Choudhury and Hahne, 1998); absent: 1"
        ),
    )

    @property
    def alpha(self) -> float:
        """Longest queue over the free memory of its switch, default applied."""
        return 1.0 if self.shared_buffer_alpha is None else self.shared_buffer_alpha

    @property
    def resume_bytes(self) -> int:
        """Threshold at which a paused link resumes, default applied, bytes; 0 without flow control."""
        if self.pfc_resume_bytes is not None:
            return self.pfc_resume_bytes
        return (self.pfc_pause_bytes or 0) // 2

    def cross_checks(self) -> Iterator[Problem]:
        """Check that thresholds can be reached and belong to the discipline."""
        if self.ecn_threshold_bytes is not None and self.ecn_threshold_bytes > self.buffer_bytes:
            yield Problem(
                "ecn_threshold_bytes",
                self.ecn_threshold_bytes,
                f"at most buffer_bytes = {self.buffer_bytes}",
                "lower the threshold, or leave it out for queues that never mark",
            )
        yield from self._check_red()
        yield from self._check_flow_control()
        yield from self._check_shared_buffer()

    def _check_red(self) -> Iterator[Problem]:
        limits = {"red_min_bytes": self.red_min_bytes, "red_max_bytes": self.red_max_bytes}
        for key, limit in limits.items():
            if self.discipline == "red" and limit is None:
                yield Problem(key, NOTHING, 'a size in bytes, because discipline = "red"')
            if self.discipline != "red" and limit is not None:
                yield Problem(
                    key, limit, f'no such key with discipline = "{self.discipline}"', 'set discipline = "red"'
                )
        if self.discipline != "red" or self.red_min_bytes is None or self.red_max_bytes is None:
            return
        if self.ecn_threshold_bytes is not None:
            yield Problem(
                "ecn_threshold_bytes",
                self.ecn_threshold_bytes,
                'no such key with discipline = "red"',
                "red marks by itself: leave the step threshold out",
            )
        if self.red_min_bytes >= self.red_max_bytes:
            yield Problem(
                "red_min_bytes", self.red_min_bytes, f"less than red_max_bytes = {self.red_max_bytes}"
            )
        if self.red_max_bytes > self.buffer_bytes:
            yield Problem("red_max_bytes", self.red_max_bytes, f"at most buffer_bytes = {self.buffer_bytes}")

    def _check_flow_control(self) -> Iterator[Problem]:
        if self.pfc_pause_bytes is None:
            if self.pfc_resume_bytes is not None:
                yield Problem("pfc_resume_bytes", self.pfc_resume_bytes, "pfc_pause_bytes beside it")
            return
        if self.pfc_pause_bytes >= self.buffer_bytes:
            yield Problem(
                "pfc_pause_bytes", self.pfc_pause_bytes, f"less than buffer_bytes = {self.buffer_bytes}"
            )
        if self.resume_bytes > self.pfc_pause_bytes:
            yield Problem(
                "pfc_resume_bytes", self.resume_bytes, f"at most pfc_pause_bytes = {self.pfc_pause_bytes}"
            )
        if self.discipline == "red" and self.red_action == "drop":
            yield Problem(
                "red_action", self.red_action, '"mark", because flow control is there to lose nothing'
            )

    def _check_shared_buffer(self) -> Iterator[Problem]:
        if self.shared_buffer_bytes is None:
            if self.shared_buffer_alpha is not None:
                yield Problem(
                    "shared_buffer_alpha", self.shared_buffer_alpha, "shared_buffer_bytes beside it"
                )
            return
        if self.buffer_bytes > self.shared_buffer_bytes:
            yield Problem(
                "buffer_bytes",
                self.buffer_bytes,
                f"at most shared_buffer_bytes = {self.shared_buffer_bytes}",
                "a port has no more than its switch: lower it to that, or to the most one port may take",
            )
        if self.pfc_pause_bytes is not None:
            yield Problem(
                "pfc_pause_bytes",
                self.pfc_pause_bytes,
                "no such key with shared_buffer_bytes",
                "room for paused links is reserved for each of them: leave one of the two out",
            )
        longest_bytes = int(self.shared_buffer_bytes * self.alpha / (1.0 + self.alpha))
        for key in ("ecn_threshold_bytes", "red_max_bytes"):
            limit = getattr(self, key)
            if limit is not None and limit > longest_bytes:
                yield Problem(
                    key,
                    limit,
                    f"at most {longest_bytes}: with shared_buffer_alpha = {self.alpha:g}, a port that is"
                    f" alone takes no more of {self.shared_buffer_bytes}",
                )


class Routing(GrownTable):
    """Choice of switches among equally short paths."""

    LATER: ClassVar[Mapping[str, Any]] = {"flowlet_gap_s": None}

    ecmp: Literal["flow", "flowlet", "packet"] = Field(
        default="flow",
        description=(
            "flow: by a hash of the 5-tuple, so that a flow keeps its path; packet: every packet takes one"
            " drawn at random (packet spraying), and arrives out of order; flowlet: a flow takes a new one,"
            " drawn at random, after a pause (Vanini et al., Let It Flow, 2017)"
        ),
    )
    flowlet_gap_s: Annotated[float, Field(ge=0.0, le=7200.0)] | None = Field(
        default=None,
        description=(
            "flowlet: a packet that comes to a switch this long after the flow's previous one, or later,"
            " takes a new path, s; to keep order, longer than the paths' delays differ; 0: as packet"
        ),
    )
    reordering_packets: Annotated[int, Field(ge=1, le=65536)] | None = Field(
        default=None,
        description=(
            "packets that must arrive beyond a hole before it is taken for a loss (RFC 5681: 3); absent: 3,"
            " with packet spraying 64"
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
    down_s: Annotated[float, Field(ge=0.0, le=7200.0)] = Field(description="when it fails, s")
    up_s: Annotated[float, Field(gt=0.0, le=7200.0)] | None = Field(
        default=None, description="when it works again, s; absent: never"
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
            " All that the pattern names change together"
        ),
    )
    interval_s: Range = Field(
        description="time from the beginning to the first change and between changes: { low, high, scale }, s"
    )
    factor: Range | None = Field(
        default=None,
        description="new rate over the one that the topology gives the link: { low, high, scale }",
    )
    rate_bps: Range | None = Field(
        default=None, description="new rate: { low, high, scale }, bit/s; this or factor"
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
        default=0.0, description="probability that a packet is lost on a link, at every link it crosses"
    )
    links: Annotated[tuple[LinkFault, ...], FromList] = Field(
        default=(), description="links that fail, and when"
    )
    rate_changes: Annotated[tuple[RateChange, ...], FromList] = Field(
        default=(), description="links whose rate changes within an episode"
    )
    reroute_s: Annotated[float, Field(ge=0.0, le=7200.0)] = Field(
        default=0.01,
        description="time from a failure or repair until all switches choose paths accordingly, s",
    )
