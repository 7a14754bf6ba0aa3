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
    """Return the duration of a timer: as in Linux, in whole ticks, rounded up.

    The timer expires at the first tick after this duration, so a timer set at a tick takes one tick more.
    """
    if world.as_linux:
        return int(-(-duration_ns // world.timer_tick_ns) * world.timer_tick_ns)
    return int(duration_ns)


@njit(forceinline=True)
def set_retransmission_timer(flow: Any, now_ns: int) -> None:
    """Restart the retransmission time-out; stop it if nothing is in flight (RFC 6298, 5.2 and 5.3)."""
    flow.timer = RETRANSMISSION
    flow.timer_deadline_ns = now_ns + flow.rto_ns if flow.high > flow.una else NEVER_NS


@njit(forceinline=True)
def replace_by_retransmission_timer(world: Any, flow: Any, now_ns: int) -> None:
    """Start the retransmission time-out in place of the timer that is running.

    In Linux, a time-out that replaces another timer counts from the transmission of the first packet in
    flight (tcp_rearm_rto), so that other timers do not delay it.
    """
    replaces_another = flow.timer == PROBE or flow.timer == REORDERING
    set_retransmission_timer(flow, now_ns)
    if world.as_linux and replaces_another and flow.high > flow.una:
        left_ns = int(sent_time_of(world, flow, flow.una).ns) + flow.rto_ns - now_ns
        flow.timer_deadline_ns = now_ns + in_ticks(world, max(left_ns, 1))


@njit(forceinline=True)
def set_timer(world: Any, flow: Any, now_ns: int) -> None:
    """Schedule a tail loss probe if one is allowed, else restart the retransmission time-out.

    A probe is allowed if nothing is known to be missing and no probe is in flight (RFC 8985, 7.2). Linux
    checks the latter only when the timer expires.
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

    The ACK of a single packet may be delayed; as in Linux, the shortest time-out is added for it. Otherwise
    the granularity of timers is added.
    """
    srtt_ns = flow.srtt_ns if flow.srtt_ns > 0.0 else float(flow.base_rtt_ns)
    slack_ns = world.min_rto_ns if flow.high - flow.una == 1 else world.probe_slack_ns
    return int(2.0 * srtt_ns) + slack_ns
