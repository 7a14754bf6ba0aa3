"""Drains: round trips in which flows keep few packets in flight, so that they measure the empty path.

A host that does not know the base round-trip time estimates it by the minimum RTT so far. A flow that begins
while other flows keep a queue then underestimates the queue, and takes their capacity: the latecomer
advantage of TCP Vegas (Low, Peterson and Wang, JACM 2002). BBR's flows therefore keep four packets in flight
for a moment every ten seconds (Cardwell et al., ACM Queue 2016, ProbeRTT). Here a flow keeps a fraction of
its window in flight if its last short queue was :data:`DRAIN_AFTER` round trips ago. A single flow does not
empty a queue of many flows. But all flows that measure a shorter round trip do so at the same time, and count
from then on, so that the drains of all flows coincide after some time.

The functions use the slots below, in addition to those of the module ``other_laws``; a law's own slots begin
at :data:`OWN`. The kernel's form is ``emulator/linux/bpf/decisions/drains.h``.
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
DRAIN_FOR = 2.0  # round trips; the packets in flight before the drain arrive in the first one
DRAIN_SHARE = 0.1  # fraction of the window that stays in flight
DRAIN_PACKETS = 0.5  # least window of a drain, packets: with fewer, ACKs would be rare, and a drain long
SHORT_QUEUE = 0.25  # packets
SHORTER = 0.97  # a drain continues if the minimum RTT falls below this fraction of its former value
PAUSE = 25.0  # round trips without an ACK; ACKs of the smallest windows are closer together

SHORT_AT_NS = other_laws.OWN  # time of the last short queue
ACKED_AT_NS = other_laws.OWN + 1  # time of the last ACK
DRAIN_END_NS = other_laws.OWN + 2  # 0: no drain is in progress
LEAST_BEFORE_NS = other_laws.OWN + 3  # minimum RTT before the drain
JUST_DRAINED = other_laws.OWN + 4  # 1 in the round after a drain, whose queue results from the drain
OWN = other_laws.OWN + 5


@njit(forceinline=True)
def count_from_now(flow: Any, event: Any) -> None:
    """Count round trips without a short queue from now on, and end a drain in progress."""
    flow.state[SHORT_AT_NS] = flow.state[ACKED_AT_NS] = event.now_ns
    flow.state[DRAIN_END_NS] = 0.0


@njit(forceinline=True)
def sees_short_queue(flow: Any, event: Any) -> bool:
    """Return whether the ACK indicates a short queue, as a minimum RTT does."""
    return bool(event.rtt_sampled and present_queue(flow, event) <= SHORT_QUEUE)


@njit(forceinline=True)
def begin_drain(flow: Any, event: Any) -> None:
    """Begin a drain of some round trips."""
    flow.state[LEAST_BEFORE_NS] = flow.base_rtt_ns
    flow.state[DRAIN_END_NS] = event.now_ns + DRAIN_FOR * present_rtt_ns(flow)


@njit
def end_drain(flow: Any, event: Any) -> None:
    """End the drain and its round, or continue the drain if it measured a shorter round trip."""
    if flow.base_rtt_ns < SHORTER * flow.state[LEAST_BEFORE_NS]:
        begin_drain(flow, event)
    else:
        count_from_now(flow, event)
        flow.state[JUST_DRAINED] = 1.0
        flow.state[RTT_BEFORE_NS] = 0.0  # RTTs of the drain do not count as changes of delay
        begin_round(flow)


@njit
def await_drain(flow: Any, event: Any) -> None:
    """Begin a drain if it is due; after a pause, restart the count."""
    rtt_ns = present_rtt_ns(flow)
    paused = event.now_ns - flow.state[ACKED_AT_NS] > PAUSE * rtt_ns
    flow.state[ACKED_AT_NS] = event.now_ns
    if paused or sees_short_queue(flow, event):
        flow.state[SHORT_AT_NS] = event.now_ns
    elif event.now_ns - flow.state[SHORT_AT_NS] > DRAIN_AFTER * rtt_ns:
        begin_drain(flow, event)


@njit(forceinline=True)
def is_draining(flow: Any, event: Any) -> bool:
    """Begin or end a drain if due; return whether the flow drains from this ACK on.

    A flow that knows the base round-trip time never drains.
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
