"""Thresholds of grades, under what the reference solutions reach, from ``scripts/labs/thresholds.py``."""

from __future__ import annotations

import math
import tomllib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

FILE = "thresholds.toml"


class Threshold(NamedTuple):
    """Threshold of one statistic.

    Attributes:
        limit: What a submission has to reach: at least, or at most if ``lower_is_better``.
        mean: Mean of the reference solution over gradings with different seeds.
        sd: Standard deviation over those.
        n: Number of those.
        lower_is_better: Whether small values are good.
    """

    limit: float
    mean: float
    sd: float
    n: int
    lower_is_better: bool = False

    def met(self, value: float) -> bool:
        """Return whether a value is good enough."""
        return value <= self.limit if self.lower_is_better else value >= self.limit


_NOT_MEASURED = Threshold(math.nan, math.nan, math.nan, 0)


@cache
def _all() -> dict[str, Threshold]:
    text = (files("sysgym.labs") / FILE).read_text(encoding="utf-8")
    return {name: Threshold(**values) for name, values in tomllib.loads(text).items()}


def threshold(name: str) -> Threshold:
    """Return a threshold by the name of its statistic; one that nothing meets if it was not measured."""
    return _all().get(name) or _NOT_MEASURED
