"""Undo of spurious recoveries.

Each of three observations proves that nothing was lost. Every retransmission was reported as a duplicate
(DSACK, RFC 3708). The packet declared lost arrives from a transmission before the retransmission, which only
hosts with timestamps can detect (Eifel, RFC 3522). After a time-out, a packet arrives that was not
retransmitted (F-RTO, RFC 5682). The window and the threshold from before the recovery are then restored (RFC
4015).
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.recovery.flight import repairs
from sysgym.emulator.packets.engine.recovery.rack import withdraw_losses
from sysgym.emulator.packets.memory.flow_record import FRTO_RESENT, FRTO_SENDS_NEW, FRTO_SPURIOUS


@njit(forceinline=True)
def remember_window(flow: Any) -> None:
    """Remember window and threshold when a recovery begins."""
    flow.undo_possible = 1
    flow.undo_cwnd = flow.cwnd
    flow.undo_ssthresh = flow.ssthresh
    flow.undo_resent = 0
    flow.first_resent_ns = 0


@njit(forceinline=True)
def doubt_time_out(flow: Any) -> None:
    """Prepare to detect a spurious time-out, unless the time-out occurs during fast recovery."""
    if not repairs(flow):
        remember_window(flow)
    flow.frto_step = 0 if flow.in_recovery else FRTO_RESENT


@njit(forceinline=True)
def restore_window(flow: Any) -> None:
    """Restore window and threshold, and end the recovery."""
    flow.undo_possible = 0
    flow.cwnd = max(flow.cwnd, flow.undo_cwnd)
    flow.ssthresh = max(flow.ssthresh, flow.undo_ssthresh)
    flow.in_recovery = 0
    flow.recover = min(flow.recover, flow.una)
    flow.frto_step = 0


@njit(forceinline=True)
def take_duplicate_report(flow: Any) -> None:
    """Count a retransmission that was not needed; undo if none was."""
    if flow.undo_possible and flow.undo_resent > 0:
        flow.undo_resent -= 1
        if flow.undo_resent == 0:
            restore_window(flow)


@njit(forceinline=True)
def undo_if_spurious(world: Any, flow: Any, filled_by_sent_ns: int) -> bool:
    """Undo a recovery if the packet that fills the first hole was sent before the first retransmission.

    After a time-out, see RFC 5682, 3.1: the first ACK that moves the left edge permits new packets instead of
    retransmissions; the next ACK shows whether packets from before the time-out still arrive.

    Return whether the recovery was undone.
    """
    if not flow.undo_possible:
        return False
    delayed = filled_by_sent_ns < flow.first_resent_ns
    if not delayed and flow.frto_step != FRTO_SPURIOUS:
        return False
    withdraw_losses(world, flow)
    restore_window(flow)
    return True


@njit(forceinline=True)
def continue_frto(flow: Any, advances: bool, has_new_packet: bool) -> None:
    """Continue the test for a spurious time-out, or end it and accept the time-out as genuine."""
    if flow.frto_step == FRTO_RESENT and advances and flow.una < flow.recover and has_new_packet:
        flow.frto_step = FRTO_SENDS_NEW
    else:
        flow.frto_step = 0
