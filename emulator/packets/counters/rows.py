"""Counters of ports, hosts and flows, by name.

Arrays of counters have one row for each field of ``PortCounters`` or ``HostCounters``, in their order;
:data:`PORT_ROW` and :data:`HOST_ROW` name the rows. Counters of single flows are records.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.memory.numba_records import record_dtype

FloatArray = NDArray[np.float64]


class PortRows(NamedTuple):
    """Row numbers of the counters of output ports: the fields of ``PortCounters``."""

    queue_bytes: int = 0
    queue_byte_s: int = 1
    queue_max_bytes: int = 2
    sent_bytes: int = 3
    accepted_packets: int = 4
    marked_packets: int = 5
    dropped_packets: int = 6
    dropped_bytes: int = 7
    lost_packets: int = 8
    pauses: int = 9
    paused_s: int = 10


PORT_ROW = PortRows()


class HostRows(NamedTuple):
    """Row numbers of the counters of hosts: the fields of ``HostCounters``."""

    sent_bytes: int = 0
    sent_packets: int = 1
    delivered_bytes: int = 2
    received_bytes: int = 3
    acked_packets: int = 4
    rtt_sum_s: int = 5
    rtt_samples: int = 6
    marked_packets: int = 7
    retransmitted_packets: int = 8
    timeouts: int = 9
    active_flows: int = 10


HOST_ROW = HostRows()


class FlowCounters:
    """Counters of a flow, or of all flows of a host, since the reset: fields of :data:`FLOW_COUNTERS`."""

    sent_packets: float
    """Data packets sent, retransmissions included."""
    acked_packets: float
    """ACKs received: one for each data packet that arrived."""
    marked_packets: float
    """ACKs that echo a mark."""
    lost_packets: float
    """Packets that the sender considered lost (of a host: retransmitted)."""
    delivered_packets: float
    """Packets delivered in order; of a host: delivered payload in full packets."""
    rtt_sum_s: float
    rtt_samples: float
    timeouts: float
    in_flight_packets: float
    """Packets believed to be in flight now."""
    cwnd_packets: float
    """Congestion window now; of a host: the sum over its active flows."""
    srtt_s: float
    """Smoothed round trip (RFC 6298); 0 before the first sample and for a host."""
    min_rtt_s: float
    """Smallest round trip so far; 0 before the first sample and for a host."""
    active_flows: float
    """1 while the flow has something to send, else 0; of a host: the number of such flows."""


FLOW_COUNTERS = record_dtype(FlowCounters)

FlowCounterArray = NDArray[np.void]
"""Records of the type :data:`FLOW_COUNTERS`."""


def as_rows(records: FlowCounterArray) -> FloatArray:
    """Return counters of flows as plain numbers, shape (n, number of counters), for messages."""
    return records.view(np.float64).reshape(len(records), -1)


def as_records(rows: FloatArray) -> FlowCounterArray:
    """Return counters as records, from plain numbers; the inverse of :func:`as_rows`."""
    return np.ascontiguousarray(rows).view(FLOW_COUNTERS).reshape(len(rows))
