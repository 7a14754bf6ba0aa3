"""Compare a law on the simulator with the same law on the Linux kernel, in the networks of sim-vs-linux.

    sudo .venv/bin/python scripts/law_on_kernel.py adaptive_target FOLDER
    sudo .venv/bin/python scripts/law_on_kernel.py adaptive_target FOLDER --beside dctcp cubic bbr

The first prints the columns of one law of the study sim-vs-linux, which plays all laws and takes an hour. The
kernel's episodes are kept in the folder, so that the same command continues after an interruption. The second
prints the share of one flow of the law beside one of each other law on linux-dumbbell-100m: of four seconds,
after one, in four episodes; 1 is fair.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import fmean

from sysgym.bench.tables import markdown_table
from sysgym.emulator.packets.transports import Transport
from sysgym.envs.congestion.backends import network_on
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.studies.kernel_episodes import KernelEpisodes
from sysgym.studies.neighbours import transport_of
from sysgym.studies.sim_vs_linux import (
    LOSS_METRICS,
    LOSS_SEEDS,
    LOSSES,
    METRICS,
    SCENARIOS,
    on_both_backends,
    shipped_contender,
)

BESIDE, BESIDE_SEEDS = "linux-dumbbell-100m", range(20_000, 20_004)
STEP_S, STEPS_BEFORE, STEPS = 0.02, 50, 200


def share_beside(backend: str, law: Transport, other: str, seed: int) -> float:
    """Return the goodput of the first flow, which plays the law, over the mean of both."""
    scenario = load_scenario(BESIDE, expect=CongestionScenario)
    with closing(network_on(backend, scenario, law, {1: other})) as network:
        network.reset(seed)
        for _ in range(STEPS_BEFORE):
            network.advance(STEP_S)
        before = network.flows().delivered_bytes.copy()
        for _ in range(STEPS):
            network.advance(STEP_S)
        delivered = network.flows().delivered_bytes - before
    return float(2.0 * delivered[0] / delivered.sum())


def print_shares(law: Transport, others: Sequence[str]) -> None:
    """Print the shares of a law beside others on both backends."""
    rows = []
    for backend in ("packets", "linux"):
        cells = []
        for other in others:
            shares = [share_beside(backend, law, other, seed) for seed in BESIDE_SEEDS]
            cells.append(f"{fmean(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})")
        rows.append([backend, *cells])
    print(markdown_table(["share beside", *(f">{other}" for other in others)], rows))


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("law")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--without", nargs="*", default=[], help="scenarios and variants to leave out")
    parser.add_argument("--beside", nargs="+", default=[], help="laws beside which to measure shares")
    given = parser.parse_args()
    if given.beside:
        print_shares(transport_of(shipped_contender(given.law, BESIDE)), given.beside)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    scenarios = [scenario for scenario in SCENARIOS if scenario not in given.without]
    with closing(KernelEpisodes(given.folder)) as kept:
        calm = {}
        for scenario in scenarios:
            print(scenario, file=sys.stderr, flush=True)
            calm[scenario] = on_both_backends(scenario, shipped_contender(given.law, scenario), kept)
        rows = [[metric, *(one.cell(metric) for one in calm.values())] for metric in METRICS]
        print(markdown_table(["metric", *(f">{scenario}" for scenario in scenarios)], rows), flush=True)
        lossy = []
        for variant, (scenario, overrides) in LOSSES.items():
            if variant in given.without:
                continue
            print(variant, file=sys.stderr, flush=True)
            contender = shipped_contender(given.law, scenario)
            found = on_both_backends(scenario, contender, kept, overrides, LOSS_SEEDS)
            lossy.append([variant, *(found.cell(metric) for metric in LOSS_METRICS)])
        print()
        print(markdown_table(["losses", *(f">{metric}" for metric in LOSS_METRICS)], lossy))


if __name__ == "__main__":
    main()
