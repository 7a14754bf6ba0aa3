"""Cost of a benchmark's driver, measured here, and how far a cluster can grow, computed from that.

python scripts/scale/scaling.py
python scripts/scale/scaling.py --ray
python scripts/scale/scaling.py --picture docs/images/scaling.png

Measured: the time in which the driver reads a shard, and appends one of its rows to the results; with --ray
also the time that a task of no work costs on a Ray cluster of this machine. Computed: chunks of episodes on
up to a thousand cores with one driver, as a queue with one server. The efficiency is the share of the cores'
time in which they play episodes.
"""

from __future__ import annotations

import argparse
import heapq
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sysgym.bench.plan import make_plan
from sysgym.bench.results.rows import ResultsFile, Row
from sysgym.bench.results.versions import machine
from sysgym.bench.run.cluster.on_ray import RayBackend
from sysgym.bench.run.cluster.shards import Shard, path_of, read_shard, remove_shard, write_shard
from sysgym.bench.run.runner import run_plan
from sysgym.scenarios import load_suite

CORES = (10, 30, 100, 300, 1000)
EPISODES_S = (0.1, 1.0, 10.0, 60.0)
TARGET_S = RayBackend.target_s
ROWS = 100
"""Rows of the measured shard."""
RAY_TASKS = 500
CHUNKS_A_CORE = 40
SPREAD = 0.3
"""Standard deviation of an episode's time over its mean, in the computation."""

SUITE = """
schema = 1
name = "one"
title = "One"
description = "Rows to measure with."
[[tasks]]
scenario = "incast-32"
contenders = ["dctcp"]
seeds = { first = 20000, count = 100 }
[[metrics]]
name = "goodput_bps"
direction = "higher"
label = "Goodput"
"""


class Costs(NamedTuple):
    """Costs of the driver, s.

    Attributes:
        chunk_s: Reading and removing a shard.
        row_s: Checking a row and appending it to the results, flushed to the disk.
        task_s: Handing out a task.
    """

    chunk_s: float
    row_s: float
    task_s: float


def measured_rows(folder: Path) -> list[Row]:
    """Return rows to measure with."""
    suite = folder / "one.toml"
    suite.write_text(SUITE)
    out = folder / "out"
    run_plan(make_plan(load_suite(str(suite)), out), out, n_workers=2)
    with ResultsFile(out) as results:
        return list(results.rows)


def driver_costs(folder: Path, rows: list[Row]) -> tuple[float, float]:
    """Return the times for a shard and for each of its rows, by shards of one row and of many."""
    took_s = {}
    for n in (1, ROWS):
        of_rounds = []
        for number in range(10):
            write_shard(folder, "a", Shard(dict(enumerate(rows[:n])), []))
            with ResultsFile(folder / f"results-{n}-{number}") as results:
                began_s = time.perf_counter()
                for row in read_shard(path_of(folder, "a")).rows.values():
                    results.append(row)
                remove_shard(path_of(folder, "a"))
                of_rounds.append(time.perf_counter() - began_s)
        took_s[n] = float(np.median(of_rounds))
    row_s = (took_s[ROWS] - took_s[1]) / (ROWS - 1)
    return max(took_s[1] - row_s, 0.0), row_s


def ray_task_s() -> float:
    """Return the time that a task of no work costs, many at once."""
    import ray

    backend = RayBackend()

    def nothing() -> None:
        pass

    task: Any = ray.remote(num_cpus=1)(nothing)
    ray.get([task.remote() for _ in range(20)])
    began_s = time.perf_counter()
    ray.get([task.remote() for _ in range(RAY_TASKS)])
    took_s = (time.perf_counter() - began_s) / RAY_TASKS
    backend.close()
    return took_s


def efficiency(costs: Costs, n_cores: int, episode_s: float, rng: np.random.Generator) -> float:
    """Return the share of the cores' time in which they play, by a simulation of chunks and the driver."""
    a_chunk = max(round(TARGET_S / episode_s), 1)
    serves_s = costs.chunk_s + a_chunk * costs.row_s + costs.task_s
    spread_s = SPREAD * episode_s * np.sqrt(a_chunk)
    durations_s = np.maximum(rng.normal(a_chunk * episode_s, spread_s, n_cores * CHUNKS_A_CORE), 0.0)
    # At the beginning the driver hands a chunk to each core, one after another.
    ends_s = [number * costs.task_s + float(durations_s[number]) for number in range(n_cores)]
    heapq.heapify(ends_s)
    free_s = n_cores * costs.task_s
    for duration_s in durations_s[n_cores:].tolist():
        free_s = max(heapq.heappop(ends_s), free_s) + serves_s
        heapq.heappush(ends_s, free_s + duration_s)
    return float(durations_s.sum() / (max(ends_s) * n_cores))


def main() -> None:
    """Measure, compute, print and draw."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--ray", action="store_true", help="measure Ray's part too; otherwise 3 ms")
    options.add_argument("--picture", type=Path)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows = measured_rows(Path(name))
        chunk_s, row_s = driver_costs(Path(name), rows)
    costs = Costs(chunk_s, row_s, ray_task_s() if given.ray else 3e-3)
    print(f"{machine()['processor']}, {machine()['cpus']} cores")
    print(", ".join(f"{name} {1e3 * cost_s:.2f} ms" for name, cost_s in costs._asdict().items()))
    rng = np.random.default_rng(0)
    found = {
        episode_s: [efficiency(costs, n_cores, episode_s, rng) for n_cores in CORES]
        for episode_s in EPISODES_S
    }
    print("episode  " + "".join(f"{n_cores:>7}" for n_cores in CORES) + "  cores")
    for episode_s, shares in found.items():
        print(f"{episode_s:5g} s  " + "".join(f"{100 * share:6.0f}%" for share in shares))
    if given.picture:
        draw(found, given.picture)


def draw(found: dict[float, list[float]], path: Path) -> None:
    """Draw the efficiency against the cores."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.8), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for episode_s, shares in found.items():
        axes.plot(
            CORES, [100.0 * share for share in shares], marker="o", label=f"episodes of {episode_s:g} s"
        )
    axes.set_xscale("log")
    axes.set_xticks(CORES, [str(n_cores) for n_cores in CORES])
    axes.minorticks_off()
    axes.set_ylim(0.0, 105.0)
    axes.set_xlabel("cores")
    axes.set_ylabel("time in which cores play episodes (%)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


if __name__ == "__main__":
    main()
