"""Compare a law on the simulator with the same law on the Linux kernel, in the networks of sim-vs-linux.

    sudo .venv/bin/python scripts/law_on_kernel.py adaptive_target results/law-on-kernel

Prints the columns of one law of the study sim-vs-linux, which plays all laws and takes an hour. The kernel's
episodes are kept in the folder, so that the same command continues after an interruption.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path

from sysgym.bench.tables import markdown_table
from sysgym.studies.kernel_episodes import KernelEpisodes
from sysgym.studies.sim_vs_linux import (
    LOSS_METRICS,
    LOSS_SEEDS,
    LOSSES,
    METRICS,
    SCENARIOS,
    on_both_backends,
    shipped_contender,
)


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("law")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--without", nargs="*", default=[], help="scenarios and variants to leave out")
    given = parser.parse_args()
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
