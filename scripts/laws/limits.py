"""Play laws where what they assume does not hold, to see what they lose.

    python scripts/laws/limits.py adaptive_swift swift dctcp
    python scripts/laws/limits.py adaptive_swift --beside dctcp cubic bbr swift
    python scripts/laws/limits.py mine=adaptive_swift@LAW.json --path-delay least_seen

The first form has flows of one law, four on dumbbell-10g unless it says otherwise, with delays that are no
queue, small buffers, other packets, slower links behind the hosts', and a path that becomes longer. Prints
goodput, and in brackets the mean queue of the longest port, packets dropped of those sent, and Jain's index.
With ``--beside`` two to twelve flows meet as many of another law, with other buffers, thresholds, delays,
rates and packets than those of the reference network; prints the law's share, where 1 is fair. Means over
three episodes, of which the second half counts. With ``--path-delay least_seen`` no flow is told of the empty
path. Laws are named as contenders of a benchmark are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sysgym.bench.tables import markdown_table
from sysgym.cli.parallel import in_parallel
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.envs.congestion.datacenter.rewards import jain_index
from sysgym.envs.congestion.sharing import measure_sharing, play_together
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError
from sysgym.studies.laws import transports_of

NETWORK = "dumbbell-10g"
SEEDS = 1, 2, 3
PACKET_BITS = 12_000

RATE = "topology.link_rate_bps"
CORE = "topology.core_rate_bps"
JITTER = "topology.link_jitter_s"
DELAY = "topology.link_delay_s"
OFFLOAD = "transport.segmentation_offload_bytes"
COALESCING = "transport.receive_coalescing_s"
MTU = "transport.mtu_bytes"
BUFFER = "queue.buffer_bytes"
MARKS = "queue.ecn_threshold_bytes"
FLOWS = "workload.flows_per_pair"


class Case(NamedTuple):
    """A network, as changes of the reference one.

    Attributes:
        title: Name in the table.
        changes: Values by dotted key.
        packets: Length of an episode, in packets of the slowest link.
    """

    title: str
    changes: Mapping[str, Any]
    packets: float = 200e3

    def scenario(self, path_delay: str) -> CongestionScenario:
        """Return the scenario, with what flows are told of the empty path."""
        overrides = {**self.changes, "transport.path_delay": path_delay}
        return load_scenario(NETWORK, expect=CongestionScenario).with_overrides(overrides)

    @property
    def episode_s(self) -> float:
        """Length of an episode."""
        return self.packets * PACKET_BITS / float(self.changes.get(CORE, self.changes.get(RATE, 10e9)))


def _hosts(rate_bps: float) -> list[Case]:
    """Return networks whose hosts and switches delay packets without a queue."""
    name = f"{rate_bps / 1e9:g} Gb/s"
    return [
        Case(name, {RATE: rate_bps}),
        *(
            Case(f"{name}, jitter of {us} us a switch", {RATE: rate_bps, JITTER: us * 1e-6})
            for us in (1, 5, 20)
        ),
        Case(f"{name}, segments of 64 kB", {RATE: rate_bps, OFFLOAD: 65_536}),
        Case(f"{name}, receivers gather for 10 us", {RATE: rate_bps, COALESCING: 1e-5}),
        Case(f"{name}, both, for 20 us", {RATE: rate_bps, OFFLOAD: 65_536, COALESCING: 2e-5}),
    ]


def _small_buffer(packets: int, n_flows: int) -> Case:
    """Return a network whose buffers have room for so many packets, and mark from a third on."""
    changes = {BUFFER: packets * 1500, MARKS: packets * 500, FLOWS: n_flows // 4}
    return Case(f"buffers of {packets} packets, {n_flows} flows", changes)


def _longer_path() -> Case:
    """Return a ring of four switches, in which flows go the long way round after a cable has failed."""
    ends = [["s0", "s1"], ["s1", "s2"], ["s2", "s3"], ["s3", "s0"]]
    return Case(
        "a ring of 8 hosts, of which one cable fails",
        {
            "topology": {
                "kind": "graph",
                "switches": ["s0", "s1", "s2", "s3"],
                "hosts_per_switch": 2,
                "link_rate_bps": 10e9,
                "link_delay_s": 5e-6,
                "cables": [{"ends": pair} for pair in ends],
            },
            "workload": {"kind": "long_lived", "pairs": "stride", "stride": 2, "start_jitter_s": 1e-3},
            "faults": {"links": [{"link": "s0<->s1", "down_s": 0.01}], "reroute_s": 1e-3},
        },
    )


ALONE = [
    *_hosts(10e9),
    *_hosts(100e9),
    Case("packets of 9000 bytes", {MTU: 9000}),
    _small_buffer(4, 4),
    _small_buffer(10, 4),
    _small_buffer(20, 32),
    Case("hosts 10 Gb/s, core 1 Gb/s", {CORE: 1e9}),
    Case("hosts 100 Gb/s, core 10 Gb/s", {RATE: 100e9, CORE: 10e9}),
    _longer_path(),
]

BESIDE = [
    Case("the reference", {}, 800e3),
    *(Case(f"{n} flows beside {n}", {FLOWS: n // 2}, 800e3) for n in (4, 12)),
    *(Case(f"marks from {packets} packets on", {MARKS: packets * 1500}, 800e3) for packets in (80, 40, 20)),
    Case("buffers of 60 packets, marks from 20 on", {BUFFER: 90_000, MARKS: 30_000}, 800e3),
    Case("buffers of 5 MB, no marks", {BUFFER: 5_000_000, MARKS: 5_000_000}, 800e3),
    Case("160 us a link", {DELAY: 1.6e-4}, 2e6),
    Case("100 Gb/s", {RATE: 100e9}, 2e6),
    Case("hosts 10 Gb/s, core 1 Gb/s", {CORE: 1e9}, 800e3),
    Case("hosts 100 Gb/s, core 1 Gb/s", {RATE: 100e9, CORE: 1e9}, 800e3),
    Case("packets of 9000 bytes", {MTU: 9000}, 800e3),
    Case("packets lost, 0.1 % a link", {"faults.loss_probability": 1e-3}, 800e3),
]


def play_alone(
    case: Case, law: Transport, seed: int, path_delay: str = "known"
) -> tuple[float, float, float, float]:
    """Return goodput (bit/s), mean queue (bytes), drop fraction and Jain's index of a law's flows."""
    together = play_together(case.scenario(path_delay), law, law, case.episode_s, seed)
    settled_bps = together.settled_bps
    return (
        float(settled_bps.sum()),
        together.queue_mean_bytes,
        together.drop_fraction,
        jain_index(settled_bps),
    )


def alone_table(laws: Mapping[str, Transport], path_delay: str) -> str:
    """Return goodput, queue, packets dropped and Jain's index of each law in each case, in Markdown."""
    jobs = [(case, law, seed, path_delay) for case in ALONE for law in laws.values() for seed in SEEDS]
    found = np.array(in_parallel(lambda job: play_alone(*job), jobs, "episodes"))
    means = found.reshape(len(ALONE), len(laws), len(SEEDS), 4).mean(axis=2)
    body = [[case.title, *map(_cell, of_laws)] for case, of_laws in zip(ALONE, means, strict=True)]
    return markdown_table(["Gb/s (queue, dropped, index)", *(f">{name}" for name in laws)], body)


