"""A network that scores the members of a set, as plain NumPy: shared by all members, blind to their order."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.policy import Mlp, mlp_of

Array = NDArray[np.float32]


@dataclass(frozen=True)
class SetShape:
    """How a flat observation is read: rows one after the other, then what belongs to all of them.

    Attributes:
        n_rows: Members that there is room for.
        row_size: Numbers of each; the first is 1 where the member exists and 0 where it is padding.
        context_size: Numbers that belong to the whole.
        heads: Actions of each member; action ``head * n_rows + row`` belongs to ``row``.
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
    """Encodes every member together with the context, pools, and scores each member beside the pool.

    After Zaheer et al., Deep Sets, NeurIPS 2017: scores follow their members if members change places.

    Attributes:
        shape: How observations are read.
        encoder: From (row, context) to a code.
        head: From (code, mean of codes, maximum of codes) to the scores of the member's actions.
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
        file = BytesIO()
        np.savez(
            file,
            set_shape=np.array(numbers),
            encoder=np.frombuffer(self.encoder.to_bytes(), np.uint8),
            head=np.frombuffer(self.head.to_bytes(), np.uint8),
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> SetNet:
        """Read what :meth:`to_bytes` wrote."""
        with np.load(BytesIO(data), allow_pickle=False) as file:
            shape = SetShape(*(int(number) for number in file["set_shape"]))
            encoder, head = (Mlp.from_bytes(file[name].tobytes()) for name in ("encoder", "head"))
        return cls(shape, encoder, head)


Network = Mlp | SetNet


def network_of(model: Any) -> Network | None:
    """Return the network behind a model's deterministic action, or None if NumPy does not know its kind.

    Args:
        model: A stable-baselines3 model.
    """
    if not hasattr(model.policy, "set_shape"):  # those over sets have
        return mlp_of(model)
    from sysgym.agents.learned.set_modules import set_net_of

    return set_net_of(model.policy)


def network_from_bytes(data: bytes) -> Network:
    """Read whichever network the bytes hold."""
    with np.load(BytesIO(data), allow_pickle=False) as file:
        is_set = "set_shape" in file
    return SetNet.from_bytes(data) if is_set else Mlp.from_bytes(data)
