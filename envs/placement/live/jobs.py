"""Live view of several jobs on one system: their blocks on the nodes, and how they slow each other down."""

from __future__ import annotations

import numpy as np

from sysgym.envs.live import Chart, Fact, GridPanel, LevelsPanel, Scene, Values, rounded
from sysgym.envs.placement.live.base import UNIT, PlacementView
from sysgym.envs.placement.multijob import MultiJobPlacement

MOST_BLOCKS = 8
"""Number of blocks of a job on a node that have colours of their own."""


class JobsView(PlacementView[MultiJobPlacement]):
    """View of ``sysgym/MultiJobPlacement-v0``."""

    def _scene(self) -> Scene:
        env = self._env
        jobs, nodes = env.counts.shape
        states = [("none", "quiet"), *((f"{blocks} blocks", "group") for blocks in range(1, MOST_BLOCKS + 1))]
        names = [f"job {job}" for job in range(jobs)]
        numbers = [str(node) for node in range(nodes)]
        return Scene(
            panels=(
                GridPanel("blocks", "Blocks of each job on each node", names, numbers, states),
                LevelsPanel("free", "Free devices of each node", [f"node {one}" for one in numbers]),
                LevelsPanel("slowdowns", "Slowdown of each job, known at the end", names, "x"),
            ),
            charts=(Chart("placed", "Blocks placed", ""),),
            facts=(
                Fact("placed", "blocks placed"),
                Fact("slowdown", "mean slowdown", "x"),
                Fact("default", "of the default", "x"),
                Fact("spread", "nodes of a job, mean"),
            ),
            end=float(sum(job.blocks for job in env.system.jobs)),
            time_unit=UNIT,
        )

    def _values(self) -> Values:
        env = self._env
        counts = env.counts
        slowdowns = np.zeros(len(counts)) if env._slowdowns is None else env._slowdowns
        begun = (counts > 0).any(axis=1)
        return {
            "blocks": counts.clip(max=MOST_BLOCKS).ravel().tolist(),
            "free": env.free.tolist(),
            "slowdowns": [rounded(one) for one in slowdowns.tolist()],
            "placed": int(counts.sum()),
            "slowdown": None if env.outcome is None else rounded(env.outcome.time_s),
            "default": rounded(env.default_slowdown),
            "spread": rounded(float((counts[begun] > 0).sum(axis=1).mean())) if begun.any() else None,
        }
