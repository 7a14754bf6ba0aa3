"""TCP connections between the hosts of a fabric, all held by this one process.

A socket belongs to the network namespace in which it was made, whoever uses it later. This process enters a
host's namespace to open a socket and uses it from outside from then on. There is no process per host, and the
``TCP_INFO`` of every connection is one system call away.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.linux.kernel.fabric import Fabric
from sysgym.emulator.linux.kernel.nodes import open_tcp_socket
from sysgym.scenarios.errors import BackendError

_SO_MARK, _SO_SNDBUFFORCE, _SO_RCVBUFFORCE, _SO_MAX_PACING_RATE = 36, 32, 33, 47
_TCP_NOTSENT_LOWAT = 25
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER of no time: closing sends a reset and leaves nothing waiting (RFC 9293, 3.5.2)."""

_FILES = 65_536
_MOST_AT_ONCE = 128
"""Connections that are opened together: so many SYNs fit into any queue."""

BUFFER_BYTES = 32 << 20
"""A sender's buffer, too large to limit the data in flight; it includes the kernel's overhead per packet."""

LEAST_RECEIVE_BYTES = 256 << 10

_FIXED_WINDOW_SHARE = 0.78
"""Share of a receiver's buffer that is left once its first window has been told.

That window is half the buffer. With the first packet the kernel learns that 63 % of a buffer are payload, and
lets the window grow to that; while it grows, the kernel acknowledges every packet, and not every second one.
0.78 * 63 % is a little less than half.
"""

UNSENT_BYTES = 512 << 10
"""A sender takes more data when less than this waits to be sent: 4 ms at 1 Gb/s."""

PACED_BUT_NOT_LIMITED = 2**44
"""A pacing rate, bytes/s, that only enables pacing: a congestion control sets the real rate."""

TCP_INFO = np.dtype(
    [
        ("state", "u1"),
        ("ca_state", "u1"),
        ("retransmits", "u1"),
        ("probes", "u1"),
        ("backoff", "u1"),
        ("options", "u1"),
        ("wscale", "u1"),
        ("app_limited", "u1"),
        *[(name, "u4") for name in ("rto", "ato", "snd_mss", "rcv_mss")],
        *[(name, "u4") for name in ("unacked", "sacked", "lost", "retrans", "fackets")],
        *[(f"last_{name}", "u4") for name in ("data_sent", "ack_sent", "data_recv", "ack_recv")],
        *[(name, "u4") for name in ("pmtu", "rcv_ssthresh", "rtt_us", "rttvar_us", "snd_ssthresh")],
        *[(name, "u4") for name in ("snd_cwnd", "advmss", "reordering", "rcv_rtt", "rcv_space")],
        ("total_retrans", "u4"),
        *[(name, "u8") for name in ("pacing_rate", "max_pacing_rate", "bytes_acked", "bytes_received")],
        *[(name, "u4") for name in ("segs_out", "segs_in", "notsent_bytes", "min_rtt_us")],
        *[(name, "u4") for name in ("data_segs_in", "data_segs_out")],
        *[(name, "u8") for name in ("delivery_rate", "busy_time", "rwnd_limited", "sndbuf_limited")],
        *[(name, "u4") for name in ("delivered", "delivered_ce")],
        *[(name, "u8") for name in ("bytes_sent", "bytes_retrans")],
        *[(name, "u4") for name in ("dsack_dups", "reord_seen", "rcv_ooopack", "snd_wnd")],
        *[(name, "u4") for name in ("rcv_wnd", "rehash")],
        *[(name, "u2") for name in ("total_rto", "total_rto_recoveries")],
        ("total_rto_time", "u4"),
    ]
)
"""The kernel's ``struct tcp_info`` (linux/tcp.h, 6.7); fields that an older kernel lacks read as zero."""

_INFO_BYTES = TCP_INFO.itemsize


