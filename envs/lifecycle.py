"""Lifecycle of an environment: creation, reset, step, close; and errors for calls out of order.

Gymnasium's wrappers check the same order of calls. The errors here derive from Gymnasium's, so code that
catches ``gymnasium.error.ResetNeeded`` handles both.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.envs.rewards import Reward
from sysgym.envs.window import Window
from sysgym.scenarios import Scenario
from sysgym.scenarios.errors import SysgymError, UnknownName

HUMAN = "human"

Kinds = Mapping[str, tuple[tuple[type, ...], str]]


class NoEpisode(SysgymError, gym.error.ResetNeeded):
    """Raised when a call needs an episode and none is in progress."""


class ClosedEnvironment(SysgymError, gym.error.ClosedEnvironmentError):
    """Raised when an environment is used after ``close``."""


class ActionError(SysgymError, ValueError):
    """Raised when an action is not valid for the environment; the message states what was expected."""


class ArgumentError(SysgymError, ValueError):
    """Raised when an environment is created with an invalid value; the message names the argument."""


class Phase(enum.Enum):
    """Phase of an environment's lifecycle."""

    MADE = "made"
    RUNNING = "running"
    OVER = "over"
    CLOSED = "closed"


_OPTIONAL = type(None)

COMMON_ARGUMENTS: Kinds = {
    "scenario": ((str, PathLike, Mapping, Scenario), "a scenario's name, a file, a dict or a Scenario"),
    "split": ((str,), 'the name of a split, such as "train"'),
    "reward": ((str, Reward, _OPTIONAL), "the name of a reward, a Reward, or None for the scenario's own"),
    "overrides": ((Mapping, _OPTIONAL), 'a dict of dotted keys, such as {"control.episode_steps": 20}'),
    "render_mode": ((str, _OPTIONAL), 'a name such as "rgb_array", or None'),
}
"""Arguments common to all environments: types, and the expected value in words."""


class Lifecycle:
    """Base class of the environments; checks arguments and the order of calls.

    A copied or pickled environment keeps its episode: the copy continues from the state of the original, and
    the two are independent.

    Attributes:
        ARGUMENTS: Types of the constructor's arguments, besides those common to all environments.
        STEP_METRICS: Names and meanings of the metrics of a step, where some steps lack some of them.
    """

    ARGUMENTS: ClassVar[Kinds] = {}
    STEP_METRICS: ClassVar[Mapping[str, str]] = {}
    metadata: dict[str, Any]
    render_mode: str | None
    _phase = Phase.MADE
    _window: Window | None = None

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        """Check names and types of the arguments.

        Raises:
            UnknownName: If an argument does not exist.
            ArgumentError: If a value has the wrong type.
        """
        _check_arguments(cls, arguments, named)
        return super().__new__(cls)

    def render(self) -> Any:
        """Return text (``ansi``) or a picture of shape (height, width, 3), uint8 (``rgb_array``).

        With ``human``, resets and steps show the picture in a window, and None is returned.
        """
        if self.render_mode is None:
            gym.logger.warn(
                'render() without render_mode: make the environment with render_mode="ansi" or "rgb_array"'
            )
            return None
        self._check_began("render()")
        if self.render_mode == HUMAN:
            return None
        return self._text() if self.render_mode == "ansi" else self._picture()

    def close(self) -> None:
        """Release the environment's resources. It cannot be used afterwards. Closing twice is allowed."""
        if self._phase is not Phase.CLOSED:
            self._phase = Phase.CLOSED
            if self._window is not None:
                self._window.close()
            self._release()

    def _release(self) -> None:
        """Release the environment's resources, except its window."""

    def _text(self) -> str:
        """Return the state as text."""
        raise NotImplementedError

    def _picture(self) -> Any:
        """Return the state as a picture."""
        raise NotImplementedError

    def _show(self) -> None:
        """Show the state in a window if the render mode is ``human``."""
        if self.render_mode == HUMAN:
            if self._window is None:
                self._window = Window(type(self).__name__)
            self._window.show(self._picture(), self.metadata["render_fps"])

    def _check_may_reset(self) -> None:
        """Raise ClosedEnvironment if the environment is closed."""
        if self._phase is Phase.CLOSED:
            raise ClosedEnvironment(f"{type(self).__name__}: it is closed; make another environment")

    def _check_may_step(self) -> None:
        """Raise NoEpisode or ClosedEnvironment unless an episode is in progress."""
        if self._phase is Phase.RUNNING:
            return
        self._check_may_reset()
        if self._phase is Phase.OVER:
            raise NoEpisode(f"{type(self).__name__}: the episode is over; call reset() before step()")
        raise NoEpisode(f"{type(self).__name__}: no episode has begun; call reset() before step()")

    def _check_began(self, call: str) -> None:
        """Raise NoEpisode or ClosedEnvironment unless an episode has begun, even if it is over."""
        self._check_may_reset()
        if self._phase is Phase.MADE:
            raise NoEpisode(f"{type(self).__name__}: no episode has begun; call reset() before {call}")


