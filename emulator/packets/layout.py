"""Memory layout of the packet simulator: one record array for each kind of thing.

Every array is an array of records, so that all that is known of one packet, link, flow or host lies in
neighbouring cache lines: memory traffic decides the speed of a packet simulator. Times are integer
nanoseconds, sequence numbers count packets.

A packet keeps its slot in ``packets`` from the sender to the receiver and back as an ACK; moving over a hop
relinks the slot from one link's FIFO to the next and copies nothing. A new per-packet field therefore costs
memory, not time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.memory import record_accessor

NOBODY = -1
"""Index that points nowhere (end of a list, no link, no packet)."""

NEVER_NS = np.int64(2**62)
"""A time that does not come."""

LONG_LIVED_PACKETS = np.int64(2**30)
"""Length in packets of a flow that does not end within any episode; also the largest sequence number."""

PACKET_IS_ACK = 1
PACKET_ECN_CAPABLE = 2
PACKET_CE = 4

NEW_RENO = 0
"""Loss recovery by duplicate and partial ACKs (RFC 5681, RFC 6582), go-back-N after a time-out."""

SACK = 1
"""Loss recovery by selective acknowledgements (RFC 6675).

Every ACK names the packet that caused it; a hole three packets deep is lost; what is sacked or lost is not in
flight.
"""

PACKET = np.dtype(
    [
        ("arrival_ns", np.int64),  # at the far end of the link that carries it
        ("sent_ns", np.int64),  # when the sender sent the data packet; its ACK brings it back
        ("flow", np.int32),
        ("seq", np.int32),  # data: its number; ACK: the number of the data packet that caused it
        ("ack", np.int32),  # ACK: the next number that the receiver expects
        ("next", np.int32),  # the slot behind it in the same FIFO, or in the list of free slots
        ("size_bytes", np.uint16),
        ("hop", np.int8),
        ("flags", np.uint8),
    ],
    align=True,
)

LINK = np.dtype(
    [
        # A queue is known by the time at which its last byte will have left; limits are drain times too.
        ("busy_until_ns", np.int64),
        ("ns_per_byte_q20", np.int64),  # fixed point, 20 fractional bits
        ("delay_ns", np.int64),
        ("buffer_ns", np.int64),
        ("mark_above_ns", np.int64),
        ("jitter_ns", np.int64),  # a packet arrives up to this much later, never before the one ahead of it
        ("last_arrival_ns", np.int64),
        ("head", np.int32),  # FIFO of the packets in the queue or on the wire
        ("tail", np.int32),
        ("sent_bytes", np.int64),  # accepted into the queue
        ("sent_packets", np.int64),
        ("marked_packets", np.int64),
        ("dropped_packets", np.int64),
        ("dropped_bytes", np.int64),
        ("max_backlog_ns", np.int64),
        ("backlog_integral_ns2", np.float64),
        ("integrated_until_ns", np.int64),
    ],
    align=True,
)

STATE_SLOTS = 16
"""Private numbers that a transport keeps for each flow in ``flow.state``."""

FLOW = np.dtype(
    [
        # What a transport reads and writes.
        ("cwnd", np.float64),  # packets
        ("ssthresh", np.float64),  # packets
        ("srtt_ns", np.float64),
        ("min_rtt_ns", np.int64),
        ("base_rtt_ns", np.int64),  # of the empty path, full-size packets
        ("line_rate_bps", np.float64),  # of the sending host
        ("una", np.int64),  # first packet not acknowledged
        ("nxt", np.int64),  # next packet to send
        ("high", np.int64),  # first packet never sent
        ("in_recovery", np.int64),
        ("state", np.float64, (STATE_SLOTS,)),
        # Loss recovery.
        ("recover", np.int64),
        ("duplicate_acks", np.int64),  # also inflates the window (RFC 5681, 3.2; RFC 3042)
        ("resend_una", np.int64),
        ("timeouts_in_a_row", np.int64),
        ("sacked", np.int64),  # SACK: packets above una known to have arrived
        ("lost", np.int64),  # SACK: packets taken for lost and not yet sent again
        ("lost_below", np.int64),  # SACK: holes below this number are lost
        ("hole_cursor", np.int64),  # SACK: next candidate for sending again
        ("recovery_credit", np.int64),  # SACK: packets that may leave in recovery
        ("una_sent_ns", np.int64),  # SACK: when the first hole was last sent
        ("rttvar_ns", np.float64),
        ("rto_ns", np.int64),
        ("rto_deadline_ns", np.int64),
        # Receiver.
        ("rcv_nxt", np.int64),
        ("held_out_of_order", np.int64),
        # What does not change.
        ("n_packets", np.int64),
        ("last_packet_bytes", np.int64),
        ("window_mask", np.int64),
        ("bitmap_offset", np.int64),
        ("start_ns", np.int64),
        ("src", np.int32),
        ("dst", np.int32),
        ("transport", np.int32),
        ("recovery", np.int32),
        ("ecn_capable", np.int32),
        # The list of the host's active flows.
        ("next_active", np.int32),
        ("previous_active", np.int32),
        ("active", np.int32),
        # Statistics.
        ("finish_ns", np.int64),
        ("rtt_sum_ns", np.int64),
        ("acked_packets", np.int64),
        ("rtt_samples", np.int64),
        ("marked_packets", np.int64),
        ("retransmitted_packets", np.int64),
        ("timeouts", np.int64),
    ],
    align=True,
)

HOST = np.dtype(
    [
        ("cap_ns_per_byte_q20", np.int64),  # rate cap, 0: none
        ("backlog_limit_ns", np.int64),  # most that waits before the network card, as its drain time
        ("last_size_bytes", np.int64),
        ("last_sent_ns", np.int64),
        ("awake", np.int64),  # has an entry in the event heap: flows wait for their turn
        ("uplink", np.int32),
        ("first_active", np.int32),
        ("turn", np.int32),  # the flow whose turn it is
        ("active_flows", np.int64),
        # Statistics. Credited to the sending host, except received_bytes.
        ("sent_bytes", np.int64),
        ("sent_packets", np.int64),
        ("delivered_bytes", np.int64),
        ("received_bytes", np.int64),
        ("acked_packets", np.int64),
        ("rtt_samples", np.int64),
        ("marked_packets", np.int64),
        ("retransmitted_packets", np.int64),
        ("timeouts", np.int64),
        ("rtt_sum_ns", np.int64),
    ],
    align=True,
)

EVENT = np.dtype(
    [
        ("now_ns", np.int64),
        ("acked_packets", np.int64),  # that this ACK is the first to tell of
        ("marked", np.int64),  # the ACK echoes a CE mark
        ("rtt_ns", np.int64),
        ("in_flight_packets", np.int64),  # before this ACK
        ("window_limited", np.int64),  # 1: the window held the sender back, not its data or its rate cap
    ],
    align=True,
)
"""What a transport callback is told about the thing that happened."""

WORLD = np.dtype(
    [
        # Addresses of the arrays below.
        ("links", np.int64),
        ("packets", np.int64),
        ("flows", np.int64),
        ("hosts", np.int64),
        ("routes", np.int64),
        ("heap", np.int64),
        ("received", np.int64),
        ("sacked", np.int64),
        ("queue_histogram", np.int64),
        ("event", np.int64),
        ("callbacks", np.int64),
        ("now_ns", np.int64),
        ("random_state", np.uint64),
        ("n_links", np.int64),
        ("n_hosts", np.int64),
        ("n_flows", np.int64),
        ("route_stride", np.int64),
        ("heap_size", np.int64),
        ("root_is_stale", np.int64),
        ("first_free_packet", np.int64),
        ("free_packets", np.int64),
        ("out_of_packets", np.int64),  # a sender found no free slot: the pool has to grow
        ("next_flow", np.int64),
        ("timer_tick_ns", np.int64),
        ("sample_tick_ns", np.int64),
        ("payload_bytes", np.int64),
        ("header_bytes", np.int64),
        ("ack_bytes", np.int64),
        ("min_rto_ns", np.int64),
        ("max_rto_ns", np.int64),
        ("max_window_packets", np.int64),
        ("hops", np.int64),
        ("queue_samples", np.int64),
    ],
    align=True,
)


HEAP_ENTRY = np.dtype([("key", np.int64)])
ROUTE_HOP = np.dtype([("link", np.int32)])
BITMAP_WORD = np.dtype([("bits", np.uint64)])
HISTOGRAM_BUCKET = np.dtype([("samples", np.uint32)])
CALLBACK = np.dtype([("address", np.int64)])

link_at = record_accessor(LINK)
packet_at = record_accessor(PACKET)
flow_at = record_accessor(FLOW)
host_at = record_accessor(HOST)
event_at = record_accessor(EVENT)
world_at = record_accessor(WORLD)
entry_at = record_accessor(HEAP_ENTRY)
route_hop_at = record_accessor(ROUTE_HOP)
word_at = record_accessor(BITMAP_WORD)
bucket_at = record_accessor(HISTOGRAM_BUCKET)
callback_at = record_accessor(CALLBACK)


class State(NamedTuple):
    """All of a simulation's arrays; the world's record holds their addresses."""

    world: NDArray[Any]  # (1,) WORLD
    links: NDArray[Any]  # (n_links,) LINK
    packets: NDArray[Any]  # (capacity,) PACKET
    flows: NDArray[Any]  # (n_flows,) FLOW
    hosts: NDArray[Any]  # (n_hosts,) HOST
    routes: NDArray[np.int32]  # (n_flows, 2, max_hops + 1): data and ACK route, padded with NOBODY
    heap: NDArray[np.int64]  # (n_links + n_hosts + 4,) event keys
    received: NDArray[np.uint64]  # the receivers' bitmaps of packets held out of order
    sacked: NDArray[np.uint64]  # the senders' knowledge of the same
    queue_histogram: NDArray[np.uint32]  # (n_links, QUEUE_BUCKETS)
    event: NDArray[Any]  # (1,) EVENT, scratch
    callbacks: NDArray[np.int64]  # (4 * n_transports,) addresses of compiled functions

    def bind(self) -> None:
        """Writes the arrays' addresses into the world's record.

        Again after one was replaced or the state was copied.
        """
        for name, array in self._asdict().items():
            if name != "world":
                self.world[name] = array.ctypes.data