class Law(NamedTuple):
    """Congestion control of a flow, as the kernel applies it."""

    congestion_control: str
    """Name in the kernel."""
    managed: bool = False
    """Whether window and rate come from the program's map; the socket is then marked with its slot."""
    paces: bool = False
    """Whether the rate in the map paces its packets."""
    reports: bool = False
    """Whether it adds up round trips in the program's map, if the socket is marked with a slot."""
    rate_driven: bool = False
    """Whether its rate alone limits it: the receiver's window must stay open while a packet is lost."""
    parameters: bool = False
    """Whether it has parameters in its program's map; the socket is then marked with its slot."""

    @property
    def needs_slot(self) -> bool:
        """Whether its connections need a slot for their controls."""
        return self.managed or self.parameters


class Wanted(NamedTuple):
    """Request for a connection."""

    flow: int
    src: int
    dst: int
    src_port: int
    """Source port; 0 lets the kernel choose."""
    law: int
    """Index of the law."""
    slot: int
    """Mark of the socket of a flow that is managed or reports; 0 for none."""


class Connection:
    """Two ends of a connection, neither of which blocks.

    Attributes:
        flow: The flow that uses it, that used it last, or for which it was opened.
        fresh: Whether no flow has used it yet.
    """

    __slots__ = ("flow", "fresh", "receiver", "sender", "slot", "src_port")

    def __init__(self, flow: int, sender: socket.socket, slot: int) -> None:
        self.flow, self.sender, self.slot, self.fresh = flow, sender, slot, True
        self.src_port = int(sender.getsockname()[1])
        self.receiver: socket.socket | None = None

    def info(self) -> bytes:
        """Return the sender's ``struct tcp_info``, as many bytes as :data:`TCP_INFO` has."""
        return self.sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES).ljust(
            _INFO_BYTES, b"\0"
        )

    def set_rate(self, bytes_per_s: int) -> None:
        """Set the pacing rate of the payload, headers not included."""
        self.sender.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=Q", bytes_per_s))

    def close(self) -> None:
        """Reset the connection, which leaves nothing waiting (RFC 9293, 3.5.2)."""
        self.sender.close()
        if self.receiver is not None:
            self.receiver.close()


