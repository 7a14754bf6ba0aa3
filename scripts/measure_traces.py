"""Measure time and memory of reading a trace: measure_traces.py FORMAT [PATH ...].

Without paths, FORMAT is spar: three million rows of the package of that name, of the extra `traces`.
"""

from __future__ import annotations

import logging
import resource
import sys
import time

from sysgym.emulator.cluster.traces import load_jobs
from sysgym.scenarios.schema.stragglers import TraceJobs


def main() -> None:
    """Read the trace once, then build some of its jobs."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    format_name, *paths = sys.argv[1:] or ["spar"]
    spec = TraceJobs.model_validate({"kind": "trace", "format": format_name, "paths": paths})
    began, cpu_s = time.perf_counter(), time.process_time()
    source = load_jobs(spec)
    read_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
    # Linux counts in kB, macOS in bytes.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    some = source.names[:: max(1, len(source) // 50)]
    began = time.perf_counter()
    for name in some:
        source.job(name, attempts=3)
    job_s = (time.perf_counter() - began) / len(some)
    print(
        f"{source.rows_read} rows in {read_s:.1f} s ({cpu_s:.1f} s of one core), at most {peak_mb:.0f} MB;"
        f" one of {len(source)} jobs, three attempts, takes {job_s * 1e3:.1f} ms"
    )


if __name__ == "__main__":
    main()
