"""Replay of published traces as jobs: Google's of 2011, Alibaba's of 2017, 2018 and 2020, and spar's."""

from sysgym.emulator.cluster.traces.loader import CACHED, FORMATS, TraceSpec, find_files, load_jobs
from sysgym.emulator.cluster.traces.source import TraceSource
from sysgym.emulator.trace_errors import TraceError

__all__ = ["CACHED", "FORMATS", "TraceError", "TraceSource", "TraceSpec", "find_files", "load_jobs"]
