"""List of the messages that a host receives, by rank, lowest first; equal ranks in order of arrival."""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.memory.message_records import message_at
from sysgym.emulator.packets.memory.records import NOBODY


@njit
def insert_after(host: Any, message: Any, before: int) -> None:
    """Put a message behind another one; NOBODY: at the head."""
    message.previous = before
    if before == NOBODY:
        message.next = host.first
        host.first = message.index
    else:
        message.next = message_at(host.messages, before).next
        message_at(host.messages, before).next = message.index
    if message.next == NOBODY:
        host.last = message.index
    else:
        message_at(host.messages, message.next).previous = message.index


@njit
def take_out(host: Any, message: Any) -> None:
    """Take a message out of the list."""
    if message.previous == NOBODY:
        host.first = message.next
    else:
        message_at(host.messages, message.previous).next = message.next
    if message.next == NOBODY:
        host.last = message.previous
    else:
        message_at(host.messages, message.next).previous = message.previous


@njit
def insert_by_rank(host: Any, message: Any) -> None:
    """Insert a message after all messages whose rank is not higher."""
    before = host.last
    while before != NOBODY and message_at(host.messages, before).rank > message.rank:
        before = message_at(host.messages, before).previous
    insert_after(host, message, before)


@njit
def advance_by_rank(host: Any, message: Any) -> None:
    """Move a message whose rank has fallen ahead of all messages with a higher rank."""
    before = message.previous
    if before == NOBODY or message_at(host.messages, before).rank <= message.rank:
        return
    take_out(host, message)
    while before != NOBODY and message_at(host.messages, before).rank > message.rank:
        before = message_at(host.messages, before).previous
    insert_after(host, message, before)


@njit
def move_behind_equals(host: Any, message: Any) -> None:
    """Move a message after those of equal rank, because its turn is over or its rank has risen."""
    take_out(host, message)
    insert_by_rank(host, message)


@njit
def list_message(host: Any, message: Any) -> None:
    """Add a message that has begun to its host's list."""
    message.listed = 1
    host.n_messages += 1
    insert_by_rank(host, message)


@njit
def unlist_message(host: Any, message: Any) -> None:
    """Remove a complete message from the list, with the pulls that it no longer needs."""
    take_out(host, message)
    message.listed = 0
    host.n_messages -= 1
    host.pulls -= message.pulls
    message.pulls = 0
