"""Ctrl-C while compiled code runs.

Python raises KeyboardInterrupt between two of its own instructions. The main thread has none while it is in
a compiled function, so that an endless loop in a user's law would never be left. The kernel's signal is noted
at once all the same, in a pipe that a thread reads: the first one is Python's, the second one ends the
process.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_CODE = 130
"""Conventional exit code after Ctrl-C: 128 plus the number of the signal."""

SAME_PRESS_S = 0.2
"""Two signals within this time count as one: a wrapper may pass on a Ctrl-C that the terminal also sent."""

PATIENCE_S = 1.5
"""Time after the first Ctrl-C until the user is told that a second one ends the process."""

_HINT = b"\nstopping; a second Ctrl-C ends the process at once\n"


@contextmanager
def second_interrupt_ends() -> Iterator[None]:
    """End the process at a second Ctrl-C, even while compiled code runs; works in the main thread only."""
    # Windows cannot wait for a pipe; there, Ctrl-Break ends a process.
    if os.name == "nt" or threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reader,), name="second Ctrl-C", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)
        watcher.join()
        os.close(reader)


def _watch(reader: int) -> None:
    """Read signal numbers from a pipe until it is closed."""
    first_s: float | None = None
    told = False
    while True:
        patience_s = PATIENCE_S if first_s is not None and not told else None
        if not select.select([reader], [], [], patience_s)[0]:
            told = True
            os.write(2, _HINT)
            continue
        numbers = os.read(reader, 64)
        if not numbers:
            return
        if signal.SIGINT not in numbers:
            continue
        now_s = time.monotonic()
        if first_s is None:
            first_s = now_s
        elif now_s - first_s > SAME_PRESS_S:
            os._exit(EXIT_CODE)
