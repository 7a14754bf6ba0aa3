"""Speed and memory of the largest networks: python scripts/scale/large_worlds.py.

A fat tree of 8,192 hosts (k = 32) with a long-lived flow from each host, and 100,000 flows of web search that
arrive in one fat tree of 1,024 hosts. Each runs in a process of its own, whose largest memory is printed.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.workloads.flow_sizes import get_flow_sizes
from sysgym.emulator.packets.workloads.schedule import FlowSchedule, make_schedule
from sysgym.scenarios import CongestionScenario, load_scenario

RATE_BPS, DELAY_S = 10e9, 10e-6
WORLDS = ("fat tree, k = 32, 8,192 flows", "fat tree, k = 16, 100,000 flows")
N_FLOWS, LOAD = 100_000, 0.3


def network_of(k: int) -> PacketNetwork:
    """Return a fat tree with DCTCP."""
    topology = {"kind": "fat_tree", "k": k, "link_rate_bps": RATE_BPS, "link_delay_s": DELAY_S}
    scenario = load_scenario("dumbbell-10g", overrides={"topology": topology}, expect=CongestionScenario)
    return PacketNetwork(scenario, transport="dctcp")


def many_flows(n_hosts: int) -> FlowSchedule:
    """Return flows of web search between drawn hosts, which arrive as a Poisson process."""
    rng = np.random.default_rng(1)
    sizes = get_flow_sizes("websearch")
    gap_s = sizes.mean_bytes() * 8 / (LOAD * n_hosts * RATE_BPS)
    src = rng.integers(0, n_hosts, N_FLOWS)
    dst = (src + rng.integers(1, n_hosts, N_FLOWS)) % n_hosts
    starts_ns = np.round(1e9 * np.cumsum(rng.exponential(gap_s, N_FLOWS)))
    return make_schedule(rng, src, dst, size_bytes=sizes.sample(rng, N_FLOWS), start_ns=starts_ns)


def measure(world: str) -> dict[str, Any]:
    """Run one of the worlds; return its figures."""
    began_s = time.process_time()
    if world == WORLDS[0]:
        network, simulated_s = network_of(32), 4e-3
    else:
        network = network_of(16)
        schedule = many_flows(network.n_hosts)
        network.reset(1, schedule)
        simulated_s = float(schedule.start_ns[-1]) * 1e-9 + 0.1
    built_s = time.process_time() - began_s
    hops, began_s = network.packet_hops, time.process_time()
    network.advance(simulated_s)
    cpu_s = time.process_time() - began_s
    flows = network.flows()
    finished = np.isfinite(flows.finish_s[flows.size_bytes >= 0])  # long-lived flows never finish
    scale = 1 if sys.platform == "darwin" else 1024
    return {
        "world": world,
        "links": network.topology.n_links,
        "built_s": built_s,
        "simulated_s": simulated_s,
        "packet_hops": int(network.packet_hops - hops),
        "cpu_s": cpu_s,
        "finished": f"{finished.mean():.0%}" if len(finished) else "–",
        "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale,
    }


def main() -> None:
    """Measure both worlds and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", choices=WORLDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.world:
        print(json.dumps(measure(arguments.world)))
        return
    print("| network | links | set-up | simulated | M packet-hops/s | flows finished | memory |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for world in WORLDS:
        command = [sys.executable, __file__, "--world", world]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        row = json.loads(done.stdout.splitlines()[-1])
        print(
            f"| {world} | {row['links']:,} | {row['built_s']:.1f} s | {row['simulated_s'] * 1e3:.0f} ms |"
            f" {row['packet_hops'] / row['cpu_s'] / 1e6:.1f} | {row['finished']} |"
            f" {row['memory_bytes'] / 2**30:.2f} GiB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
