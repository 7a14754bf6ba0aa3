"""Client side of a connection to a service or a world: requests, answers and detection of its end."""

from __future__ import annotations

import itertools
import math
import os
import time
from pathlib import Path
from typing import TypeVar

from sysgym.emulator.linux.service import protocol as p
from sysgym.emulator.linux.service.messages import Message
from sysgym.emulator.linux.service.wire_errors import from_wire
from sysgym.scenarios.errors import BackendError, BackendUnavailable, MissingExtra

try:
    import zmq
    from zmq.utils.monitor import recv_monitor_message

    from sysgym.emulator.linux.service.keys import introduce
except ImportError as missing:  # the service's machine has it; environments may run elsewhere
    raise MissingExtra("emulator", "the Linux backend") from missing

MessageT = TypeVar("MessageT", bound=Message)

START_ONE = "start one in another terminal: sudo sysgym emulator serve"

_REFUSED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
_NO_ANSWER = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
_NOBODY = zmq.EVENT_CONNECT_RETRIED | zmq.EVENT_CLOSED
_GONE = zmq.EVENT_DISCONNECTED


class Disconnected(BackendError):
    """Raised when the other side is gone."""


class Connection:
    """A socket that speaks the protocol, for one thread of one process.

    Args:
        endpoint: Endpoint of the other side.
        keys: Folder of keys, for tcp.

    Raises:
        BackendUnavailable: If the endpoint is invalid, or a key is missing.
    """

    def __init__(self, endpoint: str, keys: Path | None = None) -> None:
        self.endpoint = endpoint
        self._pid = os.getpid()
        _check_file(endpoint)
        self._numbers = itertools.count(1)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self._monitor: zmq.Socket[bytes] | None = None
        try:
            self._socket.linger = 0
            self._socket.maxmsgsize = 4 * p.MAX_MESSAGE_BYTES
            self._socket.heartbeat_ivl = 2000
            self._socket.heartbeat_timeout = 10_000
            self._socket.reconnect_ivl = -1 if endpoint.startswith("ipc:") else 500
            if endpoint.startswith("tcp:"):
                introduce(self._socket, keys)
            self._monitor = self._socket.get_monitor_socket(_REFUSED | _NO_ANSWER | _NOBODY | _GONE)
            self._socket.connect(endpoint)
        except (zmq.ZMQError, BackendUnavailable) as error:
            self.close()
            if isinstance(error, BackendUnavailable):
                raise
            raise BackendUnavailable("linux", f'"{endpoint}" is no address: {error}') from None
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)

    def ask(self, request: Message, answer: type[MessageT], timeout_s: float) -> MessageT:
        """Send a request and wait for its answer.

        Raises:
            Disconnected: If the other side ends, or does not exist.
            BackendError: If there is no answer in time.
            SysgymError: If the other side reports an error, of the class that it reports.
        """
        if os.getpid() != self._pid:
            raise BackendError("a connection to the Linux backend cannot be used in a forked process")
        number = next(self._numbers)
        frame = p.encode(number, request)
        try:
            self._socket.send(frame, zmq.NOBLOCK)
        except zmq.Again:
            raise Disconnected(f"nobody answers at {self.endpoint}") from None
        end = time.monotonic() + timeout_s
        while True:
            left_ms = (end - time.monotonic()) * 1000
            if left_ms <= 0:
                raise BackendError(f"no answer from {self.endpoint} within {timeout_s:.0f} s")
            happened = dict(self._poller.poll(math.ceil(left_ms)))
            if self._socket in happened:
                got, content = p.decode(self._socket.recv())
                if got == number or (got == 0 and "error" in content):
                    if "error" in content:
                        raise from_wire(content["error"])
                    return p.parse_answer(answer, content)
            elif self._monitor in happened:
                self._look_at_connection()

    def _look_at_connection(self) -> None:
        assert self._monitor is not None
        event = recv_monitor_message(self._monitor)["event"]
        if event & _REFUSED:
            raise BackendUnavailable(
                "linux",
                f"{self.endpoint} does not let this client in",
                "have your client.key put into its clients/",
            )
        if not self._socket.poll(0):  # an answer that was sent before the end is still an answer
            words = (
                "has ended the connection" if event & (_GONE | _NO_ANSWER) else "is not there: nobody listens"
            )
            raise Disconnected(f"{self.endpoint} {words}")

    def close(self) -> None:
        """Close the socket; closing twice is harmless."""
        if self._context.closed or os.getpid() != self._pid:
            return
        # One by one: during garbage collection the context has lost its sockets and would wait for them.
        self._socket.disable_monitor()
        for socket in (self._monitor, self._socket):
            if socket is not None:
                socket.close(linger=0)
        self._context.term()


def _check_file(endpoint: str) -> None:
    """Check that an endpoint's file exists and is accessible; ZeroMQ would retry forever instead."""
    path = endpoint.removeprefix("ipc://")
    if path == endpoint:
        return
    if not os.path.exists(path):
        raise BackendUnavailable("linux", f"{endpoint} is not there: nobody listens", START_ONE)
    if not os.access(path, os.W_OK):
        raise BackendUnavailable(
            "linux", f"{endpoint} is another user's", "sudo sysgym emulator serve --user NAME lets a user in"
        )
