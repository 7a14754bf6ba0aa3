"""Loader of the trace that a scenario names."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from sysgym.emulator.cluster.traces.google import GoogleTrace
from sysgym.emulator.cluster.traces.instances import (
    ALIBABA_2017,
    ALIBABA_2018,
    SPAR,
    InstanceTrace,
    read_instances,
)
from sysgym.emulator.cluster.traces.pai import read_pai
from sysgym.emulator.cluster.traces.reading import Tally, trace_files
from sysgym.emulator.cluster.traces.source import TraceSource
from sysgym.emulator.cluster.traces.table import TableTrace, read_table
from sysgym.emulator.trace_errors import TraceError
from sysgym.scenarios.errors import MissingExtra, UnknownName

_log = logging.getLogger(__name__)

EXTRA = "traces"
_GOOGLE = "google-2011"
_INSTANCES = {"alibaba-2017": ALIBABA_2017, "alibaba-2018": ALIBABA_2018, "spar": SPAR}
_PAI = "pai-2020"
_TABLE = "table"
FORMATS = (_GOOGLE, *_INSTANCES, _PAI, _TABLE)
"""Formats of traces that can be read."""
CACHED = (_GOOGLE, _PAI)
"""Formats that are read once and then come from the cache."""

PUBLISHED = {
    _GOOGLE: "https://github.com/google/cluster-data (ClusterData2011_2, CC-BY 4.0): task_events and"
    " task_usage, and job_events for programs",
    "alibaba-2017": "https://github.com/alibaba/clusterdata (cluster-trace-v2017, for research or study):"
    " batch_instance",
    "alibaba-2018": "https://github.com/alibaba/clusterdata (cluster-trace-v2018, for research or study):"
    " batch_instance",
    _PAI: "https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2020 (CC-BY 4.0): the"
    " unpacked tables pai_*.csv",
    "spar": "the package spar of the extra traces",
    _TABLE: "your own cluster: a row for each measuring window of each task",
}
"""Format -> where its publisher has the trace, under which terms, and the tables in use."""

_SPAR_FILE = "data/samples/sample_instances.csv"


class TraceSpec(Protocol):
    """Selection of a trace; the table ``[jobs]`` of a scenario with ``kind = "trace"`` is one.

    Attributes:
        format: One of :data:`FORMATS`.
        paths: Files and folders; empty for the file that the package ``spar`` holds.
        tasks_min: Fewest tasks of a job.
        tasks_max: Most tasks of a job.
        median_min_s: Least median latency of a job, s.
        warmup_windows: Windows until 4 % of a job's tasks have finished, or until ``median_min_s`` if that is
            later. Google's trace has windows of 300 s instead, and a table those of its rows.
        static_counters: ``"lifetime"`` or ``"withheld"``; see ``instances.py`` and ``table.py``. Not used for
            Google's trace.
    """

    @property
    def format(self) -> str: ...  # noqa: D102
    @property
    def paths(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def tasks_min(self) -> int: ...  # noqa: D102
    @property
    def tasks_max(self) -> int: ...  # noqa: D102
    @property
    def median_min_s(self) -> float: ...  # noqa: D102
    @property
    def warmup_windows(self) -> int: ...  # noqa: D102
    @property
    def static_counters(self) -> str: ...  # noqa: D102


def find_files(spec: TraceSpec) -> list[Path]:
    """Return the files of a trace.

    Raises:
        MissingExtra: ``format`` is spar, and the package is not installed.
        TraceError: A file or folder is missing.
        UnknownName: There is no such format.
    """
    if spec.format not in FORMATS:
        raise UnknownName("format of traces", spec.format, FORMATS)
    if spec.format == "spar" and not spec.paths:
        return [_spar_sample()]
    return trace_files(spec.paths, PUBLISHED[spec.format])


def load_jobs(spec: TraceSpec, quantile: float | None = None) -> TraceSource:
    """Read a trace and return its jobs.

    Files are streamed, and nothing is unpacked to disk. Memory grows with the number of rows in use for
    Alibaba's traces of 2017 and 2018, at its peak by some 80 bytes for each, so that 10 million take 1 GB,
    and for PAI's by some 400. Google's trace needs memory for one file and one job at a time. Rows in use of
    Google's and PAI's are kept in a cache, from which they are read the next time. The script
    ``scripts/stragglers/measure_traces.py`` measures time and memory. Counts of read, malformed and unused
    rows are logged in one line and kept in the source's attributes.

    Args:
        spec: The selection.
        quantile: Quantile of a job's latencies from which on tasks are stragglers; jobs in which it is tied
            are left out. None: stragglers are defined otherwise.

    Raises:
        MissingExtra: ``format`` is spar, and the package is not installed.
        TraceError: A file is missing, empty, damaged or of another format, or no job fits.
        UnknownName: There is no such format.
    """
    files = find_files(spec)
    source: TraceSource
    if spec.format == _GOOGLE:
        source = GoogleTrace(
            files, tasks_min=spec.tasks_min, tasks_max=spec.tasks_max, median_min_s=spec.median_min_s
        )
    else:
        tally = Tally()
        chosen: Any = {
            "tasks_min": spec.tasks_min,
            "tasks_max": spec.tasks_max,
            "median_min_s": spec.median_min_s,
            "warmup_windows": spec.warmup_windows,
            "static_counters": spec.static_counters,
        }
        if spec.format == _TABLE:
            source = TableTrace(read_table(files, tally), tally, **chosen)
        elif spec.format == _PAI:
            content = read_pai(files, tally, tasks_min=spec.tasks_min, tasks_max=spec.tasks_max)
            source = InstanceTrace(content, tally, **chosen)
        else:
            source = InstanceTrace(read_instances(_INSTANCES[spec.format], files, tally), tally, **chosen)
    if quantile is not None:
        source.leave_out_ties(quantile)
    _log.log(
        logging.WARNING if source.malformed else logging.INFO,
        "%s: %d rows of %d file(s), %d jobs; malformed rows: %s; rows left out: %s; jobs left out: %s;"
        " missing values shown as 0: %s",
        spec.format,
        source.rows_read,
        len(files),
        len(source),
        _listed(source.malformed),
        _listed(source.left_out_rows),
        _listed(source.left_out_jobs),
        _listed(source.missing_values),
    )
    if not source.names:
        raise TraceError(
            ", ".join(spec.paths) or str(files[0]),
            f"no job can be replayed; jobs left out: {_listed(source.left_out_jobs)}; rows left out:"
            f" {_listed(source.left_out_rows)}; malformed rows: {_listed(source.malformed)}",
            f"at least one job of {spec.tasks_min} to {spec.tasks_max} tasks",
            "set jobs.tasks_min and jobs.tasks_max to what the trace has, or read more of its files",
        )
    return source


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items())) or "none"


def _spar_sample() -> Path:
    """Return the path of the trace in the installed package ``spar``, without importing the package."""
    found = importlib.util.find_spec("spar")
    for folder in (found.submodule_search_locations or ()) if found else ():
        if (sample := Path(folder) / _SPAR_FILE).is_file():
            return sample
    raise MissingExtra(EXTRA, "the hour of Alibaba's trace in the package spar")
