"""Jobs of a scenario by split and seed, generated or read from a trace."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol

from sysgym.emulator.cluster.generator import generate_job
from sysgym.emulator.cluster.job import Job
from sysgym.scenarios.errors import ScenarioError
from sysgym.scenarios.schema.splits import SPLIT_NAMES
from sysgym.scenarios.schema.stragglers import StragglerScenario, TraceJobs

if TYPE_CHECKING:
    from sysgym.emulator.cluster.traces import TraceSource

_TENTHS = {"train": range(6), "validation": range(6, 8), "test": range(8, 10)}
"""Tenths of a trace's submissions, users or programs, or of its time, that belong to each split."""

_ADVICE = {
    "submission": "jobs are divided by a hash of the names of submissions: read more of the trace",
    "time": "jobs that cross a border belong to no split: read a longer part of the trace",
    "user": "jobs are divided by a hash of their users: read more of the trace",
    "program": "jobs are divided by a hash of their programs: read more of the trace, and for google-2011"
    " name job_events in jobs.paths too",
}


class JobSource(Protocol):
    """Source of an environment's jobs."""

    def job(self, split: str, episode_seed: int) -> Job:
        """Return the job of an episode.

        Args:
            split: ``train``, ``validation`` or ``test``.
            episode_seed: Seed of the episode.

        Raises:
            UnknownName: There is no such split.
        """
        ...


def job_source(scenario: StragglerScenario) -> JobSource:
    """Return the source of a scenario's jobs.

    Args:
        scenario: The scenario before draws for an episode: variations of a split are applied to each job.

    Raises:
        SysgymError: The scenario's trace cannot be read.
    """
    if isinstance(scenario.jobs, TraceJobs):
        return TracedJobs(scenario)
    return GeneratedSource(scenario)


def read_trace(scenario: StragglerScenario) -> None:
    """Read the trace of a scenario into the cache if its format has one, and otherwise look for its files.

    Raises:
        SysgymError: The trace is missing or cannot be read.
    """
    if isinstance(scenario.jobs, TraceJobs):
        from sysgym.emulator.cluster.traces import CACHED, find_files

        if scenario.jobs.format in CACHED:
            _trace(scenario)
        else:
            find_files(scenario.jobs)


class GeneratedSource:
    """Source of jobs drawn by the episode's seed."""

    def __init__(self, scenario: StragglerScenario) -> None:
        self._scenario = scenario

    def job(self, split: str, episode_seed: int) -> Job:
        """Return the job of an episode; see :class:`JobSource`."""
        drawn = self._scenario.draw(split, episode_seed)
        assert drawn.jobs.kind == "generated"
        return generate_job(drawn.jobs, episode_seed, drawn.mitigation.attempts)


class TracedJobs:
    """Source of a trace's jobs, assigned to splits as ``jobs.split`` says: 60, 20 and 20 %.

    Where a trace's submission has several groups of parallel tasks, each group is a job here, and all of them
    are in one split (with ``jobs.split = "time"``, if no border lies between them). The split's seeds go
    through its submissions (or users, or programs), one job of each, then through their second jobs, and so
    on, and begin again after the last: as many first seeds as there are submissions are of independent jobs.
    The seed also draws second attempts. A trace is read once per process.

    Attributes:
        names: Split -> names of its jobs, in the order in which seeds take them.
    """

    def __init__(self, scenario: StragglerScenario) -> None:
        assert isinstance(scenario.jobs, TraceJobs)
        self._scenario = scenario
        self._trace = _trace(scenario)
        self.names = {split: names_of(self._trace, split, scenario.jobs.split) for split in SPLIT_NAMES}

    def job(self, split: str, episode_seed: int) -> Job:
        """Return the job of an episode; see :class:`JobSource`.

        Raises:
            ScenarioError: No job of the trace belongs to the split.
        """
        scenario = self._scenario.draw(split, episode_seed)
        assert isinstance(scenario.jobs, TraceJobs)
        trace, names = self._trace, self.names[split]
        if scenario.jobs != self._scenario.jobs:  # the split varies the selection of the trace
            trace = _trace(scenario)
            names = names_of(trace, split, scenario.jobs.split)
        if not names:
            raise ScenarioError(
                f"<{scenario.name}>",
                "jobs.paths",
                list(scenario.jobs.paths),
                f"a trace with jobs for the split {split}; of its {len(trace.names)} none belongs there",
                advice=_ADVICE[scenario.jobs.split],
            )
        name = names[(episode_seed - scenario.splits[split].first_seed) % len(names)]
        return trace.job(name, attempts=scenario.mitigation.attempts, seed=episode_seed)


def names_of(trace: TraceSource, split: str, by: str) -> tuple[str, ...]:
    """Return the names of a split's jobs: one of every owner, then a second one where there is one, ...

    Which job of an owner comes first is decided by a hash, because stages of the same name are alike.

    Args:
        trace: The trace.
        split: ``train``, ``validation`` or ``test``.
        by: The owner is the ``submission``, the ``user`` or the ``program``; with ``time``, which decides the
            split, it is the submission.
    """
    by_owner: dict[str, list[str]] = {}
    for name in trace.names:
        owner = _owner(trace, name, by)
        if owner and split == (_split_in_time(trace, name) if by == "time" else split_of(owner)):
            by_owner.setdefault(owner, []).append(name)
    rounds = [sorted(names, key=_order) for _, names in sorted(by_owner.items())]
    return tuple(name for round_of in zip_longest(*rounds) for name in round_of if name is not None)


def _owner(trace: TraceSource, name: str, by: str) -> str:
    """Return the submission, user or program of a job; empty if the trace does not tell."""
    if by in ("user", "program"):
        return str(getattr(trace.origin(name), by))
    return trace.submission(name)


def _split_in_time(trace: TraceSource, name: str) -> str | None:
    """Return the split of a job's time; None if it crosses a border."""
    begin_s, end_s = trace.span_s
    origin = trace.origin(name)
    first, last = (
        min(max(int(10 * (time_s - begin_s) / (end_s - begin_s)), 0), 9)
        for time_s in (origin.begin_s, origin.end_s)
    )
    return next((split for split, tenths in _TENTHS.items() if first in tenths and last in tenths), None)


def _order(name: str) -> bytes:
    return hashlib.sha256(f"order {name}".encode()).digest()


def split_of(submission: str) -> str:
    """Return the split of a submission of this name, which is the same in every process and trace.

    Args:
        submission: Its name.
    """
    tenth = int.from_bytes(hashlib.sha256(f"split {submission}".encode()).digest()[:8], "big") % 10
    return next(split for split, tenths in _TENTHS.items() if tenth in tenths)


def _trace(scenario: StragglerScenario) -> TraceSource:
    """Return a trace's jobs, which are the same however they are divided."""
    assert isinstance(scenario.jobs, TraceJobs)
    jobs = scenario.jobs.model_copy(update={"split": TraceJobs.LATER["split"]})
    return _read(jobs, scenario.straggler.quantile)


@lru_cache(maxsize=4)
def _read(jobs: TraceJobs, quantile: float | None) -> TraceSource:
    # Imported here because only traces need it, and the import takes long.
    from sysgym.emulator.cluster.traces import load_jobs

    return load_jobs(jobs, quantile)
