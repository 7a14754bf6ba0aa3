"""Counters of a task in every window, as in Google's 2011 and Alibaba's 2018 traces.

Names abbreviate the trace's columns; the meaning gives NURD's abbreviation (Ding et al., MLSys 2022).
"""

from __future__ import annotations

from typing import NamedTuple


class Counter(NamedTuple):
    """A counter.

    Attributes:
        name: As in ``Job.counter_names``.
        unit: Unit of its values.
        meaning: Meaning in one line.
    """

    name: str
    unit: str
    meaning: str


_CORES = "share of the largest machine's cores"
_MEMORY = "share of the largest machine's memory"
_IO = "I/O seconds per second"

GOOGLE_2011 = (
    Counter("cpu_rate", _CORES, "mean CPU in use (MCU)"),
    Counter("canonical_memory", _MEMORY, "memory that the task has touched (CMU)"),
    Counter("assigned_memory", _MEMORY, "memory that its container may use (AMU)"),
    Counter("unmapped_page_cache", _MEMORY, "page cache not mapped into any process (UPC)"),
    Counter("total_page_cache", _MEMORY, "page cache in all (TPC)"),
    Counter("max_memory", _MEMORY, "largest canonical memory within the window (MAXMU)"),
    Counter("disk_io_time", _IO, "mean time in disk I/O (MIO)"),
    Counter("local_disk_space", "share of the largest machine's disk", "local disk space in use (MDK)"),
    Counter("max_cpu_rate", _CORES, "largest CPU rate within the window (MAXCPU)"),
    Counter("max_disk_io_time", _IO, "largest disk I/O time within the window (MAXIO)"),
    Counter("cycles_per_instruction", "cycles", "CPU cycles per instruction (CPI)"),
    Counter("memory_accesses_per_instruction", "accesses", "accesses past the last cache (MAI)"),
    Counter("sampled_cpu_rate", _CORES, "CPU in use in one random second of the window (SCPU)"),
    Counter("evictions", "events", "times that the task was evicted in the window (EV)"),
    Counter("failures", "events", "times that the task failed in the window (FL)"),
)
"""ClusterData2011_2, task_usage and task_events: NURD's fifteen counters, in the order of the columns."""

ALIBABA_2018 = (
    Counter("cpu_avg", "percent of a core", "mean CPU in use"),
    Counter("cpu_max", "percent of a core", "largest CPU in use within the window"),
    Counter("mem_avg", "percent of the largest machine's memory", "mean memory in use"),
    Counter("mem_max", "percent of the largest machine's memory", "largest memory in use within the window"),
)
"""cluster-trace-v2018, batch_instance, in the order of the columns."""

PROFILES = {"google-2011": GOOGLE_2011, "alibaba-2018": ALIBABA_2018}
"""Name of a profile -> its counters."""


def counter_names(profile: str) -> tuple[str, ...]:
    """Return the names of a profile's counters, in order.

    Args:
        profile: One of :data:`PROFILES`.
    """
    return tuple(counter.name for counter in PROFILES[profile])
