"""Paced: sends at the rate that is set from outside, and only sees to it that everything arrives.

This is what a controller of send rates drives: each host's cap is the rate, shared by its flows in turn.
Losses are repaired but change nothing. The window is no more than a bound on memory.
"""

from __future__ import annotations

from typing import Any

from sysgym.emulator.packets.transports.base import Transport, do_nothing

NO_WINDOW_PACKETS = 1e9


def on_start(flow: Any, event: Any) -> None:
    """The rate alone limits the flow."""
    flow.cwnd = NO_WINDOW_PACKETS


PACED = Transport(
    name="paced",
    summary="No law of its own: each host sends at the rate set from outside",
    reference="Ruffy et al., Iroko, arXiv 1812.09975",
    on_start=on_start,
    on_ack=do_nothing,
    on_loss=do_nothing,
    on_timeout=do_nothing,
    ecn_capable=True,
    rate_driven=True,
)


def on_flow_start(flow: Any, event: Any) -> None:
    """As above, and the flow's own rate is the line rate until it is set from outside."""
    flow.cwnd = NO_WINDOW_PACKETS
    if flow.pacing_rate_bps == 0.0:
        flow.pacing_rate_bps = flow.line_rate_bps


PACED_FLOW = Transport(
    name="paced_flow",
    summary="No law of its own: each flow sends at the rate set from outside",
    reference=PACED.reference,
    on_start=on_flow_start,
    on_ack=do_nothing,
    on_loss=do_nothing,
    on_timeout=do_nothing,
    ecn_capable=True,
    rate_driven=True,
)
