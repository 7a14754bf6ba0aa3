"""Counters of a task in every window, as in Google's 2011 and Alibaba's 2018 and 2020 traces.

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

_PERCENT_CORE, _GIGABYTES = "percent of a core", "GB"

PAI_2020 = (
    *(
        Counter(f"gpu_type_{name}", "0 or 1", f"the machine's GPUs are {meaning}")
        for name, meaning in (
            ("misc", "of an older type"),
            ("p100", "P100"),
            ("t4", "T4"),
            ("v100", "V100"),
            ("v100m32", "V100 with 32 GB"),
        )
    ),
    Counter("machine_cores", "cores", "size of the machine"),
    Counter("machine_memory", _GIGABYTES, "memory of the machine"),
    Counter("machine_gpus", "GPUs", "GPUs of the machine"),
    Counter("plan_cpu", _PERCENT_CORE, "CPU requested for every instance of the task"),
    Counter("plan_mem", _GIGABYTES, "memory requested"),
    Counter("plan_gpu", "percent of a GPU", "GPUs requested"),
    Counter("cpu_usage", _PERCENT_CORE, "mean CPU in use"),
    Counter("gpu_wrk_util", "percent of a GPU", "mean GPU in use"),
    Counter("avg_mem", _GIGABYTES, "mean memory in use"),
    Counter("max_mem", _GIGABYTES, "largest memory in use"),
    Counter("avg_gpu_wrk_mem", _GIGABYTES, "mean GPU memory in use"),
    Counter("max_gpu_wrk_mem", _GIGABYTES, "largest GPU memory in use"),
    Counter("read", "million bytes", "network input"),
    Counter("write", "million bytes", "network output"),
    Counter("read_count", "reads", "reads from the network"),
    Counter("write_count", "writes", "writes to the network"),
    Counter("machine_cpu_iowait", "percent", "the machine's CPU waiting for I/O"),
    Counter("machine_cpu_kernel", "percent", "the machine's CPU in the kernel"),
    Counter("machine_cpu_usr", "percent", "the machine's CPU in user space"),
    Counter("machine_gpu", "percent", "the machine's GPUs in use"),
    Counter("machine_load_1", "processes", "the machine's load average over a minute"),
    Counter("machine_net_receive", "million bytes", "bytes that the machine received"),
    Counter("machine_num_worker", "instances", "instances on the machine"),
    Counter("machine_cpu", "percent", "the machine's CPU in use"),
)
"""cluster-trace-gpu-v2020: eleven that are known when an instance starts, and means over its life."""

PROFILES = {"google-2011": GOOGLE_2011, "alibaba-2018": ALIBABA_2018}
"""Name of a profile -> its counters."""


def counter_names(profile: str) -> tuple[str, ...]:
    """Return the names of a profile's counters, in order.

    Args:
        profile: One of :data:`PROFILES`.
    """
    return tuple(counter.name for counter in PROFILES[profile])
