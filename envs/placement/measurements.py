"""Measurements of an episode's candidates, and the hidden system on which they are taken."""

from __future__ import annotations

import functools
import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.candidates import Candidates, best_candidates
from sysgym.emulator.accelerators.measurement import Background, TrueSystem, draw_system
from sysgym.emulator.accelerators.problem import PlacementProblem
from sysgym.emulator.accelerators.true_links import FlowTimes, draw_links
from sysgym.envs.placement.metrics import log_ratio
from sysgym.envs.placement.observation import IntArray, candidates_table
from sysgym.scenarios import PlacementScenario
from sysgym.scenarios.schema.placement_tables import Joint

FloatArray = NDArray[np.float64]

KEPT = 512
"""Number of hidden systems in the cache."""

_TRUTH, _NOISE, _ORDER, _RESIDUAL = range(4)
"""Independent random streams of an episode, so that observations reveal nothing about what is hidden."""


class Truth:
    """Hidden state of the environment, for oracles and pictures, not for agents.

    Args:
        hidden: What times come from: a system with hidden factors, or flows on hidden links.
        candidates: All candidates.
        order: Index of the candidate in each row of the observation.
        residual: Factor of each candidate's time, the default's last, [K + 1].
    """

    def __init__(
        self, hidden: TrueSystem | FlowTimes, candidates: Candidates, order: IntArray, residual: FloatArray
    ) -> None:
        """Store the arguments; times are computed lazily."""
        self.hidden = hidden
        self._candidates, self._order, self._residual = candidates, order, residual

    @cached_property
    def times_s(self) -> FloatArray:
        """Expected time of the candidate in each row, shape [K]."""
        if isinstance(self.hidden, TrueSystem):
            times_s = self.hidden.expected_times_s(self._candidates.times)
        else:
            everyone = [self._candidates[index] for index in range(len(self._candidates))]
            times_s = self.hidden.times_s(everyone).mean(axis=1)
        return np.asarray((times_s * self._residual[:-1])[self._order])

    @cached_property
    def default_time_s(self) -> float:
        """Expected time of the default."""
        if isinstance(self.hidden, TrueSystem):
            time_s = self.hidden.expected_times_s(self._candidates.default_times)
        else:
            time_s = self.hidden.times_s([self._candidates.default]).mean(axis=1)
        return float(time_s[0] * self._residual[-1])

    def measure(self, row: int, noise_log_sd: float, rng: np.random.Generator) -> float:
        """Return a measured time of the candidate in a row; its expectation is in :attr:`times_s`.

        Args:
            row: Row of the candidate.
            noise_log_sd: Standard deviation of the log of the noise, whose mean is 1.
            rng: Generator of others' traffic and noise.
        """
        index = int(self._order[row])
        if isinstance(self.hidden, TrueSystem):
            return self.hidden.measure(self._candidates.times, index, rng) * float(self._residual[index])
        states_s = self.hidden.times_s([self._candidates[index]])[0]
        time_s = float(states_s[rng.integers(len(states_s))] * self._residual[index])
        return time_s * math.exp(noise_log_sd * float(rng.standard_normal()) - 0.5 * noise_log_sd**2)


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
        joint = scenario.joint
        hidden = _hidden(problem, joint, table.algorithm, (episode_seed, _TRUTH))
        draws = _stream(episode_seed, _RESIDUAL).standard_normal(len(self.candidates) + 1)
        self.truth = Truth(hidden, self.candidates, self.order, np.exp(joint.residual_log_sd * draws))
        self._noise_log_sd = joint.noise_log_sd
        self.measured_s: list[list[float]] = [[] for _ in range(len(self.candidates))]
        self.n_taken = 0
        self.table = candidates_table(self.candidates, self.order, rows)
        self.default_nominal_s = float(self.candidates.default_times.nominal_s[0])
        self._noise = _stream(episode_seed, _NOISE)

    def measure(self, row: int) -> float:
        """Measure the candidate in a row; return its time."""
        time_s = self.truth.measure(row, self._noise_log_sd, self._noise)
        self.n_taken += 1
        times_s = self.measured_s[row]
        times_s.append(time_s)
        logs = [log_ratio(one_s, self.default_nominal_s) for one_s in times_s]
        sd = float(np.std(logs, ddof=1)) if len(logs) > 1 else 0.0
        self.table[row, -3:] = len(logs), sum(logs) / len(logs), sd
        return time_s


@functools.lru_cache(maxsize=KEPT)
def _hidden(
    problem: PlacementProblem, joint: Joint, algorithm: str, stream: tuple[int, int]
) -> TrueSystem | FlowTimes:
    rng = _stream(*stream)
    if joint.truth == "flows":
        return FlowTimes(problem, algorithm, draw_links(problem.hierarchy, joint, rng))
    return draw_system(
        problem.hierarchy.n_levels,
        rng,
        bandwidth_log_sd=joint.bandwidth_log_sd,
        collective_log_sd=joint.collective_log_sd,
        background=Background.beta(joint.background_share_mean, joint.background_share_sd),
        noise_log_sd=joint.noise_log_sd,
    )


def _stream(episode_seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([episode_seed, stream])
