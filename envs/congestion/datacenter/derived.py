"""Values of an interval by port, by host and of the whole network, from its counters, in compiled code.

One call computes everything for one network or for many. In NumPy the same takes some 150 calls, which cost
more than the simulation of a short interval.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.packets.counters.rows import HOST_ROW, PORT_ROW

FloatArray = NDArray[np.float64]


class PortValues(NamedTuple):
    """Values of switch ports in an interval, each of shape (n_ports,), or (n, n_ports) of many networks."""

    queue_bytes: FloatArray
    """At the end of the interval."""
    queue_mean_bytes: FloatArray
    queue_max_bytes: FloatArray
    sent_bytes: FloatArray
    accepted_packets: FloatArray
    marked_packets: FloatArray
    dropped_packets: FloatArray
    # Features of observations, before they are clipped to [0, 1].
    queue: FloatArray
    queue_mean: FloatArray
    queue_max: FloatArray
    queue_delay: FloatArray
    mark_fraction: FloatArray
    drop_fraction: FloatArray
    utilization: FloatArray


class HostValues(NamedTuple):
    """Values of hosts in an interval, each of shape (n_hosts,), or (n, n_hosts) of many networks."""

    delivered_bytes: FloatArray
    arrived_bytes: FloatArray
    rtt_mean_s: FloatArray
    # Features of observations.
    rate: FloatArray
    goodput: FloatArray
    rtt: FloatArray
    active: FloatArray


class Totals(NamedTuple):
    """Values of a whole network in an interval: numbers, or arrays of shape (n,) of many networks."""

    dropped_bytes: Any
    left_bytes: Any
    waiting_byte_s: Any
    queueing_delay_s: Any
    loss_fraction: Any
    goodput_share: Any
    # Metrics; NaN where inapplicable.
    goodput_bps: Any
    ideal_goodput_bps: Any
    queue_mean_bytes: Any
    queue_max_bytes: Any
    active_flows: Any
    mark_fraction: Any
    rtt_mean_s: Any
    jain_index: Any


PORT: Any = PortValues._make(range(len(PortValues._fields)))
HOST: Any = HostValues._make(range(len(HostValues._fields)))
TOTAL: Any = Totals._make(range(len(Totals._fields)))
"""Row numbers of the values."""

_BLOCK, _DEEPEST = 128, 128
"""Values that are added in one go; most halves and sums that wait."""

_TINY = float(np.finfo(np.float64).tiny)


class FabricArrays(NamedTuple):
    """Constants of a network that the values depend on."""

    port_links: NDArray[np.int64]
    exits: NDArray[np.int64]
    host_downlink: NDArray[np.int64]
    port_rate_bps: FloatArray
    line_rate_bps: FloatArray
    port_buffer_bytes: FloatArray
    payload_fraction: float
    base_rtt_s: float


class Derived(NamedTuple):
    """Values of the interval of one network, or of many."""

    ports: PortValues
    hosts: HostValues
    totals: Totals

    @classmethod
    def of(
        cls,
        fabric: FabricArrays,
        ports: FloatArray,
        hosts: FloatArray,
        duration_s: FloatArray,
        action: FloatArray,
        ideal_bytes: FloatArray,
    ) -> Derived:
        """Return the values of n networks.

        Args:
            fabric: Constants of all the networks.
            ports: Counters of links at the beginning and at the end, shape (2, n_port_counters, n, n_links).
            hosts: Counters of hosts, shape (2, n_host_counters, n, n_hosts).
            duration_s: Durations, shape (n,).
            action: Rates in force as fractions of the line rate, shape (n, n_hosts).
            ideal_bytes: Ideal payload of each host, shape (n, n_hosts).
        """
        of_ports, of_hosts, totals = _derived(fabric, ports, hosts, duration_s, action, ideal_bytes)
        return cls(PortValues(*of_ports), HostValues(*of_hosts), Totals(*totals))

    @classmethod
    def of_one(cls, *arguments: Any) -> Derived:
        """Return the values of one network, whose arrays have a first axis of length 1: see :meth:`of`."""
        of_ports, of_hosts, totals = _derived(*arguments)
        return cls(PortValues(*of_ports[:, 0]), HostValues(*of_hosts[:, 0]), Totals(*totals[:, 0].tolist()))


def _derived(
    fabric: FabricArrays,
    ports: FloatArray,
    hosts: FloatArray,
    duration_s: FloatArray,
    action: FloatArray,
    ideal_bytes: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    n = len(duration_s)
    port_values = np.empty((len(PORT), n, len(fabric.port_links)))
    host_values = np.empty((len(HOST), n, len(fabric.line_rate_bps)))
    totals = np.empty((len(TOTAL), n))
    _derive(fabric, ports, hosts, duration_s, action, ideal_bytes, port_values, host_values, totals)
    return port_values, host_values, totals


@cached_kernel("sysgym.emulator.packets")
def _derive(
    fabric: FabricArrays,
    ports: FloatArray,
    hosts: FloatArray,
    duration_s: FloatArray,
    action: FloatArray,
    ideal_bytes: FloatArray,
    port_values: FloatArray,
    host_values: FloatArray,
    totals: FloatArray,
) -> None:
    """Write the values of each network in turn."""
    waiting_byte_s = np.empty(len(fabric.port_links))
    for number in range(len(duration_s)):
        before, after = ports[0, :, number], ports[1, :, number]
        out, of_hosts, total = port_values[:, number], host_values[:, number], totals[:, number]
        _ports(fabric, before, after, duration_s[number], out, waiting_byte_s)
        hosts_before, hosts_after = hosts[0, :, number], hosts[1, :, number]
        for host in range(len(fabric.line_rate_bps)):
            link = fabric.host_downlink[host]
            of_hosts[HOST.rate, host] = action[number, host]
            of_hosts[HOST.arrived_bytes, host] = (
                after[PORT_ROW.sent_bytes, link] - before[PORT_ROW.sent_bytes, link]
            )
        _hosts(fabric, hosts_before, hosts_after, duration_s[number], of_hosts)
        total[TOTAL.dropped_bytes] = pairwise_sum(
            after[PORT_ROW.dropped_bytes] - before[PORT_ROW.dropped_bytes]
        )
        _queueing(fabric, out, waiting_byte_s, total)
        _goodput(of_hosts[HOST.delivered_bytes], ideal_bytes[number], duration_s[number], total)
        _acknowledged(hosts_before, hosts_after, total)


@njit(forceinline=True)
def _ports(
    fabric: Any,
    before: FloatArray,
    after: FloatArray,
    duration_s: float,
    out: FloatArray,
    wait: FloatArray,
) -> None:
    """Write the values of ports, and the integral over time of the bytes that wait at each.

    The counters include the remainder of the packet being sent. Half a packet for the transmission time is
    therefore subtracted, which is exact if all packets of a port have the same size.
    """
    for port in range(len(fabric.port_links)):
        link = fabric.port_links[port]
        rate_bps = fabric.port_rate_bps[port]
        queue_bytes = after[PORT_ROW.queue_bytes, link]
        mean_bytes = queue_bytes
        if duration_s > 0.0:
            mean_bytes = (
                after[PORT_ROW.queue_byte_s, link] - before[PORT_ROW.queue_byte_s, link]
            ) / duration_s
        max_bytes = after[PORT_ROW.queue_max_bytes, link]
        sent_bytes = after[PORT_ROW.sent_bytes, link] - before[PORT_ROW.sent_bytes, link]
        accepted = after[PORT_ROW.accepted_packets, link] - before[PORT_ROW.accepted_packets, link]
        marked = after[PORT_ROW.marked_packets, link] - before[PORT_ROW.marked_packets, link]
        dropped = after[PORT_ROW.dropped_packets, link] - before[PORT_ROW.dropped_packets, link]
        delay_s = mean_bytes * 8.0 / rate_bps
        out[PORT.queue_bytes, port] = queue_bytes
        out[PORT.queue_mean_bytes, port] = mean_bytes
        out[PORT.queue_max_bytes, port] = max_bytes
        out[PORT.sent_bytes, port] = sent_bytes
        out[PORT.accepted_packets, port] = accepted
        out[PORT.marked_packets, port] = marked
        out[PORT.dropped_packets, port] = dropped
        out[PORT.queue, port] = queue_bytes / fabric.port_buffer_bytes[port]
        out[PORT.queue_mean, port] = mean_bytes / fabric.port_buffer_bytes[port]
        out[PORT.queue_max, port] = max_bytes / fabric.port_buffer_bytes[port]
        out[PORT.queue_delay, port] = delay_s / (delay_s + fabric.base_rtt_s)
        out[PORT.mark_fraction, port] = _share(marked, accepted)
        out[PORT.drop_fraction, port] = _share(dropped, accepted + dropped)
        out[PORT.utilization, port] = _share(sent_bytes * 8.0, rate_bps * duration_s)
        packet_bytes = _share(sent_bytes, accepted)
        sending_byte_s = 0.5 * packet_bytes * sent_bytes * 8.0 / rate_bps
        wait[port] = max(mean_bytes * duration_s - sending_byte_s, 0.0)


@njit(forceinline=True)
def _hosts(fabric: Any, before: FloatArray, after: FloatArray, duration_s: float, out: FloatArray) -> None:
    """Write the values of hosts that their own counters determine."""
    for host in range(len(fabric.line_rate_bps)):
        delivered = after[HOST_ROW.delivered_bytes, host] - before[HOST_ROW.delivered_bytes, host]
        samples = after[HOST_ROW.rtt_samples, host] - before[HOST_ROW.rtt_samples, host]
        full_bits = fabric.line_rate_bps[host] * (fabric.payload_fraction * duration_s)
        out[HOST.delivered_bytes, host] = delivered
        out[HOST.goodput, host] = _share(delivered * 8.0, full_bits)
        out[HOST.active, host] = 1.0 if after[HOST_ROW.active_flows, host] > 0 else 0.0
        out[HOST.rtt_mean_s, host] = math.nan
        out[HOST.rtt, host] = 0.0
        if samples > 0:
            mean_s = (after[HOST_ROW.rtt_sum_s, host] - before[HOST_ROW.rtt_sum_s, host]) / samples
            out[HOST.rtt_mean_s, host] = mean_s
            out[HOST.rtt, host] = 1.0 - fabric.base_rtt_s / max(mean_s, fabric.base_rtt_s)


@njit(forceinline=True)
def _queueing(fabric: Any, ports: FloatArray, waiting_byte_s: FloatArray, total: FloatArray) -> None:
    """Write the totals of queues: waiting by Little's law, infinite if bytes wait and none leave."""
    waiting = pairwise_sum(waiting_byte_s)
    left_bytes = pairwise_sum(ports[PORT.sent_bytes][fabric.exits])
    delay_s = math.inf if waiting > 0.0 else 0.0
    if left_bytes > 0.0:
        delay_s = waiting / left_bytes
    gone_bytes = total[TOTAL.dropped_bytes] + left_bytes
    total[TOTAL.waiting_byte_s] = waiting
    total[TOTAL.left_bytes] = left_bytes
    total[TOTAL.queueing_delay_s] = delay_s
    total[TOTAL.loss_fraction] = _share(total[TOTAL.dropped_bytes], gone_bytes)
    longest_mean, longest = 0.0, 0.0
    for port in range(ports.shape[1]):
        longest_mean = max(longest_mean, ports[PORT.queue_mean_bytes, port])
        longest = max(longest, ports[PORT.queue_max_bytes, port])
    total[TOTAL.queue_mean_bytes] = longest_mean
    total[TOTAL.queue_max_bytes] = longest


