"""Payback: the action that gains the most work, less its pause, if faults last for a further time."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym

from sysgym.agents.arguments import in_range
from sysgym.agents.failslow.base import PLACE, Noticed, noticed, restart
from sysgym.agents.failslow.rules import log_factor
from sysgym.agents.protocol import world_of
from sysgym.emulator.failslow.run import Action
from sysgym.envs.failslow.fail_slow import FailSlow

_CAUTION = 1.05
"""Safety factor of computed step times, because slowdown factors are measured with errors."""


class Payback:
    """The action that gains the most work, less its pause, if the fault lasts for a further time.

    The further time is a constant plus a multiple of the time for which factors have been high. Step times
    after an action are computed from measured factors.

    Args:
        base_h: Time that a new fault is expected to last, h.
        growth: Further time for each hour that the fault has lasted.
        slow: Slowdown factor above which a part counts as slow.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "payback"

    def __init__(self, base_h: float = 0.3, growth: float = 0.0, slow: float = 1.15) -> None:
        self._base_h = in_range(self.name, "base_h", base_h, least=0.0)
        self._growth = in_range(self.name, "growth", growth, least=0.0)
        self._high = log_factor(self.name, "slow", slow)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Store the known properties of the job.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world = world_of(env, self.name, FailSlow)
        self._share = world.run.times.exchange_share(world.run.times.first)
        self._relief = world.drawn.actions.reroute_relief
        self._relieved_link = 1.0
        self._rerouted = False

    def act(self, observation: Any) -> int:
        """Return the action."""
        seen = {name: float(observation[place]) for name, place in PLACE.items()}
        if seen["paused"] > 0.0:
            return Action.NONE
        slow = noticed(observation)
        if self._rerouted:
            # A second move of traffic would not reduce the slowdown that remains after the first one.
            self._relieved_link, self._rerouted = math.exp(seen["link"]), False
        elif slow.link <= self._high:
            self._relieved_link = 1.0
        gains_h = self._gains_h(seen, slow)
        best = max(gains_h, key=lambda action: gains_h[action], default=Action.NONE)
        action = best if gains_h.get(best, 0.0) > 0.0 else Action.NONE
        self._rerouted = action is Action.REROUTE
        return restart(observation) if action is Action.RESTART else action

    def _gains_h(self, seen: dict[str, float], slow: Noticed) -> dict[Action, float]:
        """Return the work that each action gains, in h of a healthy job."""
        step, link = math.exp(seen["step"]), math.exp(seen["link"])
        rebalanced, moved = math.exp(seen["step_rebalanced"]), math.exp(seen["step_moved"])
        compute = step - self._share * link
        worker_h, stage_h, link_h = (
            self._base_h + self._growth * seen[f"{name}_for"] for name in ("worst", "stage", "link")
        )
        after = {}
        if slow.worker > self._high:
            left = math.exp(max(seen["second"], 0.0) - seen["worst"])
            after[Action.REBALANCE] = (rebalanced, worker_h, seen["rebalance_cost"])
            after[Action.REPLACE] = (compute * left + step - compute, worker_h, seen["replace_cost"])
        if max(slow.worker, slow.stage) > self._high:
            lasting_h = stage_h if slow.stage > self._high else worker_h
            after[Action.MOVE_LAYERS] = (moved, lasting_h, seen["move_layers_cost"])
        else:
            # Nothing is slow any more, so earlier moves are undone for the rest of the job.
            if seen["imbalance"] > 0.0:
                after[Action.REBALANCE] = (rebalanced, seen["left"], seen["rebalance_cost"])
            if seen["moved"] > 0.0:
                after[Action.MOVE_LAYERS] = (moved, seen["left"], seen["move_layers_cost"])
        if slow.link > self._high:
            relieved = step - self._share * (link - self._relieved_link) * self._relief
            after[Action.REROUTE] = (relieved, link_h, seen["reroute_cost"])
        lasting = [
            hours
            for factor, hours in zip(slow, (worker_h, stage_h, link_h), strict=True)
            if factor > self._high
        ]
        if lasting:
            lost_h = seen["restart_cost"] + min(seen["since_checkpoint"], seen["checkpoint_cost"])
            after[Action.RESTART] = (1.0, max(lasting), lost_h)
        return {
            action: (1.0 / max(_CAUTION * then, 1.0) - 1.0 / step) * min(lasting_h, seen["left"]) - cost_h
            for action, (then, lasting_h, cost_h) in after.items()
        }
