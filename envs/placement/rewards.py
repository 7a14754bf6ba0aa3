"""Rewards by name: functions of an outcome that return named terms, whose sum is the reward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sysgym.scenarios.errors import UnknownName

Weights = Mapping[str, float]


@dataclass(frozen=True)
class Reward:
    """A reward with its weights.

    Attributes:
        name: Name of the reward.
        weights: Weight of each term; a scenario may override them.
        summary: One-line description for lists.
    """

    name: str
    weights: Weights = field(default_factory=dict)
    summary: str = ""

    def terms(self, **parts: float) -> dict[str, float]:
        """Return every term, weighted; terms that are not given are 0.

        Args:
            **parts: Terms at weight 1.
        """
        return {name: weight * parts.get(name, 0.0) for name, weight in self.weights.items()}

    def with_weights(self, weights: Weights) -> Reward:
        """Return a copy with some weights replaced.

        A scenario may be used with all environments of the family, so weights of other rewards are ignored.

        Raises:
            UnknownName: If no placement reward has such a weight.
        """
        known = {name for rewards in (SPEEDUP, MEASURED) for one in rewards.values() for name in one.weights}
        for name in weights:
            if name not in known:
                raise UnknownName(f'weight of the reward "{self.name}"', name, sorted(known))
        own = {name: value for name, value in weights.items() if name in self.weights}
        return replace(self, weights={**self.weights, **own})


SPEEDUP: dict[str, Reward] = {
    "default": Reward(
        "default",
        {"speedup": 1.0, "invalid": 1.0},
        "ln of the speed-up over the default at the end; -1 for an action that the mask forbids",
    ),
}
"""Rewards of ``sysgym/CollectivePlacement-v0`` and ``sysgym/ReductionProgram-v0``."""

MEASURED: dict[str, Reward] = {
    "default": Reward(
        "default",
        {"speedup": 1.0, "measurements": 1.0, "invalid": 1.0},
        "ln of the true speed-up over the default, less the price of the measurements",
    ),
}
"""Rewards of ``sysgym/JointPlacement-v0``."""


def get_reward(rewards: Mapping[str, Reward], name: str) -> Reward:
    """Return a reward of :data:`SPEEDUP` or :data:`MEASURED` by name; raises UnknownName."""
    if name not in rewards:
        raise UnknownName("reward", name, rewards)
    return rewards[name]
