"""Measure how fast a trace of PyTorch's profiler is read and turned into a job.

    python scripts/training/profile_reading_speed.py
    python scripts/training/profile_reading_speed.py rank0.json rank1.json

Without files, one of about 70,000 events is made: ten steps of operators, launches, kernels and their arrows.
Prints seconds of processor time: the median of several rounds, and the least and the most.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sysgym.emulator.training.formats.kineto_events import read_rank
from sysgym.emulator.training.formats.reading import read_job

N_ROUNDS, N_STEPS, N_KERNELS = 5, 10, 1000
_STEP_US, _APART_US = 50_000.0, 45.0


def synthetic_profile() -> dict[str, Any]:
    """Return a profile in which every operator has two inner ones, and launches a kernel."""
    rows: list[dict[str, Any]] = []

    def span(category: str, name: str, start_us: float, length_us: float, tid: int, **args: object) -> None:
        row = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid}
        rows.append({**row, "ts": start_us, "dur": length_us, "args": args})

    for step in range(N_STEPS):
        begin_us = step * _STEP_US
        span("user_annotation", f"ProfilerStep#{step}", begin_us, _STEP_US - 10.0, 1)
        for one in range(N_KERNELS):
            now_us, number = begin_us + one * _APART_US, step * N_KERNELS + one + 1
            span("cpu_op", f"aten::linear{one % 50}", now_us, 30.0, 1, **{"External id": number})
            span("cpu_op", "aten::addmm", now_us + 2.0, 25.0, 1, **{"External id": number})
            span("cpu_op", "aten::expand", now_us + 3.0, 2.0, 1, **{"External id": number})
            span("cuda_runtime", "cudaLaunchKernel", now_us + 10.0, 5.0, 1, correlation=number)
            span("kernel", "void gemm<float>(float*)", now_us + 20.0, 40.0, 7, correlation=number, stream=7)
            rows += [
                {
                    "ph": phase,
                    "cat": "ac2g",
                    "name": "ac2g",
                    "id": number,
                    "pid": 1,
                    "tid": tid,
                    "ts": time_us,
                }
                for phase, tid, time_us in (("s", 1, now_us + 10.0), ("f", 7, now_us + 20.0))
            ]
    return {"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": rows}


def measured(work: Callable[[], object]) -> str:
    """Return the processor time that some work takes, in words."""
    times = []
    for _ in range(N_ROUNDS):
        begin_s = time.process_time()
        work()
        times.append(time.process_time() - begin_s)
    return f"{statistics.median(times):.2f} s (from {min(times):.2f} to {max(times):.2f})"


def main() -> None:
    """Read files again and again."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="*")
    files: list[Path] = parser.parse_args().files
    with tempfile.TemporaryDirectory() as folder:
        if not files:
            files = [Path(folder) / "rank0.json"]
            files[0].write_text(json.dumps(synthetic_profile()))
        n_events = sum(len(json.loads(file.read_bytes())["traceEvents"]) for file in files)
        n_bytes = sum(file.stat().st_size for file in files)
        print(f"{n_events} events, {n_bytes / 1e6:.1f} MB")
        print(f"json alone: {measured(lambda: [json.loads(file.read_bytes()) for file in files])}")
        print(f"events: {measured(lambda: [read_rank(file, 0) for file in files])}")
        print(f"events, pieces and graph: {measured(lambda: read_job(files))}")


if __name__ == "__main__":
    main()
