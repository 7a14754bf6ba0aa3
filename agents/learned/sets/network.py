"""Permutation-equivariant network in NumPy that scores the members of a set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.arrays import read_arrays, write_arrays
from sysgym.agents.learned.policy import Mlp
from sysgym.scenarios.errors import SysgymError

Array = NDArray[np.float32]


@dataclass(frozen=True)
class SetShape:
    """Layout of a flat observation: concatenated rows, then a common context.

    Attributes:
        n_rows: Largest number of members.
        row_size: Values per member; the first is 1 if the member exists and 0 for padding.
        context_size: Number of context values.
        heads: Actions per member; action ``head * n_rows + row`` belongs to ``row``.
    """

    n_rows: int
    row_size: int
    context_size: int
    heads: int

    @property
    def observation_size(self) -> int:
        """Length of the flat observation."""
        return self.n_rows * self.row_size + self.context_size

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.n_rows * self.heads


@dataclass(frozen=True)
class SetNet:
    """Network that encodes every member with the context, pools the codes, and scores each member.

    After Zaheer et al., Deep Sets, NeurIPS 2017. A permutation of the members permutes the scores.

    Attributes:
        shape: Layout of observations.
        encoder: Network from (row, context) to a code.
        head: Network from (code, mean of codes, maximum of codes) to the scores of a member's actions.
    """

    shape: SetShape
    encoder: Mlp
    head: Mlp

    def __call__(self, observation: NDArray[Any]) -> Array:
        """Return the score of every action for one observation or a batch of them."""
        flat = np.atleast_2d(np.asarray(observation, dtype=np.float32))
        shape = self.shape
        cut = shape.n_rows * shape.row_size
        rows = flat[:, :cut].reshape(len(flat), shape.n_rows, shape.row_size)
        context = np.repeat(flat[:, None, cut:], shape.n_rows, axis=1)
        exists = rows[:, :, :1]
        codes = self.encoder(np.concatenate([rows, context], axis=2)) * exists
        mean = codes.sum(axis=1) / np.maximum(exists.sum(axis=1), 1.0)
        pooled = np.concatenate([mean, codes.max(axis=1)], axis=1)
        beside = np.repeat(pooled[:, None, :], shape.n_rows, axis=1)
        scores = self.head(np.concatenate([codes, beside], axis=2))
        by_action: Array = scores.transpose(0, 2, 1).reshape(len(flat), shape.n_actions)
        return by_action if np.ndim(observation) > 1 else by_action[0]

    def to_bytes(self) -> bytes:
        """Return the network as an npz file."""
        shape = self.shape
        numbers = [shape.n_rows, shape.row_size, shape.context_size, shape.heads]
        return write_arrays(
            {
                "set_shape": np.array(numbers),
                "encoder": np.frombuffer(self.encoder.to_bytes(), np.uint8),
                "head": np.frombuffer(self.head.to_bytes(), np.uint8),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> SetNet:
        """Return the network from untrusted bytes written by :meth:`to_bytes`.

        Raises:
            ValueError: If the bytes are not a network, or its parts do not fit the shape of the set.
            KeyError: If a part is missing.
        """
        arrays = read_arrays(data)
        rows, row_size, context_size, heads = (int(number) for number in arrays["set_shape"])
        shape = SetShape(rows, row_size, context_size, heads)
        encoder, head = (Mlp.from_bytes(arrays[name].tobytes()) for name in ("encoder", "head"))
        code_size = len(encoder.biases[-1])
        sizes = (encoder.weights[0].shape[1], head.weights[0].shape[1], len(head.biases[-1]))
        if min(rows, row_size, heads) < 1 or sizes != (row_size + context_size, 3 * code_size, heads):
            raise ValueError(f"a network over sets whose parts do not fit {shape}")
        return cls(shape, encoder, head)


@dataclass(frozen=True, eq=False)
class RearrangedNet:
    """Network over sets, preceded by a function that rearranges an environment's observations.

    Attributes:
        rows: Function from observations, shape (n, size), to inputs of the network.
        net: The network.
    """

    rows: Callable[[Array], Array]
    net: SetNet

    def __call__(self, observation: NDArray[Any]) -> Array:
        """Return the output for one observation or a batch of them."""
        return self.net(self.rows(np.asarray(observation, dtype=np.float32)))


Network = Mlp | SetNet


def check_sizes(network: Any, n_inputs: int, n_outputs: int, shown: Any) -> None:
    """Check that the sizes of an untrusted network match an environment's observation and action.

    Args:
        network: The network; objects of other types are not checked.
        n_inputs: Length of the observation.
        n_outputs: Length of an action, or number of discrete actions.
        shown: Name of the checkpoint in messages.

    Raises:
        SysgymError: If the sizes do not match.
    """
    if isinstance(network, Mlp):
        sizes = (network.weights[0].shape[1], len(network.biases[-1]))
    elif isinstance(network, SetNet):
        sizes = (network.shape.observation_size, network.shape.n_actions)
    else:
        return
    if sizes != (n_inputs, n_outputs):
        raise SysgymError(
            f"{shown}: its network has {sizes[0]} inputs and {sizes[1]} outputs; this environment has"
            f" {n_inputs} numbers in an observation and {n_outputs} in an action"
        )


def network_from_bytes(data: bytes) -> Network:
    """Return a network of either kind from untrusted bytes; raises the errors of its ``from_bytes``."""
    is_set = "set_shape" in read_arrays(data)
    return SetNet.from_bytes(data) if is_set else Mlp.from_bytes(data)
