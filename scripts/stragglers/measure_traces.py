"""Measure time and memory of reading a trace, and count its jobs by split: measure_traces.py SCENARIO.

python scripts/stragglers/measure_traces.py google-2011-trace               # the jobs that a scenario replays
python scripts/stragglers/measure_traces.py alibaba-2018 /data/instances    # the files of a format
python scripts/stragglers/measure_traces.py spar                            # the hour in that package
"""

from __future__ import annotations

import logging
import resource
import sys
import time

from sysgym.emulator.cluster.source import names_of
from sysgym.emulator.cluster.traces import FORMATS, load_jobs
from sysgym.scenarios import StragglerScenario, TraceJobs, load_scenario
from sysgym.scenarios.schema.splits import SPLIT_NAMES
from sysgym.scenarios.schema.stragglers import TELLS


def main() -> None:
    """Read the trace once, then build some of its jobs, and divide them in all ways that it tells."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    name, *paths = sys.argv[1:] or ["spar"]
    quantile = None
    if name in FORMATS:
        spec = TraceJobs.model_validate({"kind": "trace", "format": name, "paths": paths})
    else:
        scenario = load_scenario(name, expect=StragglerScenario)
        if not isinstance(scenario.jobs, TraceJobs):
            sys.exit(f"{name}: its jobs are generated; name a scenario that replays a trace, or a format")
        spec = scenario.jobs
        quantile = scenario.straggler.quantile
    began, cpu_s = time.perf_counter(), time.process_time()
    source = load_jobs(spec, quantile)
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
    for by in ("submission", *(way for way, formats in TELLS.items() if spec.format in formats)):
        counts = [f"{len(names_of(source, split, by))} {split}" for split in SPLIT_NAMES]
        print(f"by {by}: {', '.join(counts)}")


if __name__ == "__main__":
    main()
