"""Compare a law on the simulator with the same law on the Linux kernel, in the networks of sim-vs-linux.

    sudo .venv/bin/python scripts/laws/on_kernel.py adaptive_target FOLDER
    sudo .venv/bin/python scripts/laws/on_kernel.py adaptive_target FOLDER --beside dctcp cubic bbr

The first prints the columns of one law of the study sim-vs-linux, which plays all laws and takes an hour.
The kernel's episodes are kept in the folder, so that the same command continues after an interruption. With
``--path-delay least_seen`` flows take the least round trip that they have seen for the empty path's. The
second prints the share of one flow of the law beside one of each other law on linux-dumbbell-100m, in the
second halves of four episodes of six seconds; 1 is fair.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Any

from sysgym.bench.tables import markdown_table
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.envs.congestion.sharing import measure_sharing
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError
from sysgym.studies.kernel_episodes import KernelEpisodes
from sysgym.studies.laws import transport_of
from sysgym.studies.sim_vs_linux import (
    BACKENDS,
    LOSS_METRICS,
    LOSS_SEEDS,
    LOSSES,
    METRICS,
    SCENARIOS,
    on_both_backends,
    shipped_contender,
)

BESIDE, BESIDE_SEEDS, BESIDE_S = "linux-dumbbell-100m", range(4), 6.0


def print_shares(law: Transport, others: Sequence[str], overrides: Mapping[str, Any]) -> None:
    """Print the shares of a law beside others on both backends."""
    scenario = load_scenario(BESIDE, expect=CongestionScenario).with_overrides(overrides)
    rows = []
    for backend in BACKENDS:
        cells = []
        for other in map(get_transport, others):
            shares = [
                measure_sharing(scenario, law, other, BESIDE_S, seed, backend=backend).share
                for seed in BESIDE_SEEDS
            ]
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
    parser.add_argument("--path-delay", choices=("known", "least_seen"), default="known")
    given = parser.parse_args()
    path_delay = {"transport.path_delay": given.path_delay}
    if given.beside:
        print_shares(transport_of(shipped_contender(given.law, BESIDE)), given.beside, path_delay)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    scenarios = [scenario for scenario in SCENARIOS if scenario not in given.without]
    with closing(KernelEpisodes(given.folder)) as kept:
        calm = {}
        for scenario in scenarios:
            print(scenario, file=sys.stderr, flush=True)
            contender = shipped_contender(given.law, scenario)
            calm[scenario] = on_both_backends(scenario, contender, kept, path_delay)
        rows = [[metric, *(one.cell(metric) for one in calm.values())] for metric in METRICS]
        print(markdown_table(["metric", *(f">{scenario}" for scenario in scenarios)], rows), flush=True)
        lossy = []
        for variant, (scenario, overrides) in LOSSES.items():
            if variant in given.without:
                continue
            print(variant, file=sys.stderr, flush=True)
            contender = shipped_contender(given.law, scenario)
            found = on_both_backends(scenario, contender, kept, {**overrides, **path_delay}, LOSS_SEEDS)
            lossy.append([variant, *(found.cell(metric) for metric in LOSS_METRICS)])
        print()
        print(markdown_table(["losses", *(f">{metric}" for metric in LOSS_METRICS)], lossy))


if __name__ == "__main__":
    try:
        main()
    except SysgymError as error:
        sys.exit(f"error: {error}")
