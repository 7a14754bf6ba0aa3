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
"""Text of the seeds that students check themselves with."""


N_VISIBLE, N_HIDDEN = 1000, 1_000_000_000
"""Seeds of episodes that gradings draw from."""


class Seeds:
    """Seeds of one grading, all derived from one text.

    Args:
        salt: The text; :data:`VISIBLE` for the checks of students, a secret for grades.
        quick: Whether to play less, as tests of the graders do.
    """

    def __init__(self, salt: str, *, quick: bool = False) -> None:
        self.salt, self._quick = salt, quick

    def count(self, full: int) -> int:
        """Return how many of ``full`` episodes are played."""
        return max(full // 4, 2) if self._quick else full

    def rng(self, part: str) -> np.random.Generator:
        """Return a generator for a part of a lab."""
        digest = hashlib.sha256(f"{self.salt}\n{part}".encode()).digest()
        return np.random.default_rng(np.frombuffer(digest, np.uint32))

    def episodes(self, part: str, count: int, first: int = 20_000) -> list[int]:
        """Return different seeds of episodes, by default of a test split.

        Visible ones are among a thousand, hidden ones among so many that no submission can have met them.
        """
        n = N_VISIBLE if self.salt == VISIBLE else N_HIDDEN
        return [int(seed) for seed in first + self.rng(part).choice(n, count, replace=False)]


@dataclass(frozen=True)
class Outcome:
    """Result of the check of one part.

    Attributes:
        share: Share of the part's points, from 0 to 1.
        message: What was found, and what was expected if it differs.
        measured: Statistics that thresholds are about, by name.
        score: The part's contribution to a contest.
        hint: What to try instead of what the part says; None: what it says.
    """

    share: float
    message: str
    measured: Mapping[str, float] = field(default_factory=dict)
    score: float | None = None
    hint: str | None = None


@dataclass(frozen=True)
class Part:
    """Part of a lab that is graded by itself.

    Attributes:
        name: Short name.
        points: Points.
        needs: Names that a submission must define for it.
        check: Function that checks a submission.
        hint: What to try if it fails.
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
        points: Points that it has.
        earned: Points that the submission gets.
        message: What was found, as a printable text.
        hint: What to try; empty if nothing is missing.
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
        score: Score of a contest; None if the lab has none, or nothing could be played.
    """

    lab: int
    submission: str
    sha256: str
    parts: Sequence[PartGrade]
    score: float | None = None

    @property
    def points(self) -> float:
        """Points of all parts."""
        return sum(part.earned for part in self.parts)

    @property
    def most_points(self) -> int:
        """Points that can be had."""
        return sum(part.points for part in self.parts)

    @property
    def passed(self) -> bool:
        """Whether there are enough points."""
        return self.points >= PASS_SHARE * self.most_points - 1e-9

    def to_json(self) -> dict[str, Any]:
        """Return the grade as JSON's types."""
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
