"""Privileged service: opens sessions, starts a world process for each, and cleans up after them.

Clients ask it for a session over ZeroMQ; from then on a client talks to its world's own socket. The service
waits for messages, for worlds that become ready, and for ends: of worlds, of clients of this machine (by
pidfd), and of the process that it was started for. Everything that belonged to the ended one is removed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import socket as sockets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import zmq

from sysgym.emulator.linux.child import run_and_leave
from sysgym.emulator.linux.service import messages as m
from sysgym.emulator.linux.service import protocol as p
from sysgym.emulator.linux.service import session as sessions
from sysgym.emulator.linux.service.cleaning import FOLDER_VARIABLE, SESSION_VARIABLE, clean, kill_tagged
from sysgym.emulator.linux.service.runtime import Claim, pid_namespace, start_ticks
from sysgym.emulator.linux.service.wire_errors import to_wire
from sysgym.emulator.linux.service.world_process import WorldProcess
from sysgym.emulator.linux.service.worlds import KERNEL, MAX_SESSIONS, get_kind
from sysgym.scenarios.errors import BackendError, SysgymError

_STORIES_KEPT = 64
_STOP_WITHIN_S = sessions.CLOSE_WITHIN_S + 2.0


@dataclass
class _Session:
    """A world process and its client."""

    number: int
    slot: int
    token: str
    world: WorldProcess
    words: str
    asked: tuple[bytes, int] | None
    client: str
    client_fd: int = -1
    said: bytes = b""
    stopping_since: float = 0.0
    why: str = field(default="its world's process ended by itself")


class Service:
    """Server of worlds, until it is stopped.

    Args:
        root: Folder for the services' folders; None uses this user's.
        kind: Kind of worlds.
        tcp: ``tcp://HOST:PORT`` to listen on instead of a socket in the file system.
        keys: Folder of keys, for tcp.
        owner: User and group of the sockets' files; None uses those of this process.
        for_pid: Process that uses this service; the service ends with it.
        sessions_per_client: Most simultaneous sessions of one client: of a user of this machine
            (SO_PEERCRED), or of the holder of a key.
        say: Called with a message about each event.

    Raises:
        BackendError: If it cannot listen.
    """

    def __init__(
        self,
        *,
        root: Path | None = None,
        kind: str = KERNEL,
        tcp: str | None = None,
        keys: Path | None = None,
        owner: tuple[int, int] | None = None,
        for_pid: int | None = None,
        sessions_per_client: int = MAX_SESSIONS,
        say: Callable[[str], None] = lambda words: None,
    ) -> None:
        self._kind_name, self._tcp, self._keys, self._owner, self._say = kind, tcp, keys, owner, say
        self._per_client = sessions_per_client
        self._sessions: dict[int, _Session] = {}
        self._stories: dict[int, tuple[str, str, str]] = {}
        self._number = 0
        self._spare: WorldProcess | None = None
        self._for_fd = -1 if for_pid is None else os.pidfd_open(for_pid)
        self._stopping = False
        self._kind = get_kind(kind)
        self._unprepared: SysgymError | None = None
        self._claim = Claim(root)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            wanted = tcp or f"ipc://{self._claim.folder / 'service.sock'}"
            self._socket, self._guard = sessions.bind(
                self._context, wanted, owner, None if keys is None else str(keys)
            )
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            self._claim.release()
            raise BackendError(f"cannot listen on {tcp}: {error}") from error
        self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._claim.write(self.endpoint)

    @property
    def sid(self) -> str:
        """The service's id."""
        return self._claim.sid

    @property
    def folder(self) -> Path:
        """The service's folder."""
        return self._claim.folder

    def run(self) -> None:
        """Serve until :meth:`stop`, SIGINT or SIGTERM, then remove everything."""
        self._wake, waker = sockets.socketpair()
        self._wake.setblocking(False)
        waker.setblocking(False)
        previous = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)
        }
        previous_fd = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        try:
            self._keep_spare()  # it imports modules while this process compiles
            self.prepare()
            while not self._stopping:
                self._wait_and_see()
        finally:
            self._take_down()
            signal.set_wakeup_fd(previous_fd)
            for number, handler in previous.items():
                signal.signal(number, handler)
            self._wake.close()
            waker.close()

    def prepare(self) -> None:
        """Load the objects that all worlds share; a failure is reported to clients that open a session."""
        try:
            self._kind.prepare(self.sid)
        except SysgymError as error:
            self._unprepared = error
            self._say(str(error))

    def _keep_spare(self) -> None:
        """Keep one world process ready for the next client."""
        if self._spare is None:
            self._spare = self._new_world_process()

    def stop(self) -> None:
        """Make :meth:`run` end soon."""
        self._stopping = True

    def _on_signal(self, number: int, frame: object) -> None:
        self._stopping = True

    def _wait_and_see(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        for fd in (self._wake.fileno(), self._for_fd):
            if fd >= 0:
                poller.register(fd, zmq.POLLIN)
        for session in self._sessions.values():
            for fd in (session.world.pidfd, session.world.ready_fd, session.client_fd):
                if fd >= 0:
                    poller.register(fd, zmq.POLLIN)
        some_end = any(session.stopping_since for session in self._sessions.values())
        happened = dict(poller.poll(500 if some_end else None))
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(64)
        if self._for_fd in happened:
            self._stopping = True
        for session in list(self._sessions.values()):
            if session.world.ready_fd in happened:
                self._hear(session)
            if session.client_fd in happened and not session.stopping_since:
                self._stop_session(session, "its client has gone")
            if session.world.pidfd in happened:
                self._bury(session)
            elif session.stopping_since and time.monotonic() > session.stopping_since + _STOP_WITHIN_S:
                session.world.kill()
        if self._socket in happened:
            for _ in range(100):  # then check for ends again
                if not self._take_one():
                    break

    def _take_one(self) -> bool:
        try:
            frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return False
        sender, request_id = frames[0].bytes, 0
        try:
            if len(frames) != 2:
                raise p.ProtocolError(f"a message of {len(frames) - 1} frames; expected one")
            request_id, content = p.decode(frames[1].buffer)
            request = p.parse(m.REQUEST_TO_SERVICE, request_id, content)
            if isinstance(request, m.Open):
                self._open(sender, request_id, request, frames[1])
                return True
            answer = p.encode(request_id, self._answer(request))
        except p.ProtocolError as error:
            answer = p.encode_error(error.request_id or request_id, to_wire(error))
        except (SysgymError, OSError) as error:
            answer = p.encode_error(request_id, to_wire(error))
        self._send(sender, answer)
        return True

    def _answer(self, request: Any) -> m.Message:
        if isinstance(request, m.Hello):
            from importlib.metadata import version

            return m.Greeting(
                sid=self.sid,
                version=version("sysgym"),
                pid=os.getpid(),
                sessions=len(self._sessions),
                max_sessions=MAX_SESSIONS,
            )
        session = self._sessions.get(request.session)
        if session is None and request.session not in self._stories:
            raise BackendError(f"there is no session {request.session}")
        token, words, log = self._stories.get(request.session, ("", "", ""))
        if not secrets.compare_digest(
            (token if session is None else session.token).encode(), request.token.encode()
        ):
            raise BackendError(f"session {request.session} belongs to another client")
        if isinstance(request, m.End):
            if session is not None:
                self._stop_session(session, "its client has ended it")
            return m.Ok()
        if session is not None:
            return m.SessionExit(alive=True, words=session.words, log=session.world.log_tail())
        return m.SessionExit(alive=False, words=words, log=log)

    def _open(self, sender: bytes, request_id: int, request: m.Open, frame: zmq.Frame) -> None:
        if self._unprepared is not None:
            raise self._unprepared
        taken = {session.slot for session in self._sessions.values()}
        free = [slot for slot in range(MAX_SESSIONS) if slot not in taken]
        if not free:
            raise BackendError(f"all {MAX_SESSIONS} sessions of this service are taken")
        client = _client_of(frame)
        if sum(session.client == client for session in self._sessions.values()) >= self._per_client:
            raise BackendError(
                f"{client} has {self._per_client} sessions, the most that this service gives one client; "
                "close one, or start the service with a larger --sessions-per-client"
            )
        world, self._spare = self._spare, None
        if world is not None and not world.is_alive:
            world.bury()
            world = None
        if world is None:
            world = self._new_world_process()
        number, token = world.number, secrets.token_hex(16)
        if self._tcp is None:
            endpoint = f"ipc://{self.folder / f'session-{number}.sock'}"
        else:
            endpoint = self._tcp.rpartition(":")[0] + ":*"
        world.order(
            sessions.Order(
                sid=self.sid,
                slot=free[0],
                endpoint=endpoint,
                owner=self._owner,
                keys=None if self._keys is None else str(self._keys),
                token=token,
                request=frame.bytes,
            )
        )
        words = f"{str(request.scenario.get('name'))[:60]!r} with {request.transport}"
        session = _Session(number, free[0], token, world, words, (sender, request_id), client)
        session.client_fd = self._watch(request.client)
        self._sessions[number] = session
        self._say(f"session {number}: {words}")

    def _new_world_process(self) -> WorldProcess:
        self._number += 1
        return WorldProcess(self._kind_name, self.sid, self.folder, self._number)

    @staticmethod
    def _watch(client: m.Client | None) -> int:
        """Return a file that becomes readable when the client's process ends; -1 if it runs elsewhere."""
        if client is None or client.pid_namespace != pid_namespace():
            return -1
        try:
            fd = os.pidfd_open(client.pid)
        except OSError:
            return -1
        if start_ticks(client.pid) != client.start_ticks:
            os.close(fd)
            return -1
        return fd

    def _hear(self, session: _Session) -> None:
        """Read a world's message that it is ready, or why not."""
        said = os.read(session.world.ready_fd, 65536)
        session.said += said
        if said:
            return
        session.world.said_all()
        if not session.said:
            return  # it ended without a message, which is reported at its end
        content = msgpack.unpackb(session.said)
        if "error" in content:
            session.why = "its world could not be built"
            self._reply(session, lambda request_id: p.encode_error(request_id, content["error"]))
            return
        opened = m.Opened(
            session=session.number,
            endpoint=content["endpoint"],
            token=session.token,
            pid=session.world.pid,
            packet_processor=content["packet_processor"],
        )
        self._reply(session, lambda request_id: p.encode(request_id, opened))

    def _reply(self, session: _Session, frame: Callable[[int], bytes]) -> None:
        if session.asked is not None:
            sender, request_id = session.asked
            session.asked = None
            self._send(sender, frame(request_id))

    def _stop_session(self, session: _Session, why: str) -> None:
        if not session.stopping_since:
            session.stopping_since = time.monotonic()
            session.why = why
            session.world.terminate()

    def _bury(self, session: _Session) -> None:
        """Clean up after a world process that has ended."""
        with contextlib.suppress(BlockingIOError):
            while session.world.ready_fd >= 0:
                self._hear(session)
        status = session.world.bury()
        if session.client_fd >= 0:
            os.close(session.client_fd)
        del self._sessions[session.number]
        kill_tagged(
            lambda environment: (
                environment[FOLDER_VARIABLE] == str(self.folder)
                and environment.get(SESSION_VARIABLE) == str(session.number)
            )
        )
        log = session.world.log_tail()
        words = f"session {session.number} has ended: {session.why}" + _status_words(status)
        error = BackendError(words, log)
        self._reply(session, lambda request_id: p.encode_error(request_id, to_wire(error)))
        self._stories[session.number] = (session.token, words, log)
        while len(self._stories) > _STORIES_KEPT:
            del self._stories[next(iter(self._stories))]
        for path in (session.world.log, session.world.log.with_suffix(".sock")):
            path.unlink(missing_ok=True)
        self._say(words)
        # Not while a session begins, whose measurements should not be disturbed.
        if not self._stopping and not self._sessions:
            self._keep_spare()

    def _send(self, receiver: bytes, frame: bytes) -> None:
        try:
            self._socket.send_multipart([receiver, frame], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):  # the receiver is gone, or does not read
                raise

    def _take_down(self) -> None:
        for session in list(self._sessions.values()):
            self._stop_session(session, "the service was stopped")
        end = time.monotonic() + _STOP_WITHIN_S
        for session in list(self._sessions.values()):
            left_ms = max(0.0, end - time.monotonic()) * 1000
            poller = select.poll()
            poller.register(session.world.pidfd, select.POLLIN)
            if not poller.poll(left_ms):
                session.world.kill()
            self._bury(session)
        kill_tagged(lambda environment: environment[FOLDER_VARIABLE] == str(self.folder))
        if self._spare is not None:
            self._spare.kill()  # just after its start its environment cannot be read yet
            self._spare.bury()
        with contextlib.suppress(SysgymError):
            self._kind.release()
        if self._guard is not None:
            self._guard.stop()
        self._context.destroy(linger=200)
        if self._for_fd >= 0:
            os.close(self._for_fd)
        self._claim.release()


def _client_of(frame: zmq.Frame) -> str:
    """Return the client of a message, as identified by the kernel or the keys and not by the message."""
    for name in ("User-Id", "Peer-Address"):
        with contextlib.suppress(zmq.ZMQError):
            said = frame.get(name)
            if name == "User-Id":
                return f"the holder of key {said}"
            host, *credentials = str(said).split(":")
            return f"user {credentials[0]}" if credentials else f"the client at {host}"
    return "a client"


def _status_words(status: int) -> str:
    if status < 0:
        return f" ({signal.Signals(-status).name})"
    return f" (exit code {status})" if status else ""


def main() -> None:
    """Entry point of a private service: ``python -m sysgym.emulator.linux.service.daemon PID ROOT KIND``.

    It writes its endpoint, or why it has none, on its standard output.
    """
    for_pid, root, kind = sys.argv[1:]
    try:
        clean([Path(root)])
        service = Service(root=Path(root), kind=kind, for_pid=int(for_pid))
    except (SysgymError, OSError) as error:
        sys.stdout.write(" ".join(str(error).split()) + "\n")
        sys.exit(1)
    sys.stdout.write(service.endpoint + "\n")
    sys.stdout.flush()
    service.run()


if __name__ == "__main__":
    run_and_leave(main)
