"""Time between a packet and its acknowledgement on the kernel backend: what links and hosts take.

    sudo .venv/bin/python scripts/hosts/packet_times.py

Plays incasts of linux-fattree-incast-shallow and listens at the port before the receiver and at the senders.
Prints quantiles of the time from a data packet's departure at that port to its ACK's arrival at the sender:
seven links and the receiver, and of the time from there to the sender's next packet. `link_delay_s`,
`link_jitter_s` and `host_jitter_s` of the linux-* scenarios come from these figures. Only Linux, as root.
"""

from __future__ import annotations

import argparse
import bisect
import secrets
import socket
import struct
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.emulator.linux.kernel.nodes import Namespace
from sysgym.emulator.linux.world import World
from sysgym.scenarios import load_scenario

SCENARIO = "linux-fattree-incast-shallow"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
LONGEST_US = 500.0
"""Later ACKs are delayed ones, or those of other packets."""

_SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 35, 33
_ALL_PROTOCOLS, _OUTGOING, _TCP = 3, 4, 6
_BUFFER_BYTES = 1 << 26
_ADDRESSES, _PORTS = slice(26, 34), slice(34, 38)
_FULL_PACKET = 1500


class Seen(NamedTuple):
    """A packet at an interface."""

    time_us: float
    outgoing: bool
    size_bytes: int
    connection: bytes
    """Addresses and ports, those of the data's sender first."""


def listen(namespace: Namespace, interface: str) -> socket.socket:
    """Return a socket that receives every packet of an interface."""
    with namespace.entered():
        heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
        heard.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        heard.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        heard.setblocking(False)
        heard.bind((interface, 0))
        return heard


def packets(heard: socket.socket, sender: bytes | None) -> list[Seen]:
    """Return the TCP packets that a socket has received.

    Args:
        heard: Result of :func:`listen`.
        sender: Address of the host whose interface this is; None: the port of a switch.
    """
    found: list[Seen] = []
    while True:
        try:
            frame, ancillary, _, source = heard.recvmsg(1 << 11, 256)
        except BlockingIOError:
            return found
        if frame[12:14] != b"\x08\x00" or frame[23] != _TCP:
            continue
        seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
        outgoing = source[2] == _OUTGOING
        addresses, ports = frame[_ADDRESSES], frame[_PORTS]
        if sender is not None and not outgoing:
            addresses, ports = addresses[4:] + addresses[:4], ports[2:] + ports[:2]
        found.append(Seen(seconds * 1e6 + nanoseconds * 1e-3, outgoing, len(frame), addresses + ports))


def first_after(times_us: list[float], time_us: float) -> float:
    """Return the first of some sorted times after a time; infinity if there is none."""
    place = bisect.bisect_right(times_us, time_us)
    return times_us[place] if place < len(times_us) else np.inf


def measure(world: World, seeds: range, seconds: float) -> tuple[list[float], list[float]]:
    """Return the times from departures to ACKs, and from ACKs to the next packets, us."""
    topology, fabric = world.topology, world._fabric
    port = int(topology.host_downlink[0])
    at_port = listen(fabric.namespace(int(topology.link_source[port])), fabric.interfaces[port].name)
    at_hosts = [
        (listen(fabric.namespace(host), fabric.interfaces[int(topology.host_uplink[host])].name), host)
        for host in range(1, topology.n_hosts)
    ]
    to_ack_us, to_packet_us = [], []
    for seed in seeds:
        world.reset(seed)
        world.advance(seconds)
        departures = [
            seen for seen in packets(at_port, None) if seen.outgoing and seen.size_bytes >= _FULL_PACKET
        ]
        acks: dict[bytes, list[float]] = defaultdict(list)
        sent: dict[bytes, list[float]] = defaultdict(list)
        for heard, host in at_hosts:
            for seen in packets(heard, fabric.addresses[host].packed):
                (sent if seen.outgoing else acks)[seen.connection].append(seen.time_us)
        for departure in departures:
            ack_us = first_after(acks[departure.connection], departure.time_us)
            if ack_us - departure.time_us < LONGEST_US:
                to_ack_us.append(ack_us - departure.time_us)
                following_us = first_after(sent[departure.connection], ack_us)
                if following_us - ack_us < LONGEST_US:
                    to_packet_us.append(following_us - ack_us)
    for heard in (at_port, *(heard for heard, _ in at_hosts)):
        heard.close()
    return to_ack_us, to_packet_us


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    chosen = parser.parse_args()
    programs = Programs(secrets.token_hex(2))
    programs.load()
    world = World(programs.sid, load_scenario(SCENARIO).resolved(), "cubic", {}, programs)
    try:
        measured = measure(world, range(20_000, 20_000 + chosen.episodes), chosen.seconds)
    finally:
        world.close()
        programs.unload()
    print(f"{'us, quantile':32s}" + "".join(f"{quantile:8.2f}" for quantile in QUANTILES) + "   packets")
    for title, times_us in zip(
        ("departure to ACK at the sender", "ACK to the next packet"), measured, strict=True
    ):
        shown = "".join(f"{value:8.1f}" for value in np.quantile(times_us, QUANTILES))
        print(f"{title:32s}{shown}{len(times_us):10d}")


if __name__ == "__main__":
    main()
