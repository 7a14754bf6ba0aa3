"""NDP and EQDS beside htsim: completion times on a fat tree of 128 hosts.

python scripts/peers/beside_htsim.py

htsim's figures are of one seed each: ``htsim_ndp -nodes 128 -tm FILE -linkspeed 10000 -mtu 1500 -end 20000
-q 8 -cwnd 30 -hop_latency 1 -strat perm``, with links of 10 us ``-cwnd 110 -hop_latency 10``; for EQDS
``-q 35 -strat ecmp_host -paths 64``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import get_transport
from sysgym.emulator.packets.workloads.schedule import make_schedule
from sysgym.scenarios import CongestionScenario, load_scenario

SEEDS = range(1, 11)
HOSTS, SENDERS = 128, 32
SEGMENT_BYTES, PACKET_BYTES = 1460, 1500


class Case(NamedTuple):
    """Flows on a network, and what htsim says of them.

    Attributes:
        transport: Name of the law.
        pattern: ``"incast"`` of 32 hosts to one, or ``"permutation"`` of all hosts.
        packets: Packets of a flow.
        delay_us: Delay of a link.
        buffer_packets: Buffer of a port.
        first_window_packets: First window; 0: a bandwidth-delay product.
        median_us: Median completion time in htsim.
        largest_us: Largest one.
        differs: Whether the median here is another one, by more than 10 %, as docs/transports.md explains.
    """

    transport: str
    pattern: str
    packets: int
    delay_us: float
    buffer_packets: int
    first_window_packets: int
    median_us: float
    largest_us: float
    differs: bool = False


CASES = (
    Case("ndp", "incast", 44, 1, 8, 30, 1774, 1799),
    Case("ndp", "permutation", 44, 1, 8, 30, 85, 95),
    Case("ndp", "permutation", 685, 1, 8, 30, 928, 953),
    Case("ndp", "incast", 44, 10, 8, 110, 1883, 1954),
    Case("ndp", "permutation", 44, 10, 8, 110, 190, 305, differs=True),
    Case("ndp", "permutation", 685, 10, 8, 110, 1082, 1162),
    Case("eqds", "incast", 44, 1, 35, 0, 2005, 2257, differs=True),
    Case("eqds", "permutation", 44, 1, 35, 0, 86, 95),
    Case("eqds", "permutation", 685, 1, 35, 0, 955, 996),
    Case("eqds", "permutation", 44, 10, 35, 0, 193, 202, differs=True),
    Case("eqds", "permutation", 44, 10, 35, 43, 193, 202),
    Case("eqds", "permutation", 685, 10, 35, 0, 1102, 1159),
)


def make_network(case: Case) -> PacketNetwork:
    """Return the network of a case: ports that trim, packets sprayed over all paths, no jitter."""
    overrides: dict[str, Any] = {
        "topology": {
            "kind": "fat_tree",
            "k": 8,
            "link_rate_bps": 10e9,
            "link_delay_s": case.delay_us * 1e-6,
        },
        "routing.ecmp": "packet",
        "transport.ack_bytes": 64,
        "transport.host_jitter_s": 0.0,
        "queue.buffer_bytes": case.buffer_packets * PACKET_BYTES,
        "queue.ecn_threshold_bytes": None,
        "queue.classes": 2,
        "queue.trim": True,
    }
    law = replace(get_transport(case.transport), parameters=(float(case.first_window_packets),))
    scenario = load_scenario("dumbbell-10g", overrides=overrides, expect=CongestionScenario)
    return PacketNetwork(scenario, transport=law)


def completion_us(network: PacketNetwork, case: Case, seed: int) -> NDArray[np.float64]:
    """Return the completion times of the flows, which all start at once, us, shape (n_flows,)."""
    rng = np.random.default_rng(seed)
    hosts = rng.permutation(HOSTS)
    if case.pattern == "incast":
        src, dst = hosts[1 : SENDERS + 1], np.full(SENDERS, hosts[0])
    else:
        src, dst = hosts, np.roll(hosts, 1)
    sizes = np.full(len(src), SEGMENT_BYTES * case.packets)
    starts = np.zeros(len(src), np.int64)
    network.reset(seed, make_schedule(rng, src, dst, size_bytes=sizes, start_ns=starts))
    network.advance(10e-3)
    return np.asarray(1e6 * network.flows().finish_s)


def main() -> None:
    """Print a row for each case."""
    print("| law | flows | links | first window | htsim | here | difference of the medians |")
    print("| --- | --- | --- | --- | ---: | ---: | ---: |")
    for case in CASES:
        network = make_network(case)
        finished = np.array([completion_us(network, case, seed) for seed in SEEDS])
        medians = np.median(finished, axis=1)
        median_us = float(np.median(medians))
        window = f"{case.first_window_packets} packets" if case.first_window_packets else "a round trip's"
        print(
            f"| {case.transport} | {case.pattern}, {case.packets} packets | {case.delay_us} us | {window}"
            f" | {case.median_us} / {case.largest_us}"
            f" | {median_us:.0f} ({medians.min():.0f} - {medians.max():.0f})"
            f" / {np.median(finished.max(axis=1)):.0f} | {median_us / case.median_us - 1.0:+.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
