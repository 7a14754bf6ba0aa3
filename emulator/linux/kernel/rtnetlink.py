"""Links, addresses, neighbours and routes by rtnetlink (rtnetlink(7)), many requests in one system call.

A fat-tree of 36 nodes takes some 800 requests. One at a time, with a library that builds an object for each
of them, that is most of a second; written into one buffer and sent together it is a few milliseconds.
Queues change one at a time: see :mod:`sysgym.emulator.linux.kernel.netlink`.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from ipaddress import IPv4Address
from typing import NamedTuple

from sysgym.scenarios.errors import BackendError

_RTM_NEWLINK, _RTM_GETLINK, _RTM_NEWADDR, _RTM_NEWROUTE, _RTM_GETROUTE, _RTM_NEWNEIGH = 16, 18, 20, 24, 26, 28
_F_REQUEST, _F_ACK, _F_EXCL, _F_REPLACE, _F_CREATE = 0x1, 0x4, 0x200, 0x100, 0x400
_NEW = _F_REQUEST | _F_ACK | _F_CREATE
_ERROR = 2
_HEADER, _ATTRIBUTE, _LINK = struct.Struct("=IHHII"), struct.Struct("=HH"), struct.Struct("=BxHiII")
_NESTED = 0x8000
_UP, _RUNNING = 0x1, 0x40
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_TXQLEN, _IFLA_LINKINFO = 1, 3, 4, 13, 18
_IFLA_GROUP, _IFLA_NET_NS_FD, _IFLA_TX_QUEUES, _IFLA_RX_QUEUES = 27, 28, 31, 32
_IFLA_GSO_MAX_SEGS = 40
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_RTA_DST, _RTA_SRC, _RTA_OIF, _RTA_GATEWAY, _RTA_METRICS, _RTA_MULTIPATH = 1, 2, 4, 5, 8, 9
_RTA_IP_PROTO, _RTA_SPORT, _RTA_DPORT, _RTA_IIF = 27, 28, 29, 3
_ONLINK = 4
_SCOPE_LINK, _SCOPE_UNIVERSE = 253, 0
_MAIN_TABLE, _PROTO_STATIC, _UNICAST = 254, 4, 1
_PERMANENT = 0x80
_LARGEST_BATCH = 32_000

METRIC_RTO_MIN_MS, METRIC_INITCWND, METRIC_QUICKACK = 13, 11, 15
"""Metrics of a route (linux/rtnetlink.h): least retransmission time-out, initial window, no delayed ACKs."""


class Interface(NamedTuple):
    """One end of a veth pair."""

    netns_fd: int
    name: str
    ifindex: int
    """Its index: the caller numbers the interfaces of a namespace, 2 and up (1 is lo)."""
    mac: bytes
    group: int
    """Device group: the number of the port that it is."""


def _attribute(kind: int, payload: bytes) -> bytes:
    return _ATTRIBUTE.pack(len(payload) + 4, kind) + payload + b"\0" * (-len(payload) % 4)


def _u32(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))


def _packed(address: IPv4Address) -> bytes:
    return address.packed


def veth(one: Interface, other: Interface, mtu_bytes: int, bundle_packets: int) -> bytes:
    """A pair of interfaces, still down, each made in its own namespace.

    Args:
        one: An interface.
        other: Its other end.
        mtu_bytes: Largest packet.
        bundle_packets: Most packets that TCP hands on as one; 1: no segmentation offload.
    """

    def end(interface: Interface) -> bytes:
        return (
            _LINK.pack(socket.AF_UNSPEC, 0, interface.ifindex, 0, 0)
            + _attribute(_IFLA_IFNAME, interface.name.encode() + b"\0")
            + _attribute(_IFLA_ADDRESS, interface.mac)
            + _u32(_IFLA_NET_NS_FD, interface.netns_fd)
            + _u32(_IFLA_MTU, mtu_bytes)
            + _u32(_IFLA_TXQLEN, 1000)
            + _u32(_IFLA_GROUP, interface.group)
            + _u32(_IFLA_TX_QUEUES, 1)
            + _u32(_IFLA_RX_QUEUES, 1)
            + _u32(_IFLA_GSO_MAX_SEGS, bundle_packets)
        )

    peer = _attribute(_VETH_PEER | _NESTED, end(other))
    info = _attribute(_INFO_KIND, b"veth\0") + _attribute(_INFO_DATA | _NESTED, peer)
    return _request(_RTM_NEWLINK, _NEW | _F_EXCL, end(one) + _attribute(_IFLA_LINKINFO | _NESTED, info))


def up(index: int) -> bytes:
    """Brings an interface up; the two of a pair cannot be made so."""
    return _request(_RTM_NEWLINK, _F_REQUEST | _F_ACK, _LINK.pack(socket.AF_UNSPEC, 0, index, _UP, _UP))


def address(index: int, value: IPv4Address) -> bytes:
    """Gives an interface one address, with no network behind it (/32)."""
    body = struct.pack("=BBBBI", socket.AF_INET, 32, 0, _SCOPE_UNIVERSE, index)
    body += _attribute(2, _packed(value)) + _attribute(1, _packed(value))
    return _request(_RTM_NEWADDR, _NEW | _F_EXCL, body)


def neighbour(index: int, value: IPv4Address, mac: bytes) -> bytes:
    """Where a neighbour's frames go, for good: nobody ever has to ask by ARP."""
    body = struct.pack("=BxxxiHBB", socket.AF_INET, index, _PERMANENT, 0, 0)
    body += _attribute(1, _packed(value)) + _attribute(2, mac)
    return _request(_RTM_NEWNEIGH, _NEW | _F_REPLACE, body)


