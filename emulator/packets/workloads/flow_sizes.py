"""Flow-size distributions, given by published points of their cumulative distribution functions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysgym.scenarios.errors import SysgymError, UnknownName

DATA_FOLDER = Path(__file__).with_name("data")

_COLUMNS = "size_bytes,cumulative_percent"


@dataclass(frozen=True, eq=False)
class FlowSizeDistribution:
    """Flow-size distribution with a piecewise linear cumulative distribution function.

    Two points with the same size form a jump: that size has the probability between them. Two points with
    the same percentage form a gap: no flow has a size between them.

    Attributes:
        name: Name in messages.
        size_bytes: Sizes of the points, ascending, not negative, float64.
        cumulative: Probability of a flow of at most that size, ascending from 0 to 1, float64.
    """

    name: str
    size_bytes: NDArray[np.float64]
    cumulative: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Check that the points are those of a distribution.

        Raises:
            SysgymError: If they are not.
        """
        size, cumulative = self.size_bytes, self.cumulative
        if size.ndim != 1 or size.shape != cumulative.shape or len(size) < 2:
            self._refuse(
                f"expected two or more points, got sizes {size.shape} and percentages {cumulative.shape}"
            )
        if not (np.all(np.isfinite(size)) and np.all(np.isfinite(cumulative))):
            self._refuse("a value is not finite")
        if size[0] < 0 or size[-1] <= 0 or np.any(np.diff(size) < 0):
            self._refuse("the sizes do not ascend from zero or above")
        if cumulative[0] != 0 or cumulative[-1] != 1 or np.any(np.diff(cumulative) < 0):
            self._refuse("the percentages do not ascend from 0 to 100")
        for array in (size, cumulative):
            array.flags.writeable = False

    @classmethod
    def from_csv(cls, path: str | PathLike[str]) -> FlowSizeDistribution:
        """Read a file with the columns ``size_bytes,cumulative_percent``; lines starting with # are ignored.

        Raises:
            SysgymError: If the file does not have this form or does not describe a distribution.
        """
        path = Path(path)
        rows = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
        rows = [row for row in rows if row and not row.startswith("#")]
        if not rows or rows[0] != _COLUMNS:
            raise SysgymError(f"{path}: expected the line {_COLUMNS!r} before the figures")
        try:
            points = np.array(
                [[float(field) for field in row.split(",")] for row in rows[1:]], dtype=np.float64
            )
        except ValueError as error:
            raise SysgymError(f"{path}: expected two numbers in every line: {error}") from None
        if points.ndim != 2 or points.shape[1] != 2:
            raise SysgymError(f"{path}: expected two numbers in every line")
        return cls(str(path), points[:, 0].copy(), points[:, 1] / 100.0)

    @classmethod
    def fixed(cls, size_bytes: int) -> FlowSizeDistribution:
        """Return the distribution in which every flow has the same size."""
        return cls(f"fixed at {size_bytes} bytes", np.full(2, float(size_bytes)), np.array([0.0, 1.0]))

    def mean_bytes(self) -> float:
        """Return the mean size, in closed form: the sum of each segment's probability times its middle."""
        middle = (self.size_bytes[1:] + self.size_bytes[:-1]) / 2.0
        return float(np.diff(self.cumulative) @ middle)

    def mean_packets(self, payload_bytes: int) -> float:
        """Return the mean number of packets of ``payload_bytes``, the last one partly filled.

        It is the sum over ``j = 0, 1, ...`` of the probability of a flow larger than ``j`` full packets.
        """
        return float(np.sum(1.0 - self.cdf(np.arange(0.0, self.size_bytes[-1], payload_bytes))))

    def cdf(self, size_bytes: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of a flow of at most ``size_bytes``, same shape."""
        size = np.asarray(size_bytes, dtype=np.float64)
        # The last point that is not above the size; at a jump this is its upper end.
        below = np.searchsorted(self.size_bytes, size, side="right") - 1
        left, right = np.clip(below, 0, None), np.clip(below + 1, None, len(self.size_bytes) - 1)
        width = self.size_bytes[right] - self.size_bytes[left]
        share = np.clip((size - self.size_bytes[left]) / np.where(width > 0, width, 1.0), 0.0, 1.0)
        inside = self.cumulative[left] + share * (self.cumulative[right] - self.cumulative[left])
        return np.where(below < 0, 0.0, inside)

    def quantile(self, probability: ArrayLike) -> NDArray[np.float64]:
        """Return the smallest size with a cumulative probability of at least ``probability``, bytes.

        Raises:
            SysgymError: If a probability is not between 0 and 1.
        """
        p = np.asarray(probability, dtype=np.float64)
        if not np.all((p >= 0.0) & (p <= 1.0)):
            raise SysgymError(f"{self.name}: a probability is not between 0 and 1")
        above = np.clip(np.searchsorted(self.cumulative, p, side="left"), 1, None)
        rise = self.cumulative[above] - self.cumulative[above - 1]
        share = (p - self.cumulative[above - 1]) / np.where(rise > 0, rise, 1.0)
        return self.size_bytes[above - 1] + share * (self.size_bytes[above] - self.size_bytes[above - 1])

    def sample(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """Draw ``n`` sizes in whole bytes, at least 1, rounded up to keep the number of packets."""
        return np.maximum(np.ceil(self.quantile(rng.random(n))), 1.0).astype(np.int64)

    def _refuse(self, reason: str) -> None:
        raise SysgymError(f"not a flow-size distribution ({self.name}): {reason}")


@cache
def get_flow_sizes(name: str) -> FlowSizeDistribution:
    """Return the distribution of a data file, such as ``websearch``.

    Raises:
        UnknownName: If there is no such file.
    """
    if name not in list_flow_sizes():
        raise UnknownName("flow-size distribution", name, list_flow_sizes())
    return FlowSizeDistribution.from_csv(DATA_FOLDER / f"{name}.csv")


def list_flow_sizes() -> list[str]:
    """Return the names of the data files, sorted."""
    return sorted(path.stem for path in DATA_FOLDER.glob("*.csv"))
