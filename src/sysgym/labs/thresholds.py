"""Thresholds of grades, computed from reference solutions by ``scripts/labs/thresholds.py``."""

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
        limit: Minimum value that a submission must reach; maximum value if ``lower_is_better``.
        mean: Mean of the reference solution over gradings with different seeds.
        sd: Standard deviation over these gradings.
        n: Number of these gradings.
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
    """Return the threshold of a statistic; without measurements, a threshold that no value meets."""
    return _all().get(name) or _NOT_MEASURED