@njit(forceinline=True)
def _goodput(delivered: FloatArray, ideal: FloatArray, duration_s: float, total: FloatArray) -> None:
    """Write the totals of goodput."""
    seconds = max(duration_s, _TINY)
    total[TOTAL.goodput_bps] = pairwise_sum(delivered) * 8.0 / seconds
    total[TOTAL.ideal_goodput_bps] = pairwise_sum(ideal) * 8.0 / seconds
    total[TOTAL.goodput_share] = goodput_share(delivered, ideal)
    wanted = np.flatnonzero(ideal > 0.0)
    total[TOTAL.jain_index] = math.nan
    if len(wanted) >= 2:  # Jain's index of goodput over fair share
        shares = delivered[wanted] / ideal[wanted]
        total_square = pairwise_sum(shares) ** 2
        squares = pairwise_sum(shares * shares)
        total[TOTAL.jain_index] = total_square / (len(wanted) * squares) if squares > 0.0 else 1.0


@njit
def goodput_share(delivered: Any, ideal: Any) -> Any:
    """Return the share of the ideal that was delivered, in [0, 1].

    Each host counts up to its own ideal, so exceeding it at the expense of another host gains nothing.
    Without demand the share is 1, so serving a burst sooner is not worth less.
    """
    ideal_bytes = pairwise_sum(ideal)
    return pairwise_sum(np.minimum(delivered, ideal)) / ideal_bytes if ideal_bytes > 0.0 else 1.0


