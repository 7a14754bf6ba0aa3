"""Ctrl-C while a library calls Python functions that must not raise."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts_kept() -> Iterator[Callable[[], bool]]:
    """Defer the first Ctrl-C; a second one is handled as usual.

    Yields:
        Function that returns whether there was one.
    """
    before = signal.getsignal(signal.SIGINT)
    seen = False

    def keep(number: int, frame: Any) -> None:
        nonlocal seen
        seen = True
        signal.signal(signal.SIGINT, before)

    try:
        if callable(before):  # it is not callable in workers that leave Ctrl-C to their parent
            signal.signal(signal.SIGINT, keep)
    except ValueError:
        pass  # only the main thread receives signals
    try:
        yield lambda: seen
    finally:
        if signal.getsignal(signal.SIGINT) is keep:
            signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Defer the first Ctrl-C to the end of the block; a second one is handled as usual.

    Raises:
        KeyboardInterrupt: At the end of the block, if that is what the handler of Ctrl-C raises.
    """
    seen: Callable[[], bool] = bool
    try:
        with interrupts_kept() as seen:
            yield
    finally:
        handler = signal.getsignal(signal.SIGINT)
        if seen() and callable(handler):  # another signal would count as a second press
            handler(signal.SIGINT, None)