class ConnectionMaker:
    """Opener of connections over a fabric.

    Args:
        fabric: The network.
        laws: Every congestion control of the flows. Each has a listening port of its own, because the
            receiver's part of DCTCP (RFC 8257, 3.2) is that of the listening socket.
        first_port: Listening port of the first law.
        window_bytes: Largest receive window of laws that are not driven by a rate. While a window grows, the
            kernel acknowledges every packet at once, so it should not be much larger than the data in flight.
    """

    def __init__(self, fabric: Fabric, laws: Sequence[Law], *, first_port: int, window_bytes: int) -> None:
        self._fabric = fabric
        self._laws = tuple(laws)
        self._first_port = first_port
        self._window_bytes = window_bytes
        self._listeners: dict[tuple[int, int], socket.socket] = {}
        self._expected: dict[int, dict[tuple[str, int], Connection]] = {}
        raise_file_limit()

    @property
    def listeners(self) -> list[socket.socket]:
        """Listening sockets."""
        return list(self._listeners.values())

    def port(self, law: int) -> int:
        """Return the port on which receivers of flows of this law listen."""
        return self._first_port + law

    def open(self, wanted: Sequence[Wanted], *, timeout_s: float = 5.0) -> list[Connection]:
        """Open connections and wait until they are established.

        Raises:
            BackendError: If a connection is not established in time.
        """
        made: list[Connection] = []
        deadline_s = time.monotonic() + timeout_s
        try:
            for first in range(0, len(wanted), _MOST_AT_ONCE):
                made += [self.begin(one) for one in wanted[first : first + _MOST_AT_ONCE]]
                self._wait_for_all(deadline_s)
        except BaseException:
            for connection in made:
                connection.close()
            raise
        return made

    def begin(self, one: Wanted) -> Connection:
        """Begin to open a connection; :meth:`accept` finishes it.

        Raises:
            BackendError: If the kernel refuses.
        """
        listener = self._listener(one.dst, one.law)
        law = self._laws[one.law]
        sender = open_tcp_socket(self._fabric.namespace(one.src))
        try:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if one.slot:
                sender.setsockopt(socket.SOL_SOCKET, _SO_MARK, one.slot)
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, law.congestion_control.encode())
            sender.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, BUFFER_BYTES)
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sender.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            if law.paces:
                rate = struct.pack("=Q", PACED_BUT_NOT_LIMITED)
                sender.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, rate)
            sender.bind((str(self._fabric.addresses[one.src]), one.src_port))
            result = sender.connect_ex((str(self._fabric.addresses[one.dst]), self.port(one.law)))
            if result not in (0, errno.EINPROGRESS):
                raise OSError(result, os.strerror(result))
        except OSError as error:
            sender.close()
            raise BackendError(
                f"flow {one.flow}: no connection from host {one.src}, port {one.src_port}, to host {one.dst}"
                f" with {law.congestion_control}: {error.strerror}"
            ) from error
        connection = Connection(one.flow, sender, one.slot)
        name = (str(self._fabric.addresses[one.src]), connection.src_port)
        self._expected.setdefault(listener.fileno(), {})[name] = connection
        return connection

    def accept(self, listener: socket.socket) -> list[Connection]:
        """Return the new connections at a listener, without waiting."""
        expected = self._expected.get(listener.fileno(), {})
        there: list[Connection] = []
        while True:
            try:
                receiver, sender_name = listener.accept()
            except BlockingIOError:
                return there
            connection = expected.pop(sender_name, None)
            if connection is None:
                receiver.close()  # of a flow that was abandoned
                continue
            receiver.setblocking(False)
            held_bytes = receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2  # set, and doubled
            receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, int(_FIXED_WINDOW_SHARE * held_bytes))
            connection.receiver = receiver
            there.append(connection)

    def forget(self) -> None:
        """Forget pending connections; those established later are closed."""
        self._expected = {}

    def close(self) -> None:
        """Stop listening."""
        for listener in self._listeners.values():
            listener.close()
        self._listeners = {}

    def _listener(self, host: int, law: int) -> socket.socket:
        listener = self._listeners.get((host, law))
        if listener is None:
            listener = open_tcp_socket(self._fabric.namespace(host))
            self._listeners[host, law] = listener
            name = self._laws[law].congestion_control.encode()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
            # The kernel doubles this, and a little over half of the result are bytes of packets.
            window_bytes = BUFFER_BYTES if self._laws[law].rate_driven else self._window_bytes
            receive_bytes = min(max(window_bytes, LEAST_RECEIVE_BYTES), BUFFER_BYTES)
            listener.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, receive_bytes)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            if window_bytes < BUFFER_BYTES // 2:
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, window_bytes)
            listener.bind((str(self._fabric.addresses[host]), self.port(law)))
            listener.listen(65535)
        return listener

    def _wait_for_all(self, deadline_s: float) -> None:
        for (host, _), listener in self._listeners.items():
            while True:
                self.accept(listener)
                n_missing = len(self._expected.get(listener.fileno(), ()))
                if not n_missing:
                    break
                poll = select.poll()
                poll.register(listener, select.POLLIN)
                if not poll.poll(max((deadline_s - time.monotonic()) * 1e3, 0.0)):
                    raise BackendError(f"{n_missing} connections to host {host} have not come to be in time")


def read_infos(connections: Sequence[Connection]) -> NDArray[np.void]:
    """Return the ``TCP_INFO`` of many senders, shape (n,)."""
    infos: NDArray[np.void] = np.frombuffer(b"".join([one.info() for one in connections]), TCP_INFO)
    return infos


def raise_file_limit() -> None:
    """Raise this process's limit of open files, of which every connection takes two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # else the administrator's limit has to suffice
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, _FILES), max(hard, _FILES)))
