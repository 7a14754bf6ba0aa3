"""Actions of a receiver's law: grant, queue pulls, order messages, and request missing packets again.

A message's sender may make ``message.granted_packets`` transmissions. :func:`grant` raises this number at
once; a pull raises it by one when the host's clock sends the pull. Packets that the receiver requests again
(:func:`ask_again`) need no grant.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.receivers.ranking import advance_by_rank, move_behind_equals
from sysgym.emulator.packets.memory.message_records import message_at


@njit
def grant(host: Any, message: Any, packets: int, priority: int = 0) -> None:
    """Grant a total number of transmissions to a message's sender, in a class chosen by the receiver.

    The total is limited to the known need of the message (``message.wanted_packets``), and a grant is never
    revoked. The class changes only with a new grant.

    Args:
        host: The receiving host.
        message: One of its messages.
        packets: Total number of transmissions, including the first window.
        priority: Class of the packets, if queues have classes; higher numbers go first.
    """
    packets = min(packets, message.wanted_packets)
    if packets > message.granted_packets:
        message.granted_packets = packets
        message.priority = priority
        _tell(host, message)


@njit
def queue_pulls(host: Any, message: Any, pulls: int) -> None:
    """Add a number of pulls of a message to the queue of the host's clock.

    Raises:
        ValueError: If the message's number of pulls would become negative.
    """
    if message.pulls + pulls < 0:
        raise ValueError("a message with less than no pulls")
    if message.listed:
        message.pulls += pulls
        host.pulls += pulls


@njit
def missing_pulls(message: Any) -> int:
    """Return the number of transmissions that a message needs beyond those granted or queued as pulls."""
    return int(max(message.wanted_packets - message.granted_packets - message.pulls, 0))


@njit
def set_rank(host: Any, message: Any, rank: float) -> None:
    """Set a message's rank and move it to its place among the host's messages, after those of equal rank.

    Raises:
        ValueError: If the rank is not a number.
    """
    if rank != rank:
        raise ValueError("a rank that is not a number")
    rises = rank > message.rank
    message.rank = rank
    if message.listed and rises:
        move_behind_equals(host, message)
    elif message.listed:
        advance_by_rank(host, message)


@njit
def first_message(host: Any) -> Any:
    """Return the incomplete message with the lowest rank of the host's ``host.n_messages``."""
    return message_at(host.messages, host.first)


@njit
def next_message(host: Any, message: Any) -> Any:
    """Return the message after another one; after the last one, the result must not be read."""
    return message_at(host.messages, message.next)


@njit
def ask_again(host: Any, message: Any) -> None:
    """Request all granted packets again that are not known to have arrived.

    Their retransmission needs no grant. This is for senders with ``recovery="told"``, which detect unreported
    losses only by a time-out.
    """
    message.asks_again = 1
    _tell(host, message)


@njit
def _tell(host: Any, message: Any) -> None:
    """Add a message to the list of those whose senders must be notified."""
    if not message.to_tell:
        message.to_tell = 1
        message.told_next = host.first_to_tell
        host.first_to_tell = message.index
