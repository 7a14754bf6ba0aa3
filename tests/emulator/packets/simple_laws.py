"""Laws and keys for hand-computed schedules: a constant window, a constant pace, and a flow that is alone."""

from __future__ import annotations

from typing import Any

from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.transports.base import do_nothing

ALONE: dict[str, Any] = {
    "topology__hosts_per_side": 1,
    "workload__start_jitter_s": 0.0,
    "transport__host_jitter_s": 0.0,
}
"""Keys of a dumbbell with one sender, without jitter."""


def window_of(packets: float, *, ecn_capable: bool = False) -> Transport:
    """A transport whose window never changes."""

    def on_start(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = packets

    return Transport(
        "window",
        "a constant window",
        do_nothing,
        do_nothing,
        do_nothing,
        on_start,
        ecn_capable=ecn_capable,
    )


def paced_at(rate_bps: float, window: float = 1e9, burst_packets: int = 0) -> Transport:
    """A transport whose pace never changes; packets may leave several at a time."""

    def on_start(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = window
        flow.pacing_rate_bps = rate_bps
        flow.pacing_burst_packets = burst_packets

    return Transport("paced-at", "a constant pace", do_nothing, do_nothing, do_nothing, on_start)
