"""Homa: the receiver grants the shortest messages first, with priorities (Montazeri et al., SIGCOMM 2018).

A sender sends the first round trip of a message without a grant. The receiver grants the messages with the
fewest packets left, a few at a time (overcommitment), so that a round trip's packets of each are always on
their way. Grants use the lower half of the classes, the lowest ones first, and of the messages granted the
shortest has the highest (section 3.4). Packets without a grant travel in the upper half, the shorter the
message the higher. Packets that do not arrive in time are asked for again (RESEND).

Where this differs from the paper: the classes of packets without a grant are fixed shares of the first
window, not learnt from the traffic; a host's own messages take turns in sending, except that classes have
priority; every packet is acknowledged, and the ACK carries the grant; packets are asked for again of as many
messages as are granted, so that what an incast has lost does not come back all at once.
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

CLASSES = 8  # of the switches' queues, half of them for packets with a grant
OVERCOMMITMENT = 4.0  # messages that are granted at the same time: as many as there are classes for them
RESEND_S = 2e-3  # without an arrival after which packets are asked for again
TICK_S = 0.25e-3

ASKED_NS = 0  # slot of message.state


def on_start(flow: Any, event: Any) -> None:
    """Send a round trip's packets without a grant, in a class by the length of the message."""
    flow.credit_packets = round_trip_packets(flow)
    share = flow.n_packets / flow.credit_packets
    flow.priority = CLASSES // 2
    for part in (1.0, 0.25, 0.0625):
        if share <= part:
            flow.priority += 1


@njit
def needs_grant(message: Any) -> bool:
    """Return whether a message has packets that may not leave yet."""
    return bool(message.granted_packets < message.wanted_packets)


@njit
def answered(message: Any) -> int:
    """Return the transmissions that are no longer on their way, where switches trim those trimmed too."""
    return int(message.received_packets + message.trimmed_packets)


@njit
def count_granted(host: Any, most: int) -> int:
    """Return how many messages are to be granted: those that need it, but not more than allowed."""
    count = 0
    message = first_message(host)
    for _ in range(host.n_messages):
        count += needs_grant(message)
        if count == most:
            break
        message = next_message(host, message)
    return count


def on_data(message: Any, host: Any, event: Any) -> None:
    """Grant the messages with the fewest packets left up to a round trip ahead of what has arrived."""
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
    """Return whether a message is one of the few with the fewest packets left."""
    candidate = first_message(host)
    for _ in range(min(most, host.n_messages)):
        if candidate.index == message.index:
            return True
        candidate = next_message(host, candidate)
    return False


def on_tick(message: Any, host: Any, event: Any) -> None:
    """Ask again for granted packets if nothing has arrived for some time, of a few messages at a time."""
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
