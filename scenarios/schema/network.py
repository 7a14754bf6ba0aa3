"""Network tables of a congestion scenario beside topology and queues: routing, faults and end hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import NOTHING, Problem
from sysgym.scenarios.schema.common import FromList, Range, Table
from sysgym.scenarios.schema.later_keys import GrownTable

SHORTEST_CHANGE_S, LONGEST_CHANGE_S = 1e-6, 7200.0
"""Bounds of the time between two changes of a link's rate."""


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


class Transport(GrownTable):
    """End-host constants common to all congestion control laws."""

    LATER: ClassVar[Mapping[str, Any]] = {"loss_detection": "dupack", "timer_tick_s": None, "quick_acks": 0}

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
    loss_detection: Literal["rack", "dupack"] = Field(
        default="rack",
        description=(
            "rack: by time, with tail loss probes, proportional rate reduction and undo, as in Linux (RFC"
            " 8985, 9937, 5682); dupack: by three duplicate ACKs, as in ns-3 (RFC 6675, or RFC 6582 where a"
            " law has no SACK)"
        ),
    )
    timer_tick_s: Annotated[float, Field(ge=1e-6, le=1.0)] | None = Field(
        default=None,
        description="granularity of the hosts' timers, s (Linux: a jiffy, 1 to 4 ms); absent: min_rto_s / 8",
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

    delayed_ack_packets: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1,
        description=(
            "packets that a receiver acknowledges at once (RFC 1122: 2); a change of the ECN mark ends the"
            " wait (RFC 8257, 3.2), and so does a packet out of order"
        ),
    )
    quick_acks: Annotated[int, Field(ge=0, le=1024)] = Field(
        default=0,
        description=(
            "ACKs that a receiver sends at once at the beginning of a flow and after a packet that it had"
            " already, before it delays them (Linux: 16)"
        ),
    )
    delayed_ack_timeout_s: Annotated[float, Field(ge=1e-6, le=0.5)] = Field(
        default=1e-3, description="longest wait of a delayed ACK, s (RFC 1122: below 0.5; Linux: 0.04)"
    )

    @property
    def detects_by_time(self) -> bool:
        """Whether senders detect losses by time."""
        return self.loss_detection == "rack"

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
        if self.delayed_ack_packets > 1 and self.delayed_ack_timeout_s >= self.min_rto_s:
            yield Problem(
                "delayed_ack_timeout_s",
                self.delayed_ack_timeout_s,
                f"less than min_rto_s = {self.min_rto_s:g}",
                "a sender would take what the receiver holds back for lost",
            )
        if self.min_rto_s > self.max_rto_s:
            yield Problem("min_rto_s", self.min_rto_s, f"at most max_rto_s = {self.max_rto_s}")
