"""Homa: the receiver grants the shortest messages first, with priorities (Montazeri et al., SIGCOMM 2018).

A sender transmits the first round trip's packets of a message without a grant (unscheduled packets). The
receiver grants a few messages at a time (overcommitment), those with the fewest remaining packets, and keeps
a round trip's packets of each in flight. Granted packets use the lower half of the priority classes, the
lowest ones first; among the granted messages, the shortest has the highest class (section 3.4). Unscheduled
packets use the upper half, with a higher class for shorter messages. The receiver requests packets again that
do not arrive in time (RESEND).

Differences from the paper: the classes of unscheduled packets are fixed shares of the first window, not
learnt from the traffic. The messages of a host take turns in sending, except that classes have priority.
Every packet is acknowledged, and the ACK carries the grant. Packets are requested again for as many messages
as are granted, so that the packets lost in an incast do not all return at once.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.base import (
    Receiver,
    Transport,
    parameter,
    round_trip_packets,
)
from sysgym.emulator.packets.transports.receiving import (
    ask_again,
    first_message,
    grant,
    next_message,
    set_rank,
)

CLASSES = 8  # classes of the switches' queues, half of them for granted packets
OVERCOMMITMENT = 4.0  # messages granted at the same time: one for each class of granted packets
RESEND_S = 2e-3  # time without an arrival after which packets are requested again
TICK_S = 0.25e-3

ASKED_NS = 0  # slot of message.state


def on_start(flow: Any, event: Any) -> None:
    """Set the number of unscheduled packets, a round trip's, and their class by message length."""
    flow.credit_packets = round_trip_packets(flow)
    share = flow.n_packets / flow.credit_packets
    flow.priority = CLASSES // 2
    for part in (1.0, 0.25, 0.0625):
        if share <= part:
            flow.priority += 1


@njit
def needs_grant(message: Any) -> bool:
    """Return whether a message has packets that are not granted yet."""
    return bool(message.granted_packets < message.wanted_packets)


@njit
def answered(message: Any) -> int:
    """Return the number of transmissions that have arrived, complete or trimmed."""
    return int(message.received_packets + message.trimmed_packets)


@njit
def count_granted(host: Any, most: int) -> int:
    """Return the number of messages to grant: those that need a grant, at most ``most``."""
    count = 0
    message = first_message(host)
    for _ in range(host.n_messages):
        count += needs_grant(message)
        if count == most:
            break
        message = next_message(host, message)
    return count


def on_data(message: Any, host: Any, event: Any) -> None:
    """Grant the messages with the fewest remaining packets, up to a round trip ahead of the arrivals."""
    set_rank(host, message, float(message.remaining_packets))
    level = count_granted(host, int(parameter(event, 0)))
    granted = first_message(host)
    while level > 0:
        if needs_grant(granted):
            level -= 1  # the last of them has class 0
            ahead = int(granted.rtt_packets) + 1
            grant(host, granted, answered(granted) + ahead, level)
        granted = next_message(host, granted)


@njit
def is_among_first(host: Any, message: Any, most: int) -> bool:
    """Return whether a message is among the ``most`` messages with the fewest remaining packets."""
    candidate = first_message(host)
    for _ in range(min(most, host.n_messages)):
        if candidate.index == message.index:
            return True
        candidate = next_message(host, candidate)
    return False


def on_tick(message: Any, host: Any, event: Any) -> None:
    """Request granted packets again if none has arrived for some time, for a few messages at a time."""
    since_ns = event.now_ns - max(message.last_arrival_ns, message.state[ASKED_NS])
    outstanding = message.granted_packets > answered(message)
    late = outstanding and since_ns >= parameter(event, 1)
    if late and is_among_first(host, message, int(parameter(event, 0))):
        message.state[ASKED_NS] = event.now_ns
        ask_again(host, message)


HOMA = Transport(
    name="homa",
    summary="Homa: the receiver grants the shortest messages first, with priorities",
    reference="Montazeri et al., SIGCOMM 2018",
    on_start=on_start,
    recovery="told",
    receiver=Receiver(on_data=on_data, on_tick=on_tick),
    tick_s=TICK_S,
    needs_classes=CLASSES,
    parameters=(OVERCOMMITMENT, RESEND_S * 1e9),
)
