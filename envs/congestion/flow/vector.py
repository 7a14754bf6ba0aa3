"""Vector environment of ``sysgym/FlowCC-v0``."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from sysgym.envs.congestion.flow.flow_cc import FlowCC
from sysgym.envs.congestion.flow.metrics import metrics_of_many
from sysgym.envs.congestion.stepping.protocol import ACTS
from sysgym.envs.congestion.vector import WorldVector, as_infos, check_arguments

Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class FlowCCVector(WorldVector):
    """Environments of one scenario, stepped together, each with its own agent's flow.

    Args:
        num_envs: Number of environments.
        threads: Number of threads; None: one per core available to the process.
        autoreset_mode: When environments are reset; see :class:`WorldVector`.
        **arguments: Arguments of :class:`FlowCC`, the same for every environment.

    Raises:
        ValueError: If ``num_envs`` or ``threads`` is less than 1, or there is no such mode.
        SysgymError: If the backend is not the simulator.
    """

    envs: list[FlowCC]

    def __init__(
        self,
        num_envs: int = 1,
        threads: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **arguments: Any,
    ) -> None:
        check_arguments(num_envs, threads, arguments)
        envs = [FlowCC(**arguments) for _ in range(num_envs)]
        self._stepper = envs[0]._new_stepper(num_envs)
        super().__init__(envs, self._stepper, threads, autoreset_mode)
        self._share()

    def _share(self) -> None:
        for world, env in enumerate(self.envs):
            env.sender.stepper, env.sender.row = self._stepper, world

    def observations(self) -> Array:
        """Return the newest observations, shape (num_envs, n); they change with the next step."""
        return self._stepper.features

    def _take(self, actions: FloatArray, moving: BoolArray) -> None:
        self._stepper.rows["action"] = self.envs[0].actions.native_numbers(actions[:, 0])
        self._stepper.rows["stage"][moving] = ACTS

    def _conclude(self, moved: BoolArray) -> FloatArray:
        if self.render_mode is not None:
            for world in np.flatnonzero(moved).tolist():
                recorder = self.envs[world].recorder
                assert recorder is not None
                recorder.record(self._stepper.intervals[world])
        terms = self._stepper.terms
        rewards = np.zeros(self.num_envs)
        for place in range(len(self.envs[0].reward.terms)):
            rewards += terms[:, place]
        return rewards

    def _infos(self, moved: BoolArray) -> dict[str, Any]:
        rows, everyone = self._stepper.rows, np.ones(self.num_envs, dtype=np.bool_)
        names = self.envs[0].reward.terms
        paid = np.where(moved[:, np.newaxis], self._stepper.terms, 0.0)
        terms = {name: paid[:, place] for place, name in enumerate(names)}
        infos: dict[str, Any] = {
            "metrics": as_infos(metrics_of_many(self._stepper.intervals), everyone),
            "_metrics": everyone.copy(),
            **as_infos({"episode_seed": rows["episode_seed"], "time_s": rows["now_s"]}, everyone),
            "reward_terms": as_infos(terms, everyone),
            "_reward_terms": everyone.copy(),
        }
        return infos
