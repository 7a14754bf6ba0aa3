"""What happened to single flows, or hosts, in one interval: the difference of their counters, in SI units.

Compiled, because it runs once a decision at tens of thousands of decisions a second. A row of ``intervals``
is what observation, reward and metrics all read; the constants below say what stands where.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.single_flows import (
    ACKED_PACKETS,
    ACTIVE_FLOWS,
    CWND_PACKETS,
    DELIVERED_PACKETS,
    IN_FLIGHT_PACKETS,
    LOST_PACKETS,
    MARKED_PACKETS,
    MIN_RTT_S,
    N_COUNTERS,
    RTT_SAMPLES,
    RTT_SUM_S,
    SENT_PACKETS,
    SRTT_S,
)

FloatArray = NDArray[np.float64]

DURATION_S = 0
SENT_BPS = 1
"""On the wire, retransmissions included."""
ARRIVED_BPS = 2
"""The same of what was acknowledged: one ACK for each packet that arrived."""
GOODPUT_BPS = 3
"""Payload delivered in order."""
RTT_S = 4
"""Mean of the interval's samples; 0 without one."""
RTT_CHANGE_S = 5
"""Mean of the second half less that of the first; 0 where one of them has no sample."""
SAMPLES = 6
"""ACKs, each with a sample."""
LOSS_FRACTION = 7
"""Packets taken for lost, of those lost or acknowledged."""
LOST_BPS = 8
MARK_FRACTION = 9
"""ACKs that echo a mark, of all."""
IN_FLIGHT_BITS = 10
"""At the end."""
CWND_PACKETS_NOW = 11
SRTT_NOW_S = 12
LEAST_RTT_S = 13
"""Since the reset; 0 before the first sample."""
BEST_BPS = 14
"""Largest ARRIVED_BPS since the reset."""
ACTIVE = 15
"""1 with something to send at the end; a host: how many of its flows."""
RATE_BPS = 16
"""Send rate in force; that of a window is the window a smoothed round trip."""
# What does not change within an episode; written at its beginning.
BASE_RTT_S = 17
LINE_RATE_BPS = 18
LEAST_RATE_BPS = 19
SLOWEST_LINK_BPS = 20
"""On the path; a host: its uplink."""
PACKET_BITS = 21
PAYLOAD_SHARE = 22
WINDOWED = 23
"""1 if a window decides how fast the flow sends; else RATE_BPS is written by who sets the rate."""
N_VALUES = 24


@njit(forceinline=True)
def measure(before: Any, middle: Any, after: Any, duration_s: float, values: Any) -> None:
    """Fills one row of values from the counters at an interval's beginning, middle and end.

    Pure but for ``values``, where the constants of the episode and the best rate so far stand already.
    """
    to_bps = values[PACKET_BITS] / duration_s if duration_s > 0.0 else 0.0
    acked = after[ACKED_PACKETS] - before[ACKED_PACKETS]
    lost = max(after[LOST_PACKETS] - before[LOST_PACKETS], 0.0)
    delivered = after[DELIVERED_PACKETS] - before[DELIVERED_PACKETS]
    samples = after[RTT_SAMPLES] - before[RTT_SAMPLES]
    early = middle[RTT_SAMPLES] - before[RTT_SAMPLES]
    late = after[RTT_SAMPLES] - middle[RTT_SAMPLES]
    values[DURATION_S] = duration_s
    values[SENT_BPS] = (after[SENT_PACKETS] - before[SENT_PACKETS]) * to_bps
    values[ARRIVED_BPS] = acked * to_bps
    values[GOODPUT_BPS] = delivered * to_bps * values[PAYLOAD_SHARE]
    values[SAMPLES] = samples
    values[RTT_S] = (after[RTT_SUM_S] - before[RTT_SUM_S]) / samples if samples > 0.0 else 0.0
    values[RTT_CHANGE_S] = 0.0
    if early > 0.0 and late > 0.0:
        first_s = (middle[RTT_SUM_S] - before[RTT_SUM_S]) / early
        values[RTT_CHANGE_S] = (after[RTT_SUM_S] - middle[RTT_SUM_S]) / late - first_s
    values[LOSS_FRACTION] = lost / (lost + acked) if lost > 0.0 else 0.0
    values[LOST_BPS] = lost * to_bps
    marked = after[MARKED_PACKETS] - before[MARKED_PACKETS]
    values[MARK_FRACTION] = marked / acked if acked > 0.0 else 0.0
    values[IN_FLIGHT_BITS] = max(after[IN_FLIGHT_PACKETS], 0.0) * values[PACKET_BITS]
    values[CWND_PACKETS_NOW] = after[CWND_PACKETS]
    values[SRTT_NOW_S] = after[SRTT_S]
    values[LEAST_RTT_S] = after[MIN_RTT_S]
    values[BEST_BPS] = max(values[BEST_BPS], values[ARRIVED_BPS])
    values[ACTIVE] = after[ACTIVE_FLOWS]
    if values[WINDOWED] > 0.0 and after[SRTT_S] > 0.0:
        values[RATE_BPS] = after[CWND_PACKETS] * values[PACKET_BITS] / after[SRTT_S]


