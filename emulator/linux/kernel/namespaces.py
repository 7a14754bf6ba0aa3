"""Entering the network namespace of another process, and only that namespace.

Mininet's nodes have a mount namespace of their own as well. A thread that enters the network namespace only
still sees the machine's file system.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sysgym.scenarios.errors import BackendError

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def enter(descriptor: int) -> None:
    """Move this thread into the network namespace that a descriptor refers to.

    Raises:
        BackendError: The kernel refuses.
    """
    if _libc.setns(descriptor, _CLONE_NEWNET) < 0:
        raise BackendError(f"cannot enter a network namespace: {os.strerror(ctypes.get_errno())}")


@contextmanager
def inside(netns_pid: int) -> Iterator[None]:
    """Run the block with this thread in the network namespace of a process.

    Sockets opened there stay there. Other threads are not moved.

    Args:
        netns_pid: Process whose namespace is entered; 0 stays in the current one.

    Raises:
        BackendError: The process is gone, or this process lacks the privilege.
    """
    if netns_pid == 0:
        yield
        return
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            there = os.open(f"/proc/{netns_pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise BackendError(f"no network namespace of process {netns_pid}", str(error)) from error
        try:
            enter(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            enter(here)
    finally:
        os.close(here)
