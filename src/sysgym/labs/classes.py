"""Grades of a class on disk: a table for the gradebook, and a record from which grading is resumed."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import sysgym
from sysgym.errors import SysgymError
from sysgym.labs.catalogue import get_lab
from sysgym.labs.grades import Grade
from sysgym.labs.grading import GradeJob, grade_all, refused
from sysgym.labs.intake.files import digest
from sysgym.scenarios.files import read_limited, write_atomically

LARGEST_RECORD_BYTES = 100_000_000

MOST_UNFINISHED = 2
"""Number of times that the grader may end during the grading of a submission before it gets no points."""


@cache
def rules_digest() -> str:
    """Return the digest of everything that determines grades: graders, thresholds, recorded runs, release."""
    folder = Path(__file__).parent
    found = hashlib.sha256(sysgym.__version__.encode())
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".toml", ".csv"):
            found.update(f"{path.relative_to(folder).as_posix()}\n".encode() + path.read_bytes())
    return found.hexdigest()


@dataclass
class GradeBook:
    """Grades of a class in one lab.

    Attributes:
        lab: Number of the lab.
        csv: Path of the table; its record has the same name with the suffix ``.json``.
        salt: Text of the hidden seeds.
        grades: Grades by submission.
        unfinished: By submission, number of times that the grader itself ended during the grading.
    """

    lab: int
    csv: Path
    salt: str
    grades: dict[str, Grade] = field(default_factory=dict)
    unfinished: dict[str, int] = field(default_factory=dict)

    @classmethod
    def open(cls, lab: int, path: Path, salt: str | None) -> GradeBook:
        """Return the grade book of a table; grades of the same lab, salt and rules are kept.

        Args:
            lab: Number of the lab.
            path: Path of the table.
            salt: Text of the hidden seeds; None: that of the record, or a new secret one.

        Raises:
            SysgymError: The record belongs to another lab or salt, is damaged, or is missing beside a table.
        """
        record = path.with_suffix(".json")
        if not record.is_file():
            if path.exists():  # it would be overwritten, with grades of a new salt
                raise SysgymError(
                    f"{path}: this table exists, but its record {record.name} does not, which has the salt of"
                    " the hidden seeds; put the record back, choose another --csv, or move the table away"
                )
            return cls(lab, path, salt or secrets.token_hex(8))
        try:
            data = json.loads(read_limited(record, LARGEST_RECORD_BYTES))
            grades = {name: Grade.from_json(one) for name, one in data["grades"].items()}
            known_lab, known_salt, rules = int(data["lab"]), str(data["salt"]), data.get("rules")
            unfinished = {str(name): int(count) for name, count in data.get("unfinished", {}).items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SysgymError(f"{record}: not a record of grades; move it away to grade anew") from error
        if known_lab != lab or salt not in (None, known_salt):
            raise SysgymError(
                f"{record}: has grades of lab {known_lab} with salt {known_salt!r};"
                " choose another --csv, or move the file away"
            )
        if rules != rules_digest():
            grades = {}
        return cls(lab, path, known_salt, grades, unfinished)

    def grade(self, submissions: Sequence[tuple[str, Path]], n_workers: int) -> Iterator[Grade]:
        """Grade all new and changed submissions, and yield all grades.

        The files are written before and after each grading. Submissions that were being graded when the
        grader itself ended are graded last and one at a time. If the grader ends again, the submission gets
        no points.
        """
        kept = {
            name: self.grades[name]
            for name, path in submissions
            if name in self.grades and self.grades[name].sha256 == digest(path)
        }
        self.grades = dict(kept)
        yield from kept.values()
        jobs = [
            GradeJob(self.lab, name, str(path.absolute()), self.salt)
            for name, path in submissions
            if name not in kept
        ]
        counts = {job.name: self.unfinished.get(job.name, 0) for job in jobs}
        self.unfinished = {name: count for name, count in counts.items() if count}
        for job in jobs:
            if counts[job.name] >= MOST_UNFINISHED:
                words = "the grader itself ended twice while it graded this submission"
                yield self._finished(refused(job, words))
        fresh = [job for job in jobs if not counts[job.name]]
        suspects = [job for job in jobs if 0 < counts[job.name] < MOST_UNFINISHED]
        try:
            for work, at_a_time in ((fresh, n_workers), (suspects, 1)):
                for found in grade_all(map(self._started, work), at_a_time):
                    yield self._finished(found)
        except (KeyboardInterrupt, GeneratorExit):  # not caused by a submission
            self.unfinished = {name: counts[name] for name in self.unfinished if counts[name]}
            raise
        finally:
            self.write()

    def _started(self, job: GradeJob) -> GradeJob:
        self.unfinished[job.name] = self.unfinished.get(job.name, 0) + 1
        self.write()
        return job

    def _finished(self, grade: Grade) -> Grade:
        self.unfinished.pop(grade.submission, None)
        self.grades[grade.submission] = grade
        self.write()
        return grade

    def ranked(self) -> list[Grade]:
        """Return the grades in descending order of points, then of contest scores."""

        def order(grade: Grade) -> tuple[float, float, str]:
            return -grade.points, -(grade.score or 0.0), grade.submission

        return sorted(self.grades.values(), key=order)

    def write(self) -> None:
        """Write the record and the table."""
        record = {
            "lab": self.lab,
            "salt": self.salt,
            "rules": rules_digest(),
            "unfinished": self.unfinished,
            "grades": {name: grade.to_json() for name, grade in sorted(self.grades.items())},
        }
        write_atomically(self.csv.with_suffix(".json"), (json.dumps(record, indent=1) + "\n").encode())
        write_atomically(self.csv, self._table().encode())

    def _table(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        parts = [part.name for part in get_lab(self.lab).parts()]
        writer.writerow(["submission", "points", "of", "passed", "score", *parts, "comments"])
        for grade in sorted(self.grades.values(), key=lambda one: one.submission):
            comments = "; ".join(_comments(grade))
            score = "" if grade.score is None else f"{grade.score:.2f}"
            row = [
                grade.submission,
                f"{grade.points:g}",
                grade.most_points,
                "yes" if grade.passed else "no",
                score,
            ]
            writer.writerow(map(_cell, [*row, *(f"{one.earned:g}" for one in grade.parts), comments]))
        return text.getvalue()


def _comments(grade: Grade) -> Iterator[str]:
    """Yield the comments on a grade: messages of parts with missing points, and hints of the other parts."""
    for one in grade.parts:
        if one.earned < one.points:
            yield f"{one.name}: {one.message}"
        elif one.hint:
            yield one.hint


def _cell(value: object) -> str:
    """Return a cell that no spreadsheet takes for a formula: names and error texts come from students."""
    text = " ".join(str(value).split())
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
    return text
