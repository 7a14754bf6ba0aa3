"""Training run: its settings, and the checkpoints in its folder."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sysgym.agents.learned.arrays import write_tree
from sysgym.agents.learned.checkpoint import (
    Checkpoint,
    CheckpointMeta,
    installed_versions,
    write_checkpoint,
)
from sysgym.agents.learned.problems import Problem
from sysgym.agents.learned.training.algorithms import Algorithm
from sysgym.scenarios import Scenario
from sysgym.scenarios.errors import SysgymError

CHECKPOINT_FOLDER = "checkpoints"


@dataclass(frozen=True)
class Training:
    """Settings of a training run; made by :func:`train`.

    Attributes:
        algorithm: The learning algorithm.
        scenario: The scenario.
        problem: Learning problem of the scenario.
        seed: Seed of the run.
        n_envs: Number of parallel environments.
        hyper_parameters: Hyper-parameters set by the caller, in the form of checkpoints.
        folder: Output folder.
    """

    algorithm: Algorithm
    scenario: Scenario
    problem: Problem
    seed: int
    n_envs: int
    hyper_parameters: Mapping[str, Any]
    folder: Path

    def checkpoint_path(self, total_steps: int) -> Path:
        """Return the path of the checkpoint after a number of steps."""
        return self.folder / CHECKPOINT_FOLDER / f"step_{total_steps:09d}.zip"

    def save(self, model: Any, wall_s: float, returns: Iterable[float], *, in_rollout: bool) -> Path:
        """Write a checkpoint of the learner's complete state; return its path.

        Args:
            model: The learner, between two rollouts.
            wall_s: Time spent on the run.
            returns: Returns of the newest episodes, which are averaged in the learning curve.
            in_rollout: Whether the next rollout has begun and has drawn its exploration noise.
        """
        from sysgym.agents.learned.sets.modules import network_of
        from sysgym.agents.learned.training.learner import (
            drop_old_replay_buffers,
            save_replay_buffer,
            state_of,
        )

        meta = CheckpointMeta(
            agent=self.algorithm.name,
            env_id=self.scenario.env_id,
            scenario=self.scenario.resolved(),
            env_kwargs=dict(self.problem.env_kwargs),
            observation_index=self.problem.observation_index(),
            action_scale=self.problem.action_meaning(),
            total_steps=int(model.num_timesteps),
            wall_s=wall_s,
            seed=self.seed,
            n_envs=self.n_envs,
            hyper_parameters=dict(self.hyper_parameters),
            versions=trained_with(),
        )
        path = self.checkpoint_path(model.num_timesteps)
        # The buffer is written first, so that the newest checkpoint has one if the run is killed in between.
        save_replay_buffer(model, path)
        state = {**state_of(model), "in_rollout": in_rollout, "returns": list(returns)}
        write_checkpoint(path, meta, network_of(model), write_tree(state))
        drop_old_replay_buffers(path.parent)
        return path

    def check_same(self, checkpoint: Checkpoint) -> None:
        """Check that a checkpoint belongs to this training run.

        Raises:
            SysgymError: If the checkpoint's settings differ from those of the run.
        """
        meta = checkpoint.meta
        for what, got, expected in (
            ("agent", meta.agent, self.algorithm.name),
            ("scenario", meta.scenario, self.scenario.resolved()),
            ("environment", meta.env_kwargs, self.problem.env_kwargs),
            ("action scale", meta.action_scale["name"], self.problem.action_meaning()["name"]),
            ("hyper-parameters", meta.hyper_parameters, self.hyper_parameters),
            ("seed", meta.seed, self.seed),
            ("number of environments", meta.n_envs, self.n_envs),
        ):
            if got != expected:
                shown = meta.scenario_name if what == "scenario" else got
                raise SysgymError(
                    f"{checkpoint.path}: cannot resume, it was trained with a different {what}: {shown}; "
                    f"train into another folder, or without resume"
                )


def trained_with() -> dict[str, str]:
    """Return the versions of Python and of packages that are stored in a checkpoint."""
    packages = ("sysgym", "torch", "stable-baselines3", "gymnasium", "numpy", "numba")
    return {**installed_versions(packages), "python": platform.python_version()}
