"""Packets of an incast at its senders and at the port before its receiver, on simulator and kernel.

    sudo .venv/bin/python scripts/hosts/incast_packets.py --law reno --episodes 40

Plays linux-fattree-incast-shallow and listens at the senders and at the receiver's edge switch. Prints, for
both backends, what share of the first transmissions was lost by the time since the answer began, how lost
retransmissions were repaired, how many answers timed out, and when packets of the receiver's neighbour
arrive at the port in relation to its departures. docs/linux-validation.md names the differences. With
`--no-kernel` it needs neither Linux nor root.
"""

from __future__ import annotations

import argparse
import secrets
import socket
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from first_probes import EPISODE_S, FIRST_SEED, SCENARIO, segments_at  # type: ignore[import-not-found]
from packet_times import listen  # type: ignore[import-not-found]  # beside this script

from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.emulator.linux.world import World
from sysgym.emulator.packets.memory.records import PACKET_IS_ACK
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.topology import Topology
from sysgym.scenarios import CongestionScenario, load_scenario

TIME_OUT_S = 0.15
"""A sender that was silent for longer has timed out; a probe for a single packet may be counted, too."""
AGES_MS = (0, 6, 10, 14, 18, 22, 26, 30, 40, 50)
COINCIDENCE_S = 5e-6
PAYLOAD_BYTES = 1460


