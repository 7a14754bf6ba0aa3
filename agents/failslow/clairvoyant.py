"""The best action for the present faults, given their true ends."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.protocol import world_of
from sysgym.emulator.failslow.run import Action, FailSlowRun
from sysgym.envs.failslow.fail_slow import FailSlow


class Clairvoyant:
    """Takes the action that saves the most time until the present faults are over.

    The agent reads their true ends and factors, but not the faults that begin later, so it is not optimal.
    """

    name = "clairvoyant"
    privileged = True

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Store the environment.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        self._world = world_of(env, self.name, FailSlow)

    def act(self, observation: Any) -> int:
        """Return the action."""
        run = self._world.run
        if run.paused or not (run.active(run.time_s).any() or run.plan != run.times.first):
            return Action.NONE
        best = Action(int(np.argmax([saved_s(run, action) for action in Action])))
        if best is Action.RESTART and run.since_checkpoint_s > run.pause_s(Action.CHECKPOINT):
            return Action.CHECKPOINT
        return best


def saved_s(run: FailSlowRun, action: Action) -> float:
    """Return the work, s of a healthy job, that an action gains until the present faults are over.

    A restart follows a checkpoint if the checkpoint takes less time than the restart would lose.
    """
    if action in (Action.NONE, Action.CHECKPOINT):
        return 0.0
    now_s = run.time_s
    active = run.active(now_s)
    gone, relieved, plan = run.after(action, active)
    ends_s = np.sort(run.faults.end_s[active])
    until_s = max(float(ends_s.max(initial=now_s)), now_s + 600.0)
    pause_s, gained_s = run.pause_s(action), 0.0
    if action is Action.RESTART:
        gained_s -= min(run.since_checkpoint_s, run.pause_s(Action.CHECKPOINT))
    left_s, before = pause_s, run.relieved
    for end_s in (*ends_s.tolist(), until_s):
        took_s = end_s - now_s
        left = active & (run.faults.end_s > now_s)
        waits = 1.0 / run.slowdown(left)
        run.relieved = relieved
        acts = 1.0 / run.slowdown(left & ~gone, plan)
        run.relieved = before
        paused_s = min(left_s, took_s)
        left_s -= paused_s
        gained_s += acts * (took_s - paused_s) - waits * took_s
        now_s = end_s
    return gained_s - left_s
