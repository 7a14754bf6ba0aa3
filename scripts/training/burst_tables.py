"""Tables of DeepPool's profiles and plans beside those of the generated layers.

python scripts/training/burst_tables.py

The reference's figures were computed from the A100 profiles in the repository of Park et al. (MLSys 2022,
github.com/DeepPoolML/DeepPool): sums of the layers' times by batch, and plans of Wide-ResNet-101-2 by their
planner.
"""

from __future__ import annotations

import numpy as np

from sysgym.emulator.bursts.layers import draw_layers, step_times_s
from sysgym.emulator.bursts.models import MODELS
from sysgym.emulator.bursts.planning import plan_cost, published_plan
from sysgym.scenarios import load_scenario
from sysgym.scenarios.schema.bursts import BurstScenario

TOTALS_MS = {
    "vgg16": {1: 3.35, 2: 5.04, 4: 8.08, 8: 14.61, 16: 27.08, 32: 51.43},
    "wide_resnet101_2": {1: 19.29, 2: 22.40, 4: 26.59, 8: 37.03, 16: 58.66, 32: 103.82},
    "inception_v3": {1: 6.91, 2: 7.96, 4: 10.10, 8: 14.21, 16: 23.02, 32: 40.86},
}
"""Forward and backward time of all layers by batch, ms."""

PLANS = {1.25: (49.2, 0.71), 1.5: (43.7, 0.65), 2.0: (33.7, 0.47), 3.0: (27.7, 0.10)}
"""Iteration (ms) and idle share of Wide-ResNet-101-2 on eight GPUs, by amplification limit."""


def scenario_of(model: str, gpus: int) -> BurstScenario:
    """Return a job of a model with a batch of 32 and no spread."""
    overrides = {"job.model": model, "job.gpus": gpus, "job.batch": 32, "job.spread_log_sd": 0.0}
    return load_scenario("burst-plan", overrides=overrides, expect=BurstScenario)


def totals_ms(model: str) -> dict[int, float]:
    """Return the time of all layers by batch per GPU, ms."""
    layers, _ = draw_layers(scenario_of(model, 32), 0)
    return dict(zip((32 / layers.gpus).astype(int).tolist(), 1e3 * layers.compute_s.sum(axis=0), strict=True))


def plan_of(limit: float) -> tuple[float, float]:
    """Return iteration (ms) and idle share of the planner's plan of Wide-ResNet-101-2."""
    scenario = scenario_of("wide_resnet101_2", 8)
    layers, _ = draw_layers(scenario, 0)
    steps_s = step_times_s(layers, scenario)
    cost = plan_cost(published_plan(layers, steps_s, limit), layers, steps_s)
    return 1e3 * cost.iteration_s, cost.idle_share(8)


def main() -> None:
    """Print the tables."""
    print("| model | GPUs | batch per GPU | reference: ms, speed-up / amplification | here | difference |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for model in MODELS:
        ours = totals_ms(model)
        for batch, reference_ms in sorted(TOTALS_MS[model].items(), reverse=True):
            gpus = 32 // batch
            cells = []
            for one, all_of_it in ((reference_ms, TOTALS_MS[model][32]), (ours[batch], ours[32])):
                speedup = all_of_it / one
                cells.append(f"{one:.2f}, {speedup:.2f} / {gpus / speedup:.2f}")
            difference = ours[batch] / reference_ms - 1
            print(f"| {model} | {gpus} | {batch} | {cells[0]} | {cells[1]} | {difference:+.1%} |")
    print()
    print("| amplification limit | reference: iteration, idle | here | difference of the iteration |")
    print("| ---: | ---: | ---: | ---: |")
    for limit, (reference_ms, reference_idle) in PLANS.items():
        iteration_ms, idle = plan_of(limit)
        print(
            f"| {limit} | {reference_ms:.1f} ms, {reference_idle:.0%} | {iteration_ms:.1f} ms, {idle:.0%}"
            f" | {iteration_ms / reference_ms - 1:+.1%} |"
        )
    worst = max(abs(totals_ms(m)[b] / v - 1) for m, table in TOTALS_MS.items() for b, v in table.items())
    print(f"\nLargest difference of a total: {np.round(100 * worst, 1)} %")


if __name__ == "__main__":
    main()
