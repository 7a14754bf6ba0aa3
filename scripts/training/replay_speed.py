"""Measure how fast steps of training jobs are replayed, on one core.

    python scripts/training/replay_speed.py
    python scripts/training/replay_speed.py trace.parquet

Without a file, the job is synthetic: 64 data-parallel ranks, 4 stages, 8 microbatches. Prints operations a
second of processor time: the median of several rounds, and the least and the most.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

from sysgym.emulator.training.pipeline import graph_of
from sysgym.emulator.training.replay import step_times_s
from sysgym.emulator.training.synthetic import synthetic_trace
from sysgym.emulator.training.tables import read_trace
from sysgym.emulator.training.timing import durations_s

N_ROUNDS, N_OPERATIONS = 9, 20_000_000


def main() -> None:
    """Replay the steps of a trace again and again."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, nargs="?")
    file = parser.parse_args().file
    trace = synthetic_trace(0, n_data_ranks=64, n_microbatches=8) if file is None else read_trace(file)
    graph = graph_of(trace)
    durations = durations_s(trace, graph)
    cases = np.tile(durations, (-(-N_OPERATIONS // durations.size), 1))
    step_times_s(graph, durations)  # compiled
    rates = []
    for _ in range(N_ROUNDS):
        begin_s = time.process_time()
        step_times_s(graph, cases)
        rates.append(cases.size / (time.process_time() - begin_s) / 1e6)
    print(
        f"{trace.name}: {graph.n_operations} operations a step, {statistics.median(rates):.0f} M operations/s"
        f" (from {min(rates):.0f} to {max(rates):.0f})"
    )


if __name__ == "__main__":
    main()
