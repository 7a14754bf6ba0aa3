"""Escalation: the next more expensive action once the lost time equals its cost."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym

from sysgym.agents.arguments import in_range
from sysgym.agents.failslow.base import PLACE, noticed, restart
from sysgym.agents.failslow.rules import log_factor
from sysgym.agents.protocol import world_of
from sysgym.emulator.failslow.run import Action
from sysgym.envs.failslow.fail_slow import FailSlow

_LADDERS = (
    (Action.REBALANCE, Action.REPLACE, Action.RESTART),
    (Action.MOVE_LAYERS, Action.RESTART),
    (Action.REROUTE, Action.RESTART),
)
"""Actions for a slow worker, stage and link, in the order of their cost."""

_COST = {
    Action.REBALANCE: "rebalance_cost",
    Action.MOVE_LAYERS: "move_layers_cost",
    Action.REROUTE: "reroute_cost",
    Action.REPLACE: "replace_cost",
    Action.RESTART: "restart_cost",
}


class SkiRental:
    """The next more expensive action once the time lost since the last one reaches a multiple of its cost.

    A restart also costs a checkpoint, or the work since the last checkpoint. When nothing is slow any more,
    microbatches and layers are moved back, and the next fault begins with the cheapest action.

    Args:
        multiple: Ratio of lost time to cost at which an action is taken.
        worker: Slowdown factor above which a worker or a stage counts as slow.
        link: Slowdown factor above which the exchange counts as slow.

    Raises:
        SysgymError: If a value is out of range.

    Reference: Wu et al., Greyhound, USENIX ATC 2025; Karlin et al., Algorithmica 3, 1988 (ski rental).
    """

    name = "ski_rental"

    def __init__(self, multiple: float = 1.0, worker: float = 1.2, link: float = 1.3) -> None:
        self._multiple = in_range(self.name, "multiple", multiple, least=0.0)
        of_worker = log_factor(self.name, "worker", worker)
        self._high = (of_worker, of_worker, log_factor(self.name, "link", link))

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Reset the lost time.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        self._interval_h = world_of(env, self.name, FailSlow).scenario.control.interval_s / 3600.0
        self._lost_h = [0.0, 0.0, 0.0]
        self._level = [0, 0, 0]

    def act(self, observation: Any) -> int:
        """Return the action."""
        if observation[PLACE["paused"]] > 0.0:
            return Action.NONE
        lost = 1.0 - math.exp(-max(float(observation[PLACE["step"]]), 0.0))
        for kind, factor in enumerate(noticed(observation)):
            if factor <= self._high[kind]:
                self._lost_h[kind], self._level[kind] = 0.0, 0
                continue
            self._lost_h[kind] += lost * self._interval_h
            ladder = _LADDERS[kind]
            if self._level[kind] == len(ladder):
                continue
            action = ladder[self._level[kind]]
            cost_h = float(observation[PLACE[_COST[action]]])
            if action is Action.RESTART:
                names = ("since_checkpoint", "checkpoint_cost")
                cost_h += float(min(observation[PLACE[name]] for name in names))
            if self._lost_h[kind] >= self._multiple * cost_h:
                if action is Action.RESTART and restart(observation) is Action.CHECKPOINT:
                    return Action.CHECKPOINT
                self._lost_h[kind], self._level[kind] = 0.0, self._level[kind] + 1
                return action
        if self._level[0] == 0 and observation[PLACE["imbalance"]] > 0.0:
            return Action.REBALANCE
        back = self._level[1] == 0 and observation[PLACE["moved"]] > 0.0
        return Action.MOVE_LAYERS if back else Action.NONE
