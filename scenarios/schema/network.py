"""The network's part of a congestion scenario beside the topology: queues and end hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.common import Table


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
