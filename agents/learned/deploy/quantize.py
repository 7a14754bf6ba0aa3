"""Weights as 8-bit integers: a scale for each row, so that a quiet output does not pay for a loud one."""

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
    """A layer whose weight is ``scale[:, None] * integers``; biases and activations stay float32.

    Attributes:
        integers: int8, shape (n_out, n_in), within +-127.
        scale: Of each row, shape (n_out,).
    """

    integers: NDArray[np.int8]
    scale: Array

    @classmethod
    def of(cls, weight: NDArray[Any]) -> QuantizedLayer:
        """Round a weight to the nearest that can be held."""
        largest = np.abs(weight).max(axis=1)
        scale = np.where(largest > 0.0, largest / LARGEST, 1.0).astype(np.float32)
        integers = np.clip(np.rint(weight / scale[:, None]), -LARGEST, LARGEST).astype(np.int8)
        return cls(integers, scale)

    @property
    def weight(self) -> Array:
        """What the integers stand for."""
        found: Array = self.integers.astype(np.float32) * self.scale[:, None]
        return found


def int8_twin(network: Network) -> Network:
    """Return the network that the 8-bit weights stand for, in float32: what the C header computes."""
    if isinstance(network, SetNet):
        return replace(network, encoder=_twin(network.encoder), head=_twin(network.head))
    return _twin(network)


def _twin(mlp: Mlp) -> Mlp:
    return Mlp(tuple(QuantizedLayer.of(weight).weight for weight in mlp.weights), mlp.biases, mlp.activations)
