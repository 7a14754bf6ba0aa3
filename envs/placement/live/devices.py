"""Live view of a placement: devices by reduction group, and the time that links of each level are busy."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sysgym.emulator.accelerators.matrices import Matrix, reduction_groups
from sysgym.envs.live import Chart, Fact, GridPanel, LevelsPanel, Scene, Values, rounded
from sysgym.envs.placement.live.base import UNIT, PlacementView
from sysgym.envs.placement.placement import CollectivePlacement
from sysgym.envs.placement.tasks import PlacementTask

MOST_DEVICES = 2_048
"""Largest number of devices whose groups are drawn."""

GROUPS = 16
"""Number of colours of groups."""


class DevicesView(PlacementView[CollectivePlacement]):
    """View of ``sysgym/CollectivePlacement-v0``.

    While the placement is incomplete, times are those of its best completion: what can still be reached.
    """

    def _scene(self) -> Scene:
        task, hierarchy = self._env.truth, self._env.problem.hierarchy
        levels = [level.name for level in hierarchy.levels]
        panels = [
            LevelsPanel(
                "traffic", "Links of each level busy, the slowest ones", levels, "s", logarithmic=True
            ),
            LevelsPanel("reductions", "Time of each reduction", self._reductions, "s", logarithmic=True),
        ]
        grid = []
        if hierarchy.n_devices <= MOST_DEVICES:
            inside = hierarchy.cardinalities[-1]
            rows = [
                f"{levels[-2] if len(levels) > 1 else 'all'} {row}"
                for row in range(hierarchy.n_devices // inside)
            ]
            columns = [str(column) for column in range(inside)]
            states = [(f"group {group}", "group") for group in range(GROUPS)]
            title = f"Devices by the groups of {self._reductions[0]}, which reduce together"
            grid = [GridPanel("groups", title, rows, columns, states)]
        return Scene(
            panels=(*panels, *grid),
            charts=(Chart("time_s", "Time of all reductions, with the best completion", "s"),),
            facts=(
                Fact("time_s", "time, or best still possible", "s"),
                Fact("default_s", "default placement", "s"),
                Fact("best_s", "best placement", "s"),
                Fact("regret", "over the best", "x"),
                Fact("left", "placements left"),
            ),
            end=float(max(len(task.steps), 1)),
            time_unit=UNIT,
        )

    @property
    def _reductions(self) -> list[str]:
        reductions = self._env.problem.reductions
        return [
            f"reduction {number} (axes {'+'.join(map(str, one.axes))})"
            for number, one in enumerate(reductions)
        ]

    def _values(self) -> Values:
        env, task = self._env, self._env.truth
        left = _Completions(task, env.matrix)
        matrix = left.best
        times_s = task.link_times_s(matrix)
        time_s = env.outcome.time_s if env.outcome is not None else left.time_s
        values: Values = {
            "traffic": [rounded(one) for one in times_s.sum(axis=0).tolist()],
            "reductions": [rounded(one) for one in task.reduction_times_s(matrix).tolist()],
            "time_s": rounded(time_s),
            "default_s": rounded(task.default_time_s),
            "best_s": rounded(task.best_time_s),
            "regret": rounded(time_s / task.best_time_s),
            "left": left.n,
        }
        hierarchy = env.problem.hierarchy
        if hierarchy.n_devices <= MOST_DEVICES:
            groups = reduction_groups(hierarchy.cardinalities, matrix, env.problem.reductions[0].axes)
            of_device = np.empty(hierarchy.n_devices, np.int64)
            of_device[groups] = np.arange(len(groups))[:, None] % GROUPS
            values["groups"] = of_device.tolist()
        return values


class _Completions:
    """Placements that an incomplete one can still become."""

    def __init__(self, task: PlacementTask, partial: Matrix) -> None:
        every = np.array(task.matrices)
        self._task = task
        self._possible = np.flatnonzero(np.all(every % np.array(partial) == 0, axis=(1, 2)))

    @property
    def n(self) -> int:
        """Number of placements."""
        return len(self._possible)

    @cached_property
    def _index(self) -> int:
        return int(self._possible[self._task.times_s[self._possible].argmin()])

    @property
    def best(self) -> Matrix:
        """The best of them."""
        return self._task.matrices[self._index]

    @property
    def time_s(self) -> float:
        """Time of the best of them."""
        return float(self._task.times_s[self._index])
