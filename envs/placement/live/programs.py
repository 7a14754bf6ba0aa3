"""Live view of a program: its collectives as bars over time, beside the all-reduce and the best program."""

from __future__ import annotations

from sysgym.emulator.accelerators.programs.patterns import Collective
from sysgym.envs.live import BarsPanel, Chart, Fact, Scene, Values, rounded
from sysgym.envs.placement.live.base import UNIT, PlacementView
from sysgym.envs.placement.program import ReductionProgram
from sysgym.envs.placement.render.common import COLLECTIVE_NAMES

_KINDS = tuple(Collective)


class ProgramsView(PlacementView[ReductionProgram]):
    """View of ``sysgym/ReductionProgram-v0``."""

    def _scene(self) -> Scene:
        env = self._env
        return Scene(
            panels=(
                BarsPanel(
                    "programs",
                    "Program, all-reduce, best program: collectives one after the other",
                    3,
                    [(COLLECTIVE_NAMES[kind], "group") for kind in _KINDS],
                    x_label="time",
                ),
            ),
            charts=(Chart("time_s", "Time of the program so far", "s"),),
            facts=(
                Fact("time_s", "time so far", "s"),
                Fact("default_s", "one all-reduce", "s"),
                Fact("best_s", "best program", "s"),
                Fact("steps", "steps"),
            ),
            end=float(env._max_steps),
            time_unit=UNIT,
        )

    def _values(self) -> Values:
        env = self._env
        bars = []
        times_s = []
        for row, (_, steps) in enumerate(env._scene().programs):
            begin_s = 0.0
            for instruction, time_s in steps:
                end_s = begin_s + time_s
                state = _KINDS.index(instruction.collective)
                bars.append([row, rounded(begin_s), rounded(end_s), state])
                begin_s = end_s
            times_s.append(begin_s)
        return {
            "programs": bars,
            "time_s": rounded(env.outcome.time_s if env.outcome is not None else times_s[0]),
            "default_s": rounded(times_s[1]),
            "best_s": rounded(times_s[2]),
            "steps": len(env.edges),
        }
