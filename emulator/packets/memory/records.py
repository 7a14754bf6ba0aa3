"""Memory layout of the packet simulator: one record array for each kind of object.

Every array is an array of records, so that all data of one packet, link, flow or host lies in neighbouring
cache lines: memory traffic determines the speed of a packet simulator. Times are integer nanoseconds;
sequence numbers count packets.

A packet keeps its slot in ``packets`` from the sender to the receiver and back as an ACK; moving over a hop
relinks the slot from one link's FIFO to the next and copies nothing. A new per-packet field therefore costs
memory, not time.
"""

from __future__ import annotations

import numpy as np

from sysgym.emulator.packets.memory.numba_records import aligned_dtype, record_accessor, record_prefetcher

NOBODY = -1
"""Null index: end of a list, no link, no packet."""

NEVER_NS = np.int64(2**62)
"""Time of an event that never happens."""

SYN = -1
"""Packet number of a SYN and of its answer."""

LONG_LIVED_PACKETS = np.int64(2**30)
"""Length in packets of a flow that does not end within any episode; also the largest sequence number."""

PACKET_IS_ACK = 1
PACKET_ECN_CAPABLE = 2
PACKET_CE = 4
PACKET_CNP = 8
"""On an ACK: it is also a congestion notification packet of DCQCN."""
PACKET_PAUSE = 16
PACKET_RESUME = 32
"""Frames of priority flow control, which travel only from one end of a cable to the other."""
PACKET_DUPLICATE = 64
"""On an ACK: the packet that caused it had arrived before (DSACK, RFC 2883)."""
PACKET_TRIMMED = 128
"""On data: only the header is left. On an ACK (a NACK): the packet that caused it arrived trimmed."""

OUT_OF_PACKETS = 1
TRANSPORT_FAILED = 2
"""Reasons for a halt: a sender found no free slot; a transport raised or wrote an invalid window or rate."""

PACKET = aligned_dtype(
    [
        ("arrival_ns", np.int64),  # at the far end of the link that carries it
        ("flow", np.int32),
        ("next", np.int32),  # the next slot in the same FIFO, or in the list of free slots
        ("route", np.int32),  # index in the world's routes of the link that carries it
        ("size_bytes", np.uint16),
        ("flags", np.uint8),
        ("hop", np.int8),
    ]
)
"""Fields of a packet that every hop needs; a small record lets the cache hold more packets."""

SEGMENT = aligned_dtype(
    [
        ("sent_ns", np.int64),  # sending time of the data packet, echoed by its ACK
        ("seq", np.int32),  # data: its number; ACK: the number of the data packet that caused it
        ("ack", np.int32),  # ACK: the next number that the receiver expects
    ]
)
"""Fields of a packet that only the ends of a flow read, by the packet's slot."""

LINK = aligned_dtype(
    [
        # A queue is represented by the departure time of its last byte; limits are drain times too.
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
    ]
)

INT_HOPS = 8
"""Largest number of switches on a path whose telemetry an ACK carries."""

HOST = aligned_dtype(
    [
        ("cap_ns_per_byte_q20", np.int64),  # rate cap, 0: none
        ("backlog_limit_ns", np.int64),  # limit of the queue before the network card, as a drain time
        ("last_size_bytes", np.int64),
        ("last_sent_ns", np.int64),
        ("awake", np.int64),  # has an event: flows wait for their turn
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
    ]
)

EVENT = aligned_dtype(
    [
        ("now_ns", np.int64),
        ("acked_packets", np.int64),  # newly reported by this ACK
        ("marked", np.int64),  # the ACK echoes a CE mark
        ("rtt_ns", np.int64),
        ("rtt_sampled", np.int64),  # 1: rtt_ns is a sample; 0: the ACK has none, and rtt_ns is smoothed
        ("in_flight_packets", np.int64),  # before this ACK
        ("window_limited", np.int64),  # 1: the window limited the sender, not its data or its rate cap
        ("duplicate", np.int64),  # 1: caused by a packet beyond a missing one; the network keeps order
        ("parameters", np.int64),  # address and number of the transport's; see transports.base.parameter
        ("n_parameters", np.int64),
        ("path_measured", np.int64),  # 1: flow.base_rtt_ns is the minimum RTT so far; 0: it is known exactly
        # The rest is maintained for transports whose callbacks use it (see Transport.needs_extras).
        ("hops", np.int64),  # links from sender to receiver
        ("endpoint_delay_ns", np.int64),  # time for which the receiver delayed the ACK
        ("cnp", np.int64),  # the ACK is a congestion notification packet too
        ("lost_packets", np.int64),  # considered lost and not yet retransmitted
        # A sample of the delivery rate: (delivered_packets - delivered_at_send) / delivery_interval_ns.
        ("delivered_packets", np.int64),  # of the flow, in any order, including this ACK's
        ("delivered_at_send", np.int64),  # the same when the acknowledged packet was sent
        ("delivery_interval_ns", np.int64),  # the longer of the sending and the acknowledging interval
        ("app_limited", np.int64),  # the application limited the sample, not the path
        (
            "in_flight_at_send",
            np.int64,
        ),  # packets in flight when the acknowledged one had left
        ("lost_since_send", np.int64),  # packets declared lost since the acknowledged one was sent
        # In-band telemetry of the switches on the data packet's path, in order: int_hops entries.
        ("int_hops", np.int64),
        ("int_queue_bytes", np.int64, (INT_HOPS,)),
        ("int_tx_bytes", np.int64, (INT_HOPS,)),
        ("int_time_ns", np.int64, (INT_HOPS,)),
        ("int_rate_bps", np.int64, (INT_HOPS,)),
        ("granted_packets", np.int64),  # newly granted by the receiver
    ]
)
"""Argument ``event`` of a transport's callbacks."""

