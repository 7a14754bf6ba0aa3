"""Rules on measured factors: never, random, always restart, thresholds, cumulative sums."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym

from sysgym.agents.arguments import in_range
from sysgym.agents.failslow.base import PLACE, noticed
from sysgym.agents.protocol import episode_rng, world_of
from sysgym.emulator.failslow.run import Action
from sysgym.envs.failslow.fail_slow import FailSlow

STREAM = 0xFA1A
"""Random stream of the random agent."""


class Never:
    """No action."""

    name = "never"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Check the environment.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world_of(env, self.name, FailSlow)

    def act(self, observation: Any) -> int:
        """Return the action ``NONE``."""
        return Action.NONE


class RandomAgent(Never):
    """A uniformly random action with a probability of 2 %, seeded by the episode."""

    name = "random"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Seed the generator by the episode.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world_of(env, self.name, FailSlow)
        self._rng = episode_rng(env, STREAM)

    def act(self, observation: Any) -> int:
        """Draw an action."""
        return int(self._rng.integers(1, len(Action))) if self._rng.random() < 0.02 else Action.NONE


class AlwaysRestart(Never):
    """A restart whenever a step is slower than normal by more than a factor.

    Args:
        limit: The factor.
        wait_h: Least time between actions, h.

    Raises:
        SysgymError: If the limit is not above 1, or the time is negative.
    """

    name = "always_restart"

    def __init__(self, limit: float = 1.3, wait_h: float = 0.5) -> None:
        self._high = log_factor(self.name, "limit", limit)
        self._wait_h = in_range(self.name, "wait_h", wait_h, least=0.0)

    def act(self, observation: Any) -> int:
        """Return the action."""
        if observation[PLACE["since_action"]] < self._wait_h:
            return Action.NONE
        seen = noticed(observation)
        slow = observation[PLACE["step"]] > self._high
        worst = max(seen.worker + max(seen.stage, 0.0), seen.link)
        return Action.RESTART if slow and worst > self._high else Action.NONE


class Threshold(Never):
    """Replaces a worker, moves layers or traffic when a factor and its short moving mean are high.

    Args:
        worker: Limit for workers and for stages.
        link: Limit for the exchange.
        wait_h: Least time between actions, h.

    Raises:
        SysgymError: If a limit is not above 1, or the time is negative.
    """

    name = "threshold"

    def __init__(self, worker: float = 1.5, link: float = 1.5, wait_h: float = 0.5) -> None:
        self._worker = log_factor(self.name, "worker", worker)
        self._link = log_factor(self.name, "link", link)
        self._wait_h = in_range(self.name, "wait_h", wait_h, least=0.0)

    def act(self, observation: Any) -> int:
        """Return the action."""
        if observation[PLACE["since_action"]] < self._wait_h:
            return Action.NONE
        seen = noticed(observation)
        if seen.link > self._link:
            return Action.REROUTE
        if (seen.stage > self._worker) == (observation[PLACE["moved"]] == 0.0):
            # Away from a slow stage, or back when none is slow.
            return Action.MOVE_LAYERS
        return Action.REPLACE if seen.worker > self._worker else Action.NONE


class Cusum(Never):
    """Acts when the cumulative sum of the excess over a drift exceeds a limit (Page, Biometrika 1954).

    Microbatches are moved away from a slow worker, layers from a slow stage, and traffic from a slow link. If
    the sum of a worker exceeds a multiple of the limit, the worker is replaced. When a sum is 0 again,
    microbatches and layers are moved back.

    Args:
        drift: Logarithm of a factor that counts as normal.
        limit: Sum above which a change is noticed.
        escalation: Multiple of the limit above which a worker is replaced.

    Raises:
        SysgymError: If a value is not positive.
    """

    name = "cusum"

    def __init__(self, drift: float = 0.15, limit: float = 1.0, escalation: float = 10.0) -> None:
        self._drift = in_range(self.name, "drift", drift, above=0.0)
        self._limit = in_range(self.name, "limit", limit, above=0.0)
        self._escalation = in_range(self.name, "escalation", escalation, above=0.0)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Begin with empty sums.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        super().begin(env)
        self._sums = [0.0, 0.0, 0.0]
        self._done: set[Action] = set()

    def act(self, observation: Any) -> int:
        """Return the action."""
        if observation[PLACE["paused"]] > 0.0:
            return Action.NONE
        worst, stage, link = (float(observation[PLACE[name]]) for name in ("worst", "stage", "link"))
        for kind, factor in enumerate((worst - max(stage, 0.0), stage, link)):
            above = factor - self._drift
            # The cap limits the number of windows after which a part counts as normal after a long fault.
            most = 2.0 * self._limit * self._escalation
            self._sums[kind] = min(
                max(self._sums[kind] + (above if above > 0.0 else -self._limit), 0.0), most
            )
        of_worker, of_stage, of_link = self._sums
        if of_worker == 0.0 and {Action.REBALANCE, Action.REPLACE} & self._done:
            self._done -= {Action.REBALANCE, Action.REPLACE}
            if observation[PLACE["imbalance"]] > 0.0:
                return Action.REBALANCE
        if of_stage == 0.0 and Action.MOVE_LAYERS in self._done:
            self._done.discard(Action.MOVE_LAYERS)
            if observation[PLACE["moved"]] > 0.0:
                return Action.MOVE_LAYERS
        if of_link == 0.0:
            self._done.discard(Action.REROUTE)
        for action, total, limit in (
            (Action.REBALANCE, of_worker, self._limit),
            (Action.MOVE_LAYERS, of_stage, self._limit),
            (Action.REROUTE, of_link, self._limit),
            (Action.REPLACE, of_worker, self._limit * self._escalation),
        ):
            if total > limit and action not in self._done:
                self._done.add(action)
                return action
        return Action.NONE


def log_factor(agent: str, name: str, factor: float) -> float:
    """Return the logarithm of an argument that is a factor.

    Raises:
        SysgymError: If the factor is not above 1.
    """
    return math.log(in_range(agent, name, factor, above=1.0))
