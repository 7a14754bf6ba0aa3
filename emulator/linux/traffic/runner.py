"""Runner of a schedule of flows over the kernel's TCP in real time, in one loop and one thread.

As many connections as possible are opened before the episode begins, so that a flow starts with its first
data packet, as on the simulator. Senders send zeros; receivers let the kernel discard the data
(``MSG_TRUNC``). Both cost little compared with the kernel's own work.
"""

from __future__ import annotations

import heapq
import select
import socket
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.linux.traffic.clock import Waiter, now_ns
from sysgym.emulator.linux.traffic.congestion_controls import Laws
from sysgym.emulator.linux.traffic.flow_records import FlowRecords
from sysgym.emulator.linux.traffic.paths import Paths
from sysgym.emulator.linux.traffic.pool import ConnectionPool
from sysgym.emulator.linux.traffic.sockets import Connection, ConnectionMaker, Wanted
from sysgym.emulator.packets.memory.records import NEVER_NS
from sysgym.emulator.packets.workloads.schedule import FlowSchedule
from sysgym.scenarios.errors import BackendError

FIRST_CONNECTIONS = 4096
"""Flows whose connections exist when the episode begins; later ones are opened ahead of time."""

AHEAD_NS = 500_000_000
SPIN_NS = 150_000
"""Time before a deadline at which the loop stops sleeping: the kernel may wake it that late."""

QUIET_NS = 600_000
"""Time before a deadline from which on senders get no more data: the kernel may take that long to send them.
Data in their buffers are sent all the same."""

_LEAST_SAMPLE_NS = 10_000_000
_SAMPLE_NS_A_FLOW = 200_000
_CHUNK_BYTES = 64 << 10
"""Bytes handed to the kernel at a time, which may send all of them, hop by hop, before it returns."""

_WAKE_BYTES = 64 << 10
"""Bytes for which a receiver is woken, unless less is left."""

KEPT_SLOTS = 1024
"""Slots reserved for flows with controls; other flows have one where there is room."""

_SENDER, _RECEIVER, _LISTENER, _NOBODY = range(4)
_FOREVER = 2**62