NOTE = aligned_dtype(
    [
        # Written on a data packet when it is sent (Cheng et al., draft-cheng-iccrg-delivery-rate-estimation).
        ("delivered_packets", np.int64),
        ("delivered_ns", np.int64),
        ("first_sent_ns", np.int64),
        ("app_limited", np.int64),
        ("in_flight", np.int32),
        ("losses", np.int32),
        # Written by the receiver.
        ("received_ns", np.int64),
        ("endpoint_delay_ns", np.int64),
        ("newest_arrival", np.int64),  # highest packet number that the receiver reports
        ("recent_arrivals", np.uint64),  # bitmap of the 64 packets up to that one, whose bit is the highest
        ("covers", np.int16),  # number of arrivals that the ACK acknowledges
        # Written where the packet is sent, and where it is trimmed.
        ("priority", np.int8),  # its class, if queues have classes
        ("came_by", np.int32),  # the link over which it came to its present switch
    ]
)
"""Fields of a packet for the extended loop, by the packet's slot."""

STAMPS = aligned_dtype(
    [
        ("hops", np.int64),
        ("queue_bytes", np.int64, (INT_HOPS,)),
        ("tx_bytes", np.int64, (INT_HOPS,)),
        ("time_ns", np.int64, (INT_HOPS,)),
        ("rate_bps", np.int64, (INT_HOPS,)),
    ]
)
"""In-band telemetry that a packet gathers and its ACK carries back, by the packet's slot."""

PORT = aligned_dtype(
    [
        ("down", np.int64),
        ("lost_packets", np.int64),  # on the link, by faults
        ("rate_bps", np.int64),
        ("recorded", np.int64),
        ("drain_scale", np.float64),  # initial time of a byte over the present one
        # RED (Floyd and Jacobson, 1993); limits are drain times. Class queues keep averages of their own.
        ("red_min_ns", np.float64),
        ("red_max_ns", np.float64),
        ("red_average_ns", np.float64),
        ("red_until_ns", np.int64),  # last update of the average
        # Where queues are lists of packets, by class; see CLASS_QUEUE.
        ("queued_bytes", np.int64),  # waiting or being sent, in all classes
        ("sending_bytes", np.int64),  # 0: none is being sent
        ("sending_from", np.int64),  # the link by which the packet being sent came
        ("sending_class", np.int32),
        ("turn", np.int32),  # the class whose turn it is, by deficit round robin
        ("turn_begins", np.int64),  # it has not received its quantum yet
        ("sends_for_host", np.int64),  # NOBODY for ports of switches
        ("target", np.int64),  # node at the far end
        ("memory", np.int64),  # that of its switch; NOBODY for ports of hosts
    ]
)
"""Fields of a link and its port for the extended loop, beyond :data:`LINK`."""

CLASS_QUEUE = aligned_dtype(
    [
        ("head", np.int32),  # list of the packets that wait
        ("tail", np.int32),
        ("before_tail", np.int32),  # the packet before the last one, if there are two
        ("wakes_host", np.int32),  # the host waits for room in this class
        ("waiting_bytes", np.int64),
        ("busy_until_ns", np.int64),  # end of its last transmission
        ("buffer_ns", np.int64),  # limits, as drain times
        ("mark_above_ns", np.int64),
        ("red_average_ns", np.float64),
        ("red_until_ns", np.int64),
        ("quantum_bytes", np.int64),  # deficit round robin: bytes that it may send in a turn
        ("deficit_bytes", np.int64),  # bytes that it may still send
        # Priority flow control.
        ("held_bytes", np.int64),  # held by the far end's switch, received over this link
        ("pause_sent", np.int32),  # the far end has sent a pause frame to this port
        ("paused", np.int32),  # the frame has arrived
        ("paused_since_ns", np.int64),
        ("paused_ns", np.int64),
        # Statistics.
        ("pauses", np.int64),
        ("accepted_bytes", np.int64),
        ("accepted_packets", np.int64),
        ("marked_packets", np.int64),
        ("dropped_packets", np.int64),
        ("dropped_bytes", np.int64),
        ("trimmed_packets", np.int64),  # packets that found no room here, or made room for such a packet
        ("trimmed_bytes", np.int64),  # bytes removed by trimming
    ]
)
"""One class of a port whose queues are lists of packets; n_classes records for each link."""

