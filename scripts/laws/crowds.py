"""Play many flows of a law on one link, to see whether they take each other for other laws.

    python scripts/laws/crowds.py adaptive_swift dctcp swift
    python scripts/laws/crowds.py mine=adaptive_swift@LAW.json --packets-an-ack 2
    python scripts/laws/crowds.py adaptive_swift swift --path-delay least_seen --longer 5

For every crowd, a dumbbell with 16 to 96 long-lived flows that begin one after the other, prints the least of
Jain's index, the largest mean queue and the mean goodput over the links' rate of three episodes, in their
second half. A law whose target rises among its like fills the buffer, and some flows starve. With
``--path-delay least_seen`` no flow is told of the empty path, which those that begin later do not see. Laws
are named as contenders of a benchmark are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.bench.tables import markdown_table
from sysgym.cli.parallel import in_parallel
from sysgym.emulator.packets.transports import Transport
from sysgym.envs.congestion.sharing import measure_sharing
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError
from sysgym.studies.laws import transports_of

NETWORK = "dumbbell-10g"
SEEDS = 1, 2, 3


class Crowd(NamedTuple):
    """Many flows on one link.

    Attributes:
        rate_bps: Rate of all links.
        n_flows: Number of flows.
        link_delay_s: Delay of a link.
        start_jitter_s: Flows begin within this time.
        mark_bytes: Queue above which packets are marked.
        episode_s: Simulated time.
    """

    rate_bps: float
    n_flows: int
    link_delay_s: float
    start_jitter_s: float
    mark_bytes: int
    episode_s: float = 0.1

    @property
    def title(self) -> str:
        """Name in the table."""
        return (
            f"{self.n_flows} flows, {self.rate_bps / 1e9:g} Gb/s, within {self.start_jitter_s * 1e3:g} ms, "
            f"{self.link_delay_s * 1e6:g} us a link, marks from {self.mark_bytes / 1e3:g} kB"
        )

    def scenario(self, packets_an_ack: int, path_delay: str = "known") -> CongestionScenario:
        """Return the scenario, with receivers that delay ACKs until so many packets have come."""
        overrides: Mapping[str, Any] = {
            "topology.link_rate_bps": self.rate_bps,
            "topology.link_delay_s": self.link_delay_s,
            "workload.flows_per_pair": self.n_flows // 4,
            "workload.start_jitter_s": self.start_jitter_s,
            "queue.buffer_bytes": max(1_000_000, self.mark_bytes),
            "queue.ecn_threshold_bytes": self.mark_bytes,
            "transport.delayed_ack_packets": packets_an_ack,
            "transport.path_delay": path_delay,
        }
        return load_scenario(NETWORK, expect=CongestionScenario).with_overrides(overrides)


CROWDS = (
    Crowd(1e9, 16, 1e-6, 5e-2, 97_500, 1.0),
    Crowd(10e9, 24, 1e-6, 5e-3, 97_500),
    Crowd(10e9, 24, 5e-6, 5e-3, 97_500),
    Crowd(10e9, 32, 5e-6, 5e-3, 97_500),
    Crowd(10e9, 48, 2e-6, 2e-4, 30_000),
    Crowd(10e9, 64, 1e-6, 1e-3, 105_000),
    Crowd(10e9, 80, 5e-6, 5e-3, 105_000),
    Crowd(10e9, 96, 1e-6, 1e-3, 97_500),
    Crowd(10e9, 96, 5e-6, 5e-3, 97_500),
    Crowd(25e9, 32, 3e-6, 5e-3, 97_500),
    Crowd(25e9, 48, 3e-6, 5e-3, 30_000),
    Crowd(100e9, 32, 1e-6, 2e-4, 3_000_000, 0.03),
    Crowd(100e9, 48, 1e-6, 2e-4, 100_000, 0.03),
    Crowd(100e9, 64, 1e-6, 2e-4, 100_000, 0.03),
)


def main() -> None:
    """Play every law in every crowd and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("laws", nargs="+", help="laws, as contenders: NAME, or NAME=AGENT@CHECKPOINT")
    parser.add_argument("--packets-an-ack", type=int, default=1, help="2: receivers delay ACKs (RFC 1122)")
    parser.add_argument("--path-delay", choices=("known", "least_seen"), default="known")
    parser.add_argument("--longer", type=float, default=1.0, help="factor of the episodes' lengths")
    given = parser.parse_args()
    if not given.longer > 0.0:
        parser.error("--longer: expected a number above 0")
    try:
        laws = transports_of(given.laws, NETWORK)
        print(crowd_table(laws, given.packets_an_ack, given.path_delay, given.longer))
    except SysgymError as error:
        sys.exit(f"error: {error}")


def crowd_table(laws: Mapping[str, Transport], packets_an_ack: int, path_delay: str, longer: float) -> str:
    """Return Jain's index, queue in kB and goodput in % of the rate, a row for each crowd, in Markdown."""
    episodes = [
        (crowd.scenario(packets_an_ack, path_delay), law, law, longer * crowd.episode_s, seed)
        for crowd in CROWDS
        for law in laws.values()
        for seed in SEEDS
    ]
    found = in_parallel(lambda episode: measure_sharing(*episode), episodes, "crowds")
    played = np.array([(one.jain_index, one.queue_mean_bytes, one.goodput_bps) for one in found])
    played = played.reshape(len(CROWDS), len(laws), len(SEEDS), 3)
    body = [
        [crowd.title, *(_cell(one, crowd.rate_bps) for one in of_laws)]
        for crowd, of_laws in zip(CROWDS, played, strict=True)
    ]
    fair = (played[..., 0].min(axis=2) >= 0.98).sum(axis=0)
    body.append(["crowds with Jain's index 0.98 in every episode", *(f"{n} of {len(CROWDS)}" for n in fair)])
    return markdown_table(["crowd", *(f">{name}" for name in laws)], body)


def _cell(episodes: NDArray[np.float64], rate_bps: float) -> str:
    """Return the cell of a law's episodes, shape (n_seeds, 3)."""
    index, queue_bytes, goodput_bps = episodes.T
    return (
        f"{index.min():.3f}, {queue_bytes.max() / 1e3:.0f} kB, {100.0 * goodput_bps.mean() / rate_bps:.0f} %"
    )


if __name__ == "__main__":
    main()
