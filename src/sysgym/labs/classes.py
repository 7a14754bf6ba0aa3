"""Grades of a class on disk: a table for the gradebook, and a file from which grading goes on."""

from __future__ import annotations

import csv
import io
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sysgym.errors import SysgymError
from sysgym.labs.catalogue import get_lab
from sysgym.labs.grades import Grade
from sysgym.labs.grading import GradeJob, grade_all
from sysgym.labs.submissions import digest
from sysgym.scenarios.files import read_limited, write_atomically

LARGEST_RECORD_BYTES = 100_000_000


@dataclass
class GradeBook:
    """Grades of a class in one lab.

    Attributes:
        lab: Number of the lab.
        csv: Path of the table; its record is beside it, with the suffix ``.json``.
        salt: Text of the hidden seeds.
        grades: Grades by submission.
    """

    lab: int
    csv: Path
    salt: str
    grades: dict[str, Grade] = field(default_factory=dict)

    @classmethod
    def open(cls, lab: int, path: Path, salt: str | None) -> GradeBook:
        """Return the grade book of a table; grades of the same lab and salt are kept.

        Args:
            lab: Number of the lab.
            path: Path of the table.
            salt: Text of the hidden seeds; None: that of the record, or a new secret one.

        Raises:
            SysgymError: The record belongs to another lab or salt, or is damaged.
        """
        record = path.with_suffix(".json")
        if not record.is_file():
            return cls(lab, path, salt or secrets.token_hex(8))
        try:
            data = json.loads(read_limited(record, LARGEST_RECORD_BYTES))
            grades = {name: Grade.from_json(one) for name, one in data["grades"].items()}
            known_lab, known_salt = int(data["lab"]), str(data["salt"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SysgymError(f"{record}: not a record of grades; move it away to grade anew") from error
        if known_lab != lab or salt not in (None, known_salt):
            raise SysgymError(
                f"{record}: has grades of lab {known_lab} with salt {known_salt!r};"
                " choose another --csv, or move the file away"
            )
        return cls(lab, path, known_salt, grades)

    def grade(self, submissions: Sequence[tuple[str, Path]], n_workers: int) -> Iterator[Grade]:
        """Grade what has changed since, and yield all grades; files are written after each."""
        kept = {
            name: self.grades[name]
            for name, path in submissions
            if name in self.grades and self.grades[name].sha256 == digest(path)
        }
        self.grades = dict(kept)
        yield from kept.values()
        jobs = [
            GradeJob(self.lab, name, str(path.resolve()), self.salt)
            for name, path in submissions
            if name not in kept
        ]
        for found in grade_all(jobs, n_workers):
            self.grades[found.submission] = found
            self.write()
            yield found
        self.write()

    def ranked(self) -> list[Grade]:
        """Return the grades: best points first, then the best score of the contest."""

        def order(grade: Grade) -> tuple[float, float, str]:
            return -grade.points, -(grade.score or 0.0), grade.submission

        return sorted(self.grades.values(), key=order)

    def write(self) -> None:
        """Write the record and the table."""
        record = {
            "lab": self.lab,
            "salt": self.salt,
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
            comments = "; ".join(
                f"{one.name}: {one.message}" for one in grade.parts if one.earned < one.points
            )
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


def _cell(value: object) -> str:
    """Return a cell that no spreadsheet takes for a formula; students write names and error texts."""
    text = " ".join(str(value).split())
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
    return text