PLACE = aligned_dtype([("edge", np.int32), ("column", np.int32), ("downlink", np.int32)])
"""Place of a host: its switch, that switch's column of the forwarding table, and the link to the host."""

MEMORY = aligned_dtype(
    [
        ("bound_bytes", np.int64),  # the switch's queues hold no more than this
        ("first_port", np.int32),  # its ports, in the world's memory_ports
        ("n_ports", np.int32),
    ]
)
"""Memory of a switch that its ports share."""

FLOWLET = np.dtype([("last_ns", np.int64), ("choice", np.int64)])
"""Last packet of a flow at a hop: its time, and which of the table's links it took."""

CAPTURED = aligned_dtype(
    [
        ("time_ns", np.int64),  # first bit sent on the link
        ("flow", np.int32),
        ("link", np.int32),
        ("seq", np.int32),
        ("ack", np.int32),
        ("size_bytes", np.int32),
        ("flags", np.int32),
    ]
)
"""One packet on a recorded link."""

WORLD = aligned_dtype(
    [
        # Addresses of the engine's entry points for this world, and the time from which Python is needed.
        ("run_until", np.int64),
        ("cap_hosts", np.int64),
        ("python_needed_ns", np.int64),
        ("extended", np.int64),  # 1: the ports' records below are kept
        # Addresses of the arrays below.
        ("links", np.int64),
        ("caps", np.int64),
        ("packets", np.int64),
        ("segments", np.int64),
        ("flows", np.int64),
        ("hosts", np.int64),
        ("routes", np.int64),
        ("tournament", np.int64),
        ("leaf_of", np.int64),
        ("free_leaves", np.int64),
        ("wheel", np.int64),
        ("wheel_bits", np.int64),
        ("waiting", np.int64),
        ("due", np.int64),
        ("received", np.int64),
        ("sacked", np.int64),
        ("transmissions", np.int64),
        ("sent_times", np.int64),
        ("queue_histogram", np.int64),
        ("event", np.int64),
        ("callbacks", np.int64),
        ("notes", np.int64),
        ("stamps", np.int64),
        ("ports", np.int64),
        ("places", np.int64),
        ("table_rows", np.int64),
        ("table_links", np.int64),
        ("successors", np.int64),
        ("captured", np.int64),
        ("memories", np.int64),
        ("memory_ports", np.int64),
        ("flowlets", np.int64),
        ("messages", np.int64),
        ("inboxes", np.int64),
        ("credits", np.int64),
        ("arrival", np.int64),
        ("class_queues", np.int64),
        ("now_ns", np.int64),
        ("random_state", np.uint64),
        ("n_links", np.int64),
        ("n_hosts", np.int64),
        ("n_flows", np.int64),
        ("route_stride", np.int64),
        ("first_leaf", np.int64),  # index of the tournament's leaf 0
        ("n_leaves", np.int64),
        ("n_events", np.int64),  # leaves in use
        ("wheel_size", np.int64),  # slots of the wheel, a power of two; 0: there is none
        ("wheel_slots", np.int64),  # the same while the loop runs, else 0
        ("wheel_shift", np.int64),  # a slot has the keys that agree in the bits from this one on
        ("opened_key", np.int64),  # slots before this key are open
        ("n_waiting", np.int64),  # events in slots
        ("due_first", np.int64),
        ("due_end", np.int64),
        ("first_free_packet", np.int64),
        ("free_packets", np.int64),
        ("halted", np.int64),  # 0, or the reason for a halt: OUT_OF_PACKETS, TRANSPORT_FAILED
        ("failed_callback", np.int64),  # ON_ACK ...
        ("raised", np.int64),  # 0, or the exception (see numba_records.callback_caller)
        ("next_flow", np.int64),
        ("n_scheduled", np.int64),  # flows with a start time; the later ones wait for others
        ("timer_tick_ns", np.int64),
        ("probe_slack_ns", np.int64),  # beyond two round trips
        ("reordering_slack_ns", np.int64),
        ("as_linux", np.int64),  # senders behave as Linux where it differs from RFC 8985
        ("without_timestamps", np.int64),  # retransmissions give no round trip (Karn)
        ("sample_tick_ns", np.int64),
        ("payload_bytes", np.int64),
        ("header_bytes", np.int64),
        ("ack_bytes", np.int64),
        ("min_rto_ns", np.int64),
        ("max_rto_ns", np.int64),
        ("max_window_packets", np.int64),
        ("initial_window_packets", np.int64),
        ("receive_window_packets", np.int64),
        ("handshake", np.int64),  # new connections begin with a handshake
        ("measures_path", np.int64),  # flows estimate the base round trip by their minimum RTT
        ("idle_window", np.int64),  # KEEP, DECAY or RESTART
        ("hops", np.int64),
        ("queue_samples", np.int64),
        # Read by the extended loop only.
        ("reserved_packets", np.int64),  # slots that senders leave free
        ("keeps_stamps", np.int64),
        ("cnp_interval_ns", np.int64),
        ("transport_tick_ns", np.int64),
        ("delayed_ack_packets", np.int64),
        ("delayed_ack_ns", np.int64),
        ("quick_acks", np.int64),
        ("coalescing_ns", np.int64),  # longest time for which a receiver coalesces packets; 0: none
        ("coalesced_packets", np.int64),  # largest number of coalesced packets
        ("burst_bytes", np.int64),  # longest burst of a sender; 0: packets leave singly
        ("duplicate_threshold", np.int64),
        ("paths_keep_order", np.int64),
        ("loses_at_random", np.int64),  # links lose packets at random; ACKs then repeat earlier information
        ("red", np.int64),
        ("red_weight", np.float64),
        ("red_max_probability", np.float64),
        ("red_gentle", np.int64),
        ("red_marks", np.int64),
        ("loss_q31", np.int64),  # probability that a link loses a packet, times 2^31
        ("links_fail", np.int64),
        ("rates_change", np.int64),
        ("shaped_links", np.int64),  # no serialisation delay: a packet travels when its turn comes
        ("by_table", np.int64),  # switches look up the next link; 0: routes are fixed at the start
        ("sprays", np.int64),
        ("by_flowlet", np.int64),
        ("flowlet_gap_ns", np.int64),
        ("n_columns", np.int64),
        ("receivers", np.int64),  # address of the handler of receiver-driven flows; 0: there are none
        ("pull_spacing", np.float64),  # time between two pulls of a host, in full packets
        ("shared_buffer_bytes", np.int64),  # 0: every port has its own
        ("shared_buffer_alpha", np.float64),
        ("n_classes", np.int64),  # 0: a queue is a drain time; else a list of packets for each class
        ("weighted", np.int64),  # deficit round robin among classes, else strict priority
        ("trims", np.int64),
        ("lossless_classes", np.int64),  # bitmap of the classes with priority flow control
        ("pause_bytes", np.int64),
        ("resume_bytes", np.int64),
        ("ingress_bytes", np.int64),
        ("capture_size", np.int64),
        ("n_captured", np.int64),
        ("n_missed", np.int64),
    ]
)


