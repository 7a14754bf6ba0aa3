"""Go-back-N, as in network cards for RDMA (InfiniBand Architecture Specification, 9.7.5; RoCEv2).

A receiver discards every packet out of order. It answers the first discarded packet with a negative
acknowledgement (NAK) of the expected packet, and then sends nothing until the expected packet arrives. The
sender goes back to the packet of the NAK, or of a time-out, and retransmits everything from there. The NAK is
an ACK that names a packet beyond the expected one.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.recovery.flight import enter_recovery
from sysgym.emulator.packets.memory.flow_record import GO_BACK_N


@njit(forceinline=True)
def is_discarded(flow: Any, seq: int) -> bool:
    """Return whether the receiver discards a packet without an answer, because it has already sent a NAK.

    Otherwise store whether the answer will be a NAK.
    """
    if flow.recovery != GO_BACK_N:
        return False
    out_of_order = seq > flow.rcv_nxt
    if out_of_order and flow.nak_sent:
        return True
    if seq == flow.rcv_nxt:
        flow.nak_sent = 0
    elif out_of_order:
        flow.nak_sent = 1
    return False


@njit(forceinline=True)
def take_ack_going_back(flow: Any, event: Any, seq: int, ack: int) -> bool:
    """Apply an ACK or a NAK to the window; return whether a NAK begins a recovery.

    A NAK begins a recovery only once for the packets sent before it, as in the other kinds of recovery.
    """
    event.acked_packets = max(ack - flow.una, 0)
    if ack > flow.una:
        flow.una = ack
        flow.nxt = max(flow.nxt, ack)
        flow.timeouts_in_a_row = 0
        if flow.in_recovery and ack >= flow.recover:
            flow.in_recovery = 0
    if seq <= ack or ack < flow.una:
        return False
    begins = enter_recovery(flow)
    flow.nxt = flow.una
    return bool(begins)
