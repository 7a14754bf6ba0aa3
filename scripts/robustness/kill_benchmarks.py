"""Benchmarks on a Ray cluster whose processes are killed at random, against an undisturbed run.

python scripts/robustness/kill_benchmarks.py --kills 20

Starts a cluster of two nodes on this machine and runs a small suite on it. At random moments, up to a second
after a random number of further rows, the process of a task, the benchmark itself, a node, or the whole
cluster is killed; after the second and the last the benchmark is started again, as a user would. At the end
every row has to be there once, with the results of a run by processes of this machine. Prints what was killed
and what was compared; the exit code is 1 if something differs.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from sysgym.bench.results.rows import RESULTS, Row, read_rows

SUITE = """
schema = 1
name = "killed"
title = "A suite that is killed"
description = "Episodes of a second and less, and a search that can be resumed."
[[training]]
agent = "neural"
scenario = "incast-32"
total_steps = {steps}
seeds = [1]
hyper_parameters = {{ episode_steps = 20 }}
[[tasks]]
scenario = "incast-32"
contenders = ["dctcp", "cubic", "reno", "newvegas", "neural"]
seeds = {{ first = 20000, count = {count} }}
[[metrics]]
name = "goodput_bps"
direction = "higher"
label = "Goodput"
"""
VICTIMS = ("worker", "benchmark", "node", "cluster")
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "RAY_DEDUP_LOGS": "0"}
WAITS_FOR_HEAD = {"RAY_gcs_rpc_server_reconnect_timeout_s": "5"}
"""Ray waits for a minute until it believes that a cluster is gone; nothing else is tested by that."""

END_S = 120.0
"""Longest time that a benchmark may take to notice that its cluster is gone."""

POLL_S = 0.02
"""Time between two looks at the rows."""


class Disturbed:
    """A benchmark on a cluster of two nodes, and the means to disturb both.

    Args:
        suite: The suite's file.
        folder: Results folder.
    """

    def __init__(self, suite: Path, folder: Path) -> None:
        self._suite, self._folder = suite, folder
        self._start_cluster()
        self.benchmark: subprocess.Popen[bytes]

    def _start_cluster(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        self._node = self._cluster.add_node(num_cpus=1)

    def start(self) -> None:
        """Start the benchmark."""
        command = [sys.executable, "-m", "sysgym", "bench", str(self._suite), "--out", str(self._folder)]
        with open(self._folder.with_suffix(".log"), "ab") as log:
            self.benchmark = subprocess.Popen(
                [*command, "--on", "ray", "--address", self._cluster.address],
                stdout=log,
                stderr=log,
                env={**os.environ, **QUIET, **WAITS_FOR_HEAD},
            )

    def wait_for_rows(self, n_rows: int) -> int:
        """Wait for so many further rows, or for the end of the benchmark; return how many have come."""
        before = self._count_rows()
        while (found := self._count_rows() - before) < n_rows and self.benchmark.poll() is None:
            time.sleep(POLL_S)
        return found

    def _count_rows(self) -> int:
        rows = self._folder / RESULTS
        return rows.read_bytes().count(b"\n") if rows.exists() else 0

    def kill(self, victim: str) -> str:
        """Kill one of :data:`VICTIMS`; return what happened."""
        if victim == "worker":
            tasks = subprocess.run(
                ["pgrep", "-f", "^ray::perform"], capture_output=True, text=True
            ).stdout.split()
            if not tasks:
                return "no task was running"
            os.kill(int(random.choice(tasks)), signal.SIGKILL)
        elif victim == "benchmark":
            self.benchmark.kill()
            self.benchmark.wait()
        elif victim == "node":
            self._cluster.remove_node(self._node, allow_graceful=False)
            self._node = self._cluster.add_node(num_cpus=1)
        else:
            self._cluster.shutdown()
            try:
                self.benchmark.wait(END_S)
            except subprocess.TimeoutExpired:
                self.benchmark.kill()
                self.benchmark.wait()
                self._start_cluster()
                return f"the benchmark had not ended after {END_S:g} s"
            self._start_cluster()
        return "killed"

    def close(self) -> None:
        """End everything."""
        self.benchmark.kill()
        self._cluster.shutdown()


def compared(found: list[Row], expected: list[Row]) -> list[str]:
    """Return the differences between the rows of two runs."""
    by_label = {row.label: row for row in found}
    n_times = Counter(row.label for row in found)
    differences = [f"{label}: {n} rows" for label, n in n_times.items() if n > 1]
    for row in expected:
        other = by_label.get(row.label)
        if other is None:
            differences.append(f"{row.label}: no row")
        elif (row.key, row.metrics, row.total_reward) != (other.key, other.metrics, other.total_reward):
            differences.append(f"{row.label}: another result")
    return differences


def main() -> None:
    """Run, kill, and compare."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--episodes", type=int, default=400, help="episodes of each contender")
    options.add_argument("--steps", type=int, default=20_000, help="steps of the search")
    options.add_argument("--most-rows", type=int, default=60, help="largest number of rows between kills")
    options.add_argument("--seed", type=int, default=0, help="seed of victims and moments")
    given = options.parse_args()
    if given.most_rows < 0:
        options.error("--most-rows: expected 0 or more")
    os.environ.update(QUIET)
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        suite = folder / "killed.toml"
        suite.write_text(SUITE.format(count=given.episodes, steps=given.steps))
        command = [sys.executable, "-m", "sysgym", "bench", str(suite), "--out", str(folder / "plain")]
        # It runs while the cluster starts and is started again, which is mostly waiting.
        plain = subprocess.Popen([*command, "--jobs", "1"], stdout=subprocess.DEVNULL)
        run = Disturbed(suite, folder / "killed")
        run.start()
        try:
            for number in range(given.kills):
                victim = VICTIMS[number % len(VICTIMS)]
                n_rows = run.wait_for_rows(rng.randint(0, given.most_rows))
                time.sleep(rng.random())
                if run.benchmark.poll() == 0:
                    sys.exit(f"the benchmark was complete before kill {number + 1}; use more --episodes")
                print(f"{number + 1:3}  after {n_rows:3} rows  {victim}: {run.kill(victim)}", flush=True)
                if run.benchmark.poll() is not None:
                    run.start()
            while run.benchmark.wait() != 0:
                print("     the benchmark ended with an error, and is started again", flush=True)
                run.start()
        except BaseException:
            plain.kill()
            raise
        finally:
            run.close()
            print((folder / "killed.log").read_text()[-2000:], file=sys.stderr)
        if plain.wait() != 0:
            sys.exit("the undisturbed benchmark failed")
        found, expected = read_rows(folder / "killed"), read_rows(folder / "plain")
    differences = compared(found, expected)
    print(f"{given.kills} kills; {len(found)} rows, {len(expected)} expected, {len(differences)} differences")
    sys.exit("\n".join(differences[:20]) if differences else 0)


if __name__ == "__main__":
    main()
