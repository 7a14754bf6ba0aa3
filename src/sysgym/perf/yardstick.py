"""Yardstick for the packet simulator: a fixed, minimal dumbbell, compiled like the simulator itself.

N flows with DCTCP's window cross one link of 10 Gb/s. Packets and ACKs wait in a FIFO at every link, may be
marked there, and are scheduled by a heap of links: one event is one packet-hop. There is no loss recovery, no
time-out and no statistic. It serves to compare dates and versions on one machine, not machines: on an AMD
EPYC it does 11 to 12 million hops per second, and htsim (C++) about 10.5 million on the same dumbbell; on an
Intel processor it does 5 million and htsim 9.7 million, so that a ratio to it is twice as large there.

It shares no code with the simulator and must not be made faster, since ratios of different dates would no
longer be comparable. This includes passing arrays one by one: with records, a hop would take half the time.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from sysgym.emulator.compiling import cached_kernel

DATA_BYTES = 1500.0
ACK_BYTES = 60.0
RATE_BYTES_PER_NS = 1.25
DELAY_NS = 10e3
BUFFER_BYTES = 1e6
MARKED_ABOVE_BYTES = 65 * DATA_BYTES
LINKS_OF_ROUTE = 3
RING_PACKETS = 4096  # capacity of a link, waiting and in flight: a power of two
INITIAL_WINDOW_PACKETS = 10.0
LEAST_WINDOW_PACKETS = 2.0
GAIN = 1 / 16  # weight of the last window in DCTCP's running fraction of marked packets
SLICE_NS = 20e6  # simulated time between two readings of the clock


class Dumbbell(NamedTuple):
    """State: arrays per link [L], per position on a link [L, RING_PACKETS], per stream [2N], per flow [N].

    A stream is one direction of a flow: stream f is flow f's data, stream N + f its ACKs.
    """

    rate: Any  # [L] bytes/ns
    delay: Any  # [L] ns
    room: Any  # [L] bytes
    threshold: Any  # [L] bytes; packets that arrive at a longer queue are marked
    free: Any  # [L] ns: time at which the last packet of the link will have been sent
    first: Any  # [L] position of the oldest packet
    held: Any  # [L] packets waiting or in flight
    drops: Any
    marks: Any
    arrivals: Any  # [L, RING_PACKETS] ns
    streams: Any
    sequences: Any  # of an ACK: the next expected packet
    legs: Any  # links of the route already crossed
    marked: Any  # of an ACK: whether the acknowledged packet was marked
    route: Any  # [2N, LINKS_OF_ROUTE] links
    length: Any  # [2N] links of the route
    heap_key: Any  # ns: arrival of the oldest packet of a link
    heap_link: Any
    heap_place: Any  # position of a link in the heap
    sent: Any  # [N]
    acked: Any
    expected: Any  # next packet that the receiver expects
    window: Any
    slow_start_to: Any
    fraction: Any  # running mean of the fraction of marked packets
    round_acked: Any
    round_marked: Any
    round_end: Any
    cut_until: Any  # the window is reduced once for packets up to this one
    clock: Any  # number of hops done, size of the heap


def dumbbell(n_flows: int) -> Dumbbell:
    """Return a dumbbell of ``n_flows`` senders and receivers, each pair with one flow, before the start."""
    n_links = 2 * (one_way := 2 * n_flows + 1)
    there = np.array([[sender, n_flows, n_flows + 1 + sender] for sender in range(n_flows)])
    constants = (RATE_BYTES_PER_NS, DELAY_NS, BUFFER_BYTES, MARKED_ABOVE_BYTES, 0.0)
    kinds = (np.float64, np.int32, np.int64, np.int8, np.int8)

    def counts(n: int, how_many: int) -> list[Any]:
        return [np.zeros(n, np.int64) for _ in range(how_many)]

    arrays = (
        *(np.full(n_links, constant) for constant in constants),
        *counts(n_links, 4),
        *(np.zeros((n_links, RING_PACKETS), kind) for kind in kinds),
        np.concatenate([there, one_way + there]),
        np.full(2 * n_flows, LINKS_OF_ROUTE),
        np.zeros(n_links + 1),
        *counts(n_links + 1, 2),
        *counts(n_flows, 3),
        *(np.full(n_flows, value) for value in (INITIAL_WINDOW_PACKETS, np.inf, 1.0)),
        *counts(n_flows, 4),
        np.zeros(2, np.int64),
    )
    return Dumbbell._make(arrays)


def hops_per_s(n_flows: int, measured_s: float) -> float:
    """Return packet-hops per second of processor time, measured over at least ``measured_s``."""
    advance(dumbbell(n_flows), 0.0)  # compile, or load from the cache, before measuring
    world = dumbbell(n_flows)
    until_ns, began_s = 0.0, time.process_time()
    while (elapsed_s := time.process_time() - began_s) < measured_s:
        until_ns += SLICE_NS
        advance(world, until_ns)
    return float(world.clock[0] / elapsed_s)


@njit(forceinline=True)
def _rise(heap_key: Any, heap_link: Any, heap_place: Any, size: int, key: float, link: int) -> None:
    """Insert a link into the heap of ``size`` links."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if heap_key[parent] <= key:
            break
        heap_key[child], heap_link[child] = heap_key[parent], heap_link[parent]
        heap_place[heap_link[child]] = child
        child = parent
    heap_key[child], heap_link[child], heap_place[link] = key, link, child


