"""Rules of diagnosis, a random agent and the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.diagnosis.base import FloatArray, PartTable, Questioner
from sysgym.agents.protocol import episode_rng
from sysgym.scenarios.errors import UnknownName

STREAM = 0xD1A7
"""Random stream of the random agent."""

SIGNS = ("late", "steady", "excess")
"""Columns by which parts can be compared without a question."""


class Longest(Questioner):
    """Names the part whose durations are longest, without a question.

    Args:
        sign: Column that is compared.
        whole: A stage or a kind is named instead of a rank if its value is at least this share of the largest
            one.

    Raises:
        SysgymError: If the column is unknown, or the share is not from 0 to 1.
    """

    name = "longest"

    def __init__(self, sign: str = "late", whole: float = 0.8) -> None:
        self._sign = known_sign(sign)
        self._whole = in_range(self.name, "whole", whole, least=0.0, most=1.0)

    def culprit(self, parts: PartTable) -> int:
        """Return the row to name."""
        values = parts.column(self._sign)
        rows = parts.nameable()
        largest = max(values[row] for row in rows)
        # Stages and kinds are listed before ranks.
        enough = largest - (1.0 - self._whole) * abs(largest)
        return next(row for row in rows if values[row] >= enough)


class LatestThroughout(Questioner):
    """Names the part that is late both at its worst and throughout, without a question.

    Parts are compared by the geometric mean of the columns ``late`` and ``steady``. Stages and kinds of
    operations are weighted relative to ranks, because a fault of a rank makes its stage late too.

    Args:
        stage_weight: Weight of stages.
        kind_weight: Weight of kinds of operations.

    Raises:
        SysgymError: If a weight is negative.
    """

    name = "latest_throughout"

    def __init__(self, stage_weight: float = 1.5, kind_weight: float = 0.2) -> None:
        self._stage_weight = in_range(self.name, "stage_weight", stage_weight, least=0.0)
        self._kind_weight = in_range(self.name, "kind_weight", kind_weight, least=0.0)

    def culprit(self, parts: PartTable) -> int:
        """Return the row to name."""
        values = np.sqrt(parts.column("late") * np.maximum(parts.column("steady"), 0.0))
        values[parts.rows("is_stage")] *= self._stage_weight
        values[parts.rows("is_kind")] *= self._kind_weight
        return max(parts.nameable(), key=lambda row: values[row])


class LargestShare(Questioner):
    """Asks about the parts that are latest by a sign, and names the one with the largest answer.

    Args:
        count: Number of questions.
        sign: Column by which the parts to ask about are chosen.
        precise: A rank is named instead of a stage or a kind if its answer is at least this share of the
            largest one.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "largest_share"

    def __init__(self, count: int = 5, sign: str = "steady", precise: float = 0.8) -> None:
        self._count, self._sign = in_range(self.name, "count", count, least=1), known_sign(sign)
        self._precise = in_range(self.name, "precise", precise, least=0.0, most=1.0)

    def questions(self, parts: PartTable) -> Sequence[int]:
        """Return the rows to ask about."""
        return latest(parts, parts.nameable(), self._count, self._sign)

    def culprit(self, parts: PartTable) -> int:
        """Return the row to name."""
        return precise_row(parts, parts.answers(), parts.nameable(), self._precise)