def give_round_trips(before: FloatArray, after: FloatArray) -> None:
    """Let the interval's mean stand for the smoothed round trip of hosts, which have none of their own.

    Args:
        before: Counters at the interval's beginning, shape (n, N_COUNTERS).
        after: Those at its end, written where there are samples.
    """
    samples = after[:, RTT_SAMPLES] - before[:, RTT_SAMPLES]
    sum_s = after[:, RTT_SUM_S] - before[:, RTT_SUM_S]
    np.divide(sum_s, samples, out=after[:, SRTT_S], where=samples > 0.0)


def counters(n: int) -> FloatArray:
    """Return room for the counters of ``n`` flows or hosts."""
    return np.zeros((n, N_COUNTERS))


def of_flows(network: PacketNetwork, flow_ids: NDArray[np.int64], min_rate_fraction: float) -> FloatArray:
    """Return rows of values with what is constant for each flow filled in, shape (n, N_VALUES)."""
    ends, topology = network.scenario.transport, network.topology
    data, acks = network.routes()[flow_ids], network.routes(acks=True)[flow_ids]
    values: FloatArray = np.zeros((len(flow_ids), N_VALUES))
    for links, size_bytes in ((data, ends.mtu_bytes), (acks, ends.ack_bytes)):
        hop_s = topology.hop_s(size_bytes)
        values[:, BASE_RTT_S] += np.where(links >= 0, hop_s[links], 0.0).sum(axis=1)
    values[:, LINE_RATE_BPS] = topology.link_rate_bps[data[:, 0]]
    values[:, SLOWEST_LINK_BPS] = np.where(data >= 0, topology.link_rate_bps[data], np.inf).min(axis=1)
    return _with_common(values, ends.mtu_bytes, ends.payload_bytes, min_rate_fraction)


def of_hosts(network: PacketNetwork, base_rtt_s: float, min_rate_fraction: float) -> FloatArray:
    """Return the same for all hosts, shape (n_hosts, N_VALUES).

    Args:
        network: The world.
        base_rtt_s: Round trip over the longest path of the empty network, the same for all hosts.
        min_rate_fraction: Least rate as a fraction of the line rate.
    """
    values: FloatArray = np.zeros((network.n_hosts, N_VALUES))
    values[:, BASE_RTT_S] = base_rtt_s
    values[:, LINE_RATE_BPS] = values[:, SLOWEST_LINK_BPS] = network.line_rate_bps
    ends = network.scenario.transport
    return _with_common(values, ends.mtu_bytes, ends.payload_bytes, min_rate_fraction)


def _with_common(
    values: FloatArray, mtu_bytes: int, payload_bytes: int, min_rate_fraction: float
) -> FloatArray:
    values[:, LEAST_RATE_BPS] = min_rate_fraction * values[:, LINE_RATE_BPS]
    values[:, PACKET_BITS] = mtu_bytes * 8.0
    values[:, PAYLOAD_SHARE] = payload_bytes / mtu_bytes
    return values
