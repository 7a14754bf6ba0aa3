"""EQDS: credit from the receiver at its line rate (Olteanu et al., NSDI 2022), without trimming.

A sender starts with a bandwidth-delay product of speculative packets. Each packet carries the amount of data
that the sender wants to send. The receiver grants credit for this demand packet by packet, at the rate of its
link, to all senders in turn, so that granted packets never queue for long at its switch.

The paper's tunnels use trimming where switches support it, and otherwise detect losses by gaps. Here the
scenario's ``transport.loss_detection`` detects losses, so that ordinary switches suffice. Retransmissions
need credit too, except a probe or the first packet after a time-out. The paper's optional sender window
against congestion inside the network is not modelled: the fabric is expected to have full bisection
bandwidth.
"""

from __future__ import annotations

from typing import Any

from sysgym.emulator.packets.transports.base import Receiver, Transport, parameter, round_trip_packets
from sysgym.emulator.packets.transports.receiving import missing_pulls, queue_pulls

FIRST_WINDOW_PACKETS = 0.0  # 0: a bandwidth-delay product of the empty path


def on_start(flow: Any, event: Any) -> None:
    """Set the speculative credit, which is used before the first credit can arrive."""
    packets = int(parameter(event, 0))
    flow.credit_packets = packets if packets > 0 else round_trip_packets(flow)


def on_data(message: Any, host: Any, event: Any) -> None:
    """Queue pulls for all packets that the sender wants to send."""
    queue_pulls(host, message, missing_pulls(message))


EQDS = Transport(
    name="eqds",
    summary="EQDS: the receiver grants packets at its line rate, to all senders in turn",
    reference="Olteanu et al., NSDI 2022",
    on_start=on_start,
    receiver=Receiver(on_data=on_data),
    parameters=(FIRST_WINDOW_PACKETS,),
)
