"""Packets in flight, the window that limits them, and the beginning of a recovery."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(forceinline=True)
def keeps_order(world: Any, extras: Any) -> bool:
    """Return whether packets of a flow arrive in the order in which they were sent."""
    if extras is not None:
        return bool(world.paths_keep_order)
    return True


@njit(forceinline=True)
def window_packets(world: Any, flow: Any) -> int:
    """Return the number of packets that may be in flight: at least one, however small the window is."""
    return max(int(min(flow.cwnd, float(world.max_window_packets))), 1)


@njit(forceinline=True)
def pipe_packets(flow: Any) -> int:
    """Return the number of packets believed to be in flight.

    Every duplicate ACK (RFC 5681) and every sacked or lost packet (RFC 6675) reduces it by one.
    """
    return flow.nxt - flow.una - flow.duplicate_acks - flow.sacked - flow.lost


@njit(forceinline=True)
def losses(flow: Any) -> int:
    """Return the number of losses so far: packets retransmitted, and packets still to be retransmitted.

    A tail loss probe that retransmits a packet counts too.
    """
    return flow.retransmitted_packets + flow.lost


@njit(forceinline=True)
def has_new_packet(flow: Any) -> bool:
    """Return whether there is a packet that was never sent and that the receiver's window allows."""
    return flow.nxt < flow.n_packets and flow.nxt - flow.una < flow.receive_window_packets


@njit(forceinline=True)
def repairs(flow: Any) -> bool:
    """Return whether losses are being repaired, in fast recovery or after a time-out."""
    return flow.una < flow.recover


@njit
def enter_recovery(flow: Any) -> bool:
    """Begin fast recovery, unless the sender has already responded to losses in the same window.

    See RFC 6582, 3.2 step 2.
    """
    if repairs(flow):
        return False
    flow.in_recovery = 1
    flow.recover = flow.high
    return True
