"""Presets: observation, action and reward of a flow's sender, as functions of one interval.

The functions take an interval: a record with the fields of
:class:`~sysgym.envs.congestion.flow.intervals.FlowInterval`. They are compiled by numba: arithmetic, ``if``,
loops, ``math`` and other ``njit`` functions may be used.
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
"""Writes the features of an interval, in their order."""

Decide = Callable[[FlowInterval, float], float]
"""Returns the rate in bit/s, or the factor of the window, for a native action after an interval."""

Ask = Callable[[FlowInterval, float], float]
"""Returns the native action that comes nearest to a rate in bit/s; runs in Python."""

Pay = Callable[[FlowInterval, FloatArray, FloatArray], None]
"""Writes the terms of a reward from an interval and the weights, all in the order of the terms."""

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
        name: What tables call it.
        meaning: One line.
        unit: Of the value.
        low: Least value.
        high: Largest value.
        empty: Value of an interval in which nothing came back.
    """

    name: str
    meaning: str
    unit: str
    low: float
    high: float
    empty: float = 0.0


@dataclass(frozen=True)
class FlowReward:
    """A reward of a flow: the sum of named terms.

    Attributes:
        name: What users type.
        terms: Names of the terms.
        pay: Writes the terms.
        weights: Term -> weight; a scenario may replace them.
    """

    name: str
    terms: tuple[str, ...]
    pay: Pay
    weights: Mapping[str, float] = field(default_factory=dict)

    def weight_array(self, chosen: Mapping[str, float]) -> FloatArray:
        """Return the weights in the order of the terms, some of them replaced; 0 for a term without one.

        Raises:
            UnknownName: If the reward has no such weight.
        """
        for name in chosen:
            if name not in self.weights:
                raise UnknownName(f'weight of the reward "{self.name}"', name, self.weights)
        merged = {**self.weights, **chosen}
        return np.array([merged.get(name, 0.0) for name in self.terms])

    @property
    def address(self) -> int:
        """Address of :attr:`pay`, compiled; raises SysgymError if it cannot be."""
        return address_of(_compiled(_PAY, self.pay), _PAY)


@dataclass(frozen=True)
class Preset:
    """One way of being a flow's sender.

    Attributes:
        name: What users type.
        features: The observation of one interval.
        observe: Writes them.
        decide: What an action means.
        ask: Which action asks for a rate; for heuristics.
        reward: What is paid, unless another reward is chosen.
        history: Intervals in the observation, unless a scenario says otherwise.
        action_limit: Native actions lie between minus this and this.
        window: Whether an action multiplies a window; otherwise it sets a rate.
        meaning: Of the native action n, one line.
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
        """Address of :attr:`observe`, compiled; raises SysgymError if it cannot be."""
        return address_of(_compiled(_OBSERVE, self.observe), _OBSERVE)

    @property
    def decide_address(self) -> int:
        """Address of :attr:`decide`, compiled; raises SysgymError if it cannot be."""
        return address_of(_compiled(_DECIDE, self.decide), _DECIDE)

    def index(self, history: int) -> list[str]:
        """Return what stands at every index of an observation, with its unit."""
        return [
            f"{feature.name}, {_when(age)} [{feature.unit}]"
            for age in range(history)
            for feature in self.features
        ]

    def bounds(self, history: int) -> tuple[Observation, Observation]:
        """Return least and largest observation."""
        low = np.array([feature.low for feature in self.features], np.float32)
        high = np.array([feature.high for feature in self.features], np.float32)
        return np.tile(low, history), np.tile(high, history)

    def empty(self, history: int) -> Observation:
        """Return the observation of somebody who has not heard anything yet."""
        return np.tile(np.array([feature.empty for feature in self.features], np.float32), history)


@njit(forceinline=True)
def clipped(value: float, low: float, high: float) -> float:
    """Return the value, at least ``low`` and at most ``high``."""
    return min(max(value, low), high)


def _when(age: int) -> str:
    return "this interval" if age == 0 else "the one before" if age == 1 else f"{age} intervals before"


@cache
def _compiled(signature: Any, function: FunctionType) -> Any:
    """Compile a function of a preset or a reward, once a process; kept on disk where it has a file."""
    try:
        return compile_for(
            signature, function, ["sysgym.envs.congestion"], boundscheck=True, no_cfunc_wrapper=True
        )
    except (numba.core.errors.NumbaError, KeyError) as error:
        # Naming a field that a record lacks is a bare KeyError in numba.
        reason = f"an interval has no field {error}" if isinstance(error, KeyError) else error
        code = function.__code__
        raise SysgymError(
            f"{function.__qualname__} ({code.co_filename}:{code.co_firstlineno}) cannot be compiled: {reason}"
        ) from error
