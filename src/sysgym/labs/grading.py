"""Grading of submissions, each in a worker process, and of a class on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sysgym.bench.run.pool import PLAYING, Done, Failed, Job, Progress, TimedOut, run_jobs
from sysgym.errors import SysgymError
from sysgym.labs.catalogue import get_lab
from sysgym.labs.grades import Grade, Outcome, Part, PartGrade, Seeds
from sysgym.labs.intake.content import LawError
from sysgym.labs.intake.files import digest, rival_of
from sysgym.labs.intake.texts import printable
from sysgym.labs.sandbox.process import Refused, Stopped
from sysgym.labs.sources import SubmissionError
from sysgym.labs.submissions import Submission

WORKER_MEMORY_BYTES = 4_000_000_000
"""Maximum memory of a worker, which simulates laws and reads policies."""


@dataclass(frozen=True)
class GradeJob:
    """Grading of one submission, for a worker process.

    Attributes:
        lab: Number of the lab.
        name: Name of the submission.
        path: Path of its file.
        salt: Text of the seeds.
    """

    lab: int
    name: str
    path: str
    salt: str

    @property
    def label(self) -> str:
        """Name of the submission."""
        return self.name

    def run(self, report: Callable[[Any], None]) -> tuple[tuple[PartGrade, float | None], ...]:
        """Grade the submission; report finished parts, so that they count even if a later part loops."""
        from importlib import import_module

        _limit_memory()
        lab = get_lab(self.lab)
        prepare = getattr(import_module(lab.module), "prepare", None)
        if prepare is not None:
            prepare()
        report(PLAYING)
        found = []
        for grade in grade_parts(Path(self.path), lab.parts(), Seeds(self.salt)):
            found.append(grade)
            report(grade)
        return tuple(found)


def _limit_memory() -> None:
    """Limit the memory of this worker if the system can, as a submission's file or policy may exhaust it."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = WORKER_MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(WORKER_MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def grade_parts(path: Path, parts: Sequence[Part], seeds: Seeds) -> Iterator[tuple[PartGrade, float | None]]:
    """Yield the grade of every part of a submission, and its contribution to a contest."""
    try:
        submission = Submission(path)
    except SysgymError as error:
        for part in parts:
            yield (
                PartGrade(part.name, part.points, 0.0, str(error), "save the file again, as .py or .ipynb"),
                None,
            )
        return
    for part in parts:
        outcome = _checked(submission, part, seeds)
        earned = round(part.points * min(max(outcome.share, 0.0), 1.0), 1)
        hint = part.hint if outcome.hint is None else outcome.hint
        hint = hint if earned < part.points else ""
        grade = PartGrade(part.name, part.points, earned, outcome.message, hint, dict(outcome.measured))
        yield grade, outcome.score


def _checked(submission: Submission, part: Part, seeds: Seeds) -> Outcome:
    try:
        submission.need(part.needs)
    except SubmissionError as error:  # nothing has run, so there is no advice on what it does
        return Outcome(0.0, submission.explained(str(error)), hint="")
    try:
        return part.check(submission, seeds)
    except Stopped as stopped:
        return Outcome(0.0, f"stopped: the submission {stopped}")
    except Refused as refused:
        return Outcome(0.0, f"a function raised {submission.explained(str(refused))}")
    except LawError as error:
        return Outcome(0.0, submission.explained(str(error)), hint="")
    except SubmissionError as error:
        return Outcome(0.0, submission.explained(str(error)))
    except SysgymError as error:  # a law that fails in flight
        return Outcome(0.0, str(error)[:1000])
    finally:
        submission.close()


def grade_all(jobs: Iterable[GradeJob], n_workers: int = 1) -> Iterator[Grade]:
    """Grade submissions in parallel, and yield each grade as soon as it is complete.

    A submission that takes too long or kills its worker keeps the points of the finished parts.

    Args:
        jobs: Submissions; each is taken from the iterable when its grading begins.
        n_workers: Number of processes.
    """
    pending: Iterator[Job] = iter(jobs)
    found: dict[str, list[tuple[PartGrade, float | None]]] = {}
    running = run_jobs(lambda: next(pending, None), n_workers, (), _limit_s)
    with closing(running) as events:
        for event in events:
            job = event.job
            assert isinstance(job, GradeJob)
            parts = found.setdefault(job.name, [])
            if isinstance(event, Progress):
                parts.append(event.news)
                continue
            if isinstance(event, Done):
                parts[:] = event.result
            else:
                parts += _not_reached(job, len(parts), event)
            yield _grade(job, parts)


def _limit_s(job: Job) -> float | None:
    assert isinstance(job, GradeJob)
    return get_lab(job.lab).limit_s


def refused(job: GradeJob, reason: str) -> Grade:
    """Return the grade of a submission that is not graded: no points, and the reason."""
    return _grade(job, _not_reached(job, 0, Failed(job, reason, "")))


def _not_reached(job: GradeJob, done: int, failure: Failed) -> list[tuple[PartGrade, float | None]]:
    lab = get_lab(job.lab)
    if isinstance(failure, TimedOut):
        words = f"stopped: took longer than {lab.limit_s:g} s; is there a loop without an end?"
    else:
        words = f"stopped: {failure.reason}"
    rest = lab.parts()[done:]
    return [
        (PartGrade(part.name, part.points, 0.0, words if not number else "not reached", part.hint), None)
        for number, part in enumerate(rest)
    ]


def _note(job: GradeJob) -> str:
    """Return a note if two files could be the submission; otherwise an empty text."""
    path = Path(job.path)
    other = rival_of(path, job.lab)
    if other is None:
        return ""
    return printable(
        f"{path.name} was graded, but {other.name} differs from the starter too: hand in one of them"
    )


def _grade(job: GradeJob, parts: Sequence[tuple[PartGrade, float | None]]) -> Grade:
    scores = [score for _, score in parts if score is not None]
    grades = [part for part, _ in parts]
    note = _note(job)
    if note and grades:
        grades[0] = replace(grades[0], hint=f"{grades[0].hint}; {note}" if grades[0].hint else note)
    return Grade(job.lab, job.name, digest(Path(job.path)), grades, sum(scores) if scores else None)