def route(
    destination: IPv4Address,
    prefix_length: int,
    hops: Sequence[tuple[int, IPv4Address | None]],
    metrics: dict[int, int] | None = None,
) -> bytes:
    """A route over one next hop, or over several in equal shares.

    Args:
        destination: First address.
        prefix_length: 32 for one host, 0 for everything.
        hops: Interface index and the neighbour behind it; None: the destination itself is behind it.
        metrics: Number of a metric -> its value.
    """
    direct = hops[0][1] is None
    scope = _SCOPE_LINK if direct else _SCOPE_UNIVERSE
    flags = 0 if direct or len(hops) > 1 else _ONLINK
    body = struct.pack(
        "=BBBBBBBBI", socket.AF_INET, prefix_length, 0, 0, _MAIN_TABLE, _PROTO_STATIC, scope, _UNICAST, flags
    )
    if prefix_length:
        body += _attribute(_RTA_DST, _packed(destination))
    if len(hops) == 1:
        index, gateway = hops[0]
        body += _u32(_RTA_OIF, index)
        body += b"" if gateway is None else _attribute(_RTA_GATEWAY, _packed(gateway))
    else:
        nexthops = b""
        for index, gateway in hops:
            via = b"" if gateway is None else _attribute(_RTA_GATEWAY, _packed(gateway))
            nexthops += struct.pack("=HBBi", 8 + len(via), _ONLINK, 0, index) + via
        body += _attribute(_RTA_MULTIPATH, nexthops)
    if metrics:
        body += _attribute(_RTA_METRICS, b"".join(_u32(kind, value) for kind, value in metrics.items()))
    return _request(_RTM_NEWROUTE, _NEW | _F_REPLACE, body)


def _request(kind: int, flags: int, body: bytes) -> bytes:
    return _HEADER.pack(len(body) + 16, kind, flags, 0, 0) + body


class RouteSocket:
    """A netlink socket, of the namespace in which it was opened."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.settimeout(10.0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.bind((0, 0))

    def send(self, requests: Sequence[bytes], what: str) -> None:
        """Sends requests and waits until all are done.

        Raises:
            BackendError: If the kernel refuses one; says what was being done and the kernel's reason.
        """
        batch: list[bytes] = []
        size = 0
        for request in requests:
            if size + len(request) > _LARGEST_BATCH:
                self._send_batch(batch, what)
                batch, size = [], 0
            batch.append(request)
            size += len(request)
        if batch:
            self._send_batch(batch, what)

    def _send_batch(self, batch: list[bytes], what: str) -> None:
        self._socket.send(b"".join(batch))
        pending, refused = len(batch), 0
        while pending:
            data = self._socket.recv(65536)
            offset = 0
            while offset < len(data):
                length, kind, _, _, _ = _HEADER.unpack_from(data, offset)
                if kind == _ERROR:
                    pending -= 1
                    refused = refused or -struct.unpack_from("=i", data, offset + 16)[0]
                offset += (length + 3) & ~3
        if refused:
            raise BackendError(f"the kernel refused {what}: {os.strerror(refused)}")

    def is_running(self, index: int) -> bool:
        """Whether an interface sends what it is given: shortly after both ends have been brought up."""
        self._socket.send(_request(_RTM_GETLINK, _F_REQUEST, _LINK.pack(socket.AF_UNSPEC, 0, index, 0, 0)))
        data = self._socket.recv(65536)
        _, kind, _, _, _ = _HEADER.unpack_from(data)
        return bool(kind == _RTM_NEWLINK and _LINK.unpack_from(data, 16)[3] & _RUNNING)

    def next_hop(
        self,
        incoming: int,
        source: IPv4Address,
        destination: IPv4Address,
        source_port: int,
        destination_port: int,
    ) -> int:
        """Interface over which this namespace forwards (or sends, with ``incoming`` 0) a TCP flow's packets.

        Raises:
            BackendError: If there is no route.
        """
        body = struct.pack("=BBBBBBBBI", socket.AF_INET, 32, 32, 0, 0, 0, 0, 0, 0)
        body += _attribute(_RTA_DST, _packed(destination)) + _attribute(_RTA_SRC, _packed(source))
        body += _u32(_RTA_IIF, incoming) if incoming else b""
        body += _attribute(_RTA_IP_PROTO, bytes([socket.IPPROTO_TCP]))
        body += _attribute(_RTA_SPORT, struct.pack("!H", source_port))
        body += _attribute(_RTA_DPORT, struct.pack("!H", destination_port))
        self._socket.send(_request(_RTM_GETROUTE, _F_REQUEST, body))
        data = self._socket.recv(65536)
        length, kind, _, _, _ = _HEADER.unpack_from(data)
        if kind == _ERROR:
            reason = os.strerror(-struct.unpack_from("=i", data, 16)[0])
            raise BackendError(f"no route from {source} to {destination}: {reason}")
        offset = 16 + 12
        while offset < length:
            size, attribute = _ATTRIBUTE.unpack_from(data, offset)
            if attribute == _RTA_OIF:
                return int(struct.unpack_from("=I", data, offset + 4)[0])
            offset += (size + 3) & ~3
        raise BackendError(f"no route from {source} to {destination}: the kernel names no interface")

    def close(self) -> None:
        """Lets go of the namespace."""
        self._socket.close()
