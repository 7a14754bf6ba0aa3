"""Bound of the measurement error of one kind of feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Bound:
    """Half width of the box for one kind of feature x: ``absolute + relative |x| + rest (1 - x)``.

    Attributes:
        words: Description for tables.
        absolute: Absolute error.
        relative: Error relative to the value x.
        rest: Error relative to 1 - x, for a relative error of the RTT in features 1 - base RTT / RTT.
    """

    words: str
    absolute: float = 0.0
    relative: float = 0.0
    rest: float = 0.0

    def half_width(self, values: FloatArray) -> FloatArray:
        """Return the half width at each value."""
        width: FloatArray = self.absolute + self.relative * np.abs(values) + self.rest * (1.0 - values)
        return width


KNOWN = Bound("known exactly")
"""Bound of exact features: values set by the controller, and flags."""
