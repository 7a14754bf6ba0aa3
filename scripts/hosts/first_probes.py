"""First packets that senders of an incast send because of a timer, on simulator and kernel.

    sudo .venv/bin/python scripts/hosts/first_probes.py

Plays incasts of linux-fattree-incast-shallow with a buffer of 20 packets and looks at every packet at the
senders. Counts the answers of which so many packets were acknowledged when the sender, silent for more than
3.5 ms, sent something: mostly a tail loss probe. Prints quantiles of the time since the last ACK. Answers
without an ACK are left out, because there the probe follows the first packets sooner.
docs/packets.md describes the rule. `--no-kernel` needs no root.
"""

from __future__ import annotations

import argparse
import secrets
import socket
import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from packet_times import listen  # type: ignore[import-not-found]  # beside this script

from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.emulator.linux.world import World
from sysgym.emulator.packets.memory.records import PACKET_IS_ACK
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.scenarios import CongestionScenario, load_scenario

SCENARIO = "linux-fattree-incast-shallow"
OVERRIDES = {"queue.buffer_bytes": 30_000, "queue.ecn_threshold_bytes": 6_000}
FIRST_SEED, EPISODE_S = 20_000, 3.0
SILENCE_S = 3.5e-3
"""Longer than the pauses between packets that a window lets go, shorter than the timers of a tick of 4 ms."""
MOST_ACKED = 4
QUANTILES = (0.1, 0.5, 0.9)

_OUTGOING, _TCP, _RST = 4, 6, 4
_HEADERS = slice(14, None)


class Segment(NamedTuple):
    """A TCP segment that a socket has heard."""

    time_s: float
    outgoing: bool
    ports: bytes
    """Ports of the connection, those of the host that sends the answer first."""
    sequence: int
    acknowledgement: int
    payload_bytes: int
    resets: bool
    has_options: bool


class Seen(NamedTuple):
    """A packet of an answer at its sender."""

    time_s: float
    is_data: bool
    acknowledged: int
    """Packets that the ACK acknowledges; 0 for data."""
    selective: bool
    """Whether the ACK reports packets out of order."""


def on_simulator(scenario: CongestionScenario, law: str, seed: int) -> Iterator[list[Seen]]:
    """Yield the packets of every answer."""
    network = PacketNetwork(scenario, transport=law)
    topology = network.topology
    links = {int(link): True for link in topology.host_uplink} | {
        int(link): False for link in topology.host_downlink
    }
    network.reset(seed)
    recording = network.record([topology.link_names[link] for link in links])
    network.advance(EPISODE_S)
    answers: dict[int, list[Seen]] = defaultdict(list)
    packets = recording.packets
    for packet in packets[packets["time_ns"].argsort(kind="stable")]:
        is_ack = bool(packet["flags"] & PACKET_IS_ACK)
        if links[int(packet["link"])] == is_ack:
            continue  # data at its receiver, an ACK at its
        acknowledged = int(packet["ack"]) if is_ack else 0
        selective = is_ack and packet["seq"] >= packet["ack"]
        answers[int(packet["flow"])].append(
            Seen(packet["time_ns"] * 1e-9, not is_ack, acknowledged, selective)
        )
    yield from answers.values()


def packets_at(heard: socket.socket) -> Iterator[tuple[float, bool, bytes]]:
    """Yield time, direction and IP packet of all TCP packets that a socket has received."""
    while True:
        try:
            frame, ancillary, _, source = heard.recvmsg(1 << 11, 256)
        except BlockingIOError:
            return
        if frame[12:14] == b"\x08\x00" and frame[23] == _TCP:
            seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
            yield seconds + nanoseconds * 1e-9, source[2] == _OUTGOING, frame[_HEADERS]


def segments_at(heard: socket.socket) -> Iterator[Segment]:
    """Yield all TCP segments that a socket at a sender, or at a port on the way from it, has received."""
    for time_s, outgoing, packet in packets_at(heard):
        length = 4 * (packet[0] & 15)
        tcp = packet[length:]
        offset = 4 * (tcp[12] >> 4)
        payload_bytes = int.from_bytes(packet[2:4], "big") - length - offset
        ports = tcp[:4] if outgoing else tcp[2:4] + tcp[:2]
        sequence, acknowledgement = struct.unpack("!II", tcp[4:12])
        resets, has_options = bool(tcp[13] & _RST), offset > 20
        yield Segment(time_s, outgoing, ports, sequence, acknowledgement, payload_bytes, resets, has_options)


def on_kernel(world: World, seed: int) -> Iterator[list[Seen]]:
    """Yield the packets of every answer."""
    topology, fabric = world.topology, world._fabric
    world.reset(seed)
    uplinks = {host: int(topology.host_uplink[host]) for host in range(1, topology.n_hosts)}
    sockets = [listen(fabric.namespace(host), fabric.interfaces[link].name) for host, link in uplinks.items()]
    world.advance(EPISODE_S)
    for heard in sockets:
        answers: dict[bytes, list[Seen]] = defaultdict(list)
        first: dict[bytes, int] = {}
        for segment in segments_at(heard):
            ports = segment.ports
            if segment.outgoing and segment.payload_bytes > 0:
                first.setdefault(ports, segment.sequence)
                answers[ports].append(Seen(segment.time_s, True, 0, False))
            elif not segment.outgoing and ports in first and not segment.resets:
                received = (segment.acknowledgement - first[ports]) & 0xFFFFFFFF
                answers[ports].append(Seen(segment.time_s, False, -(-received // 1460), segment.has_options))
        heard.close()
        yield from answers.values()


def first_by_timer(answer: list[Seen]) -> tuple[int, float] | None:
    """Return how many packets had been acknowledged, and for how long; None before any selective ACK."""
    acknowledged, since_s, last_s = 0, answer[0].time_s, answer[0].time_s
    for seen in answer:
        if seen.is_data:
            if seen.time_s - last_s > SILENCE_S:
                return acknowledged, seen.time_s - since_s
        elif seen.selective:
            return None
        else:
            acknowledged, since_s = max(acknowledged, seen.acknowledged), seen.time_s
        last_s = seen.time_s
    return None


def show(title: str, answers: list[list[Seen]]) -> None:
    """Print a line for each number of acknowledged packets."""
    found = [one for answer in answers if (one := first_by_timer(answer)) is not None]
    print(f"{title}: {len(answers)} answers")
    for count in range(1, MOST_ACKED):
        waits_ms = [1e3 * wait_s for acknowledged, wait_s in found if acknowledged == count]
        quantiles = np.quantile(waits_ms, QUANTILES) if waits_ms else [np.nan] * len(QUANTILES)
        print(f"  {count} acknowledged: {len(waits_ms):4d}   after ms", *(f"{one:6.1f}" for one in quantiles))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--law", default="dctcp")
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--no-kernel", action="store_true", help="the simulator alone")
    chosen = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + chosen.episodes)
    scenario = load_scenario(SCENARIO, overrides=OVERRIDES, expect=CongestionScenario)
    show("simulator", [one for seed in seeds for one in on_simulator(scenario, chosen.law, seed)])
    if chosen.no_kernel:
        return
    programs = Programs(secrets.token_hex(2))
    programs.load()
    world = World(programs.sid, scenario.resolved(), chosen.law, {}, programs)
    try:
        show("kernel", [one for seed in seeds for one in on_kernel(world, seed)])
    finally:
        world.close()
        programs.unload()


if __name__ == "__main__":
    main()
