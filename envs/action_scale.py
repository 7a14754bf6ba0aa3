"""Scales that map policy outputs in [-1, 1] to the actions of an environment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.errors import SysgymError, UnknownName

Array = NDArray[np.float32]

SCALES = ("linear", "log")


@dataclass(frozen=True)
class ActionScale:
    """Mapping from [-1, 1] to [low, high], the same for every number of an action.

    Attributes:
        name: ``"log"`` or ``"linear"``.
        low: Smallest value; positive on the logarithmic scale.
        high: Largest value.
    """

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        """Check the name; raises UnknownName."""
        if self.name not in SCALES:
            raise UnknownName("action scale", self.name, SCALES)

    @classmethod
    def of(cls, meaning: Mapping[str, Any], path: Any) -> ActionScale:
        """Return the scale stored in a checkpoint, which may be untrusted.

        Args:
            meaning: Name, low and high, as stored.
            path: The checkpoint.

        Raises:
            SysgymError: If the fields do not describe a scale.
        """
        name, low, high = (meaning.get(key) for key in ("name", "low", "high"))
        numbers = all(isinstance(value, int | float) for value in (low, high))
        least = 0.0 if name == "log" else -math.inf
        if name not in SCALES or not numbers or not least < float(low) < float(high) < math.inf:  # type: ignore[arg-type]
            raise SysgymError(f"{path}: its actions are of a different kind: {dict(meaning)}")
        return cls(name, low, high)  # type: ignore[arg-type]

    def rates(self, output: NDArray[Any]) -> Array:
        """Return the rates for a policy output, which is clipped to [-1, 1]."""
        share = 0.5 * (np.clip(np.asarray(output, dtype=np.float64), -1.0, 1.0) + 1.0)
        if self.name == "log":
            rates = self.low * (self.high / self.low) ** share
        else:
            rates = self.low + (self.high - self.low) * share
        clipped: Array = np.clip(rates, self.low, self.high).astype(np.float32)
        return clipped

    def rates_of_many(self, outputs: NDArray[Any]) -> Array:
        """Return the rates for the outputs of many environments, bit-identical to :meth:`rates` of each."""
        if self.name == "linear" or not len(outputs):
            return self.rates(outputs)
        # NumPy's power may round differently in the vector lanes of a longer array.
        return np.stack([self.rates(output) for output in outputs])

    def outputs(self, rates: NDArray[Any]) -> Array:
        """Return the outputs for given rates, clipped to [low, high]; the inverse of :meth:`rates`."""
        within = np.clip(np.asarray(rates, dtype=np.float64), self.low, self.high)
        if self.name == "log":
            share = np.log(within / self.low) / np.log(self.high / self.low)
        else:
            share = (within - self.low) / (self.high - self.low)
        clipped: Array = np.clip(2.0 * share - 1.0, -1.0, 1.0).astype(np.float32)
        return clipped
