"""Search for a linear policy on the path features of each host, by CMA-ES (Hansen, arXiv:1604.00772).

Linear policies found without gradients can match networks trained with gradients (Mania, Guy, Recht, Simple
random search provides a competitive approach to reinforcement learning, NeurIPS 2018). In this problem there
is another advantage: candidates play without exploration noise. The noise of many hosts causes queues, so a
policy trained with noise leaves links underused, which is unnecessary when it plays without noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.checkpoint import CheckpointMeta, installed_versions, write_checkpoint
from sysgym.agents.learned.congestion.evolution import (
    EvolutionSearch,
    ask,
    begin_or_resume,
    check_positive,
    checked_scenario,
    new_distribution,
    run_generations,
)
from sysgym.agents.learned.congestion.hosts.linear import linear_net, linear_rates
from sysgym.agents.learned.congestion.hosts.rows import HostRows
from sysgym.agents.learned.training.train import FINAL
from sysgym.envs.action_scale import ActionScale
from sysgym.envs.congestion.datacenter.observation import PATH_FEATURES
from sysgym.scenarios import CongestionScenario

AGENT = "cma_paths"

EPISODES_A_GENERATION = 4
EPISODE_STEPS = 200
"""Largest number of steps of an episode in a generation; enough for a policy that fills queues slowly."""
EPISODES_A_VALIDATION = 8
"""Number of episodes of full length in a validation."""
GENERATIONS_A_VALIDATION = 10

_FAIR_RATE = 1 + PATH_FEATURES.index("fair_rate")
"""Index of the fair rate in the row of a host, which begins with a 1."""

Array = NDArray[np.float64]


class Worlds:
    """Environments of one scenario, each played by its own linear policy.

    Args:
        scenario: The scenario.
        split: Split of the episodes.
        n: Number of environments.

    Attributes:
        episode_steps: Number of decisions in an episode.
        index: Name of every value of an observation.
        scale: Linear scale of the rates.
        rows: Rearrangement of observations by hosts.
    """

    def __init__(self, scenario: CongestionScenario, split: str, n: int) -> None:
        self.episode_steps = scenario.control.episode_steps
        made: Any = gym.make_vec(
            scenario.env_id,
            num_envs=n,
            vectorization_mode="vector_entry_point",
            scenario=scenario,
            split=split,
            features=list(PATH_FEATURES),
            action_scale="native",
        )
        self._worlds = made
        first = made.envs[0].unwrapped
        self.index: list[str] = first.observation_index
        self.scale = ActionScale("linear", *first.native_bounds)
        self.rows = HostRows(self.index)

    def returns(self, weights: Array, seeds: list[int]) -> Array:
        """Play an episode in every environment and return the mean reward of its steps, shape (n,).

        Args:
            weights: Weights of the policy of each environment, shape (n, row_size).
            seeds: Seed of each environment.
        """
        worlds, shape = self._worlds, self.rows.shape
        worlds.reset(seed=seeds)
        rewards, everyone = np.zeros(len(seeds)), np.ones(len(seeds), np.bool_)
        for _ in range(self.episode_steps):
            rows = self.rows(worlds.observations()).reshape(len(seeds), shape.n_rows, shape.row_size)
            rates = np.clip(linear_rates(weights, rows), self.scale.low, self.scale.high)
            rewards += worlds.advance(rates.astype(np.float32), everyone)[0]
        return rewards / self.episode_steps

    def close(self) -> None:
        """Close the environments."""
        self._worlds.close()


@dataclass
class Search(EvolutionSearch):
    """State of a search.

    Attributes:
        evolution: The distribution of weights.
        scenarios: The scenario, as a list of one.
        seed: Seed of the random draws.
        first_fraction: Ratio of a host's rate to its fair rate in the first policy.
        sigma: Width of the first distribution.
        best: Mean of the distribution that was best on the validation split.
        best_loss: Loss of ``best`` on the validation split: the negative mean reward of a step.
        generations: Number of generations so far.
        steps: Decision intervals simulated, excluding those of validations.
        wall_s: Time so far, s.
    """

    evolution: Any
    scenarios: list[CongestionScenario]
    seed: int
    first_fraction: float
    sigma: float
    best: Array
    best_loss: float = math.inf
    generations: int = 0
    steps: int = 0
    wall_s: float = 0.0

    @classmethod
    def new(cls, scenario: CongestionScenario, seed: int, first_fraction: float, sigma: float) -> Search:
        """Return a search around a fraction of the fair rates."""
        first = np.zeros(1 + len(PATH_FEATURES))
        first[_FAIR_RATE] = first_fraction
        return cls(new_distribution(first, sigma, seed), [scenario], seed, first_fraction, sigma, first)

    def asked(self) -> dict[str, Any]:
        """Return the settings that a search must share with this one to resume it."""
        return {"scenario": self.scenarios[0].sha256(), **self.chosen(), "seed": self.seed}

    def chosen(self) -> dict[str, Any]:
        """Return the hyper-parameters."""
        return {"first_fraction": self.first_fraction, "sigma": self.sigma}

    def generation(self, worlds: Worlds) -> float:
        """Play one generation and update the distribution; return the mean loss of the candidates.

        All candidates play the same episodes.
        """
        candidates = ask(self.evolution, self.seed, self.generations)
        drawn = np.random.default_rng([self.seed, self.generations]).integers(0, 2**31, EPISODES_A_GENERATION)
        n = len(candidates)
        weights = np.repeat(np.array(candidates), EPISODES_A_GENERATION, axis=0)
        losses = -worlds.returns(weights, drawn.tolist() * n).reshape(n, EPISODES_A_GENERATION).mean(axis=1)
        self.evolution.tell(list(zip(candidates, losses.tolist(), strict=True)))
        self.generations += 1
        self.steps += n * EPISODES_A_GENERATION * worlds.episode_steps
        return float(losses.mean())

    def validate(self, worlds: Worlds) -> float:
        """Evaluate the mean of the distribution on the validation split; store it if it is the best one."""
        weights = np.repeat(self.evolution.mean[None], EPISODES_A_VALIDATION, axis=0)
        return self.keep_if_best(-float(worlds.returns(weights, list(range(EPISODES_A_VALIDATION))).mean()))


def train_cma_paths(
    scenario: CongestionScenario,
    *,
    total_steps: int,
    out: str | PathLike[str],
    seed: int = 0,
    resume: bool = False,
    progress: Callable[[int], None] | None = None,
    first_fraction: float = 0.9,
    sigma: float = 0.03,
) -> Path:
    """Search for a linear policy on the train split of a scenario.

    The rate of a host is a weighted sum of 1, the longest queueing delay, the most marks and the highest
    utilization of the switch ports on its paths, and its fair rate (``PATH_FEATURES``). The fitness is the
    scenario's reward. Neither includes packets that wait at the host itself. The same arguments on the same
    machine give the same policy, with or without interruption.

    Args:
        scenario: The scenario.
        total_steps: Decision intervals to simulate; rounded up to whole generations.
        out: Folder of the run.
        seed: Seed of the search.
        resume: Whether to resume an interrupted search in the folder.
        progress: Callback with the number of intervals so far.
        first_fraction: Ratio of a host's rate to its fair rate in the first policy.
        sigma: Width of the first distribution.

    Returns:
        Path of the checkpoint.

    Raises:
        MissingExtra: If cmaes is not installed.
        SysgymError: If the scenario is not for DatacenterCC, the fraction or the width is not positive, or
            the folder holds another search.
    """
    folder, checked = Path(out), checked_scenario(scenario, AGENT)
    check_positive("first_fraction", first_fraction, 0.9)
    check_positive("sigma", sigma, 0.03)
    search = Search.new(checked, seed, float(first_fraction), float(sigma))
    begin_or_resume(search, folder, resume)
    short = min(EPISODE_STEPS, checked.control.episode_steps)
    n_candidates = search.evolution.population_size
    lessons = Worlds(
        checked.with_overrides({"control.episode_steps": short}),
        "train",
        n_candidates * EPISODES_A_GENERATION,
    )
    exams = Worlds(checked, "validation", EPISODES_A_VALIDATION)
    try:
        run_generations(
            search,
            folder,
            total_steps,
            GENERATIONS_A_VALIDATION,
            lambda: search.generation(lessons),
            lambda: search.validate(exams),
            progress,
        )
    finally:
        lessons.close()
        exams.close()
    return _write(search, exams, folder / FINAL)


def _write(search: Search, worlds: Worlds, path: Path) -> Path:
    """Write the policy that a search has found, and return the path of the checkpoint."""
    scenario = search.scenarios[0]
    meta = CheckpointMeta(
        agent=AGENT,
        env_id=scenario.env_id,
        scenario=scenario.resolved(),
        env_kwargs={"features": list(PATH_FEATURES), "history": 1},
        observation_index=worlds.index,
        action_scale=asdict(worlds.scale),
        total_steps=search.steps,
        wall_s=search.wall_s,
        seed=search.seed,
        n_envs=search.evolution.population_size * EPISODES_A_GENERATION,
        hyper_parameters=search.chosen(),
        versions=installed_versions(("sysgym", "gymnasium", "numpy", "numba", "cmaes")),
    )
    write_checkpoint(path, meta, linear_net(search.best, worlds.rows.shape, worlds.scale), b"")
    return path
