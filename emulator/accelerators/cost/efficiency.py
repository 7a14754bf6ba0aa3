"""Efficiency of networks by message size.

Source of the shipped curves: SimAI (aliyun/SimAI), ``nic_ratio.csv``. A GB is 1e9 bytes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.errors import ScenarioError


@dataclass(frozen=True)
class EfficiencyCurve:
    """Share of a network's bandwidth that messages of a size achieve; validated when created.

    The curve is a power law between points. Smaller messages than the first point have its share, and larger
    ones than the last point have its share. A share may not grow faster than the size, or larger messages
    would take less time.

    Attributes:
        size_bytes: Sizes of messages, ascending.
        share: Shares, more than 0 and at most 1.

    Raises:
        ScenarioError: The points violate one of these conditions.
    """

    size_bytes: tuple[float, ...]
    share: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "size_bytes", tuple(map(float, self.size_bytes)))
        object.__setattr__(self, "share", tuple(map(float, self.share)))
        sizes, shares = self.size_bytes, self.share
        place = "<efficiency curve>"
        if not sizes or len(sizes) != len(shares):
            got = f"{len(sizes)} sizes, {len(shares)} shares"
            raise ScenarioError(place, "share", got, "as many shares as sizes, at least one")
        if not (_ascending(sizes) and sizes[0] > 0.0 and math.isfinite(sizes[-1])):
            raise ScenarioError(place, "size_bytes", list(sizes), "positive finite sizes, ascending")
        if not all(0.0 < share <= 1.0 for share in shares):
            raise ScenarioError(place, "share", list(shares), "shares that are more than 0 and at most 1")
        if not _ascending([size / share for size, share in zip(sizes, shares, strict=True)]):
            raise ScenarioError(place, "share", list(shares), "shares that grow no faster than the sizes")

    def at(self, size_bytes: float) -> float:
        """Return the share of the bandwidth that messages of a size achieve."""
        if size_bytes <= self.size_bytes[0]:
            return self.share[0]
        log_size, log_share = self.logarithms()
        return math.exp(float(np.interp(math.log(size_bytes), log_size, log_share)))

    def logarithms(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the natural logarithms of sizes and shares, float64 [n_points] each."""
        return np.log(self.size_bytes), np.log(self.share)


def _ascending(values: Sequence[float]) -> bool:
    return all(low < high for low, high in itertools.pairwise(values))


SIMAI_2_NODES = EfficiencyCurve((16e6, 128e6, 256e6, 1e9, 16e9), (0.32, 0.67, 0.85, 0.92, 0.96))
"""16 GPUs on two nodes (SimAI)."""

SIMAI_128_NODES = EfficiencyCurve((16e6, 1e9, 16e9), (0.0087, 0.31, 0.92))
"""128 nodes (SimAI)."""
