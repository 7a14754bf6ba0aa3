"""Messages while parts of the simulator are compiled, at their first use."""

from __future__ import annotations

import logging
from typing import Protocol

WORDS = "compiling code for its first use on this machine; up to a minute, later starts take a second"

LOG = logging.getLogger("sysgym")
"""Logger, which writes to the standard error unless the program configures logging."""


class Announcer(Protocol):
    """Listener for the compilation of functions that are not in the cache."""

    def begin(self, name: str) -> None:
        """Announce that a function of the simulator is being compiled."""

    def end(self) -> None:
        """Announce that it is compiled."""


class OneLine:
    """Announcer that writes one line per process."""

    def __init__(self) -> None:
        self._said = False

    def begin(self, name: str) -> None:
        """Write the line, the first time."""
        if not self._said:
            self._said = True
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
