"""Sockets and messages of rtnetlink(7), and the queues, classes and filters of interfaces.

A world has up to a hundred ports and changes caps thousands of times a second. Messages are therefore packed
here, by the layouts of linux/rtnetlink.h, pkt_sched.h and pkt_cls.h: a change costs one system call each way,
tens of microseconds, while a library that builds every message from dictionaries takes a millisecond. A
network is built by many requests in one system call: see
:mod:`sysgym.emulator.linux.kernel.links_and_routes`.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sysgym.emulator.linux.kernel.namespaces import inside
from sysgym.scenarios.errors import BackendError, BackendUnavailable

# Message types and flags, linux/rtnetlink.h and linux/netlink.h.
RTM_NEWLINK, RTM_GETLINK = 16, 18
RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 36, 37, 38
RTM_NEWTCLASS = 40
RTM_NEWTFILTER = 44
REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
REPLACE, EXCLUSIVE, CREATE = 0x100, 0x200, 0x400
_ERROR, _DONE = 2, 3

# Attributes of a link (linux/if_link.h).
IFLA_GROUP, IFLA_GSO_MAX_SEGS, IFLA_GSO_MAX_SIZE = 27, 40, 41
# Attributes of tc messages (linux/rtnetlink.h).
TCA_KIND, TCA_OPTIONS, TCA_STATS2, TCA_STAB = 1, 2, 7, 8
_STATS_BASIC, _STATS_QUEUE = 1, 3
_NESTED = 0x8000

_BPF_FD, _BPF_NAME, _BPF_FLAGS = 6, 7, 8  # linux/pkt_cls.h
_DIRECT_ACTION = 1
_ALL_PROTOCOLS = socket.htons(3)

MISSING = (errno.ENOENT, errno.EINVAL)
"""The kernel's answers when there is nothing to delete."""

_KERNEL_OPTIONS = {
    "htb": "CONFIG_NET_SCH_HTB",
    "bfifo": "CONFIG_NET_SCH_FIFO",
    "clsact": "CONFIG_NET_SCH_INGRESS",
    "netem": "CONFIG_NET_SCH_NETEM",
}

ROOT = 0xFFFFFFFF
CLSACT = 0xFFFFFFF1
CLSACT_HANDLE = 0xFFFF0000
INGRESS = 0xFFFFFFF2
EGRESS = 0xFFFFFFF3

_HEADER = struct.Struct("=IHHII")
_TC = struct.Struct("=BxxxiIII")
_LINK = struct.Struct("=BxHiII")
_ATTRIBUTE = struct.Struct("=HH")
_BUFFER_BYTES = 1 << 16
_RECEIVE_BUFFER_BYTES = 1 << 20
"""Room for the answers to a batch of requests."""
_LARGEST_BATCH_BYTES = 32_000
_BATCH_S = 10.0


def attribute(kind: int, value: bytes | int | str) -> bytes:
    """Return one netlink attribute, padded; integers are 32 bits wide, texts end with a zero byte."""
    if isinstance(value, int):
        value = struct.pack("=I", value)
    elif isinstance(value, str):
        value = value.encode() + b"\0"
    length = 4 + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)


def nested(kind: int, *attributes: bytes) -> bytes:
    """Return an attribute that contains attributes."""
    return attribute(kind | _NESTED, b"".join(attributes))


def tc_message(index: int, handle: int, parent: int, info: int = 0) -> bytes:
    """Return a struct tcmsg: device, own handle, parent, and a filter's priority and protocol."""
    return _TC.pack(socket.AF_UNSPEC, index, handle, parent, info)


def link_message(index: int, flags: int = 0, change: int = 0) -> bytes:
    """Return a struct ifinfomsg: device, its flags, and the mask of flags that change."""
    return _LINK.pack(socket.AF_UNSPEC, 0, index, flags, change)


def link_flags(body: bytes) -> int:
    """Return the flags of a device, from the body of an answer about it."""
    return int(_LINK.unpack_from(body)[3])


def message(kind: int, flags: int, body: bytes, sequence: int = 0) -> bytes:
    """Return a whole message, header and body."""
    return _HEADER.pack(_HEADER.size + len(body), kind, flags, sequence, 0) + body


