"""Mininet nodes and links without shells: a waiting process per node, and netlink.

Mininet talks to a node through a bash of its own and configures interfaces with ``ifconfig``. Here a node is
the same namespace, made by the same helper (``mnexec``), but its process is ``cat`` on a pipe that this
process holds. No string ever reaches a shell. When this process ends, by ``kill -9`` too, the pipe closes,
``cat`` ends, and the kernel removes the namespace with its interfaces, queues and routes.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import time
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from sysgym.emulator.linux.kernel.links_and_routes import Interface, veth
from sysgym.emulator.linux.kernel.namespaces import enter
from sysgym.emulator.linux.kernel.netlink import Netlink
from sysgym.scenarios.errors import BackendError, BackendUnavailable

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its imports of distutils, and its escape sequences
        from mininet.link import Intf, Link
        from mininet.node import Node
except ImportError as error:
    wanted = (error.name or "mininet").partition(".")[0]
    package = {"distutils": "setuptools"}.get(wanted, wanted)  # Python 3.12 and later take it from there
    raise BackendUnavailable(
        "linux", f"the Python package {package} is not installed", 'pip install "sysgym[emulator]"'
    ) from error

_READY_S = 10.0
_LONGEST_NAME = 15
"""Characters of an interface's name: IFNAMSIZ of linux/if.h less the ending zero."""


class Namespace:
    """A network namespace that this thread can enter.

    Args:
        pid: Id of a process in the namespace.
    """

    def __init__(self, pid: int) -> None:
        self.fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._home_fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Run the block with this thread's sockets and /proc/sys/net in the namespace; then return."""
        enter(self.fd)
        try:
            yield
        finally:
            enter(self._home_fd)

    def set_sysctls(self, values: dict[str, str], optional: Collection[str] = ()) -> list[str]:
        """Write kernel settings of this namespace.

        Args:
            values: Path below /proc/sys/net -> value.
            optional: Settings whose value the kernel may refuse.

        Returns:
            The settings that this kernel does not have, and optional ones that it refuses.

        Raises:
            BackendError: If /proc/sys cannot be written, or the kernel refuses another value.
        """
        absent = []
        with self.entered():
            for path, value in values.items():
                try:
                    fd = os.open(f"/proc/sys/net/{path}", os.O_WRONLY)
                except FileNotFoundError:
                    absent.append(path)
                    continue
                except OSError as error:
                    raise BackendError(
                        f"/proc/sys/net/{path}: {error.strerror}; the backend needs /proc/sys writable, "
                        "in a container the option --privileged"
                    ) from error
                try:
                    os.write(fd, value.encode())
                except OSError as error:
                    if path not in optional:
                        raise BackendError(f"net/{path} = {value}: {error.strerror}") from error
                    absent.append(path)
                finally:
                    os.close(fd)
        return absent

    def close(self) -> None:
        """Close the descriptors of the namespace."""
        for fd in (self.fd, self._home_fd):
            os.close(fd)


