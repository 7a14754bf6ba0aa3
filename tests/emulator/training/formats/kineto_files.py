"""Small traces in the format of PyTorch's profiler, row by row."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]

MAIN, BACKWARD_THREAD = 10, 11


def span(
    category: str, name: str, start_us: float, length_us: float, tid: int | str = MAIN, **args: Any
) -> Row:
    return {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": start_us, "dur": length_us,
        "args": args,
    }  # fmt: skip


def operator(name: str, start_us: float, length_us: float, tid: int = MAIN) -> Row:
    return span("cpu_op", name, start_us, length_us, tid)


def step(number: int, start_us: float, length_us: float) -> Row:
    return span("user_annotation", f"ProfilerStep#{number}", start_us, length_us)


def call(name: str, start_us: float, length_us: float, correlation: int, tid: int = MAIN) -> Row:
    return span("cuda_runtime", name, start_us, length_us, tid, correlation=correlation)


def kernel(
    name: str, start_us: float, length_us: float, correlation: int, stream: int = 7, **args: Any
) -> Row:
    more = {"correlation": correlation, "stream": stream, "device": 0, **args}
    return span("kernel", name, start_us, length_us, stream, **more)


def launch(
    name: str,
    start_us: float,
    runs_us: float,
    length_us: float,
    correlation: int,
    stream: int = 7,
    **args: Any,
) -> list[Row]:
    """A call of 2 us that launches a kernel."""
    return [
        call("cudaLaunchKernel", start_us, 2.0, correlation),
        kernel(name, runs_us, length_us, correlation, stream, **args),
    ]


def write(path: Path, rows: list[Any], rank: int | None = 0, **more: Any) -> Path:
    trace: dict[str, Any] = {"schemaVersion": 1, "traceEvents": rows, **more}
    if rank is not None:
        trace["distributedInfo"] = {"rank": rank}
    data = json.dumps(trace).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
