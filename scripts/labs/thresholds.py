"""Compute the labs' thresholds: what the reference solutions reach with many seeds, less a margin.

    python scripts/labs/thresholds.py            all labs, about half an hour, most of it for trainings
    python scripts/labs/thresholds.py 3 7        these labs; the thresholds of the others are kept
    python scripts/labs/thresholds.py 5 --salts 30 --trainings runs     trainings of record_trainings.py

Every solution is graded with so many salts. A threshold is 99 % of the mean of a statistic less three
standard deviations, or 110 % and plus three where small values are good, so that a submission as good as the
reference hardly ever misses it. Policies of lab 5 differ more by their training than by the salt, so those of
several trainings are graded in turn. Writes ``src/sysgym/labs/thresholds.toml``.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np

from sysgym.labs.catalogue import LABS, Lab
from sysgym.labs.export import solution
from sysgym.labs.grading import GradeJob, grade_all
from sysgym.labs.thresholds import Threshold, _all

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "src" / "sysgym" / "labs" / "thresholds.toml"
LOWER_IS_BETTER = ("delay", "queue", "slowdown", "regret", "gap")
"""Words at the end of a statistic's name."""

DEVIATIONS = 3.0

SLACK = {True: 1.1, False: 0.99}
"""Whether small values are good -> factor of the mean: solutions that differ a little are good too."""

OWN_SLACK = {"ppo-rule": 0.92}
"""The same for single statistics: rules of this kind differ more."""

N_TRAININGS, TRAINING_STEPS = 15, 30_000
"""Trainings of lab 5, as its solution does them. There have to be as many salts, or some are not graded."""

LEAST_REGRET = 0.02
"""Regret that is as good as none."""


def measured(lab: Lab, n: int, jobs: int, trainings: Path | None) -> dict[str, list[float]]:
    """Return statistic -> its values in gradings of the solution with ``n`` salts."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "solution.py"
        path.write_text(solution(lab), encoding="utf-8")
        files = _with_policies(path, trainings or path.parent) if "train" in lab.extras else [path]
        work = [
            GradeJob(lab.number, str(number), str(files[number % len(files)]), f"threshold {number}")
            for number in range(n)
        ]
        for grade in grade_all(work, jobs):
            for part in grade.parts:
                for name, value in part.measured.items():
                    found.setdefault(name, []).append(value)
    return found


def _with_policies(path: Path, trainings: Path) -> list[Path]:
    """Return copies of a solution with policies of different trainings: their noise counts too.

    Args:
        path: The solution.
        trainings: Folder of trainings, ``varied-1`` and so on; those that are missing are made.
    """
    from sysgym.agents.learned.training.train import train
    from sysgym.labs.rates import varied

    found = []
    for seed in range(1, N_TRAININGS + 1):
        out = trainings / f"varied-{seed}"
        final = out / "final.zip"
        if not final.is_file():
            train(
                "ppo",
                varied(),
                total_steps=TRAINING_STEPS,
                out=out,
                seed=seed,
                hyper_parameters={"gamma": 0.5},
                resume=out.is_dir(),
            )
        folder = path.parent / f"submission-{seed}"
        folder.mkdir()
        shutil.copyfile(final, folder / "policy.zip")
        found.append(folder / path.name)
        shutil.copyfile(path, found[-1])
    return found


def limit_of(name: str, values: list[float]) -> Threshold:
    """Return the threshold of a statistic."""
    mean, sd = float(np.mean(values)), float(np.std(values, ddof=1))
    lower = name.endswith(LOWER_IS_BETTER)
    limit = OWN_SLACK.get(name, SLACK[lower]) * mean + (DEVIATIONS if lower else -DEVIATIONS) * sd
    if name.endswith("regret"):
        limit += LEAST_REGRET
    return Threshold(float(f"{limit:.4g}"), float(f"{mean:.4g}"), float(f"{sd:.3g}"), len(values), lower)


def main() -> None:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("labs", nargs="*", type=int)
    parser.add_argument("--salts", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--trainings", type=Path, help="folder of trainings of lab 5 (default: train anew)")
    given = parser.parse_args()
    found = dict(_all()) if FILE.is_file() else {}
    for lab in LABS:
        if not given.labs or lab.number in given.labs:
            for name, values in measured(lab, given.salts, given.jobs, given.trainings).items():
                found[name] = limit_of(name, values)
                print(name, found[name])
    lines = ["# Made by scripts/labs/thresholds.py; its docstring says how.\n"]
    for name, one in sorted(found.items()):
        lines.append(f'\n["{name}"]\nlimit = {one.limit}\nmean = {one.mean}\nsd = {one.sd}\nn = {one.n}\n')
        lines.append(f"lower_is_better = {str(one.lower_is_better).lower()}\n")
    FILE.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
