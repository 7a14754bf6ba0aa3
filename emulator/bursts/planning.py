"""Plans of GPU counts by layer: their cost, the published planner, and the optimum.

Both planners are dynamic programs over the layers, whose state is the GPU count of the last one. A plan is
an array of exponents: layer ``i`` runs on ``2 ** plan[i]`` GPUs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.bursts.layers import FloatArray, Layers

IntArray = NDArray[np.int64]

EXEMPT_S = 300e-6
"""Layers that take no longer on one GPU may be amplified at will."""


class PlanCost(NamedTuple):
    """Cost of a plan.

    Attributes:
        iteration_s: Time of an iteration.
        gpu_s: Time of GPUs that it uses.
        layer_s: Time of every layer, shape (n_layers,).
    """

    iteration_s: float
    gpu_s: float
    layer_s: FloatArray

    def idle_share(self, gpus: int) -> float:
        """Return the share of the time of all GPUs that is left."""
        return 1.0 - self.gpu_s / (gpus * self.iteration_s)


def plan_cost(plan: IntArray, layers: Layers, steps_s: FloatArray) -> PlanCost:
    """Return the cost of a plan, or of its first layers."""
    layer_s = by_layer(plan, steps_s)
    return PlanCost(float(layer_s.sum()), float((layer_s * layers.gpus[plan]).sum()), layer_s)


def by_layer(plan: IntArray, costs: FloatArray) -> FloatArray:
    """Return the cost of every layer of a plan, shape (n_layers,); see :func:`cheapest_plan`."""
    before = np.concatenate([plan[:1], plan[:-1]])
    return np.asarray(costs[np.arange(len(plan)), before, plan])


def cheapest_plan(costs: FloatArray) -> tuple[IntArray, float]:
    """Return the plan with the least sum of costs, and the sum.

    Args:
        costs: Cost of a layer by the count before and its own, shape (n_layers, n_counts, n_counts); the
            first layer's depends on its own only. Infinite: not allowed.
    """
    n_layers, n_counts, _ = costs.shape
    chosen = np.zeros((n_layers, n_counts), np.int64)
    total = costs[0].diagonal().copy()
    for layer in range(1, n_layers):
        reached = total[:, None] + costs[layer]
        chosen[layer] = reached.argmin(axis=0)
        total = reached.min(axis=0)
    plan = np.empty(n_layers, np.int64)
    plan[-1] = total.argmin()
    for layer in range(n_layers - 1, 0, -1):
        plan[layer - 1] = chosen[layer, plan[layer]]
    return plan, float(by_layer(plan, costs).sum())


def prices(layers: Layers, steps_s: FloatArray, idle_value: float) -> FloatArray:
    """Return the price of a layer: its time less the value of idle GPUs, over the time on one GPU.

    Args:
        layers: The layers.
        steps_s: Their times, shape (n_layers, n_counts, n_counts).
        idle_value: Value of an idle GPU's time, as a share of that of all GPUs.
    """
    used = layers.gpus / layers.gpus[-1]
    return np.asarray(steps_s * (1.0 - idle_value * (1.0 - used)) / layers.one_gpu_s)


def optimal_plan(layers: Layers, steps_s: FloatArray, idle_value: float) -> tuple[IntArray, float]:
    """Return the plan with the least price, and the price."""
    return cheapest_plan(prices(layers, steps_s, idle_value))


def amplifications(layers: Layers, steps_s: FloatArray) -> FloatArray:
    """Return the GPU time of a layer over its time on one GPU, shape (n_layers, n_counts, n_counts)."""
    return np.asarray(steps_s * layers.gpus / layers.compute_s[:, :1, None])


def published_plan(layers: Layers, steps_s: FloatArray, limit: float) -> IntArray:
    """Return the fastest plan whose layers are amplified less than a limit.

    Where no count is below the limit, the one with the smallest amplification is allowed.

    Reference: Park et al., MLSys 2022, section 4; DeepPool, ``parallelizationPlanner.py``.
    """
    amplified = amplifications(layers, steps_s)
    allowed = amplified < limit
    allowed[layers.compute_s[:, 0] <= EXEMPT_S] = True
    smallest = amplified.min(axis=(1, 2), keepdims=True)
    allowed |= amplified <= smallest
    # A row without an allowed count would cut the chain: from there the smallest of the row is allowed.
    none = ~allowed.any(axis=2, keepdims=True)
    allowed |= none & (amplified <= amplified.min(axis=2, keepdims=True))
    plan, _ = cheapest_plan(np.where(allowed, steps_s, np.inf))
    return plan


def knee_plan(layers: Layers, steps_s: FloatArray, idle_value: float) -> IntArray:
    """Return the plan in which each layer takes the cheapest count after that of the layer before."""
    costs = prices(layers, steps_s, idle_value)
    plan = np.empty(len(costs), np.int64)
    plan[0] = costs[0].diagonal().argmin()
    for layer in range(1, len(costs)):
        plan[layer] = costs[layer, plan[layer - 1]].argmin()
    return plan
