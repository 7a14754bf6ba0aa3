"""Between what a policy puts out, [-1, 1], and send rates.

Shares of a link span orders of magnitude: 1/2 for two senders, 1/32 for an incast. On a logarithmic scale a
step of the policy changes a rate by the same factor everywhere; ``linear`` is there for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.errors import UnknownName

Array = NDArray[np.float32]

SCALES = ("linear", "log")


@dataclass(frozen=True)
class ActionScale:
    """Maps [-1, 1] onto [low, high], the same for every host.

    Attributes:
        name: ``"log"`` or ``"linear"``.
        low: Lowest rate, positive.
        high: Highest rate.
    """

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        """Check the name; raises UnknownName."""
        if self.name not in SCALES:
            raise UnknownName("action scale", self.name, SCALES)

    def rates(self, output: NDArray[Any]) -> Array:
        """Return the rates for a policy's output, which is clipped to [-1, 1]."""
        share = 0.5 * (np.clip(np.asarray(output, dtype=np.float64), -1.0, 1.0) + 1.0)
        if self.name == "log":
            rates = self.low * (self.high / self.low) ** share
        else:
            rates = self.low + (self.high - self.low) * share
        clipped: Array = np.clip(rates, self.low, self.high).astype(np.float32)
        return clipped

    def rates_of_many(self, outputs: NDArray[Any]) -> Array:
        """Return the rates for the outputs of many worlds, to the last bit those of each one alone."""
        if self.name == "linear":
            return self.rates(outputs)
        # NumPy's power may round differently in the lanes of a longer array.
        return np.stack([self.rates(output) for output in outputs])


def scale_of(env: gym.Env[Any, Any], name: str) -> ActionScale:
    """Return the scale of an environment's actions."""
    space = env.action_space
    assert isinstance(space, gym.spaces.Box)
    return ActionScale(name, float(space.low.min()), float(space.high.max()))


class ScaledActions(gym.ActionWrapper[Array, Array, Array]):
    """Offers [-1, 1] to the learner and passes on rates.

    Args:
        env: The environment.
        scale: Name of the scale.
    """

    def __init__(self, env: gym.Env[Array, Array], scale: str) -> None:
        super().__init__(env)
        self.scale = scale_of(env, scale)
        self.action_space = gym.spaces.Box(-1.0, 1.0, env.action_space.shape, np.float32)

    def action(self, action: Array) -> Array:
        """Return rates."""
        return self.scale.rates(action)