class Traffic:
    """The flows of one episode.

    Args:
        schedule: The flows.
        records: Their counters.
        maker: Maker of their connections.
        laws: Congestion controls, and initial controls of managed flows.
        law_of_flow: Index of each flow's law.
        paths: Chooser of the flows' source ports.
        pool: Connections between flows, if they are persistent; None if every flow has its own.

    Attributes:
        failures: Failures of single flows, in words.
        latest_start_s: Largest delay of a flow's start.

    Raises:
        BackendError: If connections cannot be opened.
    """

    def __init__(
        self,
        schedule: FlowSchedule,
        records: FlowRecords,
        maker: ConnectionMaker,
        laws: Laws,
        law_of_flow: NDArray[np.int64],
        paths: Paths,
        pool: ConnectionPool | None = None,
    ) -> None:
        self._schedule, self._records, self._maker = schedule, records, maker
        self._law_of_flow = law_of_flow.tolist()
        self._needs_slot = [law.needs_slot for law in laws.laws]
        self._reports = [law.reports for law in laws.laws]
        self._kept_slots = KEPT_SLOTS if any(self._needs_slot) else 0
        self._free_slots = list(reversed(laws.slots))
        self._prepare_slot = laws.prepare_slot
        self._epoll = select.epoll()
        self._hungry = select.epoll()  # senders that can take more data
        self._handlers: dict[int, tuple[int, int]] = {}
        self._listeners: dict[int, socket.socket] = {}
        self._zeros = memoryview(bytes(_CHUNK_BYTES))
        self._sink = bytearray(1 << 24)  # never written: the kernel discards the data
        self._waiters: dict[tuple[int, ...], tuple[Waiter, Waiter]] = {}
        self._connections: dict[int, Connection] = {}
        self._active: dict[int, Connection] = {}
        self._ending: dict[int, Connection] = {}
        self._to_send: list[int] = np.where(schedule.size_bytes < 0, _FOREVER, schedule.size_bytes).tolist()
        self._to_receive = list(self._to_send)
        self._starts: list[int] = schedule.start_ns.tolist()
        self._n_scheduled = int(np.searchsorted(schedule.start_ns, NEVER_NS))
        self._next = 0
        self._unopened = 0
        self._waits_for = schedule.needs.tolist()
        self._first_waiting, self._waiting = (array.tolist() for array in schedule.successors())
        self._released: list[tuple[int, int]] = []
        self._paths, self._pool = paths, pool
        self._zero_ns = _FOREVER
        self._next_sample_ns = _FOREVER
        self.failures: list[str] = []
        self.latest_start_s = 0.0
        try:
            self._open_first()
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Set time 0 to now."""
        self._zero_ns = now_ns()
        self._next_sample_ns = self._zero_ns

    def slot(self, flow: int) -> int:
        """Return the mark of a flow's socket; 0 if it has none."""
        connection = self._connections.get(flow)
        return 0 if connection is None else connection.slot

    def connection(self, flow: int) -> Connection | None:
        """Return a flow's connection; None if it is not open."""
        return self._connections.get(flow)

    def source_port(self, flow: int) -> int:
        """Return the port that a flow sends from; 0 if it has no connection."""
        connection = self._connections.get(flow)
        return 0 if connection is None else connection.src_port

    def destination_port(self, flow: int) -> int:
        """Return the port that a flow sends to."""
        return self._maker.port(self._law_of_flow[flow])

    def run(self, until_ns: int, fds: Sequence[int] = (), *, spin: bool = True) -> None:
        """Send, receive and start flows until a time, or until one of some files can be read."""
        waiters = self._waiters.get(tuple(fds))
        if waiters is None:
            ours, senders = self._epoll.fileno(), self._hungry.fileno()
            waiters = self._waiters[tuple(fds)] = (Waiter([ours, *fds]), Waiter([ours, *fds, senders]))
        handle, n_fds = self._handle, len(fds)
        spin_ns = SPIN_NS if spin else 0
        quiet_ns = until_ns - (min(QUIET_NS, (until_ns - now_ns()) // 4) if spin else 0)
        while True:
            present_ns = now_ns()
            if present_ns >= until_ns:
                return
            due_ns = self._due_ns()
            if present_ns >= due_ns:
                self._do_what_is_due(present_ns)
                continue
            if present_ns >= until_ns - spin_ns:
                continue
            may_send = present_ns < quiet_ns
            sleep_ns = min(quiet_ns if may_send else until_ns - spin_ns, due_ns) - present_ns
            waiter = waiters[may_send]
            if waiter.wait(sleep_ns) and n_fds and any(map(waiter.is_readable, range(1, n_fds + 1))):
                return
            for fd, _ in self._epoll.poll(0, 8):
                handle(fd)
            if may_send:
                for fd, _ in self._hungry.poll(0, 4):
                    handle(fd)

    def sample(self) -> None:
        """Read the counters of all flows under way."""
        self._records.sample([*self._active.values(), *self._ending.values()])
        for flow in list(self._ending):
            if not self._records.info["unacked"][flow]:
                self._let_go(self._ending.pop(flow))

    @property
    def active_flows(self) -> list[int]:
        """Flows that have started and not finished, in the order of their starts."""
        return list(self._active)

    def close(self) -> None:
        """Reset all connections."""
        for connection in (*self._connections.values(), *(self._pool or ())):
            connection.close()
        self._connections, self._pool = {}, None
        self._active, self._ending = {}, {}
        self._maker.forget()
        self._epoll.close()
        self._hungry.close()

    def _open_first(self) -> None:
        n_flows = len(self._starts)
        if self._pool is not None:
            self._unopened = n_flows
            flows = self._pool.first_flows(FIRST_CONNECTIONS, self._has_slot)
            for connection in self._maker.open([self._wanted(flow) for flow in flows]):
                self._pool.add(connection)
            return
        wanted = []
        while self._unopened < min(n_flows, FIRST_CONNECTIONS) and self._has_slot(self._unopened):
            wanted.append(self._wanted(self._unopened))
            self._unopened += 1
        for connection in self._maker.open(wanted):
            self._connections[connection.flow] = connection
            self._attach_receiver(connection)

    def _has_slot(self, flow: int) -> bool:
        return bool(self._free_slots) or not self._needs_slot[self._law_of_flow[flow]]

    def _wanted(self, flow: int) -> Wanted:
        law = self._law_of_flow[flow]
        schedule = self._schedule
        src, dst = int(schedule.src[flow]), int(schedule.dst[flow])
        src_port = self._paths.source_port(flow, self._maker.port(law))
        slot = 0
        if self._needs_slot[law] or (self._reports[law] and len(self._free_slots) > self._kept_slots):
            slot = self._free_slots.pop()
            self._prepare_slot(flow, slot)
        return Wanted(flow, src, dst, src_port, law, slot)

    def _open(self, flow: int) -> None:
        """Begin to open a flow's connection; its other end is attached when it is accepted."""
        connection = self._begin(flow)
        if connection is not None:
            self._connections[flow] = connection

    def _begin(self, flow: int) -> Connection | None:
        if not self._has_slot(flow):
            return None
        try:
            connection = self._maker.begin(self._wanted(flow))
        except BackendError as error:
            self.failures.append(str(error))
            return None
        for listener in self._maker.listeners:
            if listener.fileno() not in self._listeners:
                self._listeners[listener.fileno()] = listener
                self._handlers[listener.fileno()] = (_LISTENER, 0)
                self._epoll.register(listener, select.EPOLLIN)
        return connection

    def _take(self, flow: int, pool: ConnectionPool) -> None:
        """Give a flow a connection of the pool, and open another one in place of a fresh one."""
        pair = pool.pair(flow)
        if any(pool.pair(ending) == pair for ending in self._ending):
            self.sample()  # its last ACK may have arrived
        connection = pool.take(flow)
        if connection is None or connection.fresh:
            spare = pool.next_flow(pair, self._has_slot)
            opened = None if spare is None else self._begin(spare)
            if connection is None:
                connection = opened
            elif opened is not None:
                pool.add(opened)
        if connection is None:
            return
        if not connection.fresh:
            self._records.continue_connection(flow, connection)
        connection.flow, connection.fresh = flow, False
        self._connections[flow] = connection
        if connection.receiver is not None:
            self._attach_receiver(connection)

    def _attach_receiver(self, connection: Connection) -> None:
        receiver = connection.receiver
        assert receiver is not None
        receiver.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVLOWAT, min(self._to_receive[connection.flow], _WAKE_BYTES)
        )
        self._handlers[receiver.fileno()] = (_RECEIVER, connection.flow)
        self._epoll.register(receiver, select.EPOLLIN)

    def _due_ns(self) -> int:
        """Return the time of the next action that does not depend on the network."""
        if self._zero_ns == _FOREVER:
            return _FOREVER
        due_ns = self._next_sample_ns
        if self._next < self._n_scheduled:
            due_ns = min(due_ns, self._zero_ns + self._starts[self._next])
        if self._released:
            due_ns = min(due_ns, self._zero_ns + self._released[0][0])
        if self._unopened < self._n_scheduled and self._has_slot(self._unopened):
            due_ns = min(due_ns, self._zero_ns + self._starts[self._unopened] - AHEAD_NS)
        return due_ns

    def _do_what_is_due(self, present_ns: int) -> None:
        time_ns = present_ns - self._zero_ns
        while self._next < self._n_scheduled and self._starts[self._next] <= time_ns:
            self._start(self._next, self._starts[self._next])
            self._next += 1
        while self._released and self._released[0][0] <= time_ns:
            due_ns, flow = heapq.heappop(self._released)
            self._start(flow, due_ns)
        if self._unopened < self._n_scheduled and self._starts[self._unopened] - AHEAD_NS <= time_ns:
            if self._unopened not in self._connections and not self._records.started[self._unopened]:
                self._open(self._unopened)
            self._unopened += 1
        if present_ns >= self._next_sample_ns:
            self.sample()
            pause_ns = max(_LEAST_SAMPLE_NS, _SAMPLE_NS_A_FLOW * len(self._active))
            self._next_sample_ns = present_ns + pause_ns

    def _start(self, flow: int, due_ns: int) -> None:
        if self._pool is not None:
            self._take(flow, self._pool)
        elif flow not in self._connections:
            self._open(flow)
        connection = self._connections.get(flow)
        if connection is None:
            self.failures.append(f"flow {flow} has no connection: too many flows are under way")
            return
        start_ns = now_ns() - self._zero_ns
        self.latest_start_s = max(self.latest_start_s, (start_ns - due_ns) * 1e-9)
        self._records.started[flow] = True
        self._records.start_s[flow] = start_ns * 1e-9
        self._active[flow] = connection
        self._send(flow, connection)
        if self._to_send[flow]:
            self._handlers[connection.sender.fileno()] = (_SENDER, flow)
            self._hungry.register(connection.sender, select.EPOLLOUT)

    def _handle(self, fd: int) -> None:
        kind, flow = self._handlers.get(fd, (_NOBODY, 0))
        if kind == _NOBODY:  # an earlier event of the same batch has closed it
            return
        if kind == _LISTENER:
            for connection in self._maker.accept(self._listeners[fd]):
                if self._pool is None or not connection.fresh:
                    self._attach_receiver(connection)
            return
        connection = self._connections[flow]
        if kind == _SENDER:
            self._send(flow, connection)
            if not self._to_send[flow]:
                self._forget(fd)
        else:
            self._receive(flow, connection)

    def _send(self, flow: int, connection: Connection) -> None:
        left = self._to_send[flow]
        data = self._zeros if left >= _CHUNK_BYTES else self._zeros[:left]
        try:
            left -= connection.sender.send(data)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(flow, connection, error)
            return
        if left < _FOREVER // 2:
            self._to_send[flow] = left

    def _receive(self, flow: int, connection: Connection) -> None:
        receiver = connection.receiver
        assert receiver is not None
        try:
            n_bytes = receiver.recv_into(self._sink, 0, socket.MSG_TRUNC)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(flow, connection, error)
            return
        if n_bytes == 0:
            self._fail(flow, connection, OSError(0, "the sender has gone"))
            return
        left = self._to_receive[flow]
        if left >= _FOREVER // 2:
            return
        left -= n_bytes
        self._to_receive[flow] = left
        if left == 0:
            self._finish(flow, connection)
        elif left < _WAKE_BYTES:
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, left)

    def _finish(self, flow: int, connection: Connection) -> None:
        time_ns = now_ns() - self._zero_ns
        self._forget(connection.receiver.fileno() if connection.receiver else -1)
        self._active.pop(flow, None)
        self._records.sample([connection])
        self._records.finish(flow, time_ns * 1e-9)
        if self._records.info["unacked"][flow]:
            self._ending[flow] = connection  # until its last ACK has arrived
        else:
            self._let_go(connection)
        for waiting in self._waiting[self._first_waiting[flow] : self._first_waiting[flow + 1]]:
            self._waits_for[waiting] -= 1
            if not self._waits_for[waiting]:
                delay_ns = int(self._schedule.after_delay_ns[waiting])
                heapq.heappush(self._released, (time_ns + delay_ns, waiting))

    def _fail(self, flow: int, connection: Connection, error: OSError) -> None:
        self.failures.append(f"flow {flow} has broken off: {error.strerror}")
        self._active.pop(flow, None)
        for end in (connection.sender, connection.receiver):
            if end is not None and end.fileno() >= 0:
                self._forget(end.fileno())
        self._to_send[flow] = 0
        self._close(connection)

    def _let_go(self, connection: Connection) -> None:
        """Keep the connection of a flow that has ended for another one, or close it."""
        if self._pool is None:
            self._close(connection)
        else:
            self._connections.pop(connection.flow, None)
            self._pool.put_back(connection)

    def _close(self, connection: Connection) -> None:
        connection.close()
        if connection.slot:
            self._free_slots.append(connection.slot)
        self._connections.pop(connection.flow, None)

    def _forget(self, fd: int) -> None:
        kind, _ = self._handlers.pop(fd, (_NOBODY, 0))
        if kind != _NOBODY:
            (self._hungry if kind == _SENDER else self._epoll).unregister(fd)
