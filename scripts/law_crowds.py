"""Play many flows of a law on one link, to see whether they take each other for other laws.

    python scripts/law_crowds.py agents/checkpoints/adaptive_swift.json
    python scripts/law_crowds.py results/beyond-classics-wide/training/adaptive_swift*/final.json dctcp swift

For every crowd, a dumbbell with 16 to 96 long-lived flows that begin one after the other, prints the least of
Jain's index and the largest mean queue over three episodes, in their second half. A law whose target rises
among its like fills the buffer, and some flows starve. Checkpoints of searched laws, or names of transports.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sysgym.agents.learned.congestion.law_search.laws import law_of_file
from sysgym.bench.tables import markdown_table
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.envs.congestion.datacenter.rewards import jain_index
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError

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
        begin = f"within {self.start_jitter_s * 1e3:g} ms, " if self.start_jitter_s else ""
        return (
            f"{self.n_flows} flows, {self.rate_bps / 1e9:g} Gb/s, {begin}"
            f"{self.link_delay_s * 1e6:g} us a link, marks from {self.mark_bytes / 1e3:g} kB"
        )

    def scenario(self) -> CongestionScenario:
        """Return the scenario."""
        overrides: Mapping[str, Any] = {
            "topology.link_rate_bps": self.rate_bps,
            "topology.link_delay_s": self.link_delay_s,
            "workload.flows_per_pair": self.n_flows // 4,
            "workload.start_jitter_s": self.start_jitter_s,
            "queue.buffer_bytes": max(1_000_000, self.mark_bytes),
            "queue.ecn_threshold_bytes": self.mark_bytes,
        }
        return load_scenario("dumbbell-10g", expect=CongestionScenario).with_overrides(overrides)


CROWDS = (
    Crowd(1e9, 16, 1e-6, 5e-2, 97_500, 1.0),
    Crowd(10e9, 24, 1e-6, 5e-3, 97_500),
    Crowd(10e9, 24, 5e-6, 5e-3, 97_500),
    Crowd(10e9, 32, 5e-6, 5e-3, 97_500),
    Crowd(10e9, 48, 2e-6, 2e-4, 30_000),
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
    parser.add_argument("laws", nargs="+", help="checkpoints of searched laws, or names of transports")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    try:
        print(crowd_table([transport_of(law) for law in given.laws], given.threads))
    except SysgymError as error:
        sys.exit(f"error: {error}")


def transport_of(law: str) -> Transport:
    """Return the transport of a checkpoint, or of a name.

    Raises:
        SysgymError: If there is none.
    """
    if not law.endswith(".json"):
        return get_transport(law)
    form = law_of_file(law).form
    return form.transport(form.read(Path(law)).parameters)


def crowd_table(laws: Sequence[Transport], n_threads: int) -> str:
    """Return the least Jain's index and the largest mean queue in kB, a row for each crowd, in Markdown."""
    episodes = [(law, crowd, seed) for crowd in CROWDS for law in laws for seed in SEEDS]
    with ThreadPoolExecutor(n_threads) as pool:
        found = list(pool.map(lambda episode: play(*episode), episodes))
    played = np.array(found).reshape(len(CROWDS), len(laws), len(SEEDS), 2)
    body = [
        [
            crowd.title,
            *(f"{one[:, 0].min():.3f}, {one[:, 1].max() / 1e3:.0f} kB" for one in of_laws),
        ]
        for crowd, of_laws in zip(CROWDS, played, strict=True)
    ]
    fair = (played[..., 0].min(axis=2) >= 0.98).sum(axis=0)
    body.append(["crowds with Jain's index 0.98 in every episode", *(f"{n} of {len(CROWDS)}" for n in fair)])
    return markdown_table(["crowd", *(f">{law.name}" for law in laws)], body)


def play(law: Transport, crowd: Crowd, seed: int) -> tuple[float, float]:
    """Return Jain's index of the goodputs, and the mean queue in bytes, of an episode's second half."""
    with closing(PacketNetwork(crowd.scenario(), transport=law)) as network:
        network.reset(seed)
        network.advance(crowd.episode_s / 2.0)
        before, queued = network.flows().delivered_bytes.copy(), network.ports().queue_byte_s.copy()
        network.advance(crowd.episode_s / 2.0)
        goodput = (network.flows().delivered_bytes - before).astype(np.float64)
        queue_byte_s = float((network.ports().queue_byte_s - queued).max())
    return jain_index(goodput), queue_byte_s / (crowd.episode_s / 2.0)


if __name__ == "__main__":
    main()
