"""Requests that build a network (links, addresses, neighbours, routes), and route queries.

A fat-tree of 36 nodes takes some 800 requests. Sent one at a time, with a library that builds an object for
each, they take most of a second; written into one buffer and sent together
(:meth:`sysgym.emulator.linux.kernel.netlink.Netlink.request_all`) they take a few milliseconds.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from ipaddress import IPv4Address
from typing import NamedTuple

from sysgym.emulator.linux.kernel.netlink import (
    ACK,
    CREATE,
    EXCLUSIVE,
    REPLACE,
    REQUEST,
    RTM_GETLINK,
    RTM_NEWLINK,
    Netlink,
    attribute,
    attributes,
    link_flags,
    link_message,
    message,
    nested,
)
from sysgym.scenarios.errors import BackendError

_RTM_NEWADDR, _RTM_NEWROUTE, _RTM_GETROUTE, _RTM_NEWNEIGH = 20, 24, 26, 28
_NEW = REQUEST | ACK | CREATE
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
_ROUTE_BYTES = 12  # struct rtmsg

METRIC_RTO_MIN_MS, METRIC_INITCWND, METRIC_QUICKACK = 13, 11, 15
"""Metrics of a route (linux/rtnetlink.h): least retransmission time-out, initial window, no delayed ACKs."""


class Interface(NamedTuple):
    """One end of a veth pair."""

    netns_fd: int
    name: str
    ifindex: int
    """Index of the interface. The caller numbers the interfaces of a namespace from 2 on (1 is lo)."""
    mac: bytes
    group: int
    """Device group, which is the number of its port."""


def veth(one: Interface, other: Interface, mtu_bytes: int, bundle_packets: int) -> bytes:
    """Return the request for a pair of interfaces, still down, each in its own namespace.

    Args:
        one: One interface.
        other: The other interface.
        mtu_bytes: Size of the largest packet.
        bundle_packets: Most packets that TCP hands on as one; 1 disables segmentation offload.
    """

    def end(interface: Interface) -> bytes:
        return (
            link_message(interface.ifindex)
            + attribute(_IFLA_IFNAME, interface.name)
            + attribute(_IFLA_ADDRESS, interface.mac)
            + attribute(_IFLA_NET_NS_FD, interface.netns_fd)
            + attribute(_IFLA_MTU, mtu_bytes)
            + attribute(_IFLA_TXQLEN, 1000)
            + attribute(_IFLA_GROUP, interface.group)
            + attribute(_IFLA_TX_QUEUES, 1)
            + attribute(_IFLA_RX_QUEUES, 1)
            + attribute(_IFLA_GSO_MAX_SEGS, bundle_packets)
        )

    info = nested(
        _IFLA_LINKINFO, attribute(_INFO_KIND, "veth"), nested(_INFO_DATA, nested(_VETH_PEER, end(other)))
    )
    return message(RTM_NEWLINK, _NEW | EXCLUSIVE, end(one) + info)


def up(index: int) -> bytes:
    """Return the request that brings an interface up; a pair cannot be created up."""
    return message(RTM_NEWLINK, REQUEST | ACK, link_message(index, _UP, _UP))


def address(index: int, value: IPv4Address) -> bytes:
    """Return the request that gives an interface one address, with no network behind it (/32)."""
    body = struct.pack("=BBBBI", socket.AF_INET, 32, 0, _SCOPE_UNIVERSE, index)
    body += attribute(2, value.packed) + attribute(1, value.packed)
    return message(_RTM_NEWADDR, _NEW | EXCLUSIVE, body)


def neighbour(index: int, value: IPv4Address, mac: bytes) -> bytes:
    """Return the request for a permanent neighbour entry, so that ARP is never needed."""
    body = struct.pack("=BxxxiHBB", socket.AF_INET, index, _PERMANENT, 0, 0)
    body += attribute(1, value.packed) + attribute(2, mac)
    return message(_RTM_NEWNEIGH, _NEW | REPLACE, body)


def route(
    destination: IPv4Address,
    prefix_length: int,
    hops: Sequence[tuple[int, IPv4Address | None]],
    metrics: dict[int, int] | None = None,
) -> bytes:
    """Return the request for a route over one next hop, or over several in equal shares.

    Args:
        destination: First address of the destination.
        prefix_length: 32 for one host, 0 for everything.
        hops: Interface index and the next neighbour; None where the destination is the neighbour itself.
        metrics: Number of each metric -> its value.
    """
    direct = hops[0][1] is None
    scope = _SCOPE_LINK if direct else _SCOPE_UNIVERSE
    flags = 0 if direct or len(hops) > 1 else _ONLINK
    body = struct.pack(
        "=BBBBBBBBI", socket.AF_INET, prefix_length, 0, 0, _MAIN_TABLE, _PROTO_STATIC, scope, _UNICAST, flags
    )
    if prefix_length:
        body += attribute(_RTA_DST, destination.packed)
    if len(hops) == 1:
        index, gateway = hops[0]
        body += attribute(_RTA_OIF, index)
        body += b"" if gateway is None else attribute(_RTA_GATEWAY, gateway.packed)
    else:
        nexthops = b""
        for index, gateway in hops:
            via = b"" if gateway is None else attribute(_RTA_GATEWAY, gateway.packed)
            nexthops += struct.pack("=HBBi", 8 + len(via), _ONLINK, 0, index) + via
        body += attribute(_RTA_MULTIPATH, nexthops)
    if metrics:
        body += attribute(_RTA_METRICS, b"".join(attribute(kind, value) for kind, value in metrics.items()))
    return message(_RTM_NEWROUTE, _NEW | REPLACE, body)


def is_running(connection: Netlink, index: int) -> bool:
    """Return whether an interface transmits, which begins shortly after both ends were brought up."""
    found = connection.ask(RTM_GETLINK, link_message(index), f"no interface {index}")
    return bool(link_flags(found) & _RUNNING)


def next_hop(
    connection: Netlink,
    incoming: int,
    source: IPv4Address,
    destination: IPv4Address,
    source_port: int,
    destination_port: int,
) -> int:
    """Return the interface over which a namespace forwards a TCP flow's packets.

    With ``incoming`` 0 the namespace is the sender.

    Raises:
        BackendError: If there is no route.
    """
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, 32, 32, 0, 0, 0, 0, 0, 0)
    body += attribute(_RTA_DST, destination.packed) + attribute(_RTA_SRC, source.packed)
    body += attribute(_RTA_IIF, incoming) if incoming else b""
    body += attribute(_RTA_IP_PROTO, bytes([socket.IPPROTO_TCP]))
    body += attribute(_RTA_SPORT, struct.pack("!H", source_port))
    body += attribute(_RTA_DPORT, struct.pack("!H", destination_port))
    found = connection.ask(_RTM_GETROUTE, body, f"no route from {source} to {destination}")
    interface = attributes(found[_ROUTE_BYTES:]).get(_RTA_OIF)
    if interface is None:
        raise BackendError(f"no route from {source} to {destination}: the kernel names no interface")
    return int(struct.unpack("=I", interface)[0])