@dataclass
class Episode:
    """What was seen in an episode.

    Attributes:
        answers: For every answer its packets at the sender: time in s, and the packet's number, or -1 for an
            ACK.
        arrivals: Times at which the neighbour's packets arrive at the port before the receiver, s.
        departures: Times at which that port sends, s.
    """

    answers: dict[Any, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    arrivals: list[float] = field(default_factory=list)
    departures: list[float] = field(default_factory=list)


def neighbours_links(topology: Topology) -> tuple[int, int]:
    """Return the link of the receiver's neighbour at its edge switch, and the link to the receiver."""
    edge = topology.host_edge[0]
    neighbour = next(host for host in range(1, topology.n_hosts) if topology.host_edge[host] == edge)
    return int(topology.host_uplink[neighbour]), int(topology.host_downlink[0])


def on_simulator(scenario: CongestionScenario, law: str, seeds: range) -> Iterator[Episode]:
    """Yield the episodes of the simulator."""
    network = PacketNetwork(scenario, transport=law)
    topology = network.topology
    from_neighbour, to_receiver = neighbours_links(topology)
    up, down = set(map(int, topology.host_uplink)), set(map(int, topology.host_downlink))
    delay_s = scenario.topology.link_delay_s
    for seed in seeds:
        network.reset(seed)
        recording = network.record([topology.link_names[link] for link in up | down])
        network.advance(EPISODE_S)
        episode, packets = Episode(), recording.packets
        for packet in packets[packets["time_ns"].argsort(kind="stable")]:
            link, time_s = int(packet["link"]), packet["time_ns"] * 1e-9
            is_ack = bool(packet["flags"] & PACKET_IS_ACK)
            if not is_ack and link == from_neighbour:
                episode.arrivals.append(time_s + delay_s)
            if not is_ack and link == to_receiver:
                episode.departures.append(time_s)
            if link in (down if is_ack else up):
                episode.answers[int(packet["flow"])].append((time_s, -1 if is_ack else int(packet["seq"])))
        yield episode


def data_times(heard: socket.socket, *, outgoing: bool) -> list[float]:
    """Return the times at which data passed an interface in a direction, s."""
    return sorted(
        one.time_s for one in segments_at(heard) if one.outgoing == outgoing and one.payload_bytes > 0
    )


def on_kernel(scenario: CongestionScenario, law: str, seeds: range) -> Iterator[Episode]:
    """Yield the episodes of the kernel."""
    programs = Programs(secrets.token_hex(2))
    programs.load()
    world = World(programs.sid, scenario.resolved(), law, {}, programs)
    try:
        for seed in seeds:
            world.reset(seed)
            yield _heard(world)
    finally:
        world.close()
        programs.unload()


def _heard(world: World) -> Episode:
    topology, fabric = world.topology, world._fabric
    from_neighbour, to_receiver = neighbours_links(topology)
    edge = fabric.namespace(int(topology.host_edge[0]))
    uplinks = {host: int(topology.host_uplink[host]) for host in range(1, topology.n_hosts)}
    at_senders = {
        host: listen(fabric.namespace(host), fabric.interfaces[link].name) for host, link in uplinks.items()
    }
    at_port = listen(edge, fabric.interfaces[to_receiver].name)
    from_host = listen(edge, fabric.interfaces[from_neighbour ^ 1].name)
    world.advance(EPISODE_S)
    episode = Episode()
    for host, heard in at_senders.items():
        first: dict[bytes, int] = {}
        for segment in segments_at(heard):
            answer = host, segment.ports
            if segment.outgoing and segment.payload_bytes > 0:
                begin = first.setdefault(segment.ports, segment.sequence)
                number = round(((segment.sequence - begin) & 0xFFFFFFFF) / PAYLOAD_BYTES)
                episode.answers[answer].append((segment.time_s, number))
            elif not segment.outgoing and segment.ports in first:
                episode.answers[answer].append((segment.time_s, -1))
        heard.close()
    episode.departures = data_times(at_port, outgoing=True)
    episode.arrivals = data_times(from_host, outgoing=False)
    at_port.close()
    from_host.close()
    return episode


def show(title: str, episodes: list[Episode]) -> None:
    """Print the figures of a backend."""
    sent, lost, repairs, silent = Counter[int](), Counter[int](), Counter[str](), Counter[int]()
    for answer in (answer for episode in episodes for answer in episode.answers.values()):
        times: dict[int, list[float]] = defaultdict(list)
        began_s = last_s = answer[0][0]
        silences = 0
        for time_s, number in answer:
            silence = number >= 0 and time_s - last_s > TIME_OUT_S
            silences += int(silence)
            if len(times.get(number, ())) > 1 and number >= 0:
                repairs["by a time-out" if silence else "sooner"] += 1
            if number >= 0:
                times[number].append(time_s)
            last_s = time_s
        silent[silences] += 1
        for transmissions in times.values():
            age = bisect_right(AGES_MS, 1e3 * (transmissions[0] - began_s)) - 1
            sent[age] += 1
            lost[age] += len(transmissions) > 1
    n = len(episodes)
    print(f"{title}: {n} episodes")
    shares = (f"{AGES_MS[age]}: {lost[age] / sent[age]:.2f}" for age in sorted(sent) if sent[age])
    print("  first transmissions sent again, by their age in ms from:", *shares)
    print(
        "  lost retransmissions repaired, per episode:", {how: round(k / n, 1) for how, k in repairs.items()}
    )
    print("  answers by silences, per episode:", {k: round(silent[k] / n, 2) for k in sorted(silent)})
    print("  the neighbour's packets at the port:", coincidences(episodes))


def coincidences(episodes: list[Episode]) -> str:
    """Return how many packets arrive just after a departure of the port, and just before one."""
    after = before = 0
    for episode in episodes:
        departures = np.array(episode.departures)
        for time_s in episode.arrivals:
            following = int(np.searchsorted(departures, time_s))
            after += following > 0 and time_s - departures[following - 1] < COINCIDENCE_S
            before += following < len(departures) and departures[following] - time_s < COINCIDENCE_S
    return f"{after} arrive within {1e6 * COINCIDENCE_S:g} us after a departure, {before} before one"


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--law", default="reno")
    parser.add_argument("--buffer-bytes", type=int, default=60_000)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--no-kernel", action="store_true", help="the simulator alone")
    chosen = parser.parse_args()
    buffer_bytes = chosen.buffer_bytes
    overrides = {"queue.buffer_bytes": buffer_bytes, "queue.ecn_threshold_bytes": buffer_bytes // 5}
    scenario = load_scenario(SCENARIO, overrides=overrides, expect=CongestionScenario)
    seeds = range(FIRST_SEED, FIRST_SEED + chosen.episodes)
    show("simulator", list(on_simulator(scenario, chosen.law, seeds)))
    if not chosen.no_kernel:
        show("kernel", list(on_kernel(scenario, chosen.law, seeds)))


if __name__ == "__main__":
    main()
