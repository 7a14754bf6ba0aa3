"""Quantisation of weights to 8-bit integers, with a scale for each row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.sets.network import Network, SetNet

Array = NDArray[np.float32]

LARGEST = 127


@dataclass(frozen=True, eq=False)
class QuantizedLayer:
    """Layer whose weight is ``scale[:, None] * integers``; biases and activations stay float32.

    A scale for each row preserves the precision of outputs with small weights.

    Attributes:
        integers: Quantised weights, int8, shape (n_out, n_in), within +-127.
        scale: Scale of each row, shape (n_out,).
    """

    integers: NDArray[np.int8]
    scale: Array

    @classmethod
    def of(cls, weight: NDArray[Any]) -> QuantizedLayer:
        """Return the layer of a weight, rounded to the nearest representable values."""
        largest = np.abs(weight).max(axis=1)
        scale = np.where(largest > 0.0, largest / LARGEST, 1.0).astype(np.float32)
        integers = np.clip(np.rint(weight / scale[:, None]), -LARGEST, LARGEST).astype(np.int8)
        return cls(integers, scale)

    @property
    def weight(self) -> Array:
        """Dequantised weight, shape (n_out, n_in)."""
        found: Array = self.integers.astype(np.float32) * self.scale[:, None]
        return found


def int8_twin(network: Network) -> Network:
    """Return the network with dequantised 8-bit weights, in float32, as computed by the C header."""
    if isinstance(network, SetNet):
        return replace(network, encoder=_twin(network.encoder), head=_twin(network.head))
    return _twin(network)


def _twin(mlp: Mlp) -> Mlp:
    return Mlp(tuple(QuantizedLayer.of(weight).weight for weight in mlp.weights), mlp.biases, mlp.activations)
