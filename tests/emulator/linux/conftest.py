"""A sender, a router and a receiver on the Linux kernel; tests are skipped if that is not possible."""

from __future__ import annotations

import fcntl
import os
import secrets
import select
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.emulator.linux.kernel.namespaces import inside
from sysgym.emulator.linux.kernel.queues import PortSettings, Queues
from sysgym.errors import BackendUnavailable

ROUTER_PORT, SENDER_PORT = 5, 6
_PAYLOAD = bytes(1 << 18)
_SO_MARK = 36


@dataclass
class Connection:
    """Both ends of a TCP connection, and how much the receiver has got."""

    sender: socket.socket
    receiver: socket.socket
    received_bytes: int = 0

    def finish(self) -> None:
        """Takes what comes until all that was sent is acknowledged."""
        while struct.unpack("i", fcntl.ioctl(self.sender, termios.TIOCOUTQ, bytes(4)))[0] > 0:
            time.sleep(0.001)
            try:
                while content := self.receiver.recv(1 << 20):
                    self.received_bytes += len(content)
            except BlockingIOError:
                pass


@dataclass
class Wire:
    """Namespaces S, R and D: ``s0 - r0``, ``r1 - d0``; what S sends queues in R at ``r1``."""

    programs: Programs
    queues: Queues
    sender: int = 0
    router: int = 0
    receiver: int = 0
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)

    def build(self) -> None:
        """Makes the namespaces, which live as long as a sleeping process each."""
        for name in ("sender", "router", "receiver"):
            process = subprocess.Popen(["unshare", "--net", "sleep", "300"])
            self.processes.append(process)
            setattr(self, name, process.pid)
            own = os.stat("/proc/self/ns/net").st_ino
            while os.stat(f"/proc/{process.pid}/ns/net").st_ino == own:
                time.sleep(0.001)
        for near, one, far, other in (
            (self.sender, "s0", self.router, "r0"),
            (self.router, "r1", self.receiver, "d0"),
        ):
            run(
                "ip", "link", "add", one, "netns", str(near), "type", "veth", "peer", other, "netns", str(far)
            )
        for pid, interface, address, gateway in (
            (self.sender, "s0", "10.0.0.1/24", "10.0.0.254"),
            (self.receiver, "d0", "10.0.1.1/24", "10.0.1.254"),
            (self.router, "r0", "10.0.0.254/24", ""),
            (self.router, "r1", "10.0.1.254/24", ""),
        ):
            enter = ("nsenter", "--target", str(pid), "--net", "ip")
            run(*enter, "address", "add", address, "dev", interface)
            run(*enter, "link", "set", interface, "up")
            if gateway:
                run(*enter, "route", "add", "default", "via", gateway)
                self.queues.limit_bundles(pid, interface)
        for pid in (self.sender, self.router, self.receiver):
            with inside(pid):
                # With 2, only a control that asks for ECN has it: dctcp and learned, as in the simulator.
                for key, value in (("ip_forward", "1"), ("tcp_no_metrics_save", "1"), ("tcp_ecn", "2")):
                    with open(f"/proc/sys/net/ipv4/{key}", "w") as setting:
                        setting.write(value)

    def bottleneck(self, settings: PortSettings) -> None:
        """Makes R's port to D a port with number ROUTER_PORT."""
        self.queues.set_port(self.router, "r1", settings, ROUTER_PORT)

    def connect(self, congestion_control: str, mark: int = 0) -> Connection:
        """Opens a connection from S to D."""
        name = self.programs.congestion_control(congestion_control).encode()
        with inside(self.receiver):
            listener = socket.socket()
        with inside(self.sender):
            sender = socket.socket()
        with listener:
            for end in (listener, sender):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
            if mark:
                sender.setsockopt(socket.SOL_SOCKET, _SO_MARK, mark)
            listener.bind(("10.0.1.1", 0))
            listener.listen()
            sender.connect(listener.getsockname())
            connection = Connection(sender, listener.accept()[0])
        sender.setblocking(False)
        connection.receiver.setblocking(False)
        self.connections.append(connection)
        return connection

    def transfer(
        self, seconds: float, sample: Callable[[], None] = lambda: None, every_s: float = 0.005
    ) -> float:
        """Keeps all connections busy, calling `sample` now and then; returns the goodput, bit/s."""
        before = sum(one.received_bytes for one in self.connections)
        waiting = select.epoll()
        ends = {}
        for one in self.connections:
            for end, event in ((one.sender, select.EPOLLOUT), (one.receiver, select.EPOLLIN)):
                waiting.register(end, event)
                ends[end.fileno()] = (one, end)
        begun = due = time.monotonic()
        while (now := time.monotonic()) < begun + seconds:
            if now >= due:
                sample()
                due = now + every_s
            for descriptor, _ in waiting.poll(every_s / 2):
                one, end = ends[descriptor]
                if end is one.sender:
                    end.send(_PAYLOAD)
                else:
                    one.received_bytes += len(end.recv(1 << 20))
        elapsed = time.monotonic() - begun
        waiting.close()
        return (sum(one.received_bytes for one in self.connections) - before) * 8 / elapsed

    def close(self) -> None:
        """Ends the connections and the namespaces."""
        for one in self.connections:
            one.sender.close()
            one.receiver.close()
        for process in self.processes:
            process.kill()
            process.wait()
        self.programs.sockets.close()


def run(*command: str) -> None:
    """Runs a command that must succeed."""
    subprocess.run(command, check=True)


@pytest.fixture(scope="session")
def programs() -> Iterator[Programs]:
    """The programs of a service of the tests' own."""
    if os.geteuid() != 0:
        pytest.skip("needs root: network namespaces and eBPF")
    loaded = Programs(secrets.token_hex(2))
    try:
        loaded.load()
    except BackendUnavailable as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    yield loaded
    loaded.unload()


@pytest.fixture
def wire(programs: Programs) -> Iterator[Wire]:
    """Three namespaces, without any limit yet."""
    made = Wire(programs, Queues(programs))
    try:
        made.build()
        yield made
    finally:
        made.close()
