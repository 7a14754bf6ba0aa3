"""NDP: trimmed packets and paced pulls of the receiver (Handley et al., SIGCOMM 2017).

A sender sends its first window at line rate. A switch without room cuts a packet to its header, so the
receiver hears of every packet that was sent: it acknowledges what arrived in full (ACK) and reports the rest
(NACK). For every arrival it queues a pull. Pulls leave at the rate of its link, to all senders in turn, and
each lets one packet leave: one reported missing first, else a new one.

The network has to trim (``queue.trim``), and should spray packets over all paths (``routing.ecmp``). ACKs and
pulls travel in the class of the headers. Packets that vanish without a trace are found by a time-out. The
paper's return to sender of headers that find no room, path penalties and priority pulls are left out.
"""

from __future__ import annotations

from typing import Any

from sysgym.emulator.packets.transports.base import Receiver, Transport, parameter, round_trip_packets
from sysgym.emulator.packets.transports.receiving import missing_pulls, queue_pulls

FIRST_WINDOW_PACKETS = 0.0  # 0: a bandwidth-delay product of the empty path


def on_start(flow: Any, event: Any) -> None:
    """Send the first window at line rate."""
    packets = int(parameter(event, 0))
    flow.credit_packets = packets if packets > 0 else round_trip_packets(flow)


def on_data(message: Any, host: Any, event: Any) -> None:
    """Queue a pull for every arrival, as long as the message needs packets that were not pulled."""
    queue_pulls(host, message, min(missing_pulls(message), 1))


NDP = Transport(
    name="ndp",
    summary="NDP: trimmed packets inform the receiver of losses; it pulls packets at its line rate",
    reference="Handley et al., SIGCOMM 2017",
    on_start=on_start,
    recovery="told",
    receiver=Receiver(on_data=on_data),
    needs_classes=2,
    needs_trimming=True,
    parameters=(FIRST_WINDOW_PACKETS,),
)
