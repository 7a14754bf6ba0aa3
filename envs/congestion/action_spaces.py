"""Action spaces of the congestion environments: from an agent's numbers to rates, windows and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from sysgym.envs.congestion.actions import NATIVE, OF_CONTROLLERS, OF_SENDERS, ActionScale, check_form
from sysgym.envs.congestion.flow.presets.base import Preset
from sysgym.envs.lifecycle import finite_numbers

Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]


class RateActions:
    """Send rates of all hosts, as fractions of their line rates.

    Args:
        n_hosts: Number of hosts.
        least: Least fraction.
        form: ``"linear"``, ``"log"`` or ``"native"``: what the numbers of an action mean.

    Attributes:
        space: Of actions.
        native_space: Of rates.

    Raises:
        UnknownName: If there is no such form.
    """

    def __init__(self, n_hosts: int, least: float, form: str) -> None:
        check_form(form, OF_CONTROLLERS)
        self._least = least
        self.native_space = Box(np.float32(least), np.float32(1.0), (n_hosts,), np.float32)
        scaled = ActionScale(form, float(np.float32(least)), 1.0) if form != NATIVE else None
        self._scale = scaled
        self.space = self.native_space if scaled is None else Box(-1.0, 1.0, (n_hosts,), np.float32)

    @property
    def native_bounds(self) -> tuple[float, float]:
        """Least and largest rate."""
        return float(self.native_space.low.min()), float(self.native_space.high.max())

    def action_for(self, native: NDArray[np.floating[Any]]) -> Array:
        """Return the action that asks for rates, shape (n_hosts,), clipped to what can be asked for."""
        within: Array = np.clip(native, self.native_space.low, self.native_space.high).astype(np.float32)
        return within if self._scale is None else self._scale.outputs(within)

    def rates(self, action: Array) -> FloatArray:
        """Return the rates that an action stands for.

        Raises:
            ActionError: If it has another shape or a value is not a finite number.
        """
        return self.rates_of(finite_numbers(action, self.space.shape))

    def rates_of(self, numbers: FloatArray) -> FloatArray:
        """Return the rates of one or many worlds' actions, shape (..., n_hosts), finite numbers."""
        rates = numbers
        if self._scale is not None:
            scaled = self._scale.rates(numbers) if numbers.ndim == 1 else self._scale.rates_of_many(numbers)
            rates = scaled.astype(np.float64)
        return np.clip(rates, self._least, 1.0)


class SenderActions:
    """One number of a flow's sender: the native one of a preset, or its share of the preset's limit.

    Args:
        preset: What the native number means.
        form: ``"linear"`` or ``"native"``.

    Attributes:
        space: Of actions.

    Raises:
        UnknownName: If there is no such form.
    """

    def __init__(self, preset: Preset, form: str) -> None:
        check_form(form, OF_SENDERS)
        self._limit = limit = preset.action_limit
        self._window = preset.window
        self._scale = None if form == NATIVE or limit == 1.0 else ActionScale("linear", -limit, limit)
        bound = np.float32(limit if self._scale is None else 1.0)
        self.space = Box(-bound, bound, (1,), np.float32)

    @property
    def native_bounds(self) -> tuple[float, float]:
        """Least and largest native number."""
        return -self._limit, self._limit

    @property
    def uncapped(self) -> Array:
        """The action that leaves a transport to itself."""
        return self.action_for(np.array([0.0 if self._window else self._limit]))

    def action_for(self, native: NDArray[np.floating[Any]]) -> Array:
        """Return the action that stands for a native one, shape (1,), which is clipped."""
        within: Array = np.clip(native, -self._limit, self._limit).astype(np.float32)
        return within if self._scale is None else self._scale.outputs(within)

    def native_numbers(self, numbers: FloatArray) -> FloatArray:
        """Return the native numbers that actions stand for, clipped, shape as given."""
        native = numbers if self._scale is None else self._scale.rates(numbers).astype(np.float64)
        return np.clip(native, -self._limit, self._limit)

    def native_number(self, action: Array) -> float:
        """Return an action's native number, clipped.

        Raises:
            ActionError: If it is not one finite number in an array of shape (1,).
        """
        if self._scale is None and type(action) is np.ndarray and action.shape == (1,):
            number = float(action[0]) if action.dtype.kind == "f" else math.nan
            if math.isfinite(number):  # the short way: a decision takes some 20 us in all
                return min(max(number, -self._limit), self._limit)
        return float(self.native_numbers(finite_numbers(action, (1,)))[0])
