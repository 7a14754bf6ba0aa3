"""Base of the vector environments of the congestion family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from sysgym.envs.congestion.backends import LINUX
from sysgym.envs.congestion.row_thread_pool import RowThreadPool
from sysgym.envs.congestion.stepping.protocol import Stepper
from sysgym.envs.lifecycle import HUMAN, ArgumentError, ClosedEnvironment, NoEpisode, finite_numbers
from sysgym.scenarios.errors import SysgymError

Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class World(Protocol):
    """Protocol of the single environments in a vector environment."""

    metadata: dict[str, Any]
    render_mode: str | None
    action_space: Space[Array]
    observation_space: Space[Array]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode."""

    def _episode_metrics(self) -> dict[str, float]:
        """Return the metrics of the episode so far."""

    def render(self) -> Any:
        """Return a picture or text."""

    def close(self) -> None:
        """Close the environment."""


class WorldVector(VectorEnv[Array, Array, NDArray[Any]]):
    """Environments of one scenario, stepped together; made by ``gymnasium.make_vec``.

    Every environment has its own random generator and produces bit-identical results to a single environment.
    Actions, simulation and measurements are compiled and release Python's global lock, so the environments
    run in parallel on all cores.

    With ``AutoresetMode.NEXT_STEP`` an environment whose episode has ended is reset by the next step: its
    action is ignored, its reward is 0, and its observation is the first of the new episode. With
    ``SAME_STEP`` it is reset at once, and ``infos["final_obs"]`` and ``infos["final_info"]`` have its last
    observation and info. With ``DISABLED`` it waits for a reset with ``options={"reset_mask": ...}``.

    Args:
        envs: Single environments of one kind.
        stepper: Stepper that they share.
        threads: Number of threads; None: one per core available to the process.
        autoreset_mode: When environments are reset.

    Raises:
        ArgumentError: If there is no such mode.
    """

    def __init__(
        self,
        envs: Sequence[World],
        stepper: Stepper,
        threads: int | None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.autoreset_mode = _mode(autoreset_mode)
        self.envs, self._worlds = envs, stepper
        self.num_envs = len(envs)
        first = envs[0]
        self.metadata = {**first.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = first.render_mode
        self.single_action_space = first.action_space
        self.single_observation_space = first.observation_space
        self.action_space = batch_space(first.action_space, self.num_envs)
        self.observation_space = batch_space(first.observation_space, self.num_envs)
        self._ended: BoolArray = np.zeros(self.num_envs, dtype=np.bool_)
        self._thread_pool = RowThreadPool(threads)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode in every environment.

        Args:
            seed: Seed of the first environment, incremented for the others; or one seed for each.
            options: Options of the single environment, for all of them; ``reset_mask``, bool of shape
                (num_envs,), selects the environments to reset, and the others continue.

        Raises:
            ValueError: If the number of seeds is wrong, or a mask has the wrong shape or type.
            ClosedEnvironment: If the environment is closed.
        """
        self._check_open()
        seeds = _spread(seed, self.num_envs)
        of_worlds = dict(options or {})
        chosen = np.asarray(of_worlds.pop("reset_mask", np.ones(self.num_envs, dtype=np.bool_)))
        if chosen.shape != (self.num_envs,) or chosen.dtype != np.bool_:
            raise ValueError(
                f"reset_mask: expected {self.num_envs} booleans, got {chosen.dtype} of shape {chosen.shape}"
            )
        infos: dict[str, Any] = {}
        for world in np.flatnonzero(chosen).tolist():
            _, info = self.envs[world].reset(seed=seeds[world], options=of_worlds)
            infos = self._add_info(infos, info, world)
        self._ended[chosen] = False
        return self.observations().copy(), infos

    def step(self, actions: Array) -> tuple[Array, FloatArray, BoolArray, BoolArray, dict[str, Any]]:
        """Step every environment; reset those whose episode has ended, by the autoreset mode.

        Args:
            actions: Actions, shape (num_envs, ...).

        Raises:
            NoEpisode: If no episode has begun, or one has ended and the mode is ``DISABLED``.
            ClosedEnvironment: If the environment is closed.
            ActionError: If the shape is wrong or a value is not finite; then no environment is stepped.
        """
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            waiting = np.flatnonzero(self._ended).tolist()
            raise NoEpisode(
                f"{type(self).__name__}: the episodes of the environments {waiting} have ended; reset them"
                ' with options={"reset_mask": ...}'
            )
        moving = ~self._ended
        rewards, truncations = self.advance(actions, moving)
        for world in np.flatnonzero(self._ended).tolist():
            self.envs[world].reset()
        infos = self._infos(moving)
        over = np.flatnonzero(truncations).tolist()
        for world in over:
            infos = self._add_info(infos, {"episode_metrics": self.episode_metrics(world)}, world)
        self._ended = truncations.copy()
        if over and self.autoreset_mode is AutoresetMode.SAME_STEP:
            infos = self._begin_again(over, infos, moving & ~truncations)
        return self.observations().copy(), rewards, np.zeros_like(truncations), truncations, infos

    def _begin_again(self, over: list[int], infos: dict[str, Any], going_on: BoolArray) -> dict[str, Any]:
        """Reset environments whose episode has just ended; return the infos, with their final ones."""
        last = [
            {"final_obs": self.observations()[world].copy(), "final_info": _of_one(infos, world)}
            for world in over
        ]
        for world in over:
            self.envs[world].reset()
        self._ended[over] = False
        infos = self._infos(going_on)
        for world, ended in zip(over, last, strict=True):
            infos = self._add_info(infos, ended, world)
        return infos

    def advance(self, actions: Array, moving: BoolArray) -> tuple[FloatArray, BoolArray]:
        """Step some environments and reset none.

        Args:
            actions: Actions, shape (num_envs, ...).
            moving: Environments to step, bool, shape (num_envs,).

        Returns:
            Rewards, 0 for environments that are not stepped, and a mask of the episodes that have ended.

        Raises:
            NoEpisode: If one of them has no episode in progress.
            ClosedEnvironment: If the environment is closed.
            ActionError: If the shape is wrong or a value is not finite; then no environment is stepped.
        """
        self._check_open()
        rows = self._worlds.rows
        if not rows["world"][moving].all():
            raise NoEpisode(f"{type(self).__name__}: no episode has begun; call reset() before step()")
        self._take(finite_numbers(actions, self.action_space.shape or (), moving), moving)
        self._thread_pool.map_rows(self._worlds.pass_intervals, self.num_envs)
        over = moving & (rows["steps"] >= rows["episode_steps"])
        return np.where(moving, self._conclude(moving), 0.0), over

    def observations(self) -> Array:
        """Return the newest observations, shape (num_envs, ...); the next step overwrites them."""
        raise NotImplementedError

    def episode_metrics(self, world: int) -> dict[str, float]:
        """Return the metrics of an environment's episode so far."""
        return self.envs[world]._episode_metrics()

    def render(self) -> tuple[Any, ...]:
        """Return the picture or text of every environment."""
        return tuple(env.render() for env in self.envs)

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads and close the environments, if they were created."""
        if "_thread_pool" in self.__dict__:  # some versions of Gymnasium close failed constructions
            self._thread_pool.close()
            for env in self.envs:
                env.close()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy: all attributes, episodes included."""
        return self.__dict__

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Restore the state of the original; the environments share their rows again."""
        self.__dict__.update(attributes)
        self._share()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironment(f"{type(self).__name__}: it is closed; make another environment")

    def _share(self) -> None:
        """Assign every environment its row of the shared stepper."""
        raise NotImplementedError

    def _take(self, actions: FloatArray, moving: BoolArray) -> None:
        """Store the actions of the environments to step: finite numbers, which are clipped."""
        raise NotImplementedError

    def _conclude(self, moved: BoolArray) -> FloatArray:
        """Conclude the intervals that have ended; return the rewards."""
        raise NotImplementedError

    def _infos(self, moved: BoolArray) -> dict[str, Any]:
        """Return infos in the form of Gymnasium's vector environments; those not stepped were reset."""
        raise NotImplementedError


def check_arguments(num_envs: int, threads: int | None, arguments: Mapping[str, Any]) -> None:
    """Check the arguments of a vector environment.

    Raises:
        ArgumentError: If there is no environment or no thread, or the render mode is a window.
        SysgymError: If the backend is not the simulator; networks of the kernel run in wall time.
    """
    if num_envs < 1 or (threads is not None and threads < 1):
        raise ArgumentError(f"num_envs and threads: expected at least 1, got {num_envs} and {threads}")
    if arguments.get("render_mode") == HUMAN:
        raise ArgumentError('render_mode: the vector form has no window, got "human"; expected "rgb_array"')
    if arguments.get("backend") == LINUX:
        raise SysgymError(
            f'backend: the vector form requires the simulator, got "{LINUX}"; make one'
            " environment for each network of the kernel"
        )


def as_infos(values: dict[str, NDArray[Any]], present: BoolArray) -> dict[str, Any]:
    """Return arrays with their masks, as Gymnasium's vector environments do.

    Args:
        values: Mapping from names to arrays with one value per environment; NaN where missing.
        present: Environments that have any values.
    """
    infos: dict[str, Any] = {}
    for name, array in values.items():
        has = present & ~np.isnan(array) if array.dtype == np.float64 else present
        if has.any():
            infos[name] = np.where(has, array, np.zeros((), array.dtype))
            infos[f"_{name}"] = has.copy()
    return infos


def _mode(mode: AutoresetMode | str) -> AutoresetMode:
    """Return the autoreset mode for a mode, its name or its value."""
    for one in AutoresetMode:
        if mode in (one, one.value) or str(mode).upper() == one.name:
            return one
    expected = ", ".join(one.name for one in AutoresetMode)
    raise ArgumentError(f"autoreset_mode: expected one of {expected}, got {mode!r}")


def _of_one(infos: Mapping[str, Any], world: int) -> dict[str, Any]:
    """Return the info of one environment."""
    return {
        name: _of_one(value, world) if isinstance(value, dict) else value[world].item()
        for name, value in infos.items()
        if not name.startswith("_") and infos[f"_{name}"][world]
    }


def _spread(seed: int | Sequence[int | None] | None, num_envs: int) -> Sequence[int | None]:
    """Return a seed for every environment, as Gymnasium's vector environments do."""
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, int | np.integer):
        return [int(seed) + world for world in range(num_envs)]
    if len(seed) != num_envs:
        raise ValueError(f"seed: expected one for each of {num_envs} worlds, got {len(seed)}")
    return seed