def _check_arguments(cls: type, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    signature = inspect.signature(cls.__init__)  # type: ignore[misc]
    known = [name for name in signature.parameters if name != "self"]
    for name in named:
        if name not in known:
            raise UnknownName(f"argument of {cls.__name__}", name, known)
    if len(arguments) > len(known):
        raise ArgumentError(f"{cls.__name__}: expected at most {len(known)} arguments, got {len(arguments)}")
    kinds: Kinds = {**COMMON_ARGUMENTS, **getattr(cls, "ARGUMENTS", {})}
    given = dict([*zip(known, arguments, strict=False), *named.items()])
    for name, value in given.items():
        if name not in kinds:
            continue
        types, expected = kinds[name]
        # In Python True is an int, but it is hardly ever meant as one.
        if not isinstance(value, types) or isinstance(value, bool):
            raise ArgumentError(f"{name}: expected {expected}, got {value!r}")
    render_mode = given.get("render_mode")
    modes = getattr(cls, "metadata", {}).get("render_modes", [])
    if render_mode is not None and render_mode not in modes:
        raise UnknownName("render mode", render_mode, modes)


def finite_numbers(
    action: Any, shape: tuple[int, ...], rows: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Return an action as an array of numbers.

    Args:
        action: Action given by the caller.
        shape: Required shape.
        rows: Rows to check; None: all. Other rows may hold any values.

    Raises:
        ActionError: If the action is not an array of finite numbers of that shape.
    """
    try:
        given = np.asarray(action)
        if given.dtype.kind not in "iuf":
            raise TypeError
        numbers: NDArray[np.float64] = given.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise ActionError(f"action: expected {_of_shape(shape)}, got {_shown(action)}") from None
    if numbers.shape != shape:
        what = _shown(action) if numbers.ndim == 0 else f"shape {numbers.shape}"
        raise ActionError(f"action: expected {_of_shape(shape)}, got {what}")
    wrong = ~np.isfinite(numbers)
    if rows is not None:
        wrong[~rows] = False
    if wrong.any():
        place = tuple(int(at) for at in np.argwhere(wrong)[0])
        where = place[0] if len(place) == 1 else place
        raise ActionError(f"action: expected {_of_shape(shape)}, got {numbers[place]} at index {where}")
    return numbers


def whole_numbers(action: Any, space: gym.Space[Any]) -> NDArray[np.int64]:
    """Return an action of a discrete space as an array of integers.

    Args:
        action: Action given by the caller; floats are accepted if they are whole numbers.
        space: A ``MultiBinary`` or ``MultiDiscrete`` space.

    Raises:
        ActionError: If the action is outside the space.
    """
    try:
        given = np.asarray(action)
        whole = given.dtype.kind in "biu" or (
            given.dtype.kind == "f" and np.array_equal(given, np.rint(given))
        )
        if not whole or not space.contains(given.astype(space.dtype, copy=False)):
            raise ValueError
    except (TypeError, ValueError):
        raise of_space(action, space) from None
    return given.astype(np.int64)


def whole_number(action: Any, space: gym.spaces.Discrete) -> int:
    """Return an action of a ``Discrete`` space as an integer.

    Raises:
        ActionError: If the action is outside the space.
    """
    if isinstance(action, np.ndarray) and action.ndim == 0:
        action = action[()]
    if not space.contains(action):
        raise of_space(action, space)
    return int(action)


def of_space(action: Any, space: gym.Space[Any]) -> ActionError:
    """Return the error for an action outside a discrete space."""
    match space:
        case gym.spaces.Discrete():
            expected = f"a whole number from {space.start} to {space.start + space.n - 1}"
        case gym.spaces.MultiDiscrete() | gym.spaces.MultiBinary():
            most = int(np.max(space.nvec)) - 1 if isinstance(space, gym.spaces.MultiDiscrete) else 1
            expected = f"an array of shape {space.shape} of whole numbers from 0 to {most}"
        case _:
            expected = f"an element of {space}"
    return ActionError(f"action: expected {expected}, got {_outside(action, space)}")


def _outside(action: Any, space: gym.Space[Any]) -> str:
    """Return what of an action is outside a discrete space: its shape, or else the first wrong value."""
    try:
        array = np.asarray(action)
    except ValueError:  # rows of unequal lengths
        return _shown(action)
    if not isinstance(space, gym.spaces.MultiBinary | gym.spaces.MultiDiscrete) or array.shape != space.shape:
        return f"shape {array.shape}" if isinstance(action, np.ndarray) and array.ndim else _shown(action)
    if array.dtype.kind not in "biuf":
        return f"values of type {array.dtype}"
    counts = space.nvec if isinstance(space, gym.spaces.MultiDiscrete) else 2
    wrong = (array != np.rint(array)) | (array < 0) | (array >= counts)
    place = tuple(int(at) for at in np.argwhere(wrong)[0])
    return f"{array[place]} at index {place[0] if len(place) == 1 else place}"


def _of_shape(shape: tuple[int, ...]) -> str:
    if shape == (1,):
        return "one finite number in an array, such as np.array([0.5], np.float32)"
    return f"an array of shape {shape} of finite numbers"


def _shown(value: Any) -> str:
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return text if value is None else f"the {type(value).__name__} {text}"
