"""Hidden bandwidths, background traffic and noise: measurements are unbiased, expectations exact."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.accelerators.measurement import Background, TrueSystem, draw_system
from sysgym.emulator.accelerators.programs import COLLECTIVES
from sysgym.emulator.accelerators.step_times import StepTimes
from sysgym.scenarios.errors import ScenarioError

# Two operations of two steps on two levels: AR then RS; AG alone.
TIMES = StepTimes(
    link_s=np.array([[[3.0, 1.0], [0.5, 2.0]], [[4.0, 3.9], [0.0, 0.0]]]),
    collective=np.array([[0, 1], [2, 0]]),
    latency_s=np.array([0.25, 0.5]),
)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.02, 0.9), st.floats(0.05, 0.95))
def test_the_background_has_the_moments_of_a_beta_distribution(mean: float, share_of_most: float) -> None:
    sd = share_of_most * np.sqrt(mean * (1.0 - mean))
    background = Background.beta(mean, sd)
    concentration = mean * (1.0 - mean) / sd**2 - 1.0
    a, b = mean * concentration, (1.0 - mean) * concentration
    assert background.probability.sum() == pytest.approx(1.0)
    assert background.share.min() >= 0.0
    assert background.share.max() < 1.0
    for power in range(1, 8):
        expected = np.prod([(a + index) / (a + b + index) for index in range(power)])
        assert background.share**power @ background.probability == pytest.approx(expected, rel=1e-9)


def test_a_background_that_never_changes() -> None:
    background = Background.beta(0.2, 0.0)
    assert (background.share.tolist(), background.probability.tolist()) == ([0.2], [1.0])


def test_a_background_that_cannot_be_is_an_error() -> None:
    with pytest.raises(ScenarioError, match=r"less than 0\.3"):
        Background.beta(0.1, 0.3)


def test_expected_times_by_hand() -> None:
    """Every combination of backgrounds, weighted; steps wait for the slower level."""
    background = Background(np.array([0.0, 0.5]), np.array([0.75, 0.25]))
    collective = np.ones(len(COLLECTIVES))
    collective[1], collective[2] = 0.5, 2.0
    system = TrueSystem(np.array([2.0, 1.0]), collective, background, 0.1)
    expected = np.zeros(2)
    for (first, p), (second, q) in itertools.product(zip((0.0, 0.5), (0.75, 0.25), strict=True), repeat=2):
        slow = 1 / (2.0 * (1 - first)), 1 / (1 - second)
        one = max(3.0 * slow[0], 1.0 * slow[1]) + max(0.5 * slow[0], 2.0 * slow[1]) / 0.5 + 0.25
        two = max(4.0 * slow[0], 3.9 * slow[1]) / 2.0 + 0.5
        expected += p * q * np.array([one, two])
    assert system.expected_times_s(TIMES) == pytest.approx(expected)


@pytest.mark.parametrize("index", [0, 1])
def test_measurements_are_unbiased(index: int) -> None:
    rng = np.random.default_rng(5)
    system = draw_system(
        2,
        rng,
        bandwidth_log_sd=0.4,
        collective_log_sd=0.3,
        background=Background.beta(0.2, 0.2),
        noise_log_sd=0.2,
    )
    measured = np.array([system.measure(TIMES, index, rng) for _ in range(6000)])
    error = measured.mean() - system.expected_times_s(TIMES)[index]
    assert abs(error) < 4.0 * measured.std() / np.sqrt(len(measured))
    # Background alone, and noise on top of it.
    assert np.log(measured).std() > 0.2


def test_hidden_factors_are_drawn_as_asked() -> None:
    rng = np.random.default_rng(1)
    quiet = Background.beta(0.0, 0.0)
    drawn = [
        draw_system(3, rng, bandwidth_log_sd=0.4, collective_log_sd=0.3, background=quiet, noise_log_sd=0.0)
        for _ in range(2000)
    ]
    for factors, sd, n in (
        (np.log([one.level_factor for one in drawn]), 0.4, 3),
        (np.log([one.collective_factor for one in drawn]), 0.3, len(COLLECTIVES)),
    ):
        assert factors.shape == (2000, n)
        assert factors.std() == pytest.approx(sd, rel=0.05)
        assert np.median(factors) == pytest.approx(0.0, abs=0.03)
        # Each on its own.
        assert np.abs(np.corrcoef(factors.T) - np.eye(n)).max() < 0.08
