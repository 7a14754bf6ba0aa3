"""The numbers of an action: on a scale of [-1, 1], or native, as the network takes them.

Learners expect [-1, 1]. On the linear scale 0 is half the line rate, near the share of two senders. Shares of
a link span orders of magnitude, 1/2 for two senders, 1/32 for an incast: on the logarithmic scale a step of
the policy changes a rate by the same factor everywhere.
"""

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

NATIVE = "native"
"""Not scaled: rates as fractions of the line rate, or the numbers of a flow's preset."""

OF_CONTROLLERS = (*SCALES, NATIVE)
OF_SENDERS = ("linear", NATIVE)

_NATIVE_FORMS = ("sysgym/DatacenterCC-v0", "sysgym/FlowCC-v0")


@dataclass(frozen=True)
class ActionScale:
    """Maps [-1, 1] onto [low, high], the same for every host.

    Attributes:
        name: ``"log"`` or ``"linear"``.
        low: Lowest rate, positive.
        high: Highest rate.
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
        """Return the scale that a checkpoint from anyone tells of.

        Args:
            meaning: The fields.
            path: The checkpoint.

        Raises:
            SysgymError: If it is none.
        """
        name, low, high = (meaning.get(key) for key in ("name", "low", "high"))
        numbers = all(isinstance(value, int | float) for value in (low, high))
        least = 0.0 if name == "log" else -math.inf
        if name not in SCALES or not numbers or not least < float(low) < float(high) < math.inf:  # type: ignore[arg-type]
            raise SysgymError(f"{path}: its actions are of another kind: {dict(meaning)}")
        return cls(name, low, high)  # type: ignore[arg-type]

    def rates(self, output: NDArray[Any]) -> Array:
        """Return the rates for a policy's output, which is clipped to [-1, 1]."""
        share = 0.5 * (np.clip(np.asarray(output, dtype=np.float64), -1.0, 1.0) + 1.0)
        if self.name == "log":
            rates = self.low * (self.high / self.low) ** share
        else:
            rates = self.low + (self.high - self.low) * share
        clipped: Array = np.clip(rates, self.low, self.high).astype(np.float32)
        return clipped

    def rates_of_many(self, outputs: NDArray[Any]) -> Array:
        """Return the rates for the outputs of many worlds, to the last bit those of each one alone."""
        if self.name == "linear" or not len(outputs):
            return self.rates(outputs)
        # NumPy's power may round differently in the lanes of a longer array.
        return np.stack([self.rates(output) for output in outputs])

    def outputs(self, rates: NDArray[Any]) -> Array:
        """Return what asks for rates, which are clipped to [low, high]; the inverse of :meth:`rates`."""
        within = np.clip(np.asarray(rates, dtype=np.float64), self.low, self.high)
        if self.name == "log":
            share = np.log(within / self.low) / np.log(self.high / self.low)
        else:
            share = (within - self.low) / (self.high - self.low)
        clipped: Array = np.clip(2.0 * share - 1.0, -1.0, 1.0).astype(np.float32)
        return clipped


def check_form(form: str, known: tuple[str, ...]) -> None:
    """Raise UnknownName unless the environment has that form of actions."""
    if form not in known:
        raise UnknownName("action scale", form, known)


def native_actions(env_id: str) -> dict[str, str]:
    """Return the arguments with which an environment takes native actions; none where it knows no scale.

    Agents, benchmarks and checkpoints speak in native numbers.
    """
    return {"action_scale": NATIVE} if env_id in _NATIVE_FORMS else {}
