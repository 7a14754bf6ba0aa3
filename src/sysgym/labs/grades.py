"""Grades: parts with points, outcomes and messages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sysgym.labs.intake.texts import printable
from sysgym.labs.submissions import Submission

PASS_SHARE = 0.8
"""Share of the points with which a lab is passed."""

VISIBLE = "visible"
"""Text of the seeds with which students check their own work."""


N_VISIBLE, N_HIDDEN = 1000, 1_000_000_000
"""Numbers of seeds from which visible and hidden episodes are drawn."""


class Seeds:
    """Seeds of one grading, all derived from one text.

    Args:
        salt: The text; :data:`VISIBLE` for the checks of students, a secret for grades.
        quick: Whether to run fewer episodes, for tests of the graders.
    """

    def __init__(self, salt: str, *, quick: bool = False) -> None:
        self.salt, self._quick = salt, quick

    def count(self, full: int) -> int:
        """Return the number of episodes to run instead of ``full``."""
        return max(full // 4, 2) if self._quick else full

    def rng(self, part: str) -> np.random.Generator:
        """Return a random generator for a part of a lab."""
        digest = hashlib.sha256(f"{self.salt}\n{part}".encode()).digest()
        return np.random.default_rng(np.frombuffer(digest, np.uint32))

    def episodes(self, part: str, count: int, first: int = 20_000) -> list[int]:
        """Return distinct seeds of episodes, by default in a test split.

        Visible seeds are drawn from a thousand, hidden seeds from so many that no submission can know them.
        """
        n = N_VISIBLE if self.salt == VISIBLE else N_HIDDEN
        return [int(seed) for seed in first + self.rng(part).choice(n, count, replace=False)]


@dataclass(frozen=True)
class Outcome:
    """Result of the check of one part.

    Attributes:
        share: Share of the part's points, from 0 to 1.
        message: Result, and the expected result if it differs.
        measured: Statistics that have thresholds, by name.
        score: The part's contribution to a contest.
        hint: Hint in place of that of the part; None: the hint of the part.
    """

    share: float
    message: str
    measured: Mapping[str, float] = field(default_factory=dict)
    score: float | None = None
    hint: str | None = None


@dataclass(frozen=True)
class Part:
    """Part of a lab that is graded separately.

    Attributes:
        name: Short name.
        points: Maximum number of points.
        needs: Names that a submission must define for this part.
        check: Function that checks a submission.
        hint: Advice if the check fails.
    """

    name: str
    points: int
    needs: tuple[str, ...]
    check: Callable[[Submission, Seeds], Outcome]
    hint: str


@dataclass(frozen=True)
class PartGrade:
    """Grade of one part.

    Attributes:
        name: Name of the part.
        points: Maximum number of points.
        earned: Points that the submission gets.
        message: Result of the check, as printable text.
        hint: Advice; empty for full points.
        measured: See :class:`Outcome`.
    """

    name: str
    points: int
    earned: float
    message: str
    hint: str = ""
    measured: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable(self.message))  # it quotes the submission


@dataclass(frozen=True)
class Grade:
    """Grade of one submission.

    Attributes:
        lab: Number of the lab.
        submission: Name of the submission.
        sha256: Digest of its files.
        parts: Grades of the parts, in order.
        score: Score of a contest; None if the lab has no contest, or nothing could be simulated.
    """

    lab: int
    submission: str
    sha256: str
    parts: Sequence[PartGrade]
    score: float | None = None

    @property
    def points(self) -> float:
        """Sum of the points of all parts."""
        return sum(part.earned for part in self.parts)

    @property
    def most_points(self) -> int:
        """Maximum number of points."""
        return sum(part.points for part in self.parts)

    @property
    def passed(self) -> bool:
        """Whether the points are sufficient to pass the lab."""
        return self.points >= PASS_SHARE * self.most_points - 1e-9

    def to_json(self) -> dict[str, Any]:
        """Return the grade as data for JSON."""
        return {
            "lab": self.lab,
            "submission": self.submission,
            "sha256": self.sha256,
            "points": round(self.points, 2),
            "of": self.most_points,
            "passed": self.passed,
            "score": self.score,
            "parts": [
                {
                    "name": part.name,
                    "earned": round(part.earned, 2),
                    "points": part.points,
                    "message": part.message,
                    "hint": part.hint,
                }
                for part in self.parts
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Grade:
        """Return a grade from :meth:`to_json`."""
        parts = [
            PartGrade(one["name"], one["points"], one["earned"], one["message"], one["hint"])
            for one in data["parts"]
        ]
        return cls(data["lab"], data["submission"], data["sha256"], parts, data["score"])
