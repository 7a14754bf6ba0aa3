"""End hosts of a congestion scenario: the table [transport]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.later_keys import GrownTable


class Transport(GrownTable):
    """End-host constants common to all congestion control laws."""

    LATER: ClassVar[Mapping[str, Any]] = {
        "loss_detection": "dupack",
        "timer_tick_s": None,
        "quick_acks": 0,
        "receive_window_bytes": None,
        "slow_start": "standard",
        "connections": "per_flow",
        "idle_window": None,
        "handshake": False,
        "segmentation_offload_bytes": None,
        "receive_coalescing_s": None,
        "path_delay": "known",
    }

    mtu_bytes: Annotated[int, Field(ge=128, le=9216)] = Field(
        default=1500, description="largest packet on the wire, headers included, bytes"
    )
    header_bytes: Annotated[int, Field(ge=0, le=256)] = Field(
        default=40,
        description="headers of a data packet, bytes (IPv4 and TCP without options: 40, with timestamps: 52)",
    )
    ack_bytes: Annotated[int, Field(ge=20, le=9216)] = Field(
        default=60, description="size of a pure ACK on the wire, bytes"
    )
    initial_window_packets: Annotated[int, Field(ge=1, le=2**20)] = Field(
        default=10, description="congestion window of a new flow, packets (RFC 6928: 10)"
    )
    slow_start: Literal["standard", "hystart", "hystart++"] = Field(
        default="standard",
        description=(
            "end of slow start. standard: at a loss or a mark; hystart: CUBIC ends it earlier, as on Linux"
            " (Ha and Rhee, 2011), other laws as standard; hystart++: every law with the common slow start"
            " (reno, cubic, dctcp, newvegas) ends its first one by RFC 9406"
        ),
    )
    min_rto_s: Annotated[float, Field(ge=1e-6, le=60.0)] = Field(
        default=0.01, description="shortest retransmission time-out, s (Linux: 0.2)"
    )
    max_rto_s: Annotated[float, Field(ge=1e-6, le=3600.0)] = Field(
        default=1.0, description="longest retransmission time-out, s"
    )
    loss_detection: Literal["rack", "linux", "dupack", "go_back_n", "selective_repeat"] = Field(
        default="rack",
        description=(
            "rack: by time, with tail loss probes, proportional rate reduction and undo (RFC 8985, 9937,"
            " 5682); linux: like rack, with the differences of Linux 6.7 and later (docs/packets.md);"
            " dupack: by three duplicate ACKs, as in ns-3 (RFC 6675, or RFC 6582 where a"
            " law has no SACK); go_back_n: receivers discard packets that are out of order and send a NAK,"
            " and senders retransmit everything from there, like RDMA over RoCEv2; selective_repeat: a"
            " packet beyond a hole marks the hole as lost, and only lost packets are retransmitted (IRN,"
            " Mittal et al., 2018)"
        ),
    )
    timer_tick_s: Annotated[float, Field(ge=1e-6, le=1.0)] | None = Field(
        default=None,
        description="granularity of the hosts' timers, s (Linux: a jiffy, 1 to 4 ms); absent: min_rto_s / 8",
    )
    max_window_packets: Annotated[int, Field(ge=2, le=2**20)] = Field(
        default=4096, description="largest window of a flow, packets; a power of two"
    )
    receive_window_bytes: Annotated[int, Field(ge=1, le=2**40)] | None = Field(
        default=None,
        description=(
            "receive window of every flow: payload that a sender may send beyond what was acknowledged in"
            " order, bytes; the receiving program reads at once. absent: max_window_packets alone limits"
        ),
    )
    connections: Literal["per_flow", "persistent"] = Field(
        default="per_flow",
        description=(
            "per_flow: every flow has its own connection; persistent: a flow continues, with its window"
            " and path, the connection between its hosts that became idle last, and opens a new one if"
            " none is idle"
        ),
    )
    idle_window: Literal["decay", "restart", "keep"] | None = Field(
        default=None,
        description=(
            "window of a persistent connection that resumes sending. decay: halved for every time-out that"
            " has passed, down to the initial window (RFC 2861; Linux's default); restart: the initial"
            " window after a time-out (RFC 5681, 4.1); keep: unchanged for five minutes (RFC 7661)."
            " absent: decay"
        ),
    )
    handshake: bool = Field(
        default=False,
        description=(
            "whether a new connection sends a SYN and waits for the answer before its data; otherwise it"
            " is open when the flow starts"
        ),
    )
    path_delay: Literal["known", "least_seen"] = Field(
        default="known",
        description=(
            "base round-trip time that laws use. known: that of the empty path; least_seen: from the first"
            " sample on, the smallest round trip of the connection so far, as on a Linux host. It exceeds"
            " that of the empty path if there has always been a queue"
        ),
    )
    host_queue_packets: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=8,
        description=(
            "number of full packets that a host hands to its network card ahead of time; the rest waits in"
            " the flows, which take turns (Linux: fair queueing with TCP small queues)"
        ),
    )
    host_jitter_s: Annotated[float, Field(ge=0.0, le=1.0)] | None = Field(
        default=None,
        description=(
            "maximum of the random delay that a host adds to each packet, s; absent: the transmission time"
            " of one full packet. Real hosts are never exactly synchronised; without jitter, equal flows"
            " lock into phase"
        ),
    )

    segmentation_offload_bytes: Annotated[int, Field(ge=2, le=2**20)] | None = Field(
        default=None,
        description=(
            "longest burst that a sender hands to its network card at once, bytes (Linux: 65536); a sender"
            " then waits until its window allows a burst, and a paced sender pauses after each burst."
            " absent: packets leave one by one"
        ),
    )
    receive_coalescing_s: Annotated[float, Field(ge=1e-9, le=0.5)] | None = Field(
        default=None,
        description=(
            "time for which a receiver's network card gathers packets of a flow in order, s; up to 64 kB"
            " are delivered as one packet and acknowledged together. absent: each packet is delivered when"
            " it arrives"
        ),
    )

    delayed_ack_packets: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1,
        description=(
            "number of packets that a receiver acknowledges with one ACK (RFC 1122: 2); a change of the"
            " ECN mark ends the"
            " wait (RFC 8257, 3.2), and so does a packet out of order"
        ),
    )
    quick_acks: Annotated[int, Field(ge=0, le=1024)] = Field(
        default=0,
        description=(
            "number of ACKs that a receiver sends without delay at the beginning of a flow and after a"
            " duplicate packet (Linux: 16)"
        ),
    )
    delayed_ack_timeout_s: Annotated[float, Field(ge=1e-6, le=0.5)] = Field(
        default=1e-3, description="maximum delay of an ACK, s (RFC 1122: below 0.5; Linux: 0.04)"
    )

    @property
    def detects_by_time(self) -> bool:
        """Whether senders detect losses by time."""
        return self.loss_detection in ("rack", "linux")

    @property
    def delays_acks(self) -> bool:
        """Whether an ACK may be for several packets."""
        return self.delayed_ack_packets > 1 or self.receive_coalescing_s is not None

    @property
    def payload_bytes(self) -> int:
        """Payload of a full packet (the maximum segment size), bytes."""
        return self.mtu_bytes - self.header_bytes

    @property
    def idle_rule(self) -> str:
        """Rule for the window of an idle connection, default applied."""
        return self.idle_window or "decay"

    @property
    def receive_window_packets(self) -> int:
        """Most packets that may be sent beyond those acknowledged in order."""
        if self.receive_window_bytes is None:
            return self.max_window_packets
        return min(self.receive_window_bytes // self.payload_bytes, self.max_window_packets)

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
        if self.receive_window_bytes is not None and self.receive_window_bytes < self.payload_bytes:
            yield Problem(
                "receive_window_bytes",
                self.receive_window_bytes,
                f"at least the payload of a full packet, {self.payload_bytes}",
                "a sender would never send one",
            )
        if self.idle_window is not None and self.connections != "persistent":
            yield Problem(
                "idle_window",
                self.idle_window,
                f'no such key with connections = "{self.connections}"',
                'set connections = "persistent"',
            )
        if (self.segmentation_offload_bytes or self.mtu_bytes * 2) < self.mtu_bytes * 2:
            yield Problem(
                "segmentation_offload_bytes",
                self.segmentation_offload_bytes,
                f"at least two packets, {self.mtu_bytes * 2}",
                "leave it out, and packets leave singly",
            )
        if (self.receive_coalescing_s or 0.0) >= self.delayed_ack_timeout_s:
            yield Problem(
                "receive_coalescing_s",
                self.receive_coalescing_s,
                f"less than delayed_ack_timeout_s = {self.delayed_ack_timeout_s:g}",
                "an ACK would be late before it is due",
            )
        if self.delays_acks and self.delayed_ack_timeout_s >= self.min_rto_s:
            yield Problem(
                "delayed_ack_timeout_s",
                self.delayed_ack_timeout_s,
                f"less than min_rto_s = {self.min_rto_s:g}",
                "a sender would take what the receiver holds back for lost",
            )
        if self.min_rto_s > self.max_rto_s:
            yield Problem("min_rto_s", self.min_rto_s, f"at most max_rto_s = {self.max_rto_s}")
