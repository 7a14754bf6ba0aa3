"""Events of Chrome's Trace Event Format, which Perfetto (https://ui.perfetto.dev) also reads.

Times in files are microseconds. A process groups threads or counters; the caller numbers both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

Event = dict[str, Any]

US = 1e6
"""Microseconds in a second."""


def named_process(pid: int, name: str) -> list[Event]:
    """Return the events that name a process and sort it by its number."""
    return [
        {"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": name}},
        {"ph": "M", "pid": pid, "tid": 0, "name": "process_sort_index", "args": {"sort_index": pid}},
    ]


def named_thread(pid: int, tid: int, name: str) -> Event:
    """Return the event that names a thread."""
    return {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}


def counter(pid: int, name: str, time_s: float, unit: str, value: float) -> Event:
    """Return one value of a counter."""
    return {"ph": "C", "pid": pid, "name": name, "ts": rounded_us(time_s), "args": {unit: value}}


def complete(pid: int, tid: int, name: str, start_s: float, end_s: float, args: Mapping[str, Any]) -> Event:
    """Return a span of a thread, with unrounded times."""
    start_us = start_s * US
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "name": name,
        "ts": start_us,
        "dur": max(end_s * US - start_us, 0.0),
        "args": dict(args),
    }


def rounded_us(time_s: float) -> float:
    """Return a time in microseconds, rounded to nanoseconds."""
    return round(float(time_s) * US, 3)


def trace_text(events: Iterable[Event], **other: Any) -> str:
    """Return the content of a trace file.

    Args:
        events: Events, in any order.
        other: Metadata of the trace.
    """
    trace: dict[str, Any] = {"traceEvents": list(events), "displayTimeUnit": "ns"}
    if other:
        trace["otherData"] = other
    return json.dumps(trace, separators=(",", ":"))
