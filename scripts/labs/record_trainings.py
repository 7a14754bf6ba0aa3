"""Record the table of lab 5: what policies of many trainings reach on two core links.

    python scripts/labs/record_trainings.py runs                    # trains what is missing, then plays
    python scripts/labs/record_trainings.py runs --trainings 3      # fewer, for a first look

Trains both recipes of ``labs/5-ppo.py``, at home and on varied core links, with seeds 1 to N, into folders
such as ``runs/home-1`` and ``runs/varied-1``. A training that is there is not repeated, and an interrupted
one goes on. Then every policy plays five seeds of the test split on core links of 10 and 6 Mb/s, and the mean
returns are written to ``src/sysgym/labs/trainings.csv``. A training takes half a minute on two idle cores.
"""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path

import numpy as np

from sysgym.agents.learned.training.train import train
from sysgym.labs.rates import home, play_policy, varied
from sysgym.labs.trainings import FILE

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "src" / "sysgym" / "labs" / FILE
RECIPES = {"home": home, "varied": varied}
TRAINING_STEPS = 30_000
CORE_MBPS = (10, 6)
SEEDS = range(20_000, 20_005)


def trained(folder: Path, recipe: str, seed: int) -> Path:
    """Return the policy of a training, which runs or goes on if it is not there."""
    out = folder / f"{recipe}-{seed}"
    final = out / "final.zip"
    if not final.is_file():
        train(
            "ppo",
            RECIPES[recipe](),
            total_steps=TRAINING_STEPS,
            out=out,
            seed=seed,
            hyper_parameters={"gamma": 0.5},
            resume=out.is_dir(),
        )
    return final


def main() -> None:
    """Train, play and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of the trainings")
    parser.add_argument("--trainings", type=int, default=10, help="trainings of each recipe (default: 10)")
    parser.add_argument("--out", type=Path, default=OUT, help="table to write (default: that of the package)")
    given = parser.parse_args()
    text = io.StringIO()
    text.write(
        f"# mean return over {len(SEEDS)} test seeds, trainings of {TRAINING_STEPS} steps;"
        " scripts/labs/record_trainings.py\n"
    )
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["recipe", "training", "core_mbps", "return"])
    for recipe in RECIPES:
        for seed in range(1, given.trainings + 1):
            policy = trained(given.folder, recipe, seed)
            for rate in CORE_MBPS:
                totals = [play_policy(policy, 1e6 * rate, one).total for one in SEEDS]
                writer.writerow([recipe, seed, rate, f"{np.mean(totals):.2f}"])
                print(
                    f"{recipe} {seed}, {rate} Mb/s: {np.mean(totals):.1f},"
                    f" sd over seeds {np.std(totals, ddof=1):.2f}",
                    flush=True,
                )
    given.out.write_text(text.getvalue(), encoding="utf-8")


if __name__ == "__main__":
    main()
