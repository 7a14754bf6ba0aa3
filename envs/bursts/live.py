"""Live views: a plan that grows layer by layer, and windows of background work."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysgym.emulator.bursts.planning import optimal_plan, plan_cost
from sysgym.envs.bursts.mux import BurstMux
from sysgym.envs.bursts.plan import BurstPlan
from sysgym.envs.live import (
    BarsPanel,
    Chart,
    DecisionsView,
    Fact,
    LaneFrame,
    LevelsPanel,
    Scene,
    Values,
    rounded,
)

_SHOWN_GPUS = 64


class PlanView(DecisionsView[BurstPlan]):
    """Live view of ``sysgym/BurstPlan-v0``, with a frame for each layer."""

    def _scene(self) -> Scene:
        env = self._env
        best, _ = optimal_plan(env.layers, env.true_steps_s, env.drawn.background.idle_value)
        self._best_s = plan_cost(best, env.layers, env.true_steps_s).iteration_s
        rows = min(int(env.layers.gpus[-1]), _SHOWN_GPUS)
        return Scene(
            panels=(
                BarsPanel(
                    "gpus",
                    "GPUs in use over an iteration, a row each",
                    rows,
                    [("a layer", "good"), ("the next layer", "copy")],
                    "time",
                    line=self._best_s,
                    line_label="optimum",
                ),
            ),
            charts=(
                Chart("elapsed_ms", "Time of the layers so far", "ms"),
                Chart("idle", "GPUs' time idle", "%"),
            ),
            facts=(Fact("layers", "layers with GPUs"), Fact("last", "GPUs of the last layer")),
            end=float(len(env.layers.compute_s)),
            time_unit="layers",
        )

    def _frame(self) -> LaneFrame:
        env = self._env
        plan = env.plan
        values: Values = {"layers": len(plan), "gpus": [], "elapsed_ms": 0.0, "idle": 0.0, "last": 0}
        if len(plan):
            cost = plan_cost(plan, env.layers, env.true_steps_s)
            ends_s = np.cumsum(cost.layer_s)
            bars = []
            for number, (end_s, took_s, exponent) in enumerate(zip(ends_s, cost.layer_s, plan, strict=True)):
                for gpu in range(min(int(env.layers.gpus[exponent]), _SHOWN_GPUS)):
                    bars.append([gpu, rounded(end_s - took_s), rounded(end_s), number % 2])
            values |= {
                "gpus": bars,
                "elapsed_ms": rounded(1e3 * cost.iteration_s),
                "idle": rounded(100.0 * cost.idle_share(int(env.layers.gpus[-1]))),
                "last": int(env.layers.gpus[plan[-1]]),
            }
        return LaneFrame(float(len(plan)), values)


class MuxView(DecisionsView[BurstMux]):
    """Live view of ``sysgym/BurstMux-v0``, with a frame for each window."""

    def _scene(self) -> Scene:
        env = self._env
        return Scene(
            panels=(LevelsPanel("shares", "GPUs' time", ["foreground", "background", "idle"], "%"),),
            charts=(
                Chart("slowdown", "Slowdown of the foreground", ""),
                Chart("background", "Background work, of all GPUs", "%"),
            ),
            facts=(Fact("batch", "background batch"), Fact("pieces", "pieces outstanding")),
            end=len(env.episode.interference) * env.drawn.control.interval_s,
        )

    def _frame(self) -> LaneFrame:
        episode = self._env.episode
        interval_s = self._env.drawn.control.interval_s
        last = episode.windows[-1] if episode.windows else None
        idle = 1.0 - episode.gaps.busy_share if last is None else last.idle_share
        busy = episode.gaps.busy_share / (1.0 if last is None else last.slowdown)
        values: Values = {
            "shares": [rounded(100 * share) for share in (busy, max(1.0 - busy - idle, 0.0), idle)],
            "slowdown": 1.0 if last is None else rounded(last.slowdown),
            "background": 0.0 if last is None else rounded(100.0 * last.background),
            "batch": 0 if last is None else last.batch,
            "pieces": 0 if last is None else last.pieces,
        }
        return LaneFrame(len(episode.windows) * interval_s, values)


def live_view(env: Any) -> PlanView | MuxView:
    """Return the live view of an environment of the family."""
    return PlanView(env) if isinstance(env, BurstPlan) else MuxView(env)