class WaitingNode(Node):  # type: ignore[misc]  # mininet has no types
    """A Mininet node whose namespace holds a single process, which waits for the end of this one.

    :meth:`ready` has to be called once before anything else. Nodes that are started together are made in
    parallel.
    """

    pid: int
    namespace: Namespace
    isSetup = True  # noqa: N815  # Mininet's name: it would ask `which` for mnexec and ifconfig, and exit

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802  (Mininet's name)
        """Start the process, without a shell."""
        self._read_fd, write_fd = os.pipe()
        try:
            self.shell: Any = subprocess.Popen(
                ["mnexec", "-cdnp", "cat"], stdin=subprocess.PIPE, stdout=write_fd, stderr=subprocess.STDOUT
            )
        except FileNotFoundError as error:
            os.close(self._read_fd)
            raise BackendUnavailable("linux", "mnexec is not installed", "apt-get install mininet") from error
        finally:
            os.close(write_fd)
        self.pid = self.shell.pid
        self.waiting = False

    def ready(self) -> None:
        """Wait until the namespace exists.

        Raises:
            BackendError: If it is not created; the error has the output of mnexec.
        """
        said = b""
        deadline_s = time.monotonic() + _READY_S
        # mnexec -p prints \1PID\n once it has unshared the namespaces.
        while not said.endswith(b"\n"):
            ready, _, _ = select.select([self._read_fd], [], [], max(deadline_s - time.monotonic(), 0.0))
            more = os.read(self._read_fd, 4096) if ready else b""
            if not more:
                raise BackendError(
                    f"the namespace of {self.name} cannot be made", said.decode(errors="replace")
                )
            said += more
        os.close(self._read_fd)
        if not said.startswith(b"\1"):
            raise BackendError(f"the namespace of {self.name} cannot be made", said.decode(errors="replace"))
        self.pid = int(said[1:])
        self.namespace = Namespace(self.pid)

    def cmd(self, *args: Any, **kwargs: Any) -> None:
        """Refuse to run a command, as there is no shell.

        Raises:
            BackendError: Always.
        """
        raise BackendError(f"{self.name} has no shell: use popen with a list of arguments")

    sendCmd = cmd  # noqa: N815

    def terminate(self) -> None:
        """End the process, and with it the namespace once no socket of this process belongs to it."""
        if self.shell is None:
            return
        if hasattr(self, "namespace"):
            self.namespace.close()
        process, self.shell = self.shell, None
        process.kill()
        process.stdin.close()
        process.wait()


class QuietInterface(Intf):  # type: ignore[misc]
    """An interface that is already up when Mininet receives it."""

    def config(self, **_params: Any) -> dict[str, Any]:
        """Leave the interface as it is."""
        return {}


class VethLink(Link):  # type: ignore[misc]
    """A Mininet link whose interfaces are made by netlink.

    Attributes:
        ends: Interfaces of the link, one for each node.
    """

    def __init__(self, one: WaitingNode, other: WaitingNode, groups: tuple[int, int]) -> None:
        self._groups = groups
        self.ends: tuple[Interface, Interface]
        super().__init__(one, other, intf=QuietInterface)

    def intfName(self, node: WaitingNode, n: int) -> str:  # noqa: N802
        """Return the name of a node's interface: Mininet's, or its end if the kernel has no room for it."""
        return f"{node.name}-eth{n}"[-_LONGEST_NAME:]

    def makeIntfPair(  # noqa: N802
        self,
        name: str,
        other_name: str,
        _mac: str | None = None,
        _other_mac: str | None = None,
        node: WaitingNode | None = None,
        other_node: WaitingNode | None = None,
        deleteIntfs: bool = True,  # noqa: N803
    ) -> None:
        """Set the names of the ends; :func:`make_links` makes all pairs of a network at once."""
        assert node is not None
        assert other_node is not None
        first, second = self._groups
        self.ends = (
            Interface(node.namespace.fd, name, _index_of(first), _mac_of(first), first),
            Interface(other_node.namespace.fd, other_name, _index_of(second), _mac_of(second), second),
        )


def _index_of(group: int) -> int:
    """Return an index unique in the network: the kernel confuses a pair with equal indices. Index 1 is lo."""
    return group + 1


def _mac_of(group: int) -> bytes:
    """Return a locally administered address (IEEE 802, the second bit of the first byte)."""
    return b"\x02\x00" + group.to_bytes(4, "big")


def make_links(pairs: list[tuple[Interface, Interface]], mtu_bytes: int, bundle_packets: int) -> None:
    """Make pairs of interfaces.

    Raises:
        BackendError: If the kernel refuses.
    """
    connection = Netlink(0)
    try:
        connection.request_all(
            [veth(*pair, mtu_bytes, bundle_packets) for pair in pairs], "virtual Ethernet links"
        )
    finally:
        connection.close()


def open_tcp_socket(namespace: Namespace) -> socket.socket:
    """Return a TCP socket that belongs to a namespace, whichever thread uses it."""
    with namespace.entered():
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
