"""Attacks on policies for which the best attack is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sysgym.agents.learned.deploy.quantize import int8_twin
from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.trust.attacks import ATTACKS, Pair, Tolerance
from sysgym.agents.learned.trust.bounds import Bounds
from tests.agents.learned.trust.policies import graph, linear, random_mlp


def bounds(size: int) -> Bounds:
    """Every number is off by 0.01 at most."""
    return Bounds.of("sysgym/DatacenterCC-v0", [f"queue[p{number}] (1)" for number in range(size)])


# An output of 2 is the whole range: 0.01 of the first feature moves both by 0.02 of it, 0.01 of the second
# one the twin by 0.04.
BLIND = Pair(
    graph(linear([4.0, 0.0])),
    graph(linear([4.0, 8.0])),
    bounds(2),
    Tolerance(same=0.005, shifted=0.01),
    c=2.0,
)


@pytest.fixture
def points() -> np.ndarray:
    return np.random.default_rng(3).uniform(0.02, 0.06, (50, 2)).astype(np.float32)


def test_only_diva_moves_the_twin_alone(points: np.ndarray) -> None:
    found = {name: BLIND.attack(name, points, np.random.default_rng(0)) for name in ATTACKS}
    assert found["diva"].evades.all()
    assert not found["pgd"].evades.all()
    assert found["pgd"].twin.mean() > found["diva"].twin.mean()
    assert found["diva"].original.mean() < 0.5 * found["pgd"].original.mean()


def test_what_counts_is_what_the_tolerance_says(points: np.ndarray) -> None:
    for name in ATTACKS:
        found = BLIND.attack(name, points, np.random.default_rng(0))
        assert np.array_equal(found.evades, (found.original <= 0.005) & (found.twin > 0.01))
    strict = replace(BLIND, tolerance=Tolerance(same=0.005, shifted=0.2))
    assert not strict.attack("diva", points, np.random.default_rng(0)).evades.any()


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_stay_in_the_box_and_in_the_space(name: str) -> None:
    network = random_mlp(2, (6, 16, 3), ("tanh", "identity"))
    twin = int8_twin(network)
    assert isinstance(twin, Mlp)
    pair = Pair(graph(network), graph(twin), bounds(6), Tolerance())
    points = np.random.default_rng(1).random((40, 6), dtype=np.float32)
    points[:, 0], points[:, 1] = 0.0, 1.0
    found = pair.attack(name, points, np.random.default_rng(0)).inputs
    assert np.abs(found - points).max() <= 0.01 + 1e-6
    assert found.min() >= 0.0
    assert found.max() <= 1.0
    assert (found != points).any(axis=1).all()


@pytest.mark.parametrize("discrete", [False, True])
def test_a_policy_cannot_be_told_from_itself(discrete: bool) -> None:
    one = graph(random_mlp(4, (5, 8, 2), ("relu", "identity"), 3.0), discrete=discrete)
    pair = Pair(one, one, bounds(5), Tolerance())
    points = np.random.default_rng(1).random((30, 5), dtype=np.float32)
    assert pair.agree(points).all()
    for name in ATTACKS:
        found = pair.attack(name, points, np.random.default_rng(0))
        assert np.array_equal(found.original, found.twin)
        assert not found.evades.any()


def test_a_choice_is_flipped_for_the_twin_alone() -> None:
    # The original chooses by the first feature; the twin also looks at the second one.
    original = graph(linear([1.0, 0.0], [0.0, 0.0]), discrete=True)
    twin = graph(linear([1.0, -8.0], [0.0, 0.0]), discrete=True)
    pair = Pair(original, twin, bounds(2), Tolerance())
    points = np.array([[0.05, 0.0], [0.05, 0.001], [0.5, 0.0]], np.float32)
    assert pair.agree(points).all()
    found = pair.attack("diva", points, np.random.default_rng(0))
    assert found.evades.tolist() == [True, True, False], "the last one is too far from the other choice"
    assert found.original.tolist() == [0.0, 0.0, 0.0]
    assert found.twin.tolist() == [1.0, 1.0, 0.0]
