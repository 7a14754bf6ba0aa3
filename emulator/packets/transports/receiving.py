"""Actions of the law of a receiver: grant, queue pulls, order the messages, ask for missing packets again.

A message's sender may make ``message.granted_packets`` transmissions. :func:`grant` raises that number at
once; pulls raise it by one at a time, when the host's clock comes to them. Packets that the receiver asks for
again (:func:`ask_again`) need no grant.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.receivers.ranking import advance_by_rank, move_behind_equals
from sysgym.emulator.packets.memory.message_records import message_at


@njit
def grant(host: Any, message: Any, packets: int, priority: int = 0) -> None:
    """Let a message's sender make so many transmissions in all, in a class of the receiver's choice.

    No more is granted than the message is known to need (``message.wanted_packets``), and nothing is taken
    back. The class changes only with a new grant.

    Args:
        host: The receiving host.
        message: One of its messages.
        packets: Transmissions in all, those of the first window included.
        priority: Class of its packets, if queues have classes; a higher number goes first.
    """
    packets = min(packets, message.wanted_packets)
    if packets > message.granted_packets:
        message.granted_packets = packets
        message.priority = priority
        _tell(host, message)


@njit
def queue_pulls(host: Any, message: Any, pulls: int) -> None:
    """Queue pulls of a message for the host's clock, so many more than there are.

    Raises:
        ValueError: If the message would have less than none.
    """
    if message.pulls + pulls < 0:
        raise ValueError("a message with less than no pulls")
    if message.listed:
        message.pulls += pulls
        host.pulls += pulls


@njit
def missing_pulls(message: Any) -> int:
    """Return the transmissions that a message needs beyond those that are granted or wait for their turn."""
    return int(max(message.wanted_packets - message.granted_packets - message.pulls, 0))


@njit
def set_rank(host: Any, message: Any, rank: float) -> None:
    """Set a message's rank and move it to its place among the host's messages, behind those of equal rank.

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
    """Return the host's incomplete message with the lowest rank; there are ``host.n_messages``."""
    return message_at(host.messages, host.first)


@njit
def next_message(host: Any, message: Any) -> Any:
    """Return the message behind another one; behind the last one it must not be read."""
    return message_at(host.messages, message.next)


@njit
def ask_again(host: Any, message: Any) -> None:
    """Ask the sender for all packets again that were granted and are not known to have arrived.

    They leave without a grant. This is for senders with ``recovery="told"``, which do not notice other losses
    before a time-out.
    """
    message.asks_again = 1
    _tell(host, message)


@njit
def _tell(host: Any, message: Any) -> None:
    """Put a message on the list of those whose senders are to be told."""
    if not message.to_tell:
        message.to_tell = 1
        message.told_next = host.first_to_tell
        host.first_to_tell = message.index
