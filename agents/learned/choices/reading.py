"""Conversion of observations to a set of choices: a row for each choice, and a common context.

A network over sets treats all rows alike; a plain network receives the concatenation of rows and context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.sets.network import SetShape

Array = NDArray[np.float32]
Observation = Mapping[str, Array]
Parts = tuple[NDArray[Any], NDArray[Any]]
"""Rows, shape (n_rows, row_size), and context, shape (context_size,)."""


@dataclass(frozen=True)
class Reading:
    """Conversion of a family's observations to vectors.

    Attributes:
        parts: Function that returns the rows and the context of an observation. The first column of a row is
            above 0 if the row exists. Actions are numbered by row; if rows have several actions, the first
            actions of all rows are followed by the second ones, and so on.
        choice: Kind of object that is chosen; the meaning of actions in checkpoints.
    """

    parts: Callable[[Observation], Parts]
    choice: str

    def vector(self, observation: Observation) -> Array:
        """Return the concatenation of the rows and the context, float32 [observation_size]."""
        rows, context = self.parts(observation)
        return np.concatenate([rows.ravel(), context]).astype(np.float32, copy=False)

    def shape(self, env: gym.Env[Any, Any]) -> SetShape:
        """Return the layout of the vectors of an environment."""
        space, actions = env.observation_space, env.action_space
        assert isinstance(space, gym.spaces.Dict)
        assert isinstance(actions, gym.spaces.Discrete)
        rows, context = self.parts(
            {key: np.zeros(box.shape, np.float32) for key, box in space.items() if box.shape}
        )
        return SetShape(rows.shape[0], rows.shape[1], len(context), int(actions.n) // len(rows))


def choice_names(space: gym.Space[Any]) -> list[str]:
    """Return key and shape of each array of a Dict space, equal if one policy fits both; [] otherwise."""
    if not isinstance(space, gym.spaces.Dict):
        return []
    return [f"{key} {' x '.join(map(str, box.shape))}" for key, box in sorted(space.items()) if box.shape]