EVENT_KEY = np.dtype([("key", np.int64)])
INDEX = np.dtype([("index", np.int32)])
SLOT = np.dtype([("first", np.int32)])
ROUTE_HOP = np.dtype([("link", np.int32)])
BITMAP_WORD = np.dtype([("bits", np.uint64)])
HISTOGRAM_BUCKET = np.dtype([("samples", np.uint32)])
CALLBACK = np.dtype([("address", np.int64)])
TABLE_ROW = np.dtype([("first", np.int32)])
FLOW_NUMBER = np.dtype([("flow", np.int32)])
CAP = np.dtype([("ns_per_byte_q20", np.int64)])

link_at = record_accessor(LINK)
packet_at = record_accessor(PACKET)
segment_at = record_accessor(SEGMENT)
host_at = record_accessor(HOST)
event_at = record_accessor(EVENT)
world_at = record_accessor(WORLD)
entry_at = record_accessor(EVENT_KEY)
index_at = record_accessor(INDEX)
slot_at = record_accessor(SLOT)
route_hop_at = record_accessor(ROUTE_HOP)
word_at = record_accessor(BITMAP_WORD)
bucket_at = record_accessor(HISTOGRAM_BUCKET)
callback_at = record_accessor(CALLBACK)
note_at = record_accessor(NOTE)
stamps_at = record_accessor(STAMPS)
port_at = record_accessor(PORT)
place_at = record_accessor(PLACE)
row_at = record_accessor(TABLE_ROW)
successor_at = record_accessor(FLOW_NUMBER)
captured_at = record_accessor(CAPTURED)
memory_at = record_accessor(MEMORY)
flowlet_at = record_accessor(FLOWLET)
class_queue_at = record_accessor(CLASS_QUEUE)
cap_at = record_accessor(CAP)

prefetch_link = record_prefetcher(LINK, n_lines=2)
prefetch_packet = record_prefetcher(PACKET)
prefetch_segment = record_prefetcher(SEGMENT)
