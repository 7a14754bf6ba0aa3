"""World process of a session: one network, one client, one thread.

The service starts it with a socket to bind and a pipe to report on that it is ready. It then has a single
loop for traffic and for the messages of its client. It ends, and removes its network, when the client asks
for it, when the client is gone, when the service requests it (SIGTERM), and when the service has died (the
kernel sends the same signal).
"""

from __future__ import annotations

import contextlib
import ctypes
import hmac
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgpack
import numpy as np
import zmq
from zmq.utils.monitor import recv_monitor_message

from sysgym.emulator.linux.child import run_and_leave
from sysgym.emulator.linux.processors import keep_process_off
from sysgym.emulator.linux.service import messages as m
from sysgym.emulator.linux.service import protocol as p
from sysgym.emulator.linux.service.keys import guard
from sysgym.emulator.linux.service.wire_errors import to_wire
from sysgym.emulator.linux.service.worlds import Kind, WorldOfSession, get_kind
from sysgym.scenarios.errors import BackendError, SysgymError

if TYPE_CHECKING:  # the simulator's imports take as long as all others together
    from sysgym.emulator.packets.workloads.schedule import FlowSchedule

LARGEST_FRAME_TAKEN = 4 * p.MAX_MESSAGE_BYTES
"""Frames up to this size are answered with an error if they are too large; beyond it ZeroMQ disconnects."""

CLOSE_WITHIN_S = 10
"""Time until a world that does not end is killed; the service then cleans up after it."""

ATTACH_WITHIN_S = 30.0

NICENESS = -10

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Order:
    """Order of a service to a world process.

    Attributes:
        sid: The service's id.
        slot: Index of its share of flow slots and ports.
        endpoint: Endpoint to bind; a port may be ``*``.
        owner: User and group of the socket's file.
        keys: Folder of keys; None for a socket in the file system.
        token: Token that admits a client.
        request: The client's Open request, as a frame.
    """

    sid: str
    slot: int
    endpoint: str
    owner: tuple[int, int] | None
    keys: str | None
    token: str
    request: bytes


