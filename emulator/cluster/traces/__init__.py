"""Replay of published traces as jobs: Google's of 2011, Alibaba's of 2017 and 2018, and spar's."""

from sysgym.emulator.cluster.traces.errors import TraceError
from sysgym.emulator.cluster.traces.loader import FORMATS, TraceSpec, load_jobs
from sysgym.emulator.cluster.traces.source import TraceSource

__all__ = ["FORMATS", "TraceError", "TraceSource", "TraceSpec", "load_jobs"]
