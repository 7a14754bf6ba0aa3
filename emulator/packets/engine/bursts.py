"""Bursts of packets that leave back to back. Part of the extended event loop.

With segmentation offload, a host passes several packets at once to its network card. The sizes are those of
Linux: a burst lasts a millisecond at the flow's rate, and longer on short paths, and a sender waits until its
window allows a sufficiently large burst. Without segmentation offload, a paced flow sends bursts if its
transport requests them (``flow.pacing_burst_packets``), and does not wait for its window.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.recovery.flight import pipe_packets, repairs, window_packets
from sysgym.emulator.packets.engine.wire import FIXED_POINT_BITS
from sysgym.emulator.packets.memory.records import NEVER_NS

BURST_NS = 1_000_000
"""Length of a burst at the flow's rate; a sender that has been silent for longer does not wait."""

NEAR_NS = 512_000
"""Unit of the minimum RTT; each unit halves the extra length of bursts on short paths."""

LEAST_PACKETS = 2
SHARE_OF_WINDOW = 3
"""A third of the window is worth sending, even if a full burst is longer."""

SLOW_START_GAIN, AVOIDANCE_GAIN = 2.0, 1.2
"""Assumed rate of an unpaced flow, in windows per round trip; above 1, because the window may grow."""


@njit
def burst_packets(world: Any, flow: Any) -> int:
    """Return the number of packets of a full burst; with segmentation offload, at least two."""
    if world.burst_bytes == 0:
        return max(flow.pacing_burst_packets, 1)
    if flow.pace_ns_per_byte_q20 > 0:
        size_bytes = (BURST_NS << FIXED_POINT_BITS) // flow.pace_ns_per_byte_q20
    elif flow.srtt_ns > 0.0:
        gain = SLOW_START_GAIN if flow.cwnd < 0.5 * flow.ssthresh else AVOIDANCE_GAIN
        size_bytes = int(gain * flow.cwnd * flow.packet_bytes * BURST_NS / flow.srtt_ns)
    else:
        size_bytes = 0
    shortest_rtt_ns = flow.min_rtt_ns if flow.min_rtt_ns != NEVER_NS else flow.base_rtt_ns
    size_bytes += world.burst_bytes >> min(shortest_rtt_ns // NEAR_NS, 31)
    return max(min(size_bytes, world.burst_bytes) // flow.packet_bytes, LEAST_PACKETS)


@njit
def sendable_packets(world: Any, flow: Any) -> int:
    """Return the number of new packets that the windows of sender and receiver allow now."""
    allowed = window_packets(world, flow) - pipe_packets(flow)
    ready = min(flow.n_packets, flow.una + flow.receive_window_packets) - flow.nxt
    return max(min(allowed, ready), 0)


@njit
def waits_for_burst(world: Any, flow: Any, now_ns: int) -> bool:
    """Return whether the flow defers packets that its window allows, because an ACK will soon allow more.

    A flow does not wait while losses are repaired, while nothing is in flight, after a millisecond without
    sending, or if all remaining packets may leave.
    """
    if world.burst_bytes == 0 or flow.burst_left > 0 or flow.needs_credit:
        return False
    if repairs(flow) or flow.lost > 0 or flow.probe_due or pipe_packets(flow) <= 0:
        return False
    if now_ns - flow.burst_sent_ns > BURST_NS:
        return False
    sendable = sendable_packets(world, flow)
    if sendable >= flow.n_packets - flow.nxt:
        return False
    return bool(sendable < worthwhile_packets(world, flow))


@njit
def worthwhile_packets(world: Any, flow: Any) -> int:
    """Return the least number of packets that a window-limited flow sends at once."""
    window = min(window_packets(world, flow), flow.receive_window_packets)
    return min(burst_packets(world, flow), max(window // SHARE_OF_WINDOW, 1))


@njit(forceinline=True)
def limiting_packets(world: Any, flow: Any) -> int:
    """Return the packets in flight at which a flow counts as limited by its window, so that it may grow.

    Packets deferred for a burst count as in flight, because they would have left without bursts.
    """
    limit = window_packets(world, flow)
    if world.burst_bytes > 0:
        limit -= worthwhile_packets(world, flow) - 1
    return limit


@njit(forceinline=True)
def sends_bursts(world: Any, flow: Any) -> bool:
    """Return whether the flow's packets leave in bursts, or the rest of a burst has yet to leave."""
    return bool(world.burst_bytes > 0 or flow.pacing_burst_packets > 1 or flow.burst_left > 0)


@njit
def continue_burst(world: Any, flow: Any, now_ns: int) -> bool:
    """Count a packet that has just left in the flow's burst; return False if it begins a new one."""
    flow.burst_sent_ns = now_ns
    if flow.burst_left > 0:
        flow.burst_left -= 1
        return True
    flow.burst_left = min(burst_packets(world, flow) - 1, sendable_packets(world, flow))
    return False
