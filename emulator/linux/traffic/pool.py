"""Connections that no flow uses at present, by the hosts that they connect."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.linux.traffic.sockets import Connection
from sysgym.emulator.packets.workloads.schedule import FlowSchedule

OPENED_FIRST = 2
"""Connections of a pair of hosts that are open when the episode begins.

The second one is for a flow that starts before the one before it has ended."""

Pair = tuple[int, int, int]
"""Source, destination and law."""

MayOpen = Callable[[int], bool]


class ConnectionPool:
    """Idle connections, which flows before have used, and fresh ones.

    A connection belongs to a source, a destination and a law. A flow takes the one that became idle last, as
    on the simulator, and a fresh one if none is idle.

    Args:
        schedule: The flows.
        law_of_flow: Index of each flow's law.
    """

    def __init__(self, schedule: FlowSchedule, law_of_flow: list[int]) -> None:
        ends: NDArray[np.int64] = np.column_stack((schedule.src, schedule.dst, law_of_flow))
        self._pairs: list[Pair] = [(src, dst, law) for src, dst, law in ends.tolist()]
        self._idle: dict[Pair, list[Connection]] = defaultdict(list)
        self._fresh: dict[Pair, deque[Connection]] = defaultdict(deque)
        self._without: dict[Pair, deque[int]] = defaultdict(deque)
        for flow, pair in enumerate(self._pairs):
            self._without[pair].append(flow)

    def __iter__(self) -> Iterator[Connection]:
        """Yield all connections in the pool."""
        for held in (*self._idle.values(), *self._fresh.values()):
            yield from held

    def pair(self, flow: int) -> Pair:
        """Return what a flow's connection has to connect."""
        return self._pairs[flow]

    def first_flows(self, most: int, may_open: MayOpen) -> Iterator[int]:
        """Yield the flows for which connections are opened before the episode, up to a number.

        Args:
            most: That number.
            may_open: Whether a connection can be opened for a flow, asked just before the flow is yielded.
        """
        for pair in self._without:
            for _ in range(OPENED_FIRST):
                flow = self.next_flow(pair, may_open) if most else None
                if flow is None:
                    break
                most -= 1
                yield flow

    def next_flow(self, pair: Pair, may_open: MayOpen) -> int | None:
        """Return a pair's next flow without a connection; None if none is left, or may have one."""
        waiting = self._without[pair]
        return waiting.popleft() if waiting and may_open(waiting[0]) else None

    def take(self, flow: int) -> Connection | None:
        """Return a connection for a flow, which leaves the pool; None if there is none."""
        pair = self._pairs[flow]
        if self._idle[pair]:
            return self._idle[pair].pop()
        return self._fresh[pair].popleft() if self._fresh[pair] else None

    def add(self, connection: Connection) -> None:
        """Add a connection that was opened for a flow and that no flow has used."""
        self._fresh[self._pairs[connection.flow]].append(connection)

    def put_back(self, connection: Connection) -> None:
        """Add a connection whose flow has ended."""
        self._idle[self._pairs[connection.flow]].append(connection)
