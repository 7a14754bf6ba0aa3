"""Live views: a plan that grows layer by layer, and windows of background work."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysgym.emulator.bursts.planning import optimal_plan, plan_cost
from sysgym.envs.bursts.mux import BurstMux
from sysgym.envs.bursts.plan import BurstPlan
from sysgym.envs.live import BarsPanel, Chart, Emit, Fact, LaneFrame, LevelsPanel, Scene, Values

_SHOWN_GPUS = 64


class PlanView:
    """Live view of ``sysgym/BurstPlan-v0``, with a frame for each layer.

    Args:
        env: The environment.
    """

    def __init__(self, env: BurstPlan) -> None:
        self._env = env
        self._emit: Emit

    def watch(self, emit: Emit) -> None:
        """Begin to report frames, from the next reset on."""
        self._emit = emit

    def scene(self) -> Scene:
        """Return the scene of the present episode, and report its first frame."""
        env = self._env
        best, _ = optimal_plan(env.layers, env.true_steps_s, env.drawn.background.idle_value)
        self._best_s = plan_cost(best, env.layers, env.true_steps_s).iteration_s
        self.after_step()
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

    def set_interval(self, interval: float) -> None:
        """Do nothing: there is a frame for each layer."""

    def after_step(self) -> None:
        """Report the plan so far."""
        env = self._env
        plan = env.plan
        values: Values = {"layers": len(plan), "gpus": [], "elapsed_ms": 0.0, "idle": 0.0, "last": 0}
        if len(plan):
            cost = plan_cost(plan, env.layers, env.true_steps_s)
            ends_s = np.cumsum(cost.layer_s)
            bars = []
            for number, (end_s, took_s, exponent) in enumerate(zip(ends_s, cost.layer_s, plan, strict=True)):
                for gpu in range(min(int(env.layers.gpus[exponent]), _SHOWN_GPUS)):
                    bars.append([gpu, _rounded(end_s - took_s), _rounded(end_s), number % 2])
            values |= {
                "gpus": bars,
                "elapsed_ms": _rounded(1e3 * cost.iteration_s),
                "idle": _rounded(100.0 * cost.idle_share(int(env.layers.gpus[-1]))),
                "last": int(env.layers.gpus[plan[-1]]),
            }
        self._emit(LaneFrame(float(len(plan)), values))

    def change(self, key: str, value: float | str) -> None:
        """Do nothing: there are no settings that could change."""


class MuxView:
    """Live view of ``sysgym/BurstMux-v0``, with a frame for each window.

    Args:
        env: The environment.
    """

    def __init__(self, env: BurstMux) -> None:
        self._env = env
        self._emit: Emit

    def watch(self, emit: Emit) -> None:
        """Begin to report frames, from the next reset on."""
        self._emit = emit

    def scene(self) -> Scene:
        """Return the scene of the present episode, and report its first frame."""
        env = self._env
        self.after_step()
        return Scene(
            panels=(LevelsPanel("shares", "GPUs' time", ["foreground", "background", "idle"], "%"),),
            charts=(
                Chart("slowdown", "Slowdown of the foreground", ""),
                Chart("background", "Background work, of all GPUs", "%"),
            ),
            facts=(Fact("batch", "background batch"), Fact("pieces", "pieces outstanding")),
            end=len(env.episode.interference) * env.drawn.control.interval_s,
        )

    def set_interval(self, interval: float) -> None:
        """Do nothing: there is a frame for each window."""

    def after_step(self) -> None:
        """Report the last window."""
        episode = self._env.episode
        interval_s = self._env.drawn.control.interval_s
        last = episode.windows[-1] if episode.windows else None
        idle = 1.0 - episode.gaps.busy_share if last is None else last.idle_share
        busy = episode.gaps.busy_share / (1.0 if last is None else last.slowdown)
        values: Values = {
            "shares": [_rounded(100 * share) for share in (busy, max(1.0 - busy - idle, 0.0), idle)],
            "slowdown": 1.0 if last is None else _rounded(last.slowdown),
            "background": 0.0 if last is None else _rounded(100.0 * last.background),
            "batch": 0 if last is None else last.batch,
            "pieces": 0 if last is None else last.pieces,
        }
        self._emit(LaneFrame(len(episode.windows) * interval_s, values))

    def change(self, key: str, value: float | str) -> None:
        """Do nothing: there are no settings that could change."""


def live_view(env: Any) -> PlanView | MuxView:
    """Return the live view of an environment of the family."""
    return PlanView(env) if isinstance(env, BurstPlan) else MuxView(env)


def _rounded(value: float) -> float:
    """Return a number with four digits, so that files stay small."""
    return float(f"{value:.4g}")
