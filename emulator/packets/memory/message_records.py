"""Records of receiver-driven transports: messages, receiving hosts, arrivals, and the credit in packets.

A message is the receiver's view of a flow; there is one record for each flow.
"""

from __future__ import annotations

import numpy as np

from sysgym.emulator.packets.memory.numba_records import aligned_dtype, record_accessor

MESSAGE_STATE_SLOTS = 8
"""Number of floats in ``message.state``, a receiver's private state for each message."""

MESSAGE = aligned_dtype(
    [
        # Read by receivers; the helper that writes a field is in parentheses.
        ("index", np.int64),  # index of its flow
        ("n_packets", np.int64),
        ("received_packets", np.int64),  # distinct packets
        ("remaining_packets", np.int64),
        ("remaining_bytes", np.int64),  # payload
        ("arrived_packets", np.int64),  # all arrivals, trimmed and repeated packets included
        ("trimmed_packets", np.int64),
        ("wanted_packets", np.int64),  # total transmissions needed, as far as the receiver knows
        ("granted_packets", np.int64),  # total transmissions that the sender may make (grant, pulls)
        ("pulls", np.int64),  # further transmissions that the host's clock will grant (queue_pulls)
        ("rank", np.float64),  # the host's messages are ordered by rank, lowest first (set_rank)
        ("priority", np.int64),  # class in which the sender sends from the next grant on (grant)
        ("first_window_packets", np.int64),  # transmissions granted from the start
        ("first_arrival_ns", np.int64),
        ("last_arrival_ns", np.int64),
        ("base_rtt_ns", np.int64),
        ("rtt_packets", np.float64),  # packets at line rate in a round trip of the empty path
        ("packet_bytes", np.int64),  # of a full packet, headers included
        ("state", np.float64, (MESSAGE_STATE_SLOTS,)),
        # Kept by the simulator.
        ("asks_again", np.int64),  # 1: missing packets are to be requested again (ask_again)
        ("told_packets", np.int64),  # granted_packets in the last ACK or grant
        ("told_next", np.int32),  # list of messages whose sender must be notified of a grant
        ("to_tell", np.int32),
        ("previous", np.int32),  # list of the host's messages, by rank
        ("next", np.int32),
        ("listed", np.int32),
        ("ticked_ns", np.int64),  # time of its law's last tick
        ("control_sent", np.int64),  # grants and requests, of both ends
        ("control_arrived", np.int64),
    ]
)
"""Argument ``message`` of a receiver's callbacks."""

INBOX = aligned_dtype(
    [
        ("n_messages", np.int64),  # begun and not complete
        ("line_rate_bps", np.float64),
        ("state", np.float64, (MESSAGE_STATE_SLOTS,)),
        ("messages", np.int64),  # address of the world's messages
        ("first", np.int32),
        ("last", np.int32),
        ("first_to_tell", np.int32),
        ("armed", np.int32),  # the clock of its pulls has an event
        ("pulls", np.int64),  # of all messages
        ("next_pull_ns", np.int64),
    ]
)
"""Argument ``host`` of a receiver's callbacks: the receiving end of a host."""

ARRIVAL = aligned_dtype(
    [
        ("now_ns", np.int64),
        ("seq", np.int64),  # the packet's number; -1: a request or the clock
        ("is_new", np.int64),  # 1: a packet that had not arrived before, with its payload
        ("trimmed", np.int64),  # 1: a switch has removed its payload
        ("marked", np.int64),  # 1: it has a congestion mark
        ("parameters", np.int64),  # address and number of the transport's; see transports.base.parameter
        ("n_parameters", np.int64),
    ]
)
"""Argument ``event`` of a receiver's callbacks."""

CREDIT = aligned_dtype(
    [
        ("packets", np.int32),  # data: wanted_packets; ACK or grant: granted_packets
        ("ask_below", np.int32),  # ACK or grant: missing packets below this number are to be sent again
        ("priority", np.int32),
    ]
)
"""Contents of a packet of a receiver-driven transport beside its segment, by the packet's slot."""

message_at = record_accessor(MESSAGE)
inbox_at = record_accessor(INBOX)
arrival_at = record_accessor(ARRIVAL)
credit_at = record_accessor(CREDIT)