class Narrowing(Questioner):
    """Asks about all stages and data-parallel ranks, then about the ranks where the largest answers meet.

    The share of a rank is at most the smaller of the shares of its stage and of its data-parallel rank; this
    bound is the first estimate, as in the paper. Kinds of operations that communicate are asked about too.

    Args:
        count: Number of ranks to ask about.
        precise: A rank is named instead of a stage if its answer is at least this share of the largest one.

    Raises:
        SysgymError: If a value is out of range.

    Reference: Lin et al., OSDI 2025, section 5 (estimates of ranks).
    """

    name = "narrowing"

    def __init__(self, count: int = 2, precise: float = 0.8) -> None:
        self._count = in_range(self.name, "count", count, least=1)
        self._precise = in_range(self.name, "precise", precise, least=0.0, most=1.0)

    def questions(self, parts: PartTable) -> Sequence[int]:
        """Return the rows to ask about."""
        groups = [*parts.rows("is_stage"), *parts.rows("is_data_rank"), *communicating(parts)]
        if any(parts.allowed[0, row] for row in groups):
            return groups
        bound = np.minimum(parts.column("share_of_stage"), parts.column("share_of_data_rank"))
        return sorted(parts.rows("is_rank"), key=lambda row: -bound[row])[: self._count]

    def culprit(self, parts: PartTable) -> int:
        """Return the row to name."""
        rows = [*parts.rows("is_stage"), *communicating(parts), *parts.rows("is_rank")]
        return precise_row(parts, parts.answers(), rows, self._precise)


class Contrast(Questioner):
    """Names the part whose answer is furthest above the median of similar parts that were asked about.

    The agent asks about all stages, the kinds of operations that communicate, and the ranks that are latest
    by a sign.

    Args:
        count: Number of ranks to ask about.
        sign: Column by which these ranks are chosen.
        precise: A rank is named instead of another part if its contrast is at least this share of the largest
            one.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "contrast"

    def __init__(self, count: int = 4, sign: str = "steady", precise: float = 0.8) -> None:
        self._count, self._sign = in_range(self.name, "count", count, least=1), known_sign(sign)
        self._precise = in_range(self.name, "precise", precise, least=0.0, most=1.0)

    def questions(self, parts: PartTable) -> Sequence[int]:
        """Return the rows to ask about."""
        ranks = latest(parts, parts.rows("is_rank"), self._count, self._sign)
        return [*parts.rows("is_stage"), *communicating(parts), *ranks]

    def culprit(self, parts: PartTable) -> int:
        """Return the row to name."""
        answers = parts.answers()
        contrast = answers.copy()
        for group in (parts.rows("is_stage"), communicating(parts), parts.rows("is_rank")):
            asked = [row for row in group if np.isfinite(answers[row])]
            if asked:
                contrast[asked] -= np.median(answers[asked])
        return precise_row(parts, contrast, parts.nameable(), self._precise)


class RandomAgent(Questioner):
    """Names a uniformly random part, seeded by the episode."""

    name = "random"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Seed the generator by the episode.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        super().begin(env)
        self._rng = episode_rng(env, STREAM)

    def culprit(self, parts: PartTable) -> int:
        """Draw a row."""
        return int(self._rng.choice(parts.nameable()))


class Oracle(Questioner):
    """Names the worst fault."""

    name = "oracle"
    privileged = True

    def culprit(self, parts: PartTable) -> int:
        """Return the row of the worst fault."""
        case = self._world.case
        return case.parts.index(case.culprit)


def latest(parts: PartTable, rows: Sequence[int], count: int, sign: str) -> list[int]:
    """Return the rows with the largest values of a column."""
    values = parts.column(sign)
    return sorted(rows, key=lambda row: -values[row])[:count]


def communicating(parts: PartTable) -> list[int]:
    """Return the rows of the kinds of operations that communicate."""
    return [row for row in parts.rows("is_kind") if parts.column("computes")[row] == 0.0]


def precise_row(parts: PartTable, values: FloatArray, rows: Sequence[int], precise: float) -> int:
    """Return the row with the largest value, or that of a rank whose value is nearly as large.

    Args:
        parts: The parts.
        values: A value for each part.
        rows: Rows that may be named.
        precise: Share of the largest value that a rank needs.
    """
    best = max(rows, key=lambda row: values[row])
    ranks = [row for row in parts.rows("is_rank") if np.isfinite(values[row])]
    rank = max(ranks, key=lambda row: values[row], default=best)
    return rank if values[rank] >= precise * values[best] else best


def known_sign(sign: str) -> str:
    """Return a sign after checking that it is one of the known ones.

    Raises:
        UnknownName: If there is no such sign.
    """
    if sign not in SIGNS:
        raise UnknownName("sign", sign, SIGNS)
    return sign
