"""Many worlds of ``sysgym/DatacenterCC-v0`` in one environment: they are simulated on all cores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from sysgym.envs.congestion.datacenter_cc import DatacenterCC

Array = NDArray[np.float32]
StepResult = tuple[Array, float, bool, bool, dict[str, Any]]


class DatacenterCCVector(VectorEnv[Array, Array, NDArray[Any]]):
    """Worlds of one scenario side by side, stepped in one call; made by ``gymnasium.make_vec``.

    Every world is a :class:`DatacenterCC` with its own generator and gives what it would give alone, to the
    last bit. The simulation of an interval is compiled and holds no lock of Python's, so that the worlds
    share the cores; setting rates and measuring is done for one world after another.

    An episode that has ended begins again with the next step (``AutoresetMode.NEXT_STEP``): for that world
    the step's action is not looked at, the reward is 0 and the observation the first of the new episode.

    Args:
        num_envs: Number of worlds.
        threads: How many simulate at a time; None: one a core that the process may use.
        **arguments: Those of :class:`DatacenterCC`, the same for every world.

    Raises:
        ValueError: If ``num_envs`` or ``threads`` is less than 1.
    """

    def __init__(self, num_envs: int = 1, threads: int | None = None, **arguments: Any) -> None:
        if num_envs < 1 or (threads is not None and threads < 1):
            raise ValueError(f"num_envs and threads: expected at least 1, got {num_envs} and {threads}")
        self.num_envs = num_envs
        self.envs = [DatacenterCC(**arguments) for _ in range(num_envs)]
        first = self.envs[0]
        self.metadata = {**first.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.render_mode = first.render_mode
        self.single_action_space = first.action_space
        self.single_observation_space = first.observation_space
        self.action_space = batch_space(first.action_space, num_envs)
        self.observation_space = batch_space(first.observation_space, num_envs)
        self._ended = np.zeros(num_envs, dtype=np.bool_)
        self._observations: Array = np.zeros(self.observation_space.shape or (), dtype=np.float32)
        self._helpers = min(threads or _usable_cores(), num_envs) - 1
        self._pool: ThreadPoolExecutor | None = None

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode in every world.

        Args:
            seed: Of the first world, the others count on from it; or one for each.
            options: Those of :class:`DatacenterCC`, for every world; ``reset_mask``, bool of shape
                (num_envs,), chooses the worlds, and the others go on.

        Raises:
            ValueError: If there is not one seed for each world, or a mask has another shape or type.
        """
        seeds = _spread(seed, self.num_envs)
        of_worlds = dict(options or {})
        chosen = np.asarray(of_worlds.pop("reset_mask", np.ones(self.num_envs, dtype=np.bool_)))
        if chosen.shape != (self.num_envs,) or chosen.dtype != np.bool_:
            raise ValueError(
                f"reset_mask: expected {self.num_envs} booleans, got {chosen.dtype} of shape {chosen.shape}"
            )
        infos: dict[str, Any] = {}
        for world in np.flatnonzero(chosen).tolist():
            self._observations[world], info = self.envs[world].reset(seed=seeds[world], options=of_worlds)
            self._ended[world] = False
            infos = self._add_info(infos, info, world)
        return self._observations.copy(), infos

    def step(self, actions: Array) -> tuple[Array, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Step every world; one whose episode has ended begins the next.

        Args:
            actions: Shape (num_envs, n_hosts).

        Raises:
            ResetNeeded: If no episode has begun.
            ValueError: If the shape is another or a value is not finite; then no world has moved.
        """
        rewards, truncations = np.zeros(self.num_envs), np.zeros(self.num_envs, dtype=np.bool_)
        infos: dict[str, Any] = {}
        results = dict(self.step_worlds(actions, np.flatnonzero(~self._ended)))
        for world, env in enumerate(self.envs):
            if world in results:
                self._observations[world], rewards[world], _, truncations[world], info = results[world]
            else:
                self._observations[world], info = env.reset()
            infos = self._add_info(infos, info, world)
        self._ended = truncations.copy()
        return self._observations.copy(), rewards, np.zeros_like(truncations), truncations, infos

    def step_worlds(self, actions: Array, worlds: Iterable[int]) -> list[tuple[int, StepResult]]:
        """Step some worlds and reset none; returns each one's number and what its own step returns.

        Raises:
            ResetNeeded: If one of them has no episode.
            ValueError: If the shape is another or a value is not finite; then no world has moved.
        """
        expected = self.action_space.shape
        if np.shape(actions) != expected:
            raise ValueError(f"actions: expected shape {expected}, got {np.shape(actions)}")
        moved = [(int(world), self.envs[world]) for world in worlds]
        for env, rates in [(env, env.rate_fractions(actions[world])) for world, env in moved]:
            env.begin_step(rates)
        self._simulate([env for _, env in moved])
        return [(world, env.end_step()) for world, env in moved]

    def render(self) -> tuple[Any, ...]:
        """Return every world's picture or text."""
        return tuple(env.render() for env in self.envs)

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads and close the worlds."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        for env in self.envs:
            env.close()

    def _simulate(self, envs: list[DatacenterCC]) -> None:
        """Let an interval pass in every world; whoever is free takes the next one."""
        waiting = iter(envs)
        helpers = min(self._helpers, len(envs) - 1)
        if helpers < 1:
            _simulate_from(waiting)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._helpers, thread_name_prefix="sysgym-worlds")
        others = [self._pool.submit(_simulate_from, waiting) for _ in range(helpers)]
        try:
            _simulate_from(waiting)
        finally:
            wait(others)
        for other in others:
            other.result()


def _simulate_from(waiting: Iterator[DatacenterCC]) -> None:
    for env in waiting:  # an iterator over a list gives each world to one thread only
        env.let_interval_pass()


def _spread(seed: int | Sequence[int | None] | None, num_envs: int) -> Sequence[int | None]:
    """Return a seed for every world, as Gymnasium's own vector environments do."""
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, int | np.integer):
        return [int(seed) + world for world in range(num_envs)]
    if len(seed) != num_envs:
        raise ValueError(f"seed: expected one for each of {num_envs} worlds, got {len(seed)}")
    return seed


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
