"""Record of a flow: the state of its transport and of both its ends, and a sender's state of each packet."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.packets.memory.numba_records import aligned_dtype, record_accessor, record_prefetcher

NEW_RENO = 0
"""Loss recovery by duplicate and partial ACKs (RFC 5681, RFC 6582), go-back-N after a time-out."""

SACK = 1
"""Loss recovery by selective acknowledgements (RFC 6675).

Every ACK names the packet that caused it. A hole is lost when three packets beyond it have arrived. Sacked
and lost packets do not count as in flight.
"""

RACK = 2
"""Loss detection by time, with tail loss probes, as in Linux (RFC 8985)."""

GO_BACK_N = 3
"""Retransmission of everything from the packet of a NAK or a time-out, as in network cards for RDMA."""

TOLD = 4
"""Losses reported by the receiver: trimmed packets at once, other packets by a request to resend them."""

RETRANSMISSION = 0
PROBE = 1
REORDERING = 2
CONNECTING = 3
"""Meanings of a flow's timer: retransmission time-out, tail loss probe, end of the reordering window, and
time-out of the handshake."""

FRTO_RESENT = 1
FRTO_SENDS_NEW = 2
FRTO_SPURIOUS = 3
"""Steps after a time-out (RFC 5682, 3.1): first packet resent; new packets may leave; proved spurious."""

IN_FLIGHT = 0
LOST = 1
ARRIVED = 2
"""States of a packet that was sent and is not yet acknowledged cumulatively (RACK)."""

STANDARD_SLOW_START = 0
HYSTART = 1
HYSTART_PLUS_PLUS = 2
"""Rules by which slow start ends: at a loss or mark, by HyStart (CUBIC alone) or by HyStart++ (RFC 9406)."""

TRANSMISSION = aligned_dtype(
    [
        ("status", np.uint8),
        ("resent", np.uint8),  # it was sent more than once
    ]
)
"""State of a packet in a sender's window (RACK); small, so that the cache holds many."""

SENT_TIME = np.dtype([("ns", np.int64)])
"""Time of a packet's last transmission, beside its :data:`TRANSMISSION`."""

NO_WINDOW_PACKETS = 1e9
"""Congestion window of a law that limits only its rate."""

STATE_SLOTS = 40
"""Number of floats in ``flow.state``, a transport's private state for each flow."""

