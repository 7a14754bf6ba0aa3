"""Presets: observation, action and reward of a sender, as functions of one interval.

The functions take an interval, a record with the fields of
:class:`~sysgym.envs.congestion.flow.intervals.FlowInterval`. They are compiled by numba and may use
arithmetic, ``if``, loops, ``math`` and other ``njit`` functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import FunctionType
from typing import Any

import numba
import numpy as np
from numba import njit
from numpy.typing import NDArray

from sysgym.emulator.compiling import address_of, compile_for
from sysgym.emulator.packets.memory.numba_records import function_caller
from sysgym.envs.congestion.flow.intervals import FLOW_INTERVAL, FlowInterval
from sysgym.scenarios.errors import SysgymError, UnknownName

FloatArray = NDArray[np.float64]
Observation = NDArray[np.float32]

Observe = Callable[[FlowInterval, Observation], None]
"""Function that writes the features of an interval, in their order."""

Decide = Callable[[FlowInterval, float], float]
"""Function that returns the rate in bit/s, or the factor of the window, for a native action."""

Ask = Callable[[FlowInterval, float], float]
"""Python function that returns the native action nearest to a rate in bit/s."""

Pay = Callable[[FlowInterval, FloatArray, FloatArray], None]
"""Function that writes the terms of a reward for an interval and weights, in the order of the terms."""

_INTERVAL = numba.from_dtype(FLOW_INTERVAL)
_OBSERVE = numba.void(_INTERVAL, numba.float32[::1])
_DECIDE = numba.float64(_INTERVAL, numba.float64)
_PAY = numba.void(_INTERVAL, numba.float64[::1], numba.float64[::1])

call_observe = function_caller(_OBSERVE)
call_decide = function_caller(_DECIDE)
call_pay = function_caller(_PAY)


@dataclass(frozen=True)
class Feature:
    """One value of an observation.

    Attributes:
        name: Name of the feature.
        meaning: One-line description.
        unit: Unit of the value.
        low: Lowest value.
        high: Highest value.
        empty: Value for an interval without ACKs.
    """

    name: str
    meaning: str
    unit: str
    low: float
    high: float
    empty: float = 0.0


@dataclass(frozen=True)
class FlowReward:
    """Reward of a flow: the sum of named terms.

    Attributes:
        name: Name of the reward.
        terms: Names of the terms.
        pay: Function that writes the terms.
        weights: Weight of each weighted term; a scenario may override them.
    """

    name: str
    terms: tuple[str, ...]
    pay: Pay
    weights: Mapping[str, float] = field(default_factory=dict)

    def weight_array(self, chosen: Mapping[str, float]) -> FloatArray:
        """Return the weights in the order of the terms, with overrides; 0 for a term without a weight.

        Raises:
            UnknownName: If the reward has no such weight.
        """
        for name in chosen:
            if name not in self.weights:
                raise UnknownName(f'weight of the reward "{self.name}"', name, self.weights)
        merged = {**self.weights, **chosen}
        return np.array([merged.get(name, 0.0) for name in self.terms])

    def no_terms(self) -> dict[str, float]:
        """Return the terms where nothing has been decided, at a reset: all are 0."""
        return dict.fromkeys(self.terms, 0.0)

    @property
    def address(self) -> int:
        """Address of :attr:`pay` as compiled; raises SysgymError if it cannot be compiled."""
        return address_of(_compiled(_PAY, self.pay), _PAY)


@dataclass(frozen=True)
class Preset:
    """Observation, action and reward of a sender.

    Attributes:
        name: Name of the preset.
        features: Features of one interval.
        observe: Function that writes the features.
        decide: Function from a native action to a rate, or to the factor of a window.
        ask: Function from a rate to the native action that requests it; for heuristics.
        reward: Default reward.
        history: Default number of intervals in the observation.
        action_limit: Bound of native actions, which lie in [-action_limit, action_limit].
        window: Whether an action multiplies a window; otherwise it sets a rate.
        meaning: One-line description of the native action n.
    """

    name: str
    features: tuple[Feature, ...]
    observe: Observe
    decide: Decide
    ask: Ask
    reward: FlowReward
    history: int
    action_limit: float = 1.0
    window: bool = False
    meaning: str = ""

    @property
    def observe_address(self) -> int:
        """Address of :attr:`observe` as compiled; raises SysgymError if it cannot be compiled."""
        return address_of(_compiled(_OBSERVE, self.observe), _OBSERVE)

    @property
    def decide_address(self) -> int:
        """Address of :attr:`decide` as compiled; raises SysgymError if it cannot be compiled."""
        return address_of(_compiled(_DECIDE, self.decide), _DECIDE)

    def index(self, history: int) -> list[str]:
        """Return the name and unit of every value of an observation."""
        return [
            f"{feature.name}, {_when(age)} [{feature.unit}]"
            for age in range(history)
            for feature in self.features
        ]

    def bounds(self, history: int) -> tuple[Observation, Observation]:
        """Return the lower and upper bounds of an observation."""
        low = np.array([feature.low for feature in self.features], np.float32)
        high = np.array([feature.high for feature in self.features], np.float32)
        return np.tile(low, history), np.tile(high, history)

    def empty(self, history: int) -> Observation:
        """Return the observation before the first ACK."""
        return np.tile(np.array([feature.empty for feature in self.features], np.float32), history)


@njit(forceinline=True)
def clipped(value: float, low: float, high: float) -> float:
    """Return the value clipped to [low, high]."""
    return min(max(value, low), high)


def _when(age: int) -> str:
    return "this interval" if age == 0 else "the one before" if age == 1 else f"{age} intervals before"


@cache
def _compiled(signature: Any, function: FunctionType) -> Any:
    """Compile a function of a preset or a reward, once per process; cached on disk if it is from a file."""
    try:
        return compile_for(
            signature, function, ["sysgym.envs.congestion"], boundscheck=True, no_cfunc_wrapper=True
        )
    except (numba.core.errors.NumbaError, KeyError) as error:
        # For a field that the record lacks, numba raises a bare KeyError.
        reason = f"an interval has no field {error}" if isinstance(error, KeyError) else error
        code = function.__code__
        raise SysgymError(
            f"{function.__qualname__} ({code.co_filename}:{code.co_firstlineno}) cannot be compiled: {reason}"
        ) from error
