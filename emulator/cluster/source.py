"""Jobs of a scenario by split and seed, generated or read from a trace."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from sysgym.emulator.cluster.generator import generate_job
from sysgym.emulator.cluster.job import Job
from sysgym.scenarios.errors import ScenarioError
from sysgym.scenarios.schema.common import SPLIT_NAMES
from sysgym.scenarios.schema.stragglers import StragglerScenario, TraceJobs

if TYPE_CHECKING:
    from sysgym.emulator.cluster.traces import TraceSource

_TENTHS = {"train": range(6), "validation": range(6, 8), "test": range(8, 10)}
"""Tenths of a trace's jobs that belong to each split."""


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
    """Source of a trace's jobs, assigned to splits by the hash of their names: 60, 20 and 20 % of them.

    The split's seeds go through its jobs in order and then begin again; the seed also draws second attempts.
    A trace is read once per process.
    """

    def __init__(self, scenario: StragglerScenario) -> None:
        assert isinstance(scenario.jobs, TraceJobs)
        self._scenario = scenario
        self._trace = _trace(scenario.jobs)
        self.names = {
            split: tuple(name for name in self._trace.names if split_of(name) == split)
            for split in SPLIT_NAMES
        }

    def job(self, split: str, episode_seed: int) -> Job:
        """Return the job of an episode; see :class:`JobSource`.

        Raises:
            ScenarioError: No job of the trace belongs to the split.
        """
        scenario = self._scenario.draw(split, episode_seed)
        assert isinstance(scenario.jobs, TraceJobs)
        trace, names = self._trace, self.names[split]
        if scenario.jobs != self._scenario.jobs:  # the split varies the selection of the trace
            trace = _trace(scenario.jobs)
            names = tuple(name for name in trace.names if split_of(name) == split)
        if not names:
            raise ScenarioError(
                f"<{scenario.name}>",
                "jobs.paths",
                list(scenario.jobs.paths),
                f"a trace with jobs for the split {split}; of its {len(trace.names)} none belongs there",
                advice="jobs are divided by a hash of their names: read more of the trace",
            )
        name = names[(episode_seed - scenario.splits[split].first_seed) % len(names)]
        return trace.job(name, attempts=scenario.mitigation.attempts, seed=episode_seed)


def split_of(name: str) -> str:
    """Return the split of a job of this name, which is the same in every process and trace.

    Args:
        name: The job's name.
    """
    tenth = int.from_bytes(hashlib.sha256(f"split {name}".encode()).digest()[:8], "big") % 10
    return next(split for split, tenths in _TENTHS.items() if tenth in tenths)


@lru_cache(maxsize=4)
def _trace(jobs: TraceJobs) -> TraceSource:
    # Imported here because only traces need it, and the import takes long.
    from sysgym.emulator.cluster.traces import load_jobs

    return load_jobs(jobs)
