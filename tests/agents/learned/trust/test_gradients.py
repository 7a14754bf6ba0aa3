"""Gradients agree with finite differences for every kind of network."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.agents.learned.deploy.quantize import int8_twin
from sysgym.agents.learned.sets.network import SetNet, SetShape
from sysgym.agents.learned.trust import gradients
from sysgym.agents.learned.trust.gradients import _differences, input_gradient
from tests.agents.learned.trust.policies import linear, random_mlp


@given(
    seed=st.integers(0, 10_000),
    sizes=st.lists(st.integers(1, 12), min_size=2, max_size=4),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_plain_layers_are_differentiated_exactly(seed: int, sizes: list[int], data: st.DataObject) -> None:
    kinds = [data.draw(st.sampled_from(("tanh", "identity"))) for _ in sizes[1:]]
    network = random_mlp(seed, sizes, kinds)
    rng = np.random.default_rng(seed)
    points = rng.random((5, sizes[0]), dtype=np.float32)
    weights = rng.normal(size=(5, sizes[-1]))
    for one in (network, int8_twin(network)):
        expected = _differences(one, points, weights)
        assert np.allclose(input_gradient(one, points, weights), expected, atol=0.02)


def test_differences_of_many_points_are_found_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    network = random_mlp(5, (7, 9, 3), ("tanh", "identity"))
    rng = np.random.default_rng(5)
    points, weights = rng.random((6, 7), dtype=np.float32), rng.normal(size=(6, 3))
    whole = gradients._differences(network, points, weights)
    monkeypatch.setattr(gradients, "ROWS_AT_ONCE", 36)  # three columns at a time
    assert np.allclose(gradients._differences(network, points, weights), whole, atol=1e-3)
    assert np.allclose(input_gradient(network, points, weights), whole, atol=0.02)


def test_a_relu_that_is_off_passes_nothing() -> None:
    network = random_mlp(1, (3, 6, 2), ("relu", "identity"))
    points = np.random.default_rng(1).random((4, 3), dtype=np.float32)
    hidden = points @ network.weights[0].T + network.biases[0]
    expected = (network.weights[1][0] * (hidden > 0.0)) @ network.weights[0]
    weights = np.tile([1.0, 0.0], (4, 1))
    assert np.allclose(input_gradient(network, points, weights), expected, atol=1e-6)


def test_a_network_over_sets_is_differentiated_by_differences() -> None:
    shape = SetShape(n_rows=2, row_size=2, context_size=1, heads=1)
    code, score = linear([0.0, 1.0, 1.0]), linear([1.0, 0.0, 0.0])
    network = SetNet(shape, code, score)
    # Rows exist; the score of each is its second number and the context.
    points = np.array([[1.0, 0.3, 1.0, 0.6, 0.2]], np.float32)
    found = input_gradient(network, points, np.array([[1.0, 0.0]]))
    assert np.allclose(found[0, [1, 3, 4]], [1.0, 0.0, 1.0], atol=0.01)