def _cell(means: Sequence[float]) -> str:
    goodput_bps, queue_bytes, dropped, index = means
    return f"{goodput_bps / 1e9:.3g} ({queue_bytes / 1e3:.0f} kB, {100 * dropped:.2g} %, {index:.2f})"


def beside_table(laws: Mapping[str, Transport], others: Sequence[str], path_delay: str) -> str:
    """Return the share of each law beside each of the others in each case, in Markdown."""
    pairs = [(name, law, other) for name, law in laws.items() for other in others]
    jobs = [(case, law, other, seed) for case in BESIDE for _, law, other in pairs for seed in SEEDS]

    def share(job: tuple[Case, Transport, str, int]) -> float:
        case, law, other, seed = job
        scenario = case.scenario(path_delay)
        return measure_sharing(scenario, law, get_transport(other), case.episode_s, seed).share

    shares = np.array(in_parallel(share, jobs, "episodes"))
    means = shares.reshape(len(BESIDE), len(pairs), len(SEEDS)).mean(axis=2)
    body = [
        [case.title, *(f"{one:.2f}" for one in of_pairs)]
        for case, of_pairs in zip(BESIDE, means, strict=True)
    ]
    header = [f">{name} beside {other}" for name, _, other in pairs]
    return markdown_table(["share of a fair one", *header], body)


def main() -> None:
    """Play every law and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("laws", nargs="+", help="laws, as contenders: NAME, or NAME=AGENT@CHECKPOINT")
    parser.add_argument("--beside", nargs="+", default=[], help="laws that have the other half of the flows")
    parser.add_argument("--path-delay", choices=("known", "least_seen"), default="known")
    given = parser.parse_args()
    try:
        laws = transports_of(given.laws, NETWORK)
        if given.beside:
            print(beside_table(laws, given.beside, given.path_delay))
        else:
            print(alone_table(laws, given.path_delay))
    except SysgymError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
