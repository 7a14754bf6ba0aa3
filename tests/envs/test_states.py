"""States that observers are given: nothing hidden can be reached from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
import pytest

import sysgym
from sysgym.emulator.bursts.multiplexing import Multiplexing, Outcomes
from sysgym.emulator.compression.conditions import Conditions
from sysgym.emulator.compression.run import TrainingRun
from sysgym.emulator.diagnosis.case import Case
from sysgym.emulator.failslow.faults import Faults
from sysgym.emulator.failslow.run import FailSlowRun

REGISTERED = sysgym.__version__

HIDDEN = Multiplexing, Outcomes, Conditions, TrainingRun, Case, Faults, FailSlowRun
"""Objects with conditions to come, true factors or answers."""


class Keeper:
    """Observer that keeps the states that it is given.

    Args:
        observer: Observer that makes the observations.
    """

    def __init__(self, observer: Any) -> None:
        self._observer, self.states = observer, []  # type: ignore[var-annotated]

    def space(self, setting: Any) -> gym.Space[Any]:
        return self._observer.space(setting)  # type: ignore[no-any-return]

    def observe(self, state: Any) -> Any:
        self.states.append(state)
        return self._observer.observe(state)


def reachable(root: Any) -> Iterator[Any]:
    """Yield everything that attributes and items lead to."""
    seen: set[int] = set()
    pending = [root]
    while pending:
        one = pending.pop()
        if id(one) in seen or isinstance(one, str | bytes | type):
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, Mapping):
            pending += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            pending += one
        pending += vars(one).values() if hasattr(one, "__dict__") else ()


@pytest.mark.parametrize("name", ["BurstMux", "FailSlow", "GradCompress", "TrainingDiagnosis"])
def test_observers_see_nothing_hidden(name: str) -> None:
    env_id = f"sysgym/{name}-v0"
    default: Any = gym.make(env_id).unwrapped
    keeper = Keeper(default.observer)
    env = gym.make(env_id, observation=keeper)
    _, info = env.reset(seed=3)
    for _ in range(3):
        env.step(env.action_space.sample(info.get("action_mask")))
        _, info = env.reset(seed=4)
    assert len(keeper.states) > 3
    for state in keeper.states:
        found = [type(one).__name__ for one in reachable(state) if isinstance(one, HIDDEN)]
        assert found == []
