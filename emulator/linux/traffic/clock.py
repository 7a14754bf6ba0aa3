"""Waiting with the precision of the kernel's timers."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence

from sysgym.scenarios.errors import BackendError

_POLLIN = 0x1
_PR_SET_TIMERSLACK = 29
_LIBC = ctypes.CDLL(None, use_errno=True)

now_ns = time.monotonic_ns
"""CLOCK_MONOTONIC, which eBPF programs use, too."""


class _PollFd(ctypes.Structure):
    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def sharpen_timers() -> None:
    """Ask the kernel to wake this thread on time; by default it may be 50 us late, to save energy."""
    _LIBC.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


class Waiter:
    """Wait for the first of some files to become readable, or for a timeout.

    ``select.poll`` and ``epoll`` have millisecond precision, and ``select.select`` takes no file above 1023.
    """

    def __init__(self, fds: Sequence[int]) -> None:
        self._fds = (_PollFd * len(fds))(*(_PollFd(fd, _POLLIN, 0) for fd in fds))
        self._timeout = _TimeSpec()

    def wait(self, timeout_ns: int) -> bool:
        """Wait, and return whether a file became readable.

        Raises:
            BackendError: If a descriptor is invalid.
        """
        self._timeout.seconds, self._timeout.nanoseconds = divmod(max(timeout_ns, 0), 1_000_000_000)
        ready = _LIBC.ppoll(self._fds, len(self._fds), ctypes.byref(self._timeout), None)
        if ready < 0:
            error = ctypes.get_errno()
            if error == 4:  # EINTR, a signal: the caller checks the clock anyway
                return False
            raise BackendError(f"cannot wait: {os.strerror(error)}")
        return bool(ready)

    def is_readable(self, place: int) -> bool:
        """Return whether the last wait found this file readable, or closed at its other end."""
        return bool(self._fds[place].revents)