@njit(forceinline=True)
def _sink(heap_key: Any, heap_link: Any, heap_place: Any, size: int, key: float, link: int) -> None:
    """Replace the root of the heap by a link and restore the order."""
    parent, child = 0, 1
    while child < size:
        if child + 1 < size and heap_key[child + 1] < heap_key[child]:
            child += 1
        if heap_key[child] >= key:
            break
        heap_key[parent], heap_link[parent] = heap_key[child], heap_link[child]
        heap_place[heap_link[parent]] = parent
        parent, child = child, 2 * child + 1
    heap_key[parent], heap_link[parent], heap_place[link] = key, link, parent


@njit(forceinline=True)
def _grown(window: float, slow_start_to: float, news: int) -> float:
    return window + (news if window < slow_start_to else news / window)


# fmt: off
@njit(forceinline=True)
def _put_on(
    rate: Any, delay: Any, room: Any, threshold: Any, free: Any, first: Any, held: Any, drops: Any,
    marks: Any, arrivals: Any, streams: Any, sequences: Any, legs: Any, marked: Any, route: Any,
    heap_key: Any, heap_link: Any, heap_place: Any, size: int,
    now: float, packet_bytes: float, stream: int, sequence: int, leg: int, mark: int,
) -> int:
    """Put a packet on the next link of its route, and an empty link into the heap; return the heap's size."""
    link = route[stream, leg]
    begins = max(free[link], now)
    queue_bytes = (begins - now) * rate[link]
    if queue_bytes + packet_bytes > room[link] or held[link] >= RING_PACKETS:
        drops[link] += 1
        return size
    if queue_bytes > threshold[link] and mark == 0:
        mark = 1
        marks[link] += 1
    free[link] = begins + packet_bytes / rate[link]
    arrival = free[link] + delay[link]
    place = (first[link] + held[link]) & (RING_PACKETS - 1)
    arrivals[link, place], streams[link, place], sequences[link, place] = arrival, stream, sequence
    legs[link, place], marked[link, place] = leg, mark
    held[link] += 1
    if held[link] == 1:
        _rise(heap_key, heap_link, heap_place, size, arrival, link)
        size += 1
    return size


@cached_kernel()
def advance(world: Dumbbell, until_ns: float) -> None:
    """Process every arrival up to ``until_ns``; the first call starts the flows."""
    (
        rate, delay, room, threshold, free, first, held, drops, marks,
        arrivals, streams, sequences, legs, marked, route, length, heap_key, heap_link, heap_place,
        sent, acked, expected, window, slow_start_to, fraction,
        round_acked, round_marked, round_end, cut_until, clock,
    ) = world
    n_flows = sent.shape[0]
    hops, size = clock
    if hops == 0 and size == 0:
        for flow in range(n_flows):
            while sent[flow] - acked[flow] < int(window[flow]):
                size = _put_on(
                    rate, delay, room, threshold, free, first, held, drops, marks,
                    arrivals, streams, sequences, legs, marked, route, heap_key, heap_link, heap_place, size,
                    0.0, DATA_BYTES, flow, sent[flow], 0, 0,
                )
                sent[flow] += 1
    while size > 0 and heap_key[0] <= until_ns:
        now, link = heap_key[0], heap_link[0]
        place = first[link]
        stream, sequence = streams[link, place], sequences[link, place]
        leg, mark = legs[link, place], marked[link, place]
        first[link] = (place + 1) & (RING_PACKETS - 1)
        held[link] -= 1
        hops += 1
        if held[link] > 0:
            _sink(heap_key, heap_link, heap_place, size, arrivals[link, first[link]], link)
        else:
            size -= 1
            if size > 0:
                _sink(heap_key, heap_link, heap_place, size, heap_key[size], heap_link[size])
        if leg + 1 < length[stream]:
            size = _put_on(
                rate, delay, room, threshold, free, first, held, drops, marks,
                arrivals, streams, sequences, legs, marked, route, heap_key, heap_link, heap_place, size,
                now, DATA_BYTES if stream < n_flows else ACK_BYTES, stream, sequence, leg + 1, mark,
            )
        elif stream < n_flows:
            if sequence == expected[stream]:
                expected[stream] += 1
            size = _put_on(
                rate, delay, room, threshold, free, first, held, drops, marks,
                arrivals, streams, sequences, legs, marked, route, heap_key, heap_link, heap_place, size,
                now, ACK_BYTES, stream + n_flows, expected[stream], 0, mark,
            )
        else:
            flow = stream - n_flows
            news = sequence - acked[flow]
            acked[flow] = sequence
            round_acked[flow] += news
            if mark:
                round_marked[flow] += news
            if mark and sequence > cut_until[flow]:
                window[flow] = max(LEAST_WINDOW_PACKETS, window[flow] * (1 - fraction[flow] / 2))
                slow_start_to[flow], cut_until[flow] = window[flow], sent[flow]
            else:
                window[flow] = _grown(window[flow], slow_start_to[flow], news)
            if sequence >= round_end[flow]:
                share = round_marked[flow] / max(1, round_acked[flow])
                fraction[flow] = fraction[flow] * (1 - GAIN) + GAIN * share
                round_acked[flow], round_marked[flow], round_end[flow] = 0, 0, sent[flow]
            while sent[flow] - acked[flow] < int(window[flow]):
                size = _put_on(
                    rate, delay, room, threshold, free, first, held, drops, marks,
                    arrivals, streams, sequences, legs, marked, route, heap_key, heap_link, heap_place, size,
                    now, DATA_BYTES, flow, sent[flow], 0, 0,
                )
                sent[flow] += 1
    clock[0], clock[1] = hops, size
# fmt: on
