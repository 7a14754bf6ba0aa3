"""Gradients of a network with respect to its input, without torch: exact or by finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.sets.network import Network

Array = NDArray[np.float32]

DIFFERENCE = 1e-3
"""Step of finite differences. It is below the cube root of float32's precision, 5e-3, because features are
often below 0.1."""


ROWS_AT_ONCE = 4096
"""Number of rows in one evaluation of a network for finite differences."""


def input_gradient(network: Network, observations: NDArray[Any], weights: NDArray[Any]) -> Array:
    """Return the gradient of a weighted sum of the outputs.

    The gradient is exact for plain networks, and by finite differences for others. Quantised weights are
    constants, so a quantised network has an ordinary gradient.

    Args:
        network: The network.
        observations: Inputs of the network, shape (n, n_inputs).
        weights: Weights of the outputs for each observation, shape (n, n_outputs).

    Returns:
        Shape (n, n_inputs).
    """
    points: Array = np.asarray(observations, dtype=np.float32)
    if isinstance(network, Mlp):
        return _back(network, points, np.asarray(weights, dtype=np.float32))
    return _differences(network, points, np.asarray(weights, dtype=np.float64))


def _back(mlp: Mlp, points: Array, gradient: Array) -> Array:
    outputs = mlp.layer_outputs(points)
    for weight, activation, output in zip(
        reversed(mlp.weights), reversed(mlp.activations), reversed(outputs), strict=True
    ):
        if activation == "tanh":
            gradient = gradient * (1.0 - output * output)
        elif activation == "relu":
            gradient = gradient * (output > 0.0)
        gradient = gradient @ weight
    return gradient


def _differences(network: Network, points: Array, weights: NDArray[np.float64]) -> Array:
    n, size = points.shape
    gradient = np.empty_like(points)
    # Several columns are evaluated at once, because a few rows cost as much as one.
    together = max(1, ROWS_AT_ONCE // (2 * n))
    for first in range(0, size, together):
        columns = np.arange(first, min(first + together, size))
        moved = np.tile(points, (2, len(columns), 1, 1))
        spans = np.empty((len(columns), n))
        for place, column in enumerate(columns.tolist()):
            moved[0, place, :, column] += np.float32(DIFFERENCE)
            moved[1, place, :, column] -= np.float32(DIFFERENCE)
            # The actual step in float32 differs from the requested one.
            spans[place] = moved[0, place, :, column].astype(np.float64) - moved[1, place, :, column]
        output = network(moved.reshape(-1, size)).reshape(2, len(columns), n, -1).astype(np.float64)
        gradient[:, columns] = (((output[0] - output[1]) * weights).sum(axis=2) / spans).T
    return gradient
