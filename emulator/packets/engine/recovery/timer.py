"""Timer of a flow: retransmission time-out, tail loss probe, or end of the reordering window.

As in Linux, a flow has one timer, and setting it for one purpose replaces the other.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.recovery.flight import repairs
from sysgym.emulator.packets.engine.recovery.rack import sent_time_of
from sysgym.emulator.packets.memory.flow_record import PROBE, REORDERING, RETRANSMISSION
from sysgym.emulator.packets.memory.records import NEVER_NS


@njit(forceinline=True)
def in_ticks(world: Any, duration_ns: int) -> int:
    """Return how long a timer is set for: as Linux, in whole ticks, rounded up.

    It then ends with the first tick after that, so a timer set at a tick takes one tick more.
    """
    if world.as_linux:
        return int(-(-duration_ns // world.timer_tick_ns) * world.timer_tick_ns)
    return int(duration_ns)


@njit(forceinline=True)
def set_retransmission_timer(flow: Any, now_ns: int) -> None:
    """Start the retransmission time-out anew; stop it if nothing is in flight (RFC 6298, 5.2 and 5.3)."""
    flow.timer = RETRANSMISSION
    flow.timer_deadline_ns = now_ns + flow.rto_ns if flow.high > flow.una else NEVER_NS


@njit(forceinline=True)
def replace_by_retransmission_timer(world: Any, flow: Any, now_ns: int) -> None:
    """Start the retransmission time-out in place of the timer that is running.

    In place of another timer it counts, in Linux, from when the first packet in flight left
    (tcp_rearm_rto), so that those timers do not delay it.
    """
    replaces_another = flow.timer == PROBE or flow.timer == REORDERING
    set_retransmission_timer(flow, now_ns)
    if world.as_linux and replaces_another and flow.high > flow.una:
        left_ns = int(sent_time_of(world, flow, flow.una).ns) + flow.rto_ns - now_ns
        flow.timer_deadline_ns = now_ns + in_ticks(world, max(left_ns, 1))


@njit(forceinline=True)
def set_timer(world: Any, flow: Any, now_ns: int) -> None:
    """Schedule a tail loss probe where one is allowed, else start the retransmission time-out anew.

    A probe is allowed if nothing is known to be missing and no probe is in flight (RFC 8985, 7.2). Linux
    looks for the latter only when the time comes.
    """
    in_doubt = flow.sacked + flow.lost > 0 or repairs(flow)
    if not world.as_linux:
        in_doubt = in_doubt or flow.probe_below > 0
    if in_doubt or flow.high <= flow.una:
        replace_by_retransmission_timer(world, flow, now_ns)
    else:
        flow.timer = PROBE
        flow.timer_deadline_ns = now_ns + min(in_ticks(world, probe_wait_ns(world, flow)), flow.rto_ns)


@njit(forceinline=True)
def probe_wait_ns(world: Any, flow: Any) -> int:
    """Return the time without an ACK after which to probe: two round trips, and more for a single packet.

    The ACK of a single packet may be delayed; as in Linux, allow the shortest time-out for it. Otherwise
    allow for the granularity of timers.
    """
    srtt_ns = flow.srtt_ns if flow.srtt_ns > 0.0 else float(flow.base_rtt_ns)
    slack_ns = world.min_rto_ns if flow.high - flow.una == 1 else world.probe_slack_ns
    return int(2.0 * srtt_ns) + slack_ns