class Session:
    """Server of one world to one client."""

    def __init__(self, world: WorldOfSession, socket: zmq.Socket[bytes], token: str) -> None:
        self._world, self._socket, self._token = world, socket, token
        self._owner: bytes | None = None
        self._n_flows = 0
        self._n_warnings = 0
        self._shape = self._shape_of_world()
        self._ended = False
        self._monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._suspicious_until = 0.0
        self._started = time.monotonic()
        self._does: dict[type[m.Message], Callable[[Any], m.Message]] = {
            m.Reset: self._reset,
            m.Apply: self._apply,
            m.Step: self._step,
            m.Read: self._read,
            m.ReadFlows: lambda request: m.Flows(**world.flows()),
            m.QueueQuantiles: lambda request: m.Numbers(values=world.queue_quantiles(request.quantile)),
            m.OracleRates: lambda request: m.Numbers(values=world.oracle_rates_bps()),
            m.ClearMaxima: self._clear_maxima,
            m.Bye: self._bye,
        }

    def serve(self) -> None:
        """Serve until the session ends."""
        fds = [int(self._socket.getsockopt(zmq.FD)), int(self._monitor.getsockopt(zmq.FD))]
        while not self._client_gone():
            if not self._take_one():
                self._world.wait(fds, 0.25)

    def _take_one(self) -> bool:
        try:
            frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return False
        sender = frames[0].bytes
        request_id = 0
        try:
            if len(frames) != 2:
                raise p.ProtocolError(f"a message of {len(frames) - 1} frames; expected one")
            request_id, content = p.decode(frames[1].buffer)
            request = p.parse(m.REQUEST_TO_WORLD, request_id, content)
            answer = p.encode(request_id, self._answer(sender, request))
        except p.ProtocolError as error:
            answer = p.encode_error(error.request_id or request_id, to_wire(error))
        except Exception as error:  # reported to the client; an error of the world does not end the session
            if not isinstance(error, SysgymError):
                sys.excepthook(type(error), error, error.__traceback__)  # goes to the session's log
            answer = p.encode_error(request_id, to_wire(error))
        self._send(sender, answer)
        return True

    def _answer(self, sender: bytes, request: Any) -> m.Message:
        if isinstance(request, m.Attach):
            return self._attach(sender, request)
        if sender != self._owner:
            raise BackendError("this session belongs to another client")
        return self._does[type(request)](request)

    def _attach(self, sender: bytes, request: m.Attach) -> m.World:
        if not hmac.compare_digest(request.token.encode(), self._token.encode()):
            raise BackendError("this session belongs to another client")
        if self._owner not in (None, sender):
            raise BackendError("this session is busy: another client is in it")
        self._owner = sender
        n_links, n_hosts = self._shape
        return m.World(n_hosts=n_hosts, n_links=n_links)

    def _reset(self, request: m.Reset) -> m.Readings:
        schedule = None if request.schedule is None else request.schedule.flows()
        if schedule is not None:
            self._check_hosts(schedule)
            self._n_flows = len(schedule.src)
        self._world.reset(request.seed, schedule)
        if schedule is None:
            self._n_flows = len(self._world.flows()["src"])
        return self._readings(None)

    def _apply(self, request: m.Apply) -> m.Ok:
        self._control(request)
        return m.Ok()

    def _step(self, request: m.Step) -> m.Readings:
        self._check_ids(request.read_flows)
        self._control(request)
        jitter_s = self._world.advance(request.duration_s)
        return self._readings(request.read_flows, jitter_s)

    def _read(self, request: m.Read) -> m.Readings:
        self._check_ids(request.read_flows)
        return self._readings(request.read_flows)

    def _clear_maxima(self, request: m.ClearMaxima) -> m.Ok:
        self._world.clear_maxima()
        return m.Ok()

    def _bye(self, request: m.Bye) -> m.Ok:
        self._ended = True
        return m.Ok()

    def _control(self, request: m.Controls) -> None:
        caps_bps = request.host_caps_bps
        if caps_bps is not None and len(caps_bps) != self._shape[1]:
            raise SysgymError(
                f"host rate caps: got {len(caps_bps)}, expected one for each of {self._shape[1]}"
            )
        of_flows = (request.flow_rates, request.windows, request.window_factors)
        for pair in of_flows:
            if pair is not None:
                self._check_ids(pair[0])
        if any(setting is not None for setting in (caps_bps, *of_flows)):
            self._world.apply(caps_bps, *of_flows)

    def _readings(self, flow_ids: Any, jitter_s: float = 0.0) -> m.Readings:
        found = self._world.readings()
        counters = None if flow_ids is None else self._world.flow_counters(flow_ids)
        return m.Readings(
            now_s=float(found["now_s"]),
            jitter_s=float(jitter_s),
            ports=found["ports"],
            hosts=found["hosts"],
            flow_counters=counters,
            new_warnings=self._new_warnings(),
        )

    def _new_warnings(self) -> list[str]:
        """Return the world's warnings since the last call."""
        new = [str(words)[:500] for words in self._world.warnings[self._n_warnings :][:20]]
        self._n_warnings += len(new)
        return new

    def _shape_of_world(self) -> tuple[int, int]:
        found = self._world.readings()
        return found["ports"].shape[1], found["hosts"].shape[1]

    def _check_ids(self, flow_ids: Any) -> None:
        if flow_ids is not None and len(flow_ids) and flow_ids.max() >= self._n_flows:
            raise SysgymError(f"flow {flow_ids.max()}: there are {self._n_flows}")

    def _check_hosts(self, schedule: FlowSchedule) -> None:
        last = max(schedule.src.max(initial=0), schedule.dst.max(initial=0))
        if last >= self._shape[1]:
            raise SysgymError(f"the schedule has a flow of host {last}: there are {self._shape[1]} hosts")

    def _client_gone(self) -> bool:
        """Return whether the client is gone, and end the session then.

        ZeroMQ reports that a connection has ended, but not which. The client is therefore sent a message that
        it ignores; if the message cannot be delivered, the client is gone.
        """
        now = time.monotonic()
        while self._monitor.poll(0):
            recv_monitor_message(self._monitor)
            self._suspicious_until = now + 2.0  # a connection's end may be reported before its queue is gone
        if self._owner is None:
            self._ended = now - self._started > ATTACH_WITHIN_S
        elif now < self._suspicious_until:
            self._send(self._owner, p.encode(p.NOBODYS_ID, m.Ok()))
        return self._ended

    def _send(self, receiver: bytes, frame: bytes) -> None:
        try:
            self._socket.send_multipart([receiver, frame], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise
            if receiver == self._owner:
                self._ended = True


def bind(
    context: zmq.Context[zmq.Socket[bytes]], endpoint: str, owner: tuple[int, int] | None, keys: str | None
) -> tuple[zmq.Socket[bytes], Any]:
    """Return a bound ROUTER that only the owner or the holders of keys can reach, and its guard."""
    socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
    socket.linger = 200
    socket.maxmsgsize = LARGEST_FRAME_TAKEN
    socket.router_mandatory = True
    socket.heartbeat_ivl = 2000
    socket.heartbeat_timeout = 10_000
    authenticator = None
    if endpoint.startswith("ipc://"):
        previous = os.umask(0o177)
        try:
            socket.bind(endpoint)
        finally:
            os.umask(previous)
        path = Path(endpoint.removeprefix("ipc://"))
        if owner is not None:
            os.chown(path, *owner, follow_symlinks=False)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    elif endpoint.startswith("tcp://") and keys is not None:
        authenticator = guard(socket, Path(keys))
        socket.bind(endpoint)
    else:
        raise BackendError(f"{endpoint}: expected ipc://FILE, or tcp://HOST:PORT with a folder of keys")
    return socket, authenticator


def die_with_parent(parent_pid: int, signal_number: int = signal.SIGTERM) -> None:
    """Ask the kernel to send a signal to this process when its parent ends (prctl(2))."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0)
    if os.getppid() != parent_pid:  # the parent has already ended
        sys.exit("the service has ended")


@contextmanager
def _taken_down(world: WorldOfSession) -> Iterator[None]:
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(CLOSE_WITHIN_S)
        world.close()


def _stop(number: int, frame: object) -> NoReturn:
    raise SystemExit(0)


def run(order: Order, kind: Kind, ready_fd: int) -> None:
    """Build the world, report it, and serve it."""
    request_id, content = p.decode(order.request)
    request: m.Open = p.parse(m.REQUEST_TO_SERVICE, request_id, content)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket, authenticator = bind(context, order.endpoint, order.owner, order.keys)
    endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
    try:
        world = kind.build(
            order.sid,
            order.slot,
            request.scenario,
            request.transport,
            dict(request.flow_transports),
            request.parameters,
        )
        with _taken_down(world):
            if world.packet_processor is not None:
                keep_process_off(world.packet_processor)
            session = Session(world, socket, order.token)
            _say(ready_fd, {"endpoint": endpoint, "packet_processor": world.packet_processor})
            session.serve()
    finally:
        socket.disable_monitor()
        if authenticator is not None:
            authenticator.stop()
        context.destroy(linger=200)


def _say(fd: int, content: dict[str, Any]) -> None:
    os.write(fd, msgpack.packb(content))
    os.close(fd)


def main() -> None:
    """Entry point of the process: ``... session KIND SERVICE READY_FD ORDER_FD``.

    It imports all modules, then waits for a word on its standard input that its order can be read. If the
    file ends without a word, the process ends.
    """
    kind_name, service_pid, ready_fd, order_fd = sys.argv[1], *map(int, sys.argv[2:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which ends its worlds
    signal.signal(signal.SIGTERM, _stop)
    die_with_parent(service_pid)
    kind = get_kind(kind_name)
    with contextlib.suppress(SysgymError):  # a missing requirement is reported when a world is requested
        kind.preload()
    if not sys.stdin.buffer.read():
        return
    os.lseek(order_fd, 0, os.SEEK_SET)
    with os.fdopen(order_fd, "rb") as file:
        order = Order(**msgpack.unpackb(file.read()))
    np.seterr(all="ignore")
    with contextlib.suppress(OSError):  # traffic and deadlines take precedence over training
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
        if os.geteuid() == 0:  # and over everything else, but processes that a world starts do not
            real_time = os.SCHED_RR | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(0, real_time, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
    try:
        run(order, kind, ready_fd)
    except Exception as error:
        with contextlib.suppress(OSError):  # it failed after it was ready: the log has the traceback
            _say(ready_fd, {"error": to_wire(error)})
        if not isinstance(error, SysgymError):
            raise
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    run_and_leave(main)