@njit(forceinline=True)
def _acknowledged(before: FloatArray, after: FloatArray, total: FloatArray) -> None:
    """Write the totals of ACKs; NaN without one."""
    acked = pairwise_sum(after[HOST_ROW.acked_packets] - before[HOST_ROW.acked_packets])
    marked = pairwise_sum(after[HOST_ROW.marked_packets] - before[HOST_ROW.marked_packets])
    samples = pairwise_sum(after[HOST_ROW.rtt_samples] - before[HOST_ROW.rtt_samples])
    rtt_s = pairwise_sum(after[HOST_ROW.rtt_sum_s] - before[HOST_ROW.rtt_sum_s])
    total[TOTAL.mark_fraction] = marked / acked if acked > 0.0 else math.nan
    total[TOTAL.rtt_mean_s] = rtt_s / samples if samples > 0.0 else math.nan
    total[TOTAL.active_flows] = pairwise_sum(after[HOST_ROW.active_flows])


@njit(forceinline=True)
def _share(part: float, whole: float) -> float:
    """Return the quotient; 0 where the divisor is 0."""
    return part / whole if whole > 0.0 else 0.0


@njit
def pairwise_sum(values: Any) -> Any:
    """Return the sum as NumPy adds: more than 128 values as the sums of two halves, one after the other.

    The halves wait on a stack: compiled functions that call themselves cannot be cached.
    """
    if len(values) <= _BLOCK:
        return _block_sum(values, 0, len(values))
    firsts, ends = np.empty(_DEEPEST, np.int64), np.empty(_DEEPEST, np.int64)
    halves_are_added, sums = np.zeros(_DEEPEST, np.bool_), np.empty(_DEEPEST)
    firsts[0], ends[0] = 0, len(values)
    n_waiting, n_sums = 1, 0
    while n_waiting > 0:
        n_waiting -= 1
        first, end = firsts[n_waiting], ends[n_waiting]
        if halves_are_added[n_waiting]:
            halves_are_added[n_waiting] = False
            n_sums -= 1
            sums[n_sums - 1] += sums[n_sums]
        elif end - first <= _BLOCK:
            sums[n_sums] = _block_sum(values, first, end)
            n_sums += 1
        else:
            half = (end - first) // 2
            middle = first + half - half % 8
            halves_are_added[n_waiting] = True
            firsts[n_waiting + 1], ends[n_waiting + 1] = middle, end
            firsts[n_waiting + 2], ends[n_waiting + 2] = first, middle
            n_waiting += 3
    return float(sums[0])


@njit
def _block_sum(values: Any, first: Any, end: Any) -> Any:
    """Return the sum of up to 128 values: of eight running sums and the rest."""
    total, rest = 0.0, first
    if end - first >= 8:
        sums = values[first : first + 8].copy()
        for index in range(first + 8, end - (end - first) % 8):
            sums[(index - first) % 8] += values[index]
        total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
        rest = end - (end - first) % 8
    for index in range(rest, end):
        total += values[index]
    return total
