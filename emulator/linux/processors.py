"""Processors of worlds with fast links: one moves packets, the others run everything else.

The kernel moves a packet on where a system call or a timer has just run. By itself it does all of a world's
work on the processor of the world's thread, whose readings of counters then delay packets by many of their
times on a fast link. Receive packet steering (Documentation/networking/scaling.rst of the kernel) gives the
packets a processor of their own. Threads of the world and its client stay off it: the scheduler takes it for
idle, as the kernel moves packets in interrupts, and would leave them there with next to no time.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # the simulator's imports take as long as all others together
    from sysgym.emulator.packets.topology import Topology

FAST_LINK_BPS = 500e6
"""Rate of a link from which on packets have a processor; below 300 Mb/s it makes no difference."""

STEERING_SETTING = "core/rps_default_mask"
"""Setting of a network namespace for its future interfaces (Linux 6.4 and later)."""


def processor_for_packets(topology: Topology, session: int) -> int | None:
    """Return the processor that is to move the packets of a world; None if they need none of their own.

    Args:
        topology: The world's network.
        session: Number of the world within its service; worlds of one service use different processors.
    """
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2 or topology.link_rate_bps.max() < FAST_LINK_BPS:
        return None
    return usable[-1 - session % len(usable)]


def steering_mask(processor: int) -> str:
    """Return the kernel's notation of a set of one processor: hexadecimal, 32 bits between commas."""
    digits = f"{1 << processor:x}"
    first = len(digits) % 8 or 8
    return ",".join([digits[:first], *(digits[i : i + 8] for i in range(first, len(digits), 8))])


def keep_process_off(processor: int) -> None:
    """Keep the present threads of this process, and those that they start, off a processor."""
    for thread in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            os.sched_setaffinity(thread, os.sched_getaffinity(thread) - {processor})


class _Thread(NamedTuple):
    """A thread that is kept off processors: what it used before, and what it avoids, with repetitions."""

    before: set[int]
    avoided: list[int]

    def usable(self) -> set[int]:
        """Return the processors that are left; all of them if none is."""
        return self.before - set(self.avoided) or self.before


_threads: dict[int, _Thread] = {}
_lock = threading.Lock()


class ThreadKeptOff:
    """The calling thread, kept off a processor until :meth:`release`; threads that it starts stay off it.

    Several may hold for one thread, and end in any order.

    Args:
        processor: The processor. A thread that may use no other stays there.
    """

    def __init__(self, processor: int) -> None:
        self._process, self._thread = os.getpid(), threading.get_native_id()
        self._processor: int | None = processor
        with _lock:
            thread = _threads.setdefault(self._thread, _Thread(os.sched_getaffinity(self._thread), []))
            thread.avoided.append(processor)
            os.sched_setaffinity(self._thread, thread.usable())

    def release(self) -> None:
        """Let the thread use the processors that it used before, unless others were chosen for it since."""
        processor, self._processor = self._processor, None
        if processor is None or os.getpid() != self._process:
            return
        with _lock:
            thread = _threads[self._thread]
            since = thread.usable()
            thread.avoided.remove(processor)
            if not thread.avoided:
                del _threads[self._thread]
            if not os.path.exists(f"/proc/self/task/{self._thread}"):
                return
            with contextlib.suppress(OSError):  # the thread ends just now
                if os.sched_getaffinity(self._thread) == since:
                    os.sched_setaffinity(self._thread, thread.usable())