FLOW = aligned_dtype(
    [
        # Read and written by transports.
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
        ("pacing_rate_bps", np.float64),  # spaces the flow's packets; 0: not paced
        ("state", np.float64, (STATE_SLOTS,)),
        # Loss recovery.
        ("recover", np.int64),
        ("duplicate_acks", np.int64),  # also inflates the window (RFC 5681, 3.2; RFC 3042)
        ("resend_una", np.int64),
        ("timeouts_in_a_row", np.int64),
        ("sacked", np.int64),  # SACK: packets above una known to have arrived
        ("lost", np.int64),  # SACK: packets considered lost and not yet retransmitted
        ("lost_below", np.int64),  # SACK: holes below this number are lost
        ("hole_cursor", np.int64),  # SACK: next candidate for retransmission
        ("recovery_credit", np.int64),  # SACK: packets that may leave in recovery
        ("una_sent_ns", np.int64),  # SACK: last sending time of the first hole
        ("rttvar_ns", np.float64),
        ("rto_ns", np.int64),
        ("timer_deadline_ns", np.int64),
        ("timer", np.int64),  # meaning of the timer: RETRANSMISSION ...
        # Loss detection by time, in the terms of RFC 8985; first the fields that every ACK and packet reads.
        ("rack_sent_ns", np.int64),  # RACK.xmit_ts: of the packet sent last among those that arrived
        ("rack_seq", np.int64),
        ("rack_rtt_ns", np.int64),  # its round trip
        ("highest_arrived", np.int64),  # RACK.fack
        ("first_transmission", np.int64),  # index of its packets in the world's transmissions
        ("oldest_resent_ns", np.int64),  # no retransmission in flight was sent earlier; NEVER_NS: none
        ("probe_due", np.int64),  # tail loss probe (RFC 8985, 7)
        ("probe_below", np.int64),  # TLP.end_seq: one more than the probe's number; 0: none is in flight
        ("cwr_below", np.int64),  # the last window that a mark reduced (Linux's CWR) ends here
        ("frto_step", np.int64),  # RFC 5682, 3.1; 0: no time-out is under test
        ("prr_sent", np.int64),  # packets sent in this recovery (RFC 9937)
        ("prr_delivered", np.int64),
        ("prr_flight", np.int64),  # packets in flight when the recovery began
        ("highest_resent", np.int64),  # no packet above it is a retransmission in flight
        ("reordering_seen", np.int64),
        ("reordering_steps", np.int64),  # RACK.reo_wnd_mult: quarters of the shortest round trip
        ("reordering_recoveries", np.int64),  # RACK.reo_wnd_persist
        ("reordering_round", np.int64),  # the round ends when this packet is acknowledged
        ("probe_resent", np.int64),  # the probe was a retransmission
        # Undo of spurious recoveries.
        ("undo_possible", np.int64),
        ("undo_cwnd", np.float64),
        ("undo_ssthresh", np.float64),
        ("undo_resent", np.int64),  # retransmissions not reported as duplicates
        ("first_resent_ns", np.int64),  # 0: nothing was retransmitted in this recovery
        # Receiver.
        ("rcv_nxt", np.int64),
        ("held_out_of_order", np.int64),
        ("highest_held", np.int64),  # highest packet that has arrived out of order
        # Constant.
        ("n_packets", np.int64),
        ("last_packet_bytes", np.int64),
        ("receive_window_packets", np.int64),
        ("window_mask", np.int64),
        ("bitmap_offset", np.int64),
        ("start_ns", np.int64),
        ("src", np.int32),
        ("dst", np.int32),
        ("transport", np.int32),
        ("recovery", np.int32),
        ("reduces_by_prr", np.int32),  # 0: its transport sets the window during recovery too
        ("slow_start", np.int32),  # STANDARD_SLOW_START ...
        ("ecn_capable", np.int32),
        # List of the host's active flows.
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
        ("begun", np.int64),
        # Rounds of slow start, for HyStart and HyStart++.
        ("round_samples", np.int64),
        ("round_end", np.int64),  # the round ends when this packet is acknowledged
        ("round_rtt_ns", np.int64),  # shortest round trip of the round
        ("previous_round_rtt_ns", np.int64),
        (
            "css_baseline_ns",
            np.int64,
        ),  # HyStart++: the round trip that began conservative slow start; 0: none
        ("css_rounds", np.int64),
        ("round_began_ns", np.int64),  # HyStart
        ("train_until_ns", np.int64),  # last ACK of the train that began with the round
        # Reuse of connections.
        ("first_packet", np.int64),  # number of its first packet, 0 unless its connection had flows before
        ("idle_since_ns", np.int64),  # sending time of the connection's last packet before this flow
        ("pool", np.int32),  # the first flow of the same hosts and law, which keeps their idle connections
        ("first_idle", np.int32),
        ("next_idle", np.int32),
        ("nak_sent", np.int32),  # GO_BACK_N: the receiver has sent a NAK for the expected packet
        # Read by the extended loop only; last, so that the plain loop never touches these cache lines.
        ("pace_in_force_bps", np.float64),  # the pacing rate behind the next two fields
        ("pace_ns_per_byte_q20", np.int64),
        ("pace_fraction_q20", np.int64),  # of a nanosecond, carried from packet to packet
        ("next_send_ns", np.int64),
        ("paced_since_ns", np.int64),  # time from which the next packet is spaced
        ("paced_bytes", np.int64),  # bytes sent since then; 0: none
        ("has_more", np.int64),  # another packet was ready when that packet had left
        ("resent_below", np.int64),  # SACK: all holes below were retransmitted ...
        ("resent_by_ns", np.int64),  # ... by this time; 0: unknown
        ("repair_cursor", np.int64),  # SACK: holes from here on ...
        ("repair_below", np.int64),  # ... to here are lost again, as their retransmissions did not arrive
        ("delivered_packets", np.int64),
        ("delivered_ns", np.int64),  # last increase of delivered_packets
        ("first_sent_ns", np.int64),  # sending time of the packet delivered last
        ("app_limited_until", np.int64),  # 0, or the delivered_packets up to which samples are app-limited
        ("pacing_burst_packets", np.int64),  # packets that leave together, written by transports; 0: one
        ("burst_left", np.int64),  # packets of its present burst that have not left yet
        ("burst_sent_ns", np.int64),  # time of the last packet of a flow that sends bursts
        ("unacked_since_ns", np.int64),  # first of the arrivals that are not yet acknowledged
        ("last_cnp_ns", np.int64),
        ("after_delay_ns", np.int64),
        ("hash_out", np.uint64),  # of the 5-tuple; hash_back is that of the ACKs
        ("hash_back", np.uint64),
        ("packet_bytes", np.int64),  # of a full packet, headers included
        ("hops", np.int32),  # links of the route
        ("pace_armed", np.int32),  # has an event
        ("ack_timers", np.int32),  # bitmap of the events of its receiver: RECEIVER_ACKS ...
        ("ce_state", np.int32),  # DCTCP.CE of RFC 8257, 3.2
        ("unacked_arrivals", np.int32),  # arrived and not yet acknowledged by the receiver
        ("quick_acks", np.int32),  # ACKs that the receiver will still send at once
        ("held_ack_slot", np.int32),  # the last of these arrivals
        ("cnp_due", np.int32),
        ("repeated_arrival", np.int32),  # the last of these had arrived before
        ("waits_for", np.int32),  # number of flows that must end before this one starts
        ("first_successor", np.int32),
        ("n_successors", np.int32),
        ("priority", np.int32),  # class of its data
        ("ack_priority", np.int32),  # class of its ACKs; NOBODY: that of the data that caused them
        ("trimmed_packets", np.int64),  # packets that arrived without their data
        ("nacks", np.int64),  # reports of trimmed packets that reached the sender
        ("failed", np.int64),  # its transport raised, or wrote an invalid window or rate
        # Receiver-driven transports: a packet leaves only if the receiver has granted it.
        ("credit_packets", np.int64),  # total transmissions granted; at the start, the first window
        ("spent_packets", np.int64),  # granted transmissions that were made
        ("free_packets", np.int64),  # packets that need no credit: requested again, or after a time-out
        ("announced_packets", np.int64),  # total transmissions needed, as announced to the receiver
        ("needs_credit", np.int32),
    ]
)

flow_at = record_accessor(FLOW)
transmission_at = record_accessor(TRANSMISSION)
sent_time_at = record_accessor(SENT_TIME)
prefetch_flow = record_prefetcher(FLOW, n_lines=6)
