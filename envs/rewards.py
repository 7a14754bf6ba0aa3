"""Rewards by name or as objects: functions of an outcome that return named terms, whose sum is the reward."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar

from sysgym.scenarios.errors import SysgymError, UnknownName
from sysgym.scenarios.schema.tables import Reward as OfScenario

Weights = Mapping[str, float]

Outcome = TypeVar("Outcome")
RewardT = TypeVar("RewardT", bound="Reward[Any]")


@dataclass(frozen=True)
class Reward(Generic[Outcome]):
    """A reward with its weights.

    Attributes:
        name: Name of the reward.
        function: Function of an outcome and the weights that returns the terms.
        weights: Weight of each weighted term; a scenario may override them.
        summary: One-line description for lists.
        term_names: Names of the terms; empty: those of the weights. They are needed where terms and weights
            differ, so that the info of a reset has the same keys as that of a step.
    """

    name: str
    function: Callable[[Outcome, Weights], dict[str, Any]]
    weights: Weights = field(default_factory=dict)
    summary: str = ""
    term_names: tuple[str, ...] = ()

    def terms(self, outcome: Outcome) -> dict[str, float]:
        """Return the named terms; their sum is the reward.

        Raises:
            SysgymError: If the function does not return a dict.
        """
        terms = self.function(outcome, self.weights)
        if not isinstance(terms, dict):
            raise SysgymError(
                f'reward "{self.name}": expected a dict of named terms, such as {{"time": -1.0}}, got '
                f"{terms!r:.80}"
            )
        return {name: float(value) for name, value in terms.items()}

    def no_terms(self) -> dict[str, float]:
        """Return the terms where nothing has been decided, at a reset: all are 0."""
        return dict.fromkeys(self.term_names or self.weights, 0.0)

    def with_weights(self, weights: Weights, others: Collection[str] = ()) -> Self:
        """Return a copy with some weights replaced.

        Args:
            weights: The new weights.
            others: Weights of other rewards, which are ignored.

        Raises:
            UnknownName: If no reward has such a weight.
        """
        for name in weights:
            if name not in self.weights and name not in others:
                known = sorted({*self.weights, *others})
                raise UnknownName(f'weight of the reward "{self.name}"', name, known)
        own = {name: value for name, value in weights.items() if name in self.weights}
        return replace(self, weights={**self.weights, **own})


def get_reward(reward: str | RewardT, rewards: Mapping[str, RewardT]) -> RewardT:
    """Return a reward given by name or as an object; raises UnknownName."""
    if not isinstance(reward, str):
        return reward
    if reward not in rewards:
        raise UnknownName("reward", reward, rewards)
    return rewards[reward]


def reward_of(
    scenario: OfScenario,
    reward: str | RewardT | None,
    rewards: Mapping[str, RewardT],
    family_rewards: Sequence[Mapping[str, Reward[Any]]] = (),
) -> RewardT:
    """Return the reward of an environment: the given one, or that of the scenario.

    The scenario's weights belong to its own reward and do not apply to another.

    Args:
        scenario: Table ``reward`` of the scenario.
        reward: A reward, or its name; None: the scenario's.
        rewards: Rewards of the environment by name.
        family_rewards: Rewards of all environments of the family, where it has several; a scenario may set
            weights for each of them.

    Raises:
        UnknownName: If there is no such reward or weight.
    """
    found = get_reward(scenario.name if reward is None else reward, rewards)
    if reward not in (None, scenario.name):
        return found
    others = {name for of_env in family_rewards for one in of_env.values() for name in one.weights}
    return found.with_weights(scenario.weights, others)


def total(terms: Mapping[str, float]) -> float:
    """Return the sum of terms, added from the first to the last, as NumPy adds those of many environments.

    Python's own ``sum`` compensates rounding errors from 3.12 on, so it would depend on the version.
    """
    added = 0.0
    for term in terms.values():
        added += term
    return float(added)
