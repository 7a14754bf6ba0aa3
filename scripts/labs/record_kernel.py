"""Record the table of lab 6: the same episodes on the simulator and on this machine's kernel.

    sudo .venv/bin/python scripts/labs/record_kernel.py                   # writes kernel.csv in this folder
    sudo .venv/bin/python scripts/labs/record_kernel.py --out mine.csv
    sudo .venv/bin/python scripts/labs/record_kernel.py --package         # for maintainers

Plays `linux-dumbbell-100m` with four laws and eight seeds of the test split on both backends, and writes a
table with the kernel's version and the processor in its first line. With ``--package`` this is the table of
the package, ``src/sysgym/labs/kernel.csv``, from which the grader of lab 6 computes its answers. The machine
should be idle; it takes about five minutes.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "sysgym" / "labs" / "kernel.csv"
SCENARIO = "linux-dumbbell-100m"
LAWS = ("reno", "cubic", "dctcp", "bbr")
SEEDS = range(20_000, 20_008)
METRICS = ("goodput_bps", "queue_mean_bytes", "rtt_mean_s", "drop_fraction", "jain_index")


def played(law: str, seed: int, backend: str) -> dict[str, float]:
    """Return the metrics of one episode."""
    words = ["run", SCENARIO, "--contender", law, "--seed", str(seed), "--backend", backend, "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "sysgym", *words], capture_output=True, text=True, check=True, cwd="/"
    )
    metrics: dict[str, float] = json.loads(done.stdout)["metrics"]
    return metrics


def main() -> None:
    """Play and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("kernel.csv"), help="table to write")
    parser.add_argument("--package", action="store_true", help="replace the package's table, for maintainers")
    given = parser.parse_args()
    text = io.StringIO()
    machine = f"Linux {platform.release()}, {os.cpu_count()} processors, {platform.machine()}"
    text.write(f"# {SCENARIO} on the simulator and on {machine}; scripts/labs/record_kernel.py\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["law", "backend", "seed", *METRICS])
    for seed in SEEDS:
        for law in LAWS:
            for backend in ("packets", "linux"):
                metrics = played(law, seed, backend)
                writer.writerow([law, backend, seed, *(f"{metrics[name]:.6g}" for name in METRICS)])
        print(f"seed {seed}", flush=True)
    out = PACKAGE if given.package else given.out
    out.write_text(text.getvalue(), encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
