"""Observations by name or as objects, and the columns of tables in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysgym.envs.lifecycle import ArgumentError, Kinds
from sysgym.scenarios.errors import UnknownName

Setting = TypeVar("Setting", contravariant=True)
State = TypeVar("State", contravariant=True)
SettingT = TypeVar("SettingT")
StateT = TypeVar("StateT")


@runtime_checkable
class Observer(Protocol[Setting, State]):
    """Observation of an environment: its space, and its value in every state.

    Environments may share an observer, so it stores nothing of an episode.
    """

    def space(self, setting: Setting, /) -> gym.Space[Any]:
        """Return the observation space of an environment.

        Args:
            setting: What is known of the environment before any episode.
        """

    def observe(self, state: State, /) -> Any:
        """Return the observation of a state, an element of the space.

        Args:
            state: What an agent may know of the episode.
        """


OBSERVATION_ARGUMENT: Kinds = {
    "observation": (
        (str, Observer),
        'the name of an observation, such as "default", or an Observer: an object with space() and observe()',
    ),
}
"""Types of the argument ``observation``, for :attr:`Lifecycle.ARGUMENTS`."""


def get_observer(
    observation: str | Observer[SettingT, StateT], observers: Mapping[str, Observer[SettingT, StateT]]
) -> Observer[SettingT, StateT]:
    """Return an observer given by name or as an object.

    Raises:
        UnknownName: If there is no observation of that name.
        ArgumentError: If a class is given instead of an object of it.
    """
    if isinstance(observation, type):
        name = observation.__name__
        raise ArgumentError(f"observation: expected an object, got the class {name}; pass {name}(...)")
    if not isinstance(observation, str):
        return observation
    if observation not in observers:
        raise UnknownName("observation", observation, observers)
    return observers[observation]


def space_of(observer: Observer[SettingT, Any], setting: SettingT) -> gym.Space[Any]:
    """Return the space of an observer.

    Raises:
        ArgumentError: If the observer does not return a space.
    """
    space = observer.space(setting)
    if not isinstance(space, gym.Space):
        raise ArgumentError(
            f"observation: expected a gymnasium.Space of {type(observer).__name__}.space(), got {space!r:.80}"
        )
    return space


class Column(NamedTuple):
    """One column of an array of the observation."""

    meaning: str
    unit: str
    low: float
    high: float


Columns = Mapping[str, Column]


class Limits(NamedTuple):
    """Least and largest values of the columns of a table."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


def table_space(columns: Columns, *rows: int) -> gym.spaces.Box:
    """Return the space of a table with these columns, or of one row of it.

    Args:
        columns: The columns by name.
        *rows: Number of rows; omitted for a single row, shape (columns,).
    """
    low, high = (np.broadcast_to(end.astype(np.float32), (*rows, len(columns))) for end in limits(columns))
    return gym.spaces.Box(low, high, dtype=np.float32)


def limits(columns: Columns) -> Limits:
    """Return the least and the largest value of each column, two arrays of float64 [columns]."""
    return Limits(
        np.array([column.low for column in columns.values()], np.float64),
        np.array([column.high for column in columns.values()], np.float64),
    )


def clipped(values: ArrayLike, within: Limits) -> NDArray[np.float32]:
    """Return a table with these limits of columns, or a row of it, as the observation has it."""
    return np.asarray(np.clip(values, within.low, within.high), np.float32)


def flags_space(*shape: int) -> gym.spaces.Box:
    """Return the space of an array of zeros and ones."""
    return gym.spaces.Box(0.0, 1.0, shape, np.float32)
