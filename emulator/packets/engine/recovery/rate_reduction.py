"""Proportional rate reduction: the number of packets that may leave at each ACK of a recovery (RFC 9937).

The transport's window is the target (``ssthresh`` in the RFC). While more packets are in flight than the
target, packets leave in proportion to those delivered; below it, as many as were delivered, and one more at
each ACK that shows progress.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.recovery.flight import pipe_packets, window_packets
from sysgym.emulator.packets.memory.records import LONG_LIVED_PACKETS


@njit(forceinline=True)
def begin_reduction(world: Any, flow: Any, flight_packets: int) -> None:
    """Begin a reduction with a number of packets in flight, which includes those declared lost.

    Linux divides by the window instead, which may be larger (tcp_init_cwnd_reduction).
    """
    flow.prr_delivered = 0
    flow.prr_sent = 0
    flow.prr_flight = max(window_packets(world, flow) if world.as_linux else flight_packets, 1)


@njit(forceinline=True)
def reduce_rate(world: Any, flow: Any, newly_delivered: int, safe: bool) -> None:
    """Set the number of packets that may leave before the next ACK (RFC 9937).

    Args:
        world: The world.
        flow: A flow in recovery.
        newly_delivered: Packets that this ACK reports as delivered.
        safe: Whether the ACK moved the left edge and no further loss was found (SafeACK).
    """
    if flow.cwnd >= world.max_window_packets:  # without a window; the rate is set externally
        flow.recovery_credit = LONG_LIVED_PACKETS
        return
    if newly_delivered == 0 and flow.prr_sent > 0:
        return
    target = window_packets(world, flow)
    in_flight = pipe_packets(flow)
    flow.prr_delivered += newly_delivered
    if in_flight > target:
        share = (flow.prr_delivered * target + flow.prr_flight - 1) // flow.prr_flight
        credit = share - flow.prr_sent
    else:
        credit = max(flow.prr_delivered - flow.prr_sent, newly_delivered) + int(safe)
        credit = min(credit, target - in_flight)
    first = 1 if flow.prr_sent == 0 else 0  # the fast retransmission
    flow.recovery_credit = max(credit, first)
