"""Measurements of an episode's candidates, and the hidden system on which they are taken."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.candidates import Candidates, best_candidates
from sysgym.emulator.accelerators.measurement import Background, TrueSystem, draw_system
from sysgym.emulator.accelerators.problem import PlacementProblem
from sysgym.envs.placement.metrics import log_ratio
from sysgym.envs.placement.observation import IntArray, candidates_table
from sysgym.scenarios import PlacementScenario
from sysgym.scenarios.schema.placement import Joint

_TRUTH, _NOISE, _ORDER = range(3)
"""Independent random streams of an episode, so that observations reveal nothing about hidden factors."""


class Truth:
    """Hidden state of the environment, for oracles and pictures, not for agents.

    Args:
        system: System on which measurements are taken.
        candidates: All candidates.
        order: Index of the candidate in each row of the observation.
    """

    def __init__(self, system: TrueSystem, candidates: Candidates, order: IntArray) -> None:
        """Store the arguments; times are computed lazily."""
        self.system = system
        self._candidates, self._order = candidates, order

    @cached_property
    def times_s(self) -> NDArray[np.float64]:
        """Expected time of the candidate in each row, shape [K]."""
        return self.system.expected_times_s(self._candidates.times)[self._order]

    @cached_property
    def default_time_s(self) -> float:
        """Expected time of the default."""
        return float(self.system.expected_times_s(self._candidates.default_times)[0])


class Measurements:
    """Candidates of an episode in rows, and what measuring them has shown.

    Args:
        problem: The problem.
        scenario: The scenario as drawn for this episode.
        rows: Largest number of candidates.
        episode_seed: Seed of the episode.

    Attributes:
        candidates: The candidates, by nominal time.
        order: Index of the candidate in each row.
        truth: Hidden state.
        measured_s: Measured times of the candidate in each row.
        n_taken: Number of measurements taken.
        table: What an agent observes of the candidates, a row for each.
        default_nominal_s: Nominal time of the default.
    """

    def __init__(
        self, problem: PlacementProblem, scenario: PlacementScenario, rows: int, episode_seed: int
    ) -> None:
        table = scenario.problem
        self.candidates = best_candidates(problem, rows, table.algorithm, table.program_steps)
        self.order: IntArray = _stream(episode_seed, _ORDER).permutation(len(self.candidates))
        system = _hidden_system(problem, scenario.joint, episode_seed)
        self.truth = Truth(system, self.candidates, self.order)
        self.measured_s: list[list[float]] = [[] for _ in range(len(self.candidates))]
        self.n_taken = 0
        self.table = candidates_table(self.candidates, self.order, rows)
        self.default_nominal_s = float(self.candidates.default_times.nominal_s[0])
        self._noise = _stream(episode_seed, _NOISE)

    def measure(self, row: int) -> float:
        """Measure the candidate in a row; return its time."""
        time_s = self.truth.system.measure(self.candidates.times, int(self.order[row]), self._noise)
        self.n_taken += 1
        times_s = self.measured_s[row]
        times_s.append(time_s)
        logs = [log_ratio(one_s, self.default_nominal_s) for one_s in times_s]
        sd = float(np.std(logs, ddof=1)) if len(logs) > 1 else 0.0
        self.table[row, -3:] = len(logs), sum(logs) / len(logs), sd
        return time_s


def _hidden_system(problem: PlacementProblem, joint: Joint, episode_seed: int) -> TrueSystem:
    return draw_system(
        problem.hierarchy.n_levels,
        _stream(episode_seed, _TRUTH),
        bandwidth_log_sd=joint.bandwidth_log_sd,
        collective_log_sd=joint.collective_log_sd,
        background=Background.beta(joint.background_share_mean, joint.background_share_sd),
        noise_log_sd=joint.noise_log_sd,
    )


def _stream(episode_seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([episode_seed, stream])
