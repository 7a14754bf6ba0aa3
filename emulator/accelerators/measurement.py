"""True systems, which differ from their data sheets: hidden bandwidths, and measurements under load.

The bandwidth that a collective reaches on the links of a level is the nominal one times a factor of the level
times a factor of the collective; both are hidden. Other jobs take a share of every level's links, different
at each measurement, and timers are noisy. The cost of an operation is its expected time; a measurement is one
draw of it. All of this is our convention.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sysgym.emulator.accelerators.programs import COLLECTIVES
from sysgym.emulator.accelerators.step_times import FloatArray, StepTimes
from sysgym.scenarios.errors import ScenarioError

N_NODES = 4
"""Values of a level's background: enough to match a beta distribution's first seven moments."""


@dataclass(frozen=True, eq=False)
class Background:
    """The share of a level's bandwidth that other traffic takes, as a discrete distribution.

    Attributes:
        share: Shares from 0 to below 1, [n].
        probability: Probability of each share, [n]; the sum is 1.
    """

    share: FloatArray
    probability: FloatArray

    @classmethod
    @functools.lru_cache(maxsize=64)
    def beta(cls, mean: float, sd: float, n_nodes: int = N_NODES) -> Background:
        """Return the Gaussian quadrature of the beta distribution of this mean and standard deviation.

        Its first ``2 * n_nodes - 1`` moments are those of the distribution. Draws are made from the same few
        values, so that an average over them is the exact expectation of a draw.

        Args:
            mean: Mean share, from 0 to below 1.
            sd: Standard deviation; 0 for a constant share.
            n_nodes: Number of values.

        Raises:
            ScenarioError: No distribution on the shares from 0 to 1 has this mean and standard deviation.
        """
        if sd == 0.0:
            return cls(np.array([mean]), np.array([1.0]))
        # The variance of a variable between 0 and 1 is less than mean (1 - mean).
        concentration = mean * (1.0 - mean) / sd**2 - 1.0
        if concentration < 1e-6:
            expected = (
                f"less than {np.sqrt(mean * (1.0 - mean)):.3g}, the most that a mean of {mean:g} allows"
            )
            raise ScenarioError("<background>", "background_share_sd", sd, expected)
        return cls(*_beta_quadrature(mean * concentration, (1.0 - mean) * concentration, n_nodes))


def _beta_quadrature(a: float, b: float, n: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of the Gaussian quadrature of a beta distribution, [n] each.

    Golub and Welsch, Calculation of Gauss Quadrature Rules, Mathematics of Computation 23, 1969: eigenvalues
    of the matrix of the recurrence of the orthogonal polynomials, which are Jacobi's with exponents
    ``alpha = b - 1`` and ``beta = a - 1``.
    """
    alpha, beta = b - 1.0, a - 1.0
    matrix = np.zeros((n, n))
    matrix[0, 0] = (beta - alpha) / (alpha + beta + 2.0)
    for k in range(1, n):
        double = 2 * k + alpha + beta
        matrix[k, k] = (beta**2 - alpha**2) / (double * (double + 2.0))
        # The factors that are 0 / 0 in the first row where alpha + beta is -1 have been cancelled.
        last = 1.0 if k == 1 else (k + alpha + beta) / (double - 1.0)
        square = 4.0 * k * (k + alpha) * (k + beta) * last / (double**2 * (double + 1.0))
        matrix[k, k - 1] = matrix[k - 1, k] = math.sqrt(square)
    nodes, vectors = np.linalg.eigh(matrix)
    # Rounding may put the outermost nodes outside by the last bit.
    share = np.clip(0.5 * (1.0 + nodes), 0.0, 1.0 - 1e-12)
    return np.asarray(share), np.asarray(vectors[0] ** 2)


@dataclass(frozen=True, eq=False)
class TrueSystem:
    """A system on which measurements are taken.

    Attributes:
        level_factor: True over nominal bandwidth of each level's links, [n_levels].
        collective_factor: Share of it that each collective reaches, which may exceed 1, [n_collectives].
        background: Traffic of others on every level's links, independent between levels.
        noise_log_sd: Standard deviation of the log of a measurement's noise, whose mean is 1.
    """

    level_factor: FloatArray
    collective_factor: FloatArray
    background: Background
    noise_log_sd: float

    def expected_times_s(self, times: StepTimes) -> FloatArray:
        """Return the exact expected time of each operation over all backgrounds, [K]."""
        slowdown, probability = self._loads
        return np.asarray(times.times_s(slowdown, self._collective_slowdown) @ probability)

    def measure(self, times: StepTimes, index: int, rng: np.random.Generator) -> float:
        """Return a measured time of one operation; its expectation is that of :meth:`expected_times_s`.

        Args:
            times: The operations.
            index: Index of the operation.
            rng: Generator of background and noise.
        """
        n_levels = len(self.level_factor)
        share = rng.choice(self.background.share, n_levels, p=self.background.probability)
        slowdown = 1.0 / (self.level_factor * (1.0 - share))
        sd = self.noise_log_sd
        noise = math.exp(sd * float(rng.standard_normal()) - 0.5 * sd**2)
        one = times[index : index + 1]
        return float(one.times_s(slowdown[None, :], self._collective_slowdown)[0, 0]) * noise

    @property
    def _collective_slowdown(self) -> FloatArray:
        return np.asarray(1.0 / self.collective_factor[None, :])

    @cached_property
    def _loads(self) -> tuple[FloatArray, FloatArray]:
        """Slowdown of every level under each combination of background, [n, n_levels], and probabilities."""
        share, probability = self.background.share, self.background.probability
        n_levels = len(self.level_factor)
        index = np.indices((len(share),) * n_levels).reshape(n_levels, -1)
        slowdown = 1.0 / (self.level_factor[:, None] * (1.0 - share[index]))
        return slowdown.T, np.asarray(probability[index].prod(axis=0))


def draw_system(
    n_levels: int,
    rng: np.random.Generator,
    *,
    bandwidth_log_sd: float,
    collective_log_sd: float,
    background: Background,
    noise_log_sd: float,
) -> TrueSystem:
    """Draw the hidden properties of a system.

    Args:
        n_levels: Levels of the hierarchy.
        rng: Generator of the factors.
        bandwidth_log_sd: Standard deviation of the log of a level's factor; its median is 1.
        collective_log_sd: The same of a collective's factor.
        background: Traffic of others.
        noise_log_sd: Standard deviation of the log of a measurement's noise.
    """
    level = np.exp(bandwidth_log_sd * rng.standard_normal(n_levels))
    collective = np.exp(collective_log_sd * rng.standard_normal(len(COLLECTIVES)))
    return TrueSystem(np.asarray(level), np.asarray(collective), background, noise_log_sd)
