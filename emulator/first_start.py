"""Words for the first start, when the simulator is compiled: silence for half a minute looks like a fault."""

from __future__ import annotations

import logging
from typing import Protocol

WORDS = "compiling the simulator, once; this takes up to a minute"

LOG = logging.getLogger("sysgym")
"""Python shows what it is told on the standard error, unless the program has set up its own."""


class Announcer(Protocol):
    """Hears what is compiled because the cache does not have it."""

    def begin(self, name: str) -> None:
        """A function of the simulator is being compiled."""

    def end(self) -> None:
        """It is compiled."""


class OneLine:
    """One line a process."""

    def __init__(self) -> None:
        self._said = False

    def begin(self, name: str) -> None:
        """Say so, the first time."""
        if not self._said:
            self._said = True
            LOG.warning(WORDS)

    def end(self) -> None:
        """Nothing more to say."""


class Silence:
    """For processes whose parent has said it."""

    def begin(self, name: str) -> None:
        """Say nothing."""

    def end(self) -> None:
        """Say nothing."""


_announcer: Announcer = OneLine()
_depth = 0


def announce_with(announcer: Announcer) -> None:
    """Have somebody else tell the user."""
    global _announcer
    _announcer = announcer


def compiling(name: str) -> None:
    """A function is being compiled, perhaps for the sake of another one."""
    global _depth
    _depth += 1
    if _depth == 1:
        _announcer.begin(name)


def compiled() -> None:
    """The function that was begun last is compiled."""
    global _depth
    _depth = max(_depth - 1, 0)
    if _depth == 0:
        _announcer.end()
