"""Run the labs as students would: every solution as a notebook, and every unchanged starter.

    python scripts/labs/run_labs.py            all labs; a few minutes once the simulator is compiled
    python scripts/labs/run_labs.py 1 5        these labs

A solution's notebook has to run to its end, with plots, and pass its grader in full size; a starter has to
fail it. Prints the time of each notebook and of each grading. Needs the extras labs and train.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from sysgym.labs.catalogue import LABS, Lab
from sysgym.labs.export import export
from sysgym.labs.grades import VISIBLE
from sysgym.labs.grading import GradeJob, grade_all

LONGEST_CELL_S = 600


def notebook_s(path: Path) -> float:
    """Run a notebook in its folder, and return how long it took.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raised.
    """
    notebook: Any = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    started = time.monotonic()
    client = NotebookClient(
        notebook, timeout=LONGEST_CELL_S, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    )
    client.execute()
    n_plots = sum(
        "image/png" in one.get("data", {}) for cell in notebook.cells for one in cell.get("outputs", [])
    )
    if not n_plots:
        raise SystemExit(f"{path}: no plot was drawn")
    return time.monotonic() - started


def run(lab: Lab) -> bool:
    """Run a lab's solution and grade solution and starter; return whether all is as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        done, fresh = Path(folder) / "done", Path(folder) / "fresh"
        export(lab, done, solutions=True)
        export(lab, fresh)
        (done / "policy.zip").unlink(missing_ok=True)  # the notebook trains its own
        seconds = notebook_s(done / f"lab{lab.number}_solution.ipynb")
        files = {
            "solution": done / f"lab{lab.number}_solution.ipynb",
            "starter": fresh / f"lab{lab.number}.ipynb",
        }
        started = time.monotonic()
        jobs = [GradeJob(lab.number, name, str(file), VISIBLE) for name, file in files.items()]
        grades = {grade.submission: grade for grade in grade_all(jobs)}
        grading_s = time.monotonic() - started
    points = {name: grade.points for name, grade in grades.items()}
    as_expected = grades["solution"].passed and not grades["starter"].passed
    print(
        f"lab {lab.number}: notebook {seconds:.0f} s, grading of both {grading_s:.0f} s, solution"
        f" {points['solution']:g}, starter {points['starter']:g} points{'' if as_expected else '  <- WRONG'}",
        flush=True,
    )
    return as_expected


def main() -> None:
    """Run the labs; exit code 1 if a solution fails or a starter passes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("labs", nargs="*", type=int)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    results = [run(lab) for lab in LABS if not given.labs or lab.number in given.labs]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
