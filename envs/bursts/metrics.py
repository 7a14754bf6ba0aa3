"""Metrics of a step and of an episode."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.bursts.layers import Layers
from sysgym.emulator.bursts.multiplexing import ACTIONS, Multiplexing
from sysgym.emulator.bursts.planning import PlanCost

PLAN_METRICS: dict[str, str] = {
    "regret": "price of the plan over that of the best plan, minus 1: 0 is the optimum",
    "speedup": "time of an iteration on one GPU over that of the plan",
    "idle_share": "share of the time of all GPUs that the plan leaves idle",
    "amplification": "time of GPUs that the plan uses over the time on one GPU",
    "iteration_s": "time of an iteration, s",
    "changes": "changes of the number of GPUs between layers",
}
"""Meaning of every episode metric of ``sysgym/BurstPlan-v0``."""

MUX_METRICS: dict[str, str] = {
    "cluster_throughput": "mean of foreground over that without background work, plus background_share",
    "slowdown_mean": "time of a foreground iteration over that without background work, mean",
    "excess_share": "share of the windows whose slowdown is above background.most_slowdown",
    "background_share": "background work over that of all GPUs without a foreground job, mean",
    "idle_share": "share of the time of all GPUs in which they are idle, mean",
    "regret": "value of the best actions minus that of the actions taken, relative to the former",
}
"""Meaning of every episode metric of ``sysgym/BurstMux-v0``."""


def plan_metrics(
    cost: PlanCost, price: float, optimum: float, changes: int, layers: Layers
) -> dict[str, float]:
    """Return the metrics of a whole plan; see :data:`PLAN_METRICS`."""
    return {
        "regret": price / optimum - 1.0,
        "speedup": layers.one_gpu_s / cost.iteration_s,
        "idle_share": cost.idle_share(int(layers.gpus[-1])),
        "amplification": cost.gpu_s / layers.one_gpu_s,
        "iteration_s": cost.iteration_s,
        "changes": float(changes),
    }


def mux_metrics(episode: Multiplexing) -> dict[str, float]:
    """Return the metrics of an episode of windows; see :data:`MUX_METRICS`."""
    windows = episode.windows
    slowdown = np.array([one.slowdown for one in windows])
    background = np.array([one.background for one in windows])
    played = [ACTIONS.index((one.batch, one.pieces)) for one in windows]
    worth = float(episode.worth[np.arange(len(windows)), played].sum())
    best = float(episode.worth[: len(windows)].max(axis=1).sum())
    return {
        "cluster_throughput": float((1.0 / slowdown + background).mean()),
        "slowdown_mean": float(slowdown.mean()),
        "excess_share": float((slowdown > episode.scenario.background.most_slowdown).mean()),
        "background_share": float(background.mean()),
        "idle_share": float(np.mean([one.idle_share for one in windows])),
        "regret": (best - worth) / best,
    }
