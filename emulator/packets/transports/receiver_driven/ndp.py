"""NDP: trimmed packets and paced pulls of the receiver (Handley et al., SIGCOMM 2017).

A sender transmits its first window at line rate. A switch without room trims packets to their headers, so the
receiver learns of every packet sent: it acknowledges complete packets (ACK) and reports trimmed ones (NACK).
Each arrival queues a pull. Pulls leave at the rate of the receiver's link, to all senders in turn. Each pull
permits one transmission: of a packet reported missing if there is one, else of a new packet.

The network must trim (``queue.trim``), and should spray packets over all paths (``routing.ecmp``). ACKs and
pulls use the class of the headers. Packets that are lost without a trace are detected by a time-out. The
paper's return-to-sender of headers that find no room, path penalties and priority pulls are omitted.
"""

from __future__ import annotations

from typing import Any

from sysgym.emulator.packets.transports.base import Receiver, Transport, parameter, round_trip_packets
from sysgym.emulator.packets.transports.receiving import missing_pulls, queue_pulls

FIRST_WINDOW_PACKETS = 0.0  # 0: a bandwidth-delay product of the empty path


def on_start(flow: Any, event: Any) -> None:
    """Set the credit of the first window, which is sent at line rate."""
    packets = int(parameter(event, 0))
    flow.credit_packets = packets if packets > 0 else round_trip_packets(flow)


def on_data(message: Any, host: Any, event: Any) -> None:
    """Queue a pull for every arrival, as long as the message needs more transmissions."""
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
