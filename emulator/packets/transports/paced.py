"""Paced: reliable sending at a rate that is set externally.

This transport serves controllers of send rates: each host sends at its cap, which its flows share in turn.
Losses are repaired but do not change the rate. The window only bounds memory use.
"""

from __future__ import annotations

from typing import Any

from sysgym.emulator.packets.memory.flow_record import NO_WINDOW_PACKETS
from sysgym.emulator.packets.transports.base import Transport, do_nothing


def on_start(flow: Any, event: Any) -> None:
    """Open the window, so that only the rate limits the flow."""
    flow.cwnd = NO_WINDOW_PACKETS


PACED = Transport(
    name="paced",
    summary="No congestion control: each host sends at a rate set externally",
    reference="Ruffy et al., Iroko, arXiv 1812.09975",
    on_start=on_start,
    on_ack=do_nothing,
    on_loss=do_nothing,
    on_timeout=do_nothing,
    ecn_capable=True,
    rate_driven=True,
)


def on_flow_start(flow: Any, event: Any) -> None:
    """Open the window, and send at line rate until the flow's rate is set externally."""
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
