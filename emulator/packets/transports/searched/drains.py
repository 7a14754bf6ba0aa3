"""Drains: round trips in which flows keep little in flight, so that they see the path empty.

A host that is not told of the empty path takes the least round trip that it has seen for that path's. A
flow that begins while others keep a queue then measures queues too short, and takes the others' room: the
latecomers' advantage of TCP Vegas (Low, Peterson and Wang, JACM 2002). BBR therefore sends next to nothing
for a moment every few seconds (draft-ietf-ccwg-bbr, ProbeRTT). So does a flow here, if its last short queue
was :data:`DRAIN_AFTER` round trips ago. One flow alone does not empty a queue of many; but all who see a
shorter round trip see it at the same moment, and count from then on. After some drains, those of all flows
fall together.

The functions use the slots below, beside those of the module ``other_laws``; a law keeps its own from
:data:`OWN` on. The kernel's form is ``emulator/linux/bpf/decisions/drains.h``.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.searched import other_laws
from sysgym.emulator.packets.transports.searched.rounds import (
    begin_round,
    line_packets_per_ns,
    present_rtt_ns,
)

DRAIN_AFTER = 50.0  # round trips without a short queue
DRAIN_FOR = 2.0  # round trips: what is in flight arrives in the first one
DRAIN_SHARE = 0.1  # of the window that is in flight meanwhile
SHORT_QUEUE = 0.25  # packets
SHORTER = 0.97  # a drain goes on if it makes the least round trip shorter than this share of itself

SHORT_AT_NS = other_laws.OWN  # when the queue was last short
DRAIN_END_NS = other_laws.OWN + 1  # 0: no drain is under way
LEAST_BEFORE_NS = other_laws.OWN + 2  # least round trip before the drain
JUST_DRAINED = other_laws.OWN + 3  # 1 in the round after a drain, whose queue is the drain's
OWN = other_laws.OWN + 4


@njit(forceinline=True)
def count_from_now(flow: Any, event: Any) -> None:
    """Count round trips without a short queue from now on."""
    flow.state[SHORT_AT_NS] = event.now_ns


@njit(forceinline=True)
def sees_short_queue(flow: Any, event: Any) -> bool:
    """Return whether the ACK tells of a short queue; a least round trip does."""
    queue_ns = event.rtt_ns - float(flow.base_rtt_ns)
    return bool(event.rtt_sampled and queue_ns * line_packets_per_ns(flow) <= SHORT_QUEUE)


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
        flow.state[DRAIN_END_NS] = 0.0
        flow.state[JUST_DRAINED] = 1.0
        count_from_now(flow, event)
        begin_round(flow)


@njit
def await_drain(flow: Any, event: Any) -> None:
    """Begin a drain where it is due; a flow that was idle for as long counts anew."""
    round_trips = (event.now_ns - flow.state[SHORT_AT_NS]) / present_rtt_ns(flow)
    if sees_short_queue(flow, event) or round_trips > 2.0 * DRAIN_AFTER:
        count_from_now(flow, event)
    elif round_trips > DRAIN_AFTER:
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
