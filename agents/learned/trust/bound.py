"""The largest error of a measurement, stated for one kind of feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Bound:
    """Half width of the box for one kind of feature x: ``absolute + relative |x| + rest (1 - x)``.

    Attributes:
        words: What is off by how much, for tables.
        absolute: The same everywhere.
        relative: Of the value.
        rest: Of what is missing to 1: a relative error of the round trip in features 1 - base RTT / RTT.
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
"""For what the controller set itself, and what is simply there or not."""
