"""Messages while parts of the simulator are compiled, at their first use."""

from __future__ import annotations

import logging
import math
import time
from typing import Protocol

WORDS = "compiling code for its first use on this machine; up to a minute, later starts take a second"

AGAIN_S = 60.0
"""Time after which the line is written again: a program may use several families, each to be compiled."""

LOG = logging.getLogger("sysgym")
"""Logger, which writes to the standard error unless the program configures logging."""


class Announcer(Protocol):
    """Listener for the compilation of functions that are not in the cache."""

    def begin(self, name: str) -> None:
        """Announce that a function of the simulator is being compiled."""

    def end(self) -> None:
        """Announce that it is compiled."""


class OneLine:
    """Announcer that writes a line, at most once a minute."""

    def __init__(self) -> None:
        self._next_s = -math.inf

    def begin(self, name: str) -> None:
        """Write the line, unless it was written a short time ago."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + AGAIN_S
            LOG.warning(WORDS)

    def end(self) -> None:
        """Do nothing."""


class Silence:
    """Silent announcer, for processes whose parent has written the line."""

    def begin(self, name: str) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


_announcer: Announcer = OneLine()
_depth = 0


def announce_with(announcer: Announcer) -> None:
    """Use another announcer."""
    global _announcer
    _announcer = announcer


def compiling(name: str) -> None:
    """Announce that a function is being compiled, possibly as part of another one."""
    global _depth
    _depth += 1
    if _depth == 1:
        _announcer.begin(name)


def compiled() -> None:
    """Announce that the function begun last is compiled."""
    global _depth
    _depth = max(_depth - 1, 0)
    if _depth == 0:
        _announcer.end()
