"""Payback: the action that gains most work, less its pause, if faults last some time more."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym

from sysgym.agents.failslow.base import PLACE, world_of
from sysgym.agents.failslow.rules import noticed
from sysgym.emulator.failslow.run import Action
from sysgym.scenarios.errors import SysgymError

_CAUTION = 1.05
"""Factor of computed steps: factors are measured with errors."""


class Payback:
    """The action that gains most work, less its pause, if the fault lasts some time more.

    That time is a constant and a multiple of how long factors have been high already. Steps after an action
    are computed from measured factors.

    Args:
        base_h: Time that a new fault is expected to last, h.
        growth: Further time for each hour that it has lasted.
        slow: Factor that counts as slow.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "payback"

    def __init__(self, base_h: float = 0.3, growth: float = 0.0, slow: float = 1.15) -> None:
        if not min(base_h, growth) >= 0.0 or not slow > 1.0:
            raise SysgymError(
                "payback: expected base_h and growth >= 0 and slow > 1,"
                f" got {base_h!r}, {growth!r} and {slow!r}"
            )
        self._base_h, self._growth, self._high = base_h, growth, math.log(slow)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Remember what is known of the job.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        scenario = world_of(env, self.name).drawn
        self._share, self._relief = scenario.job.communication_share, scenario.actions.reroute_relief
        self._relieved_link = 1.0
        self._rerouted = False

    def act(self, observation: Any) -> int:
        """Return the action."""
        seen = {name: float(observation[place]) for name, place in PLACE.items()}
        if seen["paused"] > 0.0:
            return Action.NONE
        worst, exchange = noticed(observation)
        if self._rerouted:
            # What is left of the slowness after a move of traffic cannot be moved away again.
            self._relieved_link, self._rerouted = math.exp(seen["link"]), False
        elif exchange <= self._high:
            self._relieved_link = 1.0
        gains_h = self._gains_h(seen, worst, exchange)
        best = max(gains_h, key=lambda action: gains_h[action])
        action = best if gains_h[best] > 0.0 else Action.NONE
        self._rerouted = action is Action.REROUTE
        return action

    def _gains_h(self, seen: dict[str, float], worst: float, exchange: float) -> dict[Action, float]:
        """Return the work that each action gains, in h of a healthy job."""
        step, link = math.exp(seen["step"]), math.exp(seen["link"])
        compute = step - self._share * link
        worker_h = self._base_h + self._growth * seen["worst_for"]
        link_h = self._base_h + self._growth * seen["link_for"]
        gains = {}
        if worst > self._high:
            left = math.exp(max(seen["second"], 0.0) - seen["worst"])
            gains[Action.REBALANCE] = (math.exp(seen["step_rebalanced"]), worker_h, seen["rebalance_cost"])
            gains[Action.REPLACE] = (compute * left + step - compute, worker_h, seen["replace_cost"])
        elif seen["imbalance"] > 0.0:
            # Nothing is slow any more: microbatches are moved back for the rest of the job.
            gains[Action.REBALANCE] = (
                math.exp(seen["step_rebalanced"]),
                seen["left"],
                seen["rebalance_cost"],
            )
        if exchange > self._high:
            relieved = step - self._share * (link - self._relieved_link) * self._relief
            gains[Action.REROUTE] = (relieved, link_h, seen["reroute_cost"])
        if max(worst, exchange) > self._high:
            lost_h = seen["restart_cost"] + seen["since_checkpoint"]
            gains[Action.RESTART] = (1.0, max(worker_h * (worst > 0.0), link_h * (exchange > 0.0)), lost_h)
        return {
            action: (1.0 / max(_CAUTION * after, 1.0) - 1.0 / step) * min(lasting_h, seen["left"]) - cost_h
            for action, (after, lasting_h, cost_h) in gains.items()
        } or {Action.NONE: 0.0}
