"""Grader of lab 7, stragglers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.labs.graders.answers import number, numbers, same_numbers, shown
from sysgym.labs.grades import Outcome, Part, Seeds
from sysgym.labs.jobs import Known, clock, play_job
from sysgym.labs.sources import SubmissionError
from sysgym.labs.submissions import Submission
from sysgym.labs.thresholds import threshold

N_JOBS = 32
"""Number of hidden jobs; with fewer jobs, the mean gain of a good rule would vary more between salts."""

T = 2.04
"""97.5 % quantile of Student's distribution for :data:`N_JOBS` values."""

CLOCK = 0.8
"""Share of the threshold for which :func:`~sysgym.labs.jobs.clock` is the best on validation jobs."""


def _so_far(cpu: NDArray[np.float64], starts: NDArray[np.int64], now: int) -> list[float]:
    """Return the reference answer of the first part."""
    found = []
    for row, start in zip(cpu, starts, strict=True):
        seen = row[start:now]
        seen = seen[seen > 0]
        found.append(float(seen.mean()) if len(seen) else 0.0)
    return found


def _first_leak(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("first leak")
    for _ in range(3):
        tasks, windows, now = 8, int(rng.integers(12, 20)), int(rng.integers(4, 9))
        starts = rng.integers(0, now + 2, tasks)
        trace = _trace(rng, starts, windows)
        changed = np.where(np.arange(windows) >= now, _trace(rng, starts, windows), trace)
        shown_now, shown_then = (
            np.array(numbers(submission.call("cpu_so_far", one, starts, now), "cpu_so_far", tasks))
            for one in (trace, changed)
        )
        if not np.allclose(shown_now, shown_then):
            task = int(np.argmax(np.abs(shown_now - shown_then)))
            return Outcome(
                0.0,
                f"a leak: only windows from {now} on were changed, and the mean of task {task} changed from"
                f" {shown_now[task]:.4f} to {shown_then[task]:.4f}",
            )
        truth = _so_far(trace, starts, now)
        if not np.allclose(shown_now, truth, rtol=1e-6):
            task = int(np.argmax(np.abs(shown_now - truth)))
            return Outcome(0.0, f"task {task}: expected {truth[task]:.4f}, found {shown_now[task]:.4f}")
    return Outcome(1.0, "right, and the same for another future")


def _trace(rng: np.random.Generator, starts: NDArray[np.int64], windows: int) -> NDArray[np.float64]:
    trace = rng.uniform(0.1, 1.0, (len(starts), windows))
    ends = starts + rng.integers(1, windows, len(starts))
    number_of = np.arange(windows)
    alive = (number_of >= starts[:, np.newaxis]) & (number_of < ends[:, np.newaxis])
    return np.where(alive, trace, 0.0)


def _second_leak(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("second leak")

    def truth(flagged_after: Any, latency: Any, limit: float) -> float:
        flagged, straggler = ~np.isnan(flagged_after), latency >= limit
        true = straggler & (flagged_after < limit)
        false, missed = flagged & ~straggler, straggler & ~true
        return float(2 * true.sum() / max(2 * true.sum() + false.sum() + missed.sum(), 1))

    cases = []
    for share in (0.0, 0.3, 0.6, 1.0):  # of late flags
        latency = rng.lognormal(0.0, 0.5, 60)
        limit = float(np.quantile(latency, 0.9))
        flagged_after = np.where(rng.random(60) < 0.3, rng.random(60) * np.minimum(latency, limit), np.nan)
        late = (latency >= limit) & (rng.random(60) < share)
        flagged_after = np.where(late, limit + 0.5 * (latency - limit), flagged_after)
        cases.append((flagged_after, latency, limit))
    return same_numbers(submission, "f1_in_time", cases, truth, tolerance=1e-6)


def _rule(submission: Submission, seeds: Seeds) -> Outcome:
    def flag(known: Known) -> list[bool]:
        found = submission.call("flag", known)
        n_tasks = len(known["running"])
        if not isinstance(found, list) or len(found) != n_tasks:
            raise SubmissionError(f"flag: expected a list of {n_tasks} truth values, found {shown(found)}")
        return [bool(number(int(one) if isinstance(one, bool) else one, "flag")) for one in found]

    jobs = seeds.episodes("rule", seeds.count(N_JOBS))
    mine = np.array([play_job(flag, seed)["f1_over_time"] for seed in jobs])
    theirs = np.array([play_job(clock(CLOCK), seed)["f1_over_time"] for seed in jobs])
    gain = float((mine - theirs).mean())
    least = threshold("stragglers-gain").limit
    error = T * float((mine - theirs).std(ddof=1)) / len(jobs) ** 0.5
    message = (
        f"F1 over time {mine.mean():.3f} on {len(jobs)} hidden jobs, the clock {theirs.mean():.3f};"
        f" gain {gain:.3f} +- {error:.3f} (full marks from {least:.3f} on)"
    )
    share = min(max(gain / least, 0.0), 1.0) if least > 0.0 else 0.0
    return Outcome(share, message, {"stragglers-gain": gain})


PARTS = (
    Part(
        "first leak",
        25,
        ("cpu_so_far",),
        _first_leak,
        "only cpu[task, start:now]; a window of 0 is no measurement",
    ),
    Part("second leak", 30, ("f1_in_time",), _second_leak, "a flag is in time if flagged_after < threshold"),
    Part(
        "beat the clock",
        45,
        ("flag",),
        _rule,
        "do slow tasks use less CPU than their siblings? flag the tenth with the least, early on",
    ),
)
