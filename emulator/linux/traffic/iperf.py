"""Long-lived flows sent by iperf3, a program of its own, instead of by this process.

Its socket is the kernel's like any other: a second descriptor of it (``pidfd_getfd``) lets this process read
``TCP_INFO`` and set a pace as for its own. The programs run inside their hosts' namespaces and die with this
process; no shell starts them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from sysgym.emulator.linux.kernel.fabric import Fabric
from sysgym.emulator.linux.traffic.sockets import RESET_ON_CLOSE, Connection
from sysgym.scenarios.errors import BackendError, BackendUnavailable

_PIDFD_GETFD = 438  # the same number on every architecture
_LONGEST_S = 86_400  # that iperf3 takes
_READY_S = 5.0
_LISTEN = "0A"  # a state, as /proc/net/tcp has it
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Sender(NamedTuple):
    process: subprocess.Popen[bytes]
    src_port: int


class Iperf:
    """Pairs of an iperf3 client and server, one for each of some flows.

    Args:
        fabric: The network.
        first_port: Port of the first server; each flow has one of its own.

    Raises:
        BackendUnavailable: If iperf3 or setpriv is not installed.
    """

    def __init__(self, fabric: Fabric, *, first_port: int) -> None:
        for program, package in (("iperf3", "iperf3"), ("setpriv", "util-linux")):
            if shutil.which(program) is None:
                raise BackendUnavailable("linux", f"{program} is not installed", f"apt-get install {package}")
        self._fabric, self._first_port = fabric, first_port
        self._servers: dict[int, subprocess.Popen[bytes]] = {}
        self._senders: dict[int, _Sender] = {}
        self._found: set[int] = set()

    def port(self, flow: int) -> int:
        """The port of a flow's server."""
        return self._first_port + flow

    def serve(self, flows: dict[int, int]) -> None:
        """Starts servers and waits until they listen.

        Args:
            flows: Flow -> host.

        Raises:
            BackendError: If one does not.
        """
        for flow, host in flows.items():
            self._servers[flow] = self._run(host, "-s", "-1", "-p", str(self.port(flow)))
        deadline_s = time.monotonic() + _READY_S
        for flow, server in self._servers.items():
            while not _listens(server.pid, self.port(flow)):
                if server.poll() is not None or time.monotonic() > deadline_s:
                    raise BackendError(f"the iperf3 server of flow {flow} does not listen")
                time.sleep(1e-3)

    def send(self, flow: int, src: int, dst: int, src_port: int, congestion_control: str) -> None:
        """Starts a client; :meth:`found` has its connection soon."""
        process = self._run(
            src,
            *("-c", str(self._fabric.addresses[dst]), "-p", str(self.port(flow))),
            *("--cport", str(src_port), "-C", congestion_control, "-t", str(_LONGEST_S), "-l", "64K"),
        )
        self._senders[flow] = _Sender(process, src_port)

    def found(self) -> list[Connection]:
        """Connections of clients that have opened them since the last call."""
        new = []
        for flow, sender in self._senders.items():
            if flow not in self._found and sender.process.poll() is None:
                own = _socket_of(sender.process.pid, sender.src_port)
                if own is not None:
                    self._found.add(flow)
                    new.append(Connection(flow, own, 0))
        return new

    def ended(self) -> list[int]:
        """Flows whose client has ended by itself; told once."""
        gone = [flow for flow, sender in self._senders.items() if sender.process.poll() is not None]
        for flow in gone:
            del self._senders[flow]
        return gone

    def close(self) -> None:
        """Ends all programs."""
        processes = [*self._servers.values(), *(sender.process for sender in self._senders.values())]
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
        self._servers, self._senders, self._found = {}, {}, set()

    def _run(self, host: int, *arguments: str) -> subprocess.Popen[bytes]:
        node = self._fabric.nodes[host]
        process: subprocess.Popen[bytes] = node.popen(
            ["setpriv", "--pdeathsig", "KILL", "iperf3", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return process


def _listens(pid: int, port: int) -> bool:
    """Whether somebody listens at a port of the namespace of a process, IPv4 or IPv6."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state = line.split()[:4]
            if state == _LISTEN and int(local.rpartition(":")[2], 16) == port:
                return True
    return False


def _socket_of(pid: int, port: int) -> socket.socket | None:
    """A descriptor of our own for the TCP socket that another process has bound to a port."""
    try:
        process_fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    try:
        for entry in _sockets_of(pid):
            fd = _LIBC.syscall(_PIDFD_GETFD, process_fd, entry, 0)
            if fd < 0:
                if ctypes.get_errno() in (errno.EBADF, errno.ESRCH):
                    continue
                raise BackendError(f"cannot reach iperf3's socket: {os.strerror(ctypes.get_errno())}")
            candidate = socket.socket(fileno=fd)
            if _port_of(candidate) == port and _is_connected(candidate):
                # Whoever closes it last, iperf3 or this process: nothing of it waits to be sent.
                candidate.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                return candidate
            candidate.close()
    finally:
        os.close(process_fd)
    return None


def _port_of(candidate: socket.socket) -> int:
    is_tcp = candidate.type == socket.SOCK_STREAM and candidate.family in (socket.AF_INET, socket.AF_INET6)
    return int(candidate.getsockname()[1]) if is_tcp else 0


def _sockets_of(pid: int) -> list[int]:
    entries = []
    try:
        for entry in os.listdir(f"/proc/{pid}/fd"):
            if os.readlink(f"/proc/{pid}/fd/{entry}").startswith("socket:"):
                entries.append(int(entry))
    except OSError:  # it has ended, or closed the file
        pass
    return entries


def _is_connected(candidate: socket.socket) -> bool:
    try:
        candidate.getpeername()
    except OSError:
        return False
    return True
