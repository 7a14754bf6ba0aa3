"""Statistics of generated jobs compared with the reference figures of their profile.

Reference figures of ``alibaba-2018`` are our own computation on one hour of Alibaba's cluster-trace-v2018
(the sample in the package spar 0.0.7): 3,139 groups of at least 100 instances of one task with a median of at
least 10 s. Those of ``google-2011`` are published figures of jobs at Google, Facebook and Bing; run times of
whole jobs are our own computation on the trace's job_events. Two publications differ in the slowest tasks;
the scenario's ``jobs.tail`` says which one holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from sysgym.emulator.cluster.generator import generate_job
from sysgym.emulator.cluster.job import FloatArray, Job
from sysgym.scenarios.schema.stragglers import GeneratedJobs

VERDICTS = FITS, OFF, NOT_CLAIMED = "fits", "off", "not claimed"
"""What is said of a figure: within its tolerance, outside it, or without a tolerance."""

_QUANTILES = (0.04, 0.9, 0.95, 0.99)
_P90, _SLOWEST = 1, 4
"""Columns of ``Sample.ratios``."""


class Sample(NamedTuple):
    """Statistics of each of J jobs.

    Attributes:
        n_tasks: Number of tasks, shape (J,), like all others without another shape.
        median_s: Median latency.
        completion_s: End of the job if nobody acts.
        ratios: Latencies over the job's median: quantiles 0.04, 0.9, 0.95 and 0.99 and the maximum, shape
            (J, 5).
        log_sd: Standard deviation of the log of the latency.
        inflation: Share by which tasks slower than 1.5 medians lengthen the job.
        cpu_rank: Spearman's correlation of a task's mean CPU and its latency.
        cpu_slope: Slope of the log of the mean CPU on the log of the latency.
        memory_rank: Spearman's correlation of a task's mean memory and its latency.
        pooled: Latency over the job's median, of all tasks of all jobs, sorted.
    """

    n_tasks: FloatArray
    median_s: FloatArray
    completion_s: FloatArray
    ratios: FloatArray
    log_sd: FloatArray
    inflation: FloatArray
    cpu_rank: FloatArray
    cpu_slope: FloatArray
    memory_rank: FloatArray
    pooled: FloatArray


class Held(NamedTuple):
    """A reference figure, and the tolerance for the generated one.

    Attributes:
        value: The figure.
        within: Largest accepted distance as a share of the value; None if the figure is shown only.
        source: Source of the figure.
    """

    value: float
    within: float | None
    source: str


class Row(NamedTuple):
    """One line of the comparison.

    Attributes:
        figure: Name of the figure.
        generated: Its value in the generated jobs.
        reference: Reference figure, if there is one.
    """

    figure: str
    generated: float
    reference: Held | None

    @property
    def is_held(self) -> bool:
        """Whether the reference has a tolerance."""
        return self.reference is not None and self.reference.within is not None

    @property
    def fits(self) -> bool:
        """Whether the figure is within the tolerance; True if there is none."""
        if self.reference is None or self.reference.within is None:
            return True
        held = self.reference
        return abs(self.generated - held.value) <= self.reference.within * abs(held.value)

    @property
    def verdict(self) -> str:
        """One of :data:`VERDICTS`."""
        if not self.is_held:
            return NOT_CLAIMED
        return FITS if self.fits else OFF


def calibrate(jobs: GeneratedJobs, seeds: range) -> list[Row]:
    """Generate jobs and compare them with the reference figures of their profile.

    Args:
        jobs: Parameters of the jobs.
        seeds: Seeds of the jobs.
    """
    sample = sample_of(generate_job(jobs, seed) for seed in seeds)
    references = REFERENCES[jobs.profile][jobs.tail]
    return [Row(name, figure(sample), references.get(name)) for name, figure in FIGURES.items()]


def sample_of(jobs: Iterator[Job]) -> Sample:
    """Return the statistics of jobs.

    Args:
        jobs: At least one job; only first attempts count.
    """
    found = [_job_statistics(job) for job in jobs]
    columns = [np.array(column) for column in zip(*(values for values, _ in found), strict=True)]
    pooled = np.sort(np.concatenate([ratio for _, ratio in found]))
    return Sample._make([*columns, pooled])


def _job_statistics(job: Job) -> tuple[tuple[float | FloatArray, ...], FloatArray]:
    latency = job.latency_s
    median = float(np.median(latency))
    ratio = latency / median
    trimmed = job.start_s + np.minimum(latency, 1.5 * median)
    windows = np.ceil(latency / job.window_s)
    mean = job.counters[:, 0].sum(axis=1, dtype=np.float64) / windows[:, None]
    cpu, memory = (
        _column(job, names) for names in (("cpu_rate", "cpu_avg"), ("canonical_memory", "mem_avg"))
    )
    log_latency, log_cpu = np.log(latency), np.log(np.maximum(mean[:, cpu], 1e-12))
    deviation = log_latency - log_latency.mean()
    return (
        float(job.n_tasks),
        median,
        job.completion_s,
        np.append(np.quantile(ratio, _QUANTILES), ratio.max()),
        float(log_latency.std()),
        job.completion_s / float(trimmed.max()) - 1.0,
        rank_correlation(mean[:, cpu], latency),
        float(deviation @ log_cpu / (deviation @ deviation)),
        rank_correlation(mean[:, memory], latency),
    ), ratio


def rank_correlation(x: FloatArray, y: FloatArray) -> float:
    """Return Spearman's rank correlation of two samples without ties.

    Args:
        x: Shape (n,).
        y: Shape (n,).
    """
    ranks = [values.argsort().argsort().astype(np.float64) for values in (x, y)]
    matrix: FloatArray = np.atleast_2d(np.corrcoef(np.stack(ranks)))
    return float(matrix[0, 1])


def _column(job: Job, names: tuple[str, ...]) -> int:
    return next(job.counter_names.index(name) for name in names if name in job.counter_names)


_Figure = Callable[[Sample], float]


def _over_jobs(column: str, quantile: float, index: int | None = None) -> _Figure:
    def figure(sample: Sample) -> float:
        values = getattr(sample, column)
        return float(np.quantile(values if index is None else values[:, index], quantile))

    return figure


def _log(column: str, statistic: Callable[[FloatArray], np.floating[Any]]) -> _Figure:
    return lambda sample: float(statistic(np.log(getattr(sample, column))))


def _tasks_above(limit: float) -> _Figure:
    return lambda sample: float(100.0 * (sample.pooled > limit).mean())


def _jobs_above(index: int, limit: float) -> _Figure:
    return lambda sample: float(100.0 * (sample.ratios[:, index] > limit).mean())


def _trimmed(percent: int) -> _Figure:
    """Return the share by which jobs shorten if everything above their p90 is cut to it."""
    return lambda sample: float(
        100.0 * np.percentile(1.0 - sample.ratios[:, _P90] / sample.ratios[:, _SLOWEST], percent)
    )


def _pooled(percent: float) -> _Figure:
    return lambda sample: float(np.percentile(sample.pooled, percent))


def _figures() -> Iterator[tuple[str, _Figure]]:
    for percent in (5, 50, 95):
        yield f"tasks of a job, p{percent}", _over_jobs("n_tasks", percent / 100)
    for name, column in (("median latency", "median_s"), ("completion", "completion_s")):
        yield f"{name}, mean of log s", _log(column, np.mean)
        yield f"{name}, sd of log s", _log(column, np.std)
    for percent in (5, 25, 50, 75, 90, 95):
        yield f"sd of log latency, p{percent} of jobs", _over_jobs("log_sd", percent / 100)
    for index, name in enumerate(("p4", "p90", "p95", "p99", "slowest")):
        for percent in (5, 25, 50, 75, 90, 95):
            yield f"{name} / median, p{percent} of jobs", _over_jobs("ratios", percent / 100, index)
    yield "slowest / median, mean over jobs", lambda sample: float(sample.ratios[:, _SLOWEST].mean())
    for limit in (1.5, 2.0, 3.0):
        yield f"tasks > {limit:g} x median, %", _tasks_above(limit)
    for limit in (1.5, 2.0, 3.0, 10.0):
        yield f"jobs whose slowest > {limit:g} x median, %", _jobs_above(_SLOWEST, limit)
    yield "jobs whose p90 > 1.5 x median, %", _jobs_above(_P90, 1.5)
    yield (
        "jobs whose p90 < slowest / 2, %",
        lambda sample: float(100.0 * (sample.ratios[:, _P90] < 0.5 * sample.ratios[:, _SLOWEST]).mean()),
    )
    for percent in (10, 50, 90):
        yield f"shorter if trimmed to p90, p{percent} of jobs, %", _trimmed(percent)
    yield (
        "longer by tasks > 1.5 x median, p50 of jobs, %",
        lambda sample: float(100.0 * np.median(sample.inflation)),
    )
    for share in (1.0, 10.0, 90.0, 99.0, 99.9):
        yield f"latency / median, {share:g} % of all tasks", _pooled(share)
    for percent in (25, 50, 75):
        yield f"rank correlation CPU, latency, p{percent} of jobs", _over_jobs("cpu_rank", percent / 100)
    yield "slope log CPU on log latency, p50 of jobs", _over_jobs("cpu_slope", 0.5)
    yield "rank correlation memory, latency, p50 of jobs", _over_jobs("memory_rank", 0.5)


FIGURES: dict[str, _Figure] = dict(_figures())
"""Name of a figure -> its computation."""
_SPAR = "one hour of Alibaba v2018"
_GOOGLE = "Google 2011, finished jobs"
_DOLLY = "Dolly, NSDI 2013"
_GARRAGHAN = "Garraghan et al., TSC"
_MANTRI = "Mantri, OSDI 2010"


def _alibaba() -> dict[str, Held]:
    percents = (5, 25, 50, 75, 90, 95)
    # The outer groups have integer seconds (no spread at all), or are too few for a tolerance.
    by_job = {
        "sd of log latency": ((0.004, 0.071, 0.147, 0.245, 0.359, 0.430), (None, None, 0.25, 0.2, 0.2, 0.2)),
        "p4 / median": ((0.43, 0.71, 0.81, 0.91, 0.99, 1.00), (0.25, 0.1, 0.1, 0.1, 0.1, 0.1)),
        "p90 / median": ((1.00, 1.09, 1.19, 1.31, 1.53, 1.72), (0.1,) * 6),
        "p95 / median": ((1.00, 1.12, 1.27, 1.43, 1.73, 1.94), (0.1,) * 6),
        "p99 / median": ((1.00, 1.19, 1.44, 1.71, 2.14, 2.41), (0.15,) * 6),
        "slowest / median": ((1.01, 1.30, 1.65, 2.18, 3.14, 4.42), (0.2, 0.15, 0.15, 0.15, 0.2, 0.3)),
    }
    held = {
        f"{name}, p{percent} of jobs": Held(value, within, _SPAR)
        for name, (values, widths) in by_job.items()
        for percent, value, within in zip(percents, values, widths, strict=True)
    }
    single = {
        "median latency, mean of log s": (4.35, 0.05),
        "median latency, sd of log s": (0.68, 0.2),
        "tasks > 1.5 x median, %": (4.2, 0.25),
        "tasks > 2 x median, %": (0.95, 0.3),
        "tasks > 3 x median, %": (0.20, 0.4),
        "jobs whose slowest > 1.5 x median, %": (62.0, 0.15),
        "jobs whose slowest > 2 x median, %": (31.0, 0.25),
        "jobs whose slowest > 3 x median, %": (11.0, 0.3),
        "jobs whose slowest > 10 x median, %": (1.3, None),
        "jobs whose p90 > 1.5 x median, %": (10.5, 0.3),
        "jobs whose p90 < slowest / 2, %": (9.6, 0.4),
        "shorter if trimmed to p90, p10 of jobs, %": (9.5, 0.4),
        "shorter if trimmed to p90, p50 of jobs, %": (27.0, 0.15),
        "shorter if trimmed to p90, p90 of jobs, %": (49.0, 0.15),
        "latency / median, 1 % of all tasks": (0.29, 0.25),
        "latency / median, 10 % of all tasks": (0.76, 0.15),
        "latency / median, 90 % of all tasks": (1.29, 0.1),
        "latency / median, 99 % of all tasks": (1.95, 0.1),
        "latency / median, 99.9 % of all tasks": (2.89, 0.25),
        "rank correlation CPU, latency, p25 of jobs": (-0.89, 0.15),
        "rank correlation CPU, latency, p50 of jobs": (-0.65, 0.15),
        "rank correlation CPU, latency, p75 of jobs": (-0.23, None),
        "slope log CPU on log latency, p50 of jobs": (-0.45, 0.25),
        "rank correlation memory, latency, p50 of jobs": (0.10, 0.5),
    }
    return held | {name: Held(value, within, _SPAR) for name, (value, within) in single.items()}


_RUN_TIME = {
    "completion, mean of log s": Held(4.87, 0.05, _GOOGLE),
    "completion, sd of log s": Held(1.52, 0.15, _GOOGLE),
    "tasks > 1.5 x median, %": Held(5.0, 0.2, _GARRAGHAN),
    # Half of all jobs have such a task there, and nearly all jobs of a hundred tasks or more.
    "jobs whose slowest > 1.5 x median, %": Held(50.0, None, _GARRAGHAN),
}
_LONGER = "longer by tasks > 1.5 x median, p50 of jobs, %"

REFERENCES: dict[str, dict[str, dict[str, Held]]] = {
    "alibaba-2018": {"far": _alibaba(), "near": _alibaba()},
    "google-2011": {
        # No distribution has both: Dolly's figure is of stragglers, Mantri's of the median job.
        "far": _RUN_TIME
        | {
            "slowest / median, mean over jobs": Held(8.0, 0.15, _DOLLY),
            _LONGER: Held(34.0, None, f"{_MANTRI}; see tail"),
        },
        "near": _RUN_TIME
        | {
            "slowest / median, mean over jobs": Held(8.0, None, f"{_DOLLY}; see tail"),
            _LONGER: Held(34.0, 0.15, _MANTRI),
        },
    },
}
"""Profile -> tail -> figure -> reference."""