class QueueCounters(NamedTuple):
    """Counters of tc at the root queue of an interface (the shaper), in bytes as the queue counts them."""

    backlog_bytes: int
    backlog_packets: int
    sent_bytes: int
    sent_packets: int
    dropped_packets: int


class Netlink:
    """An rtnetlink socket in the namespace of a process; it stays there wherever the thread moves.

    Raises:
        BackendError: The kernel refuses a message; names the message and the reason.
    """

    def __init__(self, netns_pid: int) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        with inside(netns_pid):
            self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        self._socket.bind((0, 0))
        self._sequence = 0
        self._indices: dict[str, int] = {}

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def request(self, kind: int, flags: int, body: bytes, what: str, ignore: tuple[int, ...] = ()) -> int:
        """Send one message and wait for the kernel's answer.

        Args:
            kind: Message type, such as :data:`RTM_NEWQDISC`.
            flags: Flags in addition to those of an acknowledged request.
            body: Body of the message, after the header.
            what: Purpose of the message, for the error.
            ignore: Error numbers that count as success.

        Returns:
            0, or the number of an ignored error.
        """
        self._send(kind, flags | REQUEST | ACK, body)
        for answer, content in self._answers():
            if answer == _ERROR:
                code = -struct.unpack_from("=i", content)[0]
                if code == 0 or code in ignore:
                    return int(code)
                raise BackendError(f"the kernel refuses to {what}", os.strerror(code))
        raise BackendError(f"the kernel does not answer when asked to {what}")

    def request_all(self, messages: Sequence[bytes], what: str) -> None:
        """Send many messages, each of which asks for an answer, and wait until all are done.

        Args:
            messages: Messages made by :func:`message`.
            what: Common purpose of the messages, for the error.

        Raises:
            BackendError: The kernel refuses a message.
        """
        batch: list[bytes] = []
        size = 0
        for one in messages:
            if size + len(one) > _LARGEST_BATCH_BYTES:
                self._request_batch(batch, what)
                batch, size = [], 0
            batch.append(one)
            size += len(one)
        if batch:
            self._request_batch(batch, what)

    def _request_batch(self, batch: list[bytes], what: str) -> None:
        self._sequence = 0  # the number of messages made before their sender is known
        self._socket.settimeout(_BATCH_S)
        self._socket.send(b"".join(batch))
        answers, refused = self._answers(), 0
        for _ in batch:
            kind, content = next(answers)
            while kind != _ERROR:
                kind, content = next(answers)
            refused = refused or -struct.unpack_from("=i", content)[0]
        self._socket.settimeout(None)
        if refused:
            raise BackendError(f"the kernel refused {what}: {os.strerror(refused)}")

    def ask(self, kind: int, body: bytes, what: str) -> bytes:
        """Return the body of the kernel's answer to a query.

        Args:
            kind: Message type, such as :data:`RTM_GETLINK`.
            body: Body of the message, after the header.
            what: What is queried, for the error.
        """
        self._send(kind, REQUEST, body)
        answer, content = next(self._answers())
        if answer == _ERROR:
            raise BackendError(what, os.strerror(-struct.unpack_from("=i", content)[0]))
        return content

    def index(self, interface: str) -> int:
        """Return the index of an interface."""
        if interface not in self._indices:
            name = attribute(3, interface)
            found = self.ask(RTM_GETLINK, link_message(0) + name, f"no interface {interface}")
            self._indices[interface] = _LINK.unpack_from(found)[2]
        return self._indices[interface]

    def queue_counters(self, interface: str) -> QueueCounters:
        """Read the counters of an interface's root queue."""
        index = self.index(interface)
        self._send(RTM_GETQDISC, REQUEST | DUMP, tc_message(index, 0, 0))
        found: QueueCounters | None = None
        for answer, content in self._answers():
            if answer in {_DONE, _ERROR}:
                break
            _, owner, _, parent, _ = _TC.unpack_from(content)
            if owner == index and parent == ROOT:
                found = _counters(content[_TC.size :])
        if found is None:
            raise BackendError(f"{interface} has no queue of its own")
        return found

    def _send(self, kind: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        self._socket.send(message(kind, flags, body, self._sequence))

    def _answers(self) -> Iterator[tuple[int, bytes]]:
        while True:
            data = self._socket.recv(_BUFFER_BYTES)
            offset = 0
            while offset < len(data):
                length, kind, _, sequence, _ = _HEADER.unpack_from(data, offset)
                if sequence == self._sequence:
                    yield kind, data[offset + 16 : offset + length]
                offset += (length + 3) & ~3


class Sockets:
    """Netlink sockets, one per namespace.

    A socket keeps its namespace alive, with all its interfaces: close the sockets to let namespaces go.
    """

    def __init__(self) -> None:
        self._by_namespace: dict[int, Netlink] = {}

    def of(self, netns_pid: int) -> Netlink:
        """Return the socket in a process's network namespace; 0 stands for this process."""
        try:
            # The namespace, not the process id: the id of an ended process may be given to another one.
            number = os.stat(f"/proc/{netns_pid or 'thread-self'}/ns/net").st_ino
        except OSError as error:
            raise BackendError(f"no network namespace of process {netns_pid}", str(error)) from error
        found = self._by_namespace.get(number)
        if found is None:
            found = self._by_namespace[number] = Netlink(netns_pid)
        return found

    def close(self) -> None:
        """Close all sockets; they are opened again on demand."""
        for one in self._by_namespace.values():
            one.close()
        self._by_namespace.clear()


def add_queue(connection: Netlink, body: bytes, kind: str) -> None:
    """Add a queueing discipline.

    Args:
        connection: Socket in the interface's namespace.
        body: The message's body, with the kind in it.
        kind: Kind of the discipline, for the error.

    Raises:
        BackendUnavailable: The kernel does not have the discipline.
    """
    if connection.request(RTM_NEWQDISC, CREATE | REPLACE, body, f"add {kind}", ignore=(errno.ENOENT,)):
        raise BackendUnavailable(
            "linux",
            f"the queueing discipline {kind} ({_KERNEL_OPTIONS[kind]})",
            f"load the module sch_{kind}, or use a kernel that has it",
        )


def set_group(connection: Netlink, interface: str, group: int) -> None:
    """Set the device group of an interface."""
    link = link_message(connection.index(interface)) + attribute(IFLA_GROUP, group)
    connection.request(RTM_NEWLINK, 0, link, f"number {interface}")


def attach_program(connection: Netlink, interface: str, program_fd: int, direction: int, name: str) -> None:
    """Run a program on the packets that an interface sends, before its queue (EGRESS), or gets (INGRESS)."""
    index = connection.index(interface)
    place = tc_message(index, CLSACT_HANDLE, CLSACT)
    connection.request(RTM_DELQDISC, 0, place, f"clear {interface}", ignore=MISSING)
    add_queue(connection, place + attribute(TCA_KIND, "clsact"), "clsact")
    body = tc_message(index, 1, direction, 1 << 16 | _ALL_PROTOCOLS) + attribute(TCA_KIND, "bpf")
    direct = attribute(_BPF_FLAGS, _DIRECT_ACTION)
    body += nested(TCA_OPTIONS, attribute(_BPF_FD, program_fd), attribute(_BPF_NAME, name), direct)
    connection.request(RTM_NEWTFILTER, CREATE | EXCLUSIVE, body, f"attach the program to {interface}")


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes in the body of an answer, by kind."""
    found, offset = {}, 0
    while offset + 4 <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < 4:
            break
        found[kind & ~_NESTED] = data[offset + 4 : offset + length]
        offset += (length + 3) & ~3
    return found


def _counters(data: bytes) -> QueueCounters:
    statistics = attributes(attributes(data)[TCA_STATS2])
    sent_bytes, sent_packets = struct.unpack_from("=QI", statistics[_STATS_BASIC])
    backlog_packets, backlog_bytes, drops = struct.unpack_from("=III", statistics[_STATS_QUEUE])
    return QueueCounters(backlog_bytes, backlog_packets, sent_bytes, sent_packets, drops)
