"""Drains: round trips in which flows keep little in flight, so that they see the path empty.

A host that is not told of the empty path takes the least round trip that it has seen for that path's. A
flow that begins while others keep a queue then measures queues too short, and takes the others' room: the
latecomers' advantage of TCP Vegas (Low, Peterson and Wang, JACM 2002). BBR's flows therefore keep four
packets in flight for a moment every ten seconds (Cardwell et al., ACM Queue 2016, ProbeRTT). So does a flow
here, with a share of its window, if its last short queue was :data:`DRAIN_AFTER` round trips ago. One flow
alone does not empty a queue of many; but all who see a shorter round trip see it at the same moment, and
count from then on. After some drains, those of all flows fall together.

The functions use the slots below, beside those of the module ``other_laws``; a law keeps its own from
:data:`OWN` on. The kernel's form is ``emulator/linux/bpf/decisions/drains.h``.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.searched import other_laws
from sysgym.emulator.packets.transports.searched.rounds import (
    RTT_BEFORE_NS,
    WINDOW,
    begin_round,
    present_queue,
    present_rtt_ns,
)

DRAIN_AFTER = 50.0  # round trips without a short queue
DRAIN_FOR = 2.0  # round trips: what is in flight arrives in the first one
DRAIN_SHARE = 0.1  # of the window that is in flight meanwhile
DRAIN_PACKETS = 0.5  # or so many packets: with fewer, ACKs would be rare, and a drain long
SHORT_QUEUE = 0.25  # packets
SHORTER = 0.97  # a drain goes on if the least round trip falls below this share of what it was
PAUSE = 25.0  # round trips without an ACK; those of the smallest windows are less far apart

SHORT_AT_NS = other_laws.OWN  # when the queue was last short
ACKED_AT_NS = other_laws.OWN + 1  # when the last ACK came
DRAIN_END_NS = other_laws.OWN + 2  # 0: no drain is under way
LEAST_BEFORE_NS = other_laws.OWN + 3  # least round trip before the drain
JUST_DRAINED = other_laws.OWN + 4  # 1 in the round after a drain, whose queue is the drain's
OWN = other_laws.OWN + 5


@njit(forceinline=True)
def count_from_now(flow: Any, event: Any) -> None:
    """Count round trips without a short queue from now on; a drain that is under way ends."""
    flow.state[SHORT_AT_NS] = flow.state[ACKED_AT_NS] = event.now_ns
    flow.state[DRAIN_END_NS] = 0.0


@njit(forceinline=True)
def sees_short_queue(flow: Any, event: Any) -> bool:
    """Return whether the ACK tells of a short queue; a least round trip does."""
    return bool(event.rtt_sampled and present_queue(flow, event) <= SHORT_QUEUE)


@njit(forceinline=True)
def begin_drain(flow: Any, event: Any) -> None:
    """Keep little in flight for some round trips."""
    flow.state[LEAST_BEFORE_NS] = flow.base_rtt_ns
    flow.state[DRAIN_END_NS] = event.now_ns + DRAIN_FOR * present_rtt_ns(flow)


@njit
def end_drain(flow: Any, event: Any) -> None:
    """End the drain, and with it a round; go on if a shorter round trip was seen in it."""
    if flow.base_rtt_ns < SHORTER * flow.state[LEAST_BEFORE_NS]:
        begin_drain(flow, event)
    else:
        count_from_now(flow, event)
        flow.state[JUST_DRAINED] = 1.0
        flow.state[RTT_BEFORE_NS] = 0.0  # the drain's round trips are no change of the delay
        begin_round(flow)


@njit
def await_drain(flow: Any, event: Any) -> None:
    """Begin a drain where it is due; after a pause, count anew."""
    rtt_ns = present_rtt_ns(flow)
    paused = event.now_ns - flow.state[ACKED_AT_NS] > PAUSE * rtt_ns
    flow.state[ACKED_AT_NS] = event.now_ns
    if paused or sees_short_queue(flow, event):
        flow.state[SHORT_AT_NS] = event.now_ns
    elif event.now_ns - flow.state[SHORT_AT_NS] > DRAIN_AFTER * rtt_ns:
        begin_drain(flow, event)


@njit(forceinline=True)
def is_draining(flow: Any, event: Any) -> bool:
    """Return whether the flow drains from this ACK on; begin and end drains.

    A flow that is told of the empty path never drains.
    """
    if not event.path_measured:
        return False
    if flow.state[DRAIN_END_NS] == 0.0:
        await_drain(flow, event)
    elif event.now_ns >= flow.state[DRAIN_END_NS]:
        end_drain(flow, event)
    return bool(flow.state[DRAIN_END_NS] > 0.0)


@njit(forceinline=True)
def drained_window(flow: Any) -> float:
    """Return the window of a drain, in packets."""
    window = flow.state[WINDOW]
    return float(max(DRAIN_SHARE * window, min(window, DRAIN_PACKETS)))
