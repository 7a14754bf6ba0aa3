"""Gradients of a network by its input, without torch: exact for plain layers, by differences elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.set_net import Network

Array = NDArray[np.float32]

DIFFERENCE = 1e-3
"""Step of differences: the cube root of float32's precision is 5e-3, but features are often below 0.1."""


def input_gradient(network: Network, observations: NDArray[Any], weights: NDArray[Any]) -> Array:
    """Return the gradient of a weighted sum of the outputs.

    Weights rounded to 8 bits are constants: a quantised twin has a gradient like any other network.

    Args:
        network: What is differentiated.
        observations: Where, shape (n, n_inputs).
        weights: Of the outputs, for each observation, shape (n, n_outputs).

    Returns:
        Shape (n, n_inputs).
    """
    points: Array = np.asarray(observations, dtype=np.float32)
    if isinstance(network, Mlp):
        return _back(network, points, np.asarray(weights, dtype=np.float32))
    return _differences(network, points, np.asarray(weights, dtype=np.float64))


def _back(mlp: Mlp, values: Array, gradient: Array) -> Array:
    outputs = []
    for weight, bias, activation in zip(mlp.weights, mlp.biases, mlp.activations, strict=True):
        values = values @ weight.T + bias
        if activation == "tanh":
            values = np.tanh(values)
        elif activation == "relu":
            values = np.maximum(values, np.float32(0.0))
        outputs.append(values)
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
    gradient = np.empty_like(points)
    for column in range(points.shape[1]):
        up, down = points.copy(), points.copy()
        up[:, column] += DIFFERENCE
        down[:, column] -= DIFFERENCE
        change = network(up).astype(np.float64) - network(down)
        # What was added is not quite what was asked for, in float32.
        span = up[:, column].astype(np.float64) - down[:, column]
        gradient[:, column] = (change * weights).sum(axis=1) / span
    return gradient
