"""Vector environment of ``sysgym/DatacenterCC-v0``."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.datacenter.measurement import Interval
from sysgym.envs.congestion.datacenter.metrics import interval_metrics, interval_values
from sysgym.envs.congestion.stepping.protocol import ACTS
from sysgym.envs.congestion.vector import WorldVector, as_infos, check_arguments
from sysgym.envs.rewards import total

Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class DatacenterCCVector(WorldVector):
    """Environments of one scenario, stepped together, each with its own controller.

    If the environments have a common fabric and the reward supports many networks at once, as the default
    does, then features, reward and metrics are computed for all of them together; otherwise one by one.

    Args:
        num_envs: Number of environments.
        threads: Number of threads; None: one per core available to the process.
        autoreset_mode: When environments are reset; see :class:`WorldVector`.
        **arguments: Arguments of :class:`DatacenterCC`, the same for every environment.

    Raises:
        ValueError: If ``num_envs`` or ``threads`` is less than 1, or there is no such mode.
        SysgymError: If the backend is not the simulator.
    """

    envs: list[DatacenterCC]

    def __init__(
        self,
        num_envs: int = 1,
        threads: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **arguments: Any,
    ) -> None:
        check_arguments(num_envs, threads, arguments)
        envs = [DatacenterCC(**arguments) for _ in range(num_envs)]
        self._stepper = envs[0]._new_stepper(num_envs)
        super().__init__(envs, self._stepper, threads, autoreset_mode)
        frames = envs[0].observations
        self._frames: Array = np.zeros((num_envs, frames.history, frames.frame_size), np.float32)
        self._share()
        self._terms: dict[str, FloatArray] = {}
        self._intervals: Interval | None = None

    def _share(self) -> None:
        for world, env in enumerate(self.envs):
            env._join(self._stepper, world, self._frames[world])

    def observations(self) -> Array:
        """Return the newest observations, shape (num_envs, n); they change with the next step."""
        return self._frames.reshape(self.num_envs, -1)

    def _take(self, actions: FloatArray, moving: BoolArray) -> None:
        self._stepper.rates[moving] = self.envs[0].actions.rates_of(actions[moving])
        self._stepper.rows["stage"][moving] = ACTS

    def _conclude(self, moved: BoolArray) -> FloatArray:
        self._intervals = intervals = self._stepper.intervals()
        if intervals is None or not self.envs[0].reward.of_many or self.render_mode is not None:
            return self._conclude_one_by_one(moved)
        self._terms = self.envs[0].reward.terms_of_many(intervals)
        self._frames[moved, 1:] = self._frames[moved, :-1]
        self._frames[moved, 0] = self.envs[0].observations.frame(intervals)[moved]
        rewards: FloatArray = sum(self._terms.values(), np.zeros(self.num_envs))
        return rewards

    def _conclude_one_by_one(self, moved: BoolArray) -> FloatArray:
        self._terms, rewards = {}, np.zeros(self.num_envs)
        for world in np.flatnonzero(moved).tolist():
            terms = self.envs[world]._conclude(self._stepper.interval(world))
            rewards[world] = total(terms)
            for name, term in terms.items():
                self._terms.setdefault(name, np.full(self.num_envs, np.nan))[world] = term
        return rewards

    def _infos(self, moved: BoolArray) -> dict[str, Any]:
        rows, everyone = self._stepper.rows, np.ones(self.num_envs, dtype=np.bool_)
        infos: dict[str, Any] = {
            "metrics": self._metrics(moved, everyone),
            "_metrics": everyone.copy(),
            **as_infos({"episode_seed": rows["episode_seed"], "time_s": rows["ended_s"]}, everyone),
            "reward_terms": self._paid(moved, everyone),
            "_reward_terms": everyone.copy(),
        }
        return infos

    def _paid(self, moved: BoolArray, everyone: BoolArray) -> dict[str, Any]:
        """Return the terms of the environments that moved, and zeros of those that were reset."""
        nothing = self.envs[0].reward.no_terms()
        terms = {name: np.full(self.num_envs, np.nan) for name in [*nothing, *self._terms]}
        for name, of_all in terms.items():
            of_all[~moved] = nothing.get(name, np.nan)
            if name in self._terms:
                of_all[moved] = self._terms[name][moved]
        return as_infos(terms, everyone)

    def _metrics(self, moved: BoolArray, everyone: BoolArray) -> dict[str, Any]:
        # Reuse the intervals computed for rewards and features, unless an environment has been reset since.
        intervals = self._intervals if moved.all() else self._stepper.intervals()
        if intervals is not None:
            return as_infos(interval_values(intervals), everyone)
        metrics: dict[str, Any] = {}
        for world in range(self.num_envs):
            metrics = self._add_info(metrics, interval_metrics(self._stepper.interval(world)), world)
        return metrics
