"""Action spaces of the congestion environments: conversion between actions and rates or windows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from sysgym.envs.congestion.actions import NATIVE, OF_CONTROLLERS, OF_SENDERS, ActionScale, check_form
from sysgym.envs.congestion.flow.presets.base import Preset
from sysgym.envs.lifecycle import ActionError, finite_numbers

Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]


class RateActions:
    """Action space of the send rates of all hosts, as fractions of their line rates.

    Args:
        n_hosts: Number of hosts.
        least: Lowest fraction.
        form: Scale of the actions: ``"linear"``, ``"log"`` or ``"native"``.

    Attributes:
        form: Scale of the actions.
        space: Space of actions.
        native_space: Space of rates.

    Raises:
        UnknownName: If there is no such form.
    """

    def __init__(self, n_hosts: int, least: float, form: str) -> None:
        check_form(form, OF_CONTROLLERS)
        self.form = form
        self._least = least
        self.native_space = Box(np.float32(least), np.float32(1.0), (n_hosts,), np.float32)
        scaled = ActionScale(form, float(np.float32(least)), 1.0) if form != NATIVE else None
        self._scale = scaled
        self.space = self.native_space if scaled is None else Box(-1.0, 1.0, (n_hosts,), np.float32)

    @property
    def native_bounds(self) -> tuple[float, float]:
        """Lowest and highest rate."""
        return float(self.native_space.low.min()), float(self.native_space.high.max())

    def action_for(self, native: NDArray[np.floating[Any]]) -> Array:
        """Return the action for given rates, shape (n_hosts,), clipped to the space."""
        within: Array = np.clip(native, self.native_space.low, self.native_space.high).astype(np.float32)
        return within if self._scale is None else self._scale.outputs(within)

    def rates(self, action: Array) -> FloatArray:
        """Return the rates of an action.

        Raises:
            ActionError: If the action has the wrong shape or a value that is not finite.
        """
        return self.rates_of(finite_numbers(action, self.space.shape))

    def rates_of(self, numbers: FloatArray) -> FloatArray:
        """Return the rates of the actions of one or many environments, finite, shape (..., n_hosts)."""
        rates = numbers
        if self._scale is not None:
            scaled = self._scale.rates(numbers) if numbers.ndim == 1 else self._scale.rates_of_many(numbers)
            rates = scaled.astype(np.float64)
        return np.clip(rates, self._least, 1.0)


class SenderActions:
    """Action space of the sender of one flow: a single number, native or scaled by the preset's limit.

    Args:
        preset: Preset that defines the native action.
        form: Scale of the actions: ``"linear"`` or ``"native"``.

    Attributes:
        form: Scale of the actions.
        space: Space of actions.

    Raises:
        UnknownName: If there is no such form.
    """

    def __init__(self, preset: Preset, form: str) -> None:
        check_form(form, OF_SENDERS)
        self.form = form
        self._limit = limit = preset.action_limit
        self._window = preset.window
        self._scale = None if form == NATIVE or limit == 1.0 else ActionScale("linear", -limit, limit)
        bound = np.float32(limit if self._scale is None else 1.0)
        self.space = Box(-bound, bound, (1,), np.float32)

    @property
    def native_bounds(self) -> tuple[float, float]:
        """Lowest and highest native action."""
        return -self._limit, self._limit

    @property
    def uncapped(self) -> Array:
        """The action that does not restrict the transport."""
        return self.action_for(np.array([0.0 if self._window else self._limit]))

    def action_for(self, native: NDArray[np.floating[Any]]) -> Array:
        """Return the action for a native one, shape (1,), which is clipped."""
        within: Array = np.clip(native, -self._limit, self._limit).astype(np.float32)
        return within if self._scale is None else self._scale.outputs(within)

    def native_numbers(self, numbers: FloatArray) -> FloatArray:
        """Return the native actions for actions, clipped, of the same shape."""
        native = numbers if self._scale is None else self._scale.rates(numbers).astype(np.float64)
        return np.clip(native, -self._limit, self._limit)

    def native_numbers_of(self, agents: Sequence[str], actions: Mapping[str, Array]) -> FloatArray:
        """Return the native actions of agents, clipped, shape (n,).

        Raises:
            ActionError: If an agent's action is missing or not one finite number in an array of shape (1,).
        """
        if not isinstance(actions, Mapping):
            raise ActionError(f"actions: expected a dict of every agent's action, got {actions!r}")
        found = []
        for agent in agents:
            if agent not in actions:
                raise ActionError(f"actions: expected one of every agent, got none of {agent}")
            try:
                found.append(finite_numbers(actions[agent], (1,))[0])
            except ActionError as error:
                raise ActionError(f"{agent}: {error}") from None
        return self.native_numbers(np.array(found))

    def native_number(self, action: Array) -> float:
        """Return the native action for an action, clipped.

        Raises:
            ActionError: If the action is not one finite number in an array of shape (1,).
        """
        if self._scale is None and type(action) is np.ndarray and action.shape == (1,):
            number = float(action[0]) if action.dtype.kind == "f" else math.nan
            if math.isfinite(number):  # the fast path: a decision takes about 20 us in all
                return min(max(number, -self._limit), self._limit)
        return float(self.native_numbers(finite_numbers(action, (1,)))[0])
