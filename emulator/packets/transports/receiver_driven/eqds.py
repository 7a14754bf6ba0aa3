"""EQDS: credits of the receiver at its line rate (Olteanu et al., NSDI 2022), without trimming.

A sender starts with a bandwidth-delay product of speculative packets and tells the receiver in every packet
how much it wants to send. The receiver grants that packet by packet, at the rate of its link, to all senders
in turn, so that what it has granted never queues for long at its switch.

The paper's tunnels use trimming where switches offer it and detect losses by gaps where they do not. Here
losses are detected by the scenario's ``transport.loss_detection``, so that ordinary switches suffice. What is
sent again needs credit too, except a probe or the first packet after a time-out. The window that the paper
allows a sender against congestion inside the network is not modelled: the fabric is expected to have full
bisection bandwidth.
"""

from __future__ import annotations

from typing import Any

from sysgym.emulator.packets.transports.base import Receiver, Transport, parameter, round_trip_packets
from sysgym.emulator.packets.transports.receiving import missing_pulls, queue_pulls

FIRST_WINDOW_PACKETS = 0.0  # 0: a bandwidth-delay product of the empty path


def on_start(flow: Any, event: Any) -> None:
    """Send the first window before the first credit can arrive."""
    packets = int(parameter(event, 0))
    flow.credit_packets = packets if packets > 0 else round_trip_packets(flow)


def on_data(message: Any, host: Any, event: Any) -> None:
    """Queue a pull for everything that the sender wants to send."""
    queue_pulls(host, message, missing_pulls(message))


EQDS = Transport(
    name="eqds",
    summary="EQDS: the receiver grants packets at its line rate, to all senders in turn",
    reference="Olteanu et al., NSDI 2022",
    on_start=on_start,
    receiver=Receiver(on_data=on_data),
    parameters=(FIRST_WINDOW_PACKETS,),
)
