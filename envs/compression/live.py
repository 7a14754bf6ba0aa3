"""Live view of a training run: goodput, times of an iteration, methods over time."""

from __future__ import annotations

from typing import Any

from sysgym.emulator.compression.times import N_METHODS
from sysgym.envs.compression.grad_compress import GradCompress
from sysgym.envs.compression.render import LABELS, present_times_s
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

_STYLES = ("quiet", *["group"] * (N_METHODS - 1))


class RunView(DecisionsView[GradCompress]):
    """Live view of ``sysgym/GradCompress-v0``, with a frame for each window."""

    def _scene(self) -> Scene:
        run = self._env.run
        states = list(zip(LABELS, _STYLES, strict=True))
        return Scene(
            panels=(
                LevelsPanel("times", "Time of an iteration by method", LABELS, "s"),
                BarsPanel(
                    "methods",
                    "Method in use, a row each",
                    N_METHODS,
                    states,
                    "time",
                    line=run.optimum.finish_s,
                    line_label="optimum",
                ),
            ),
            charts=(
                Chart("goodput_bps", "Goodput of a worker's link", "bit/s"),
                Chart("gain", "Gain over no compression so far", "%"),
                Chart("progress", "Progress", "%"),
            ),
            facts=(
                Fact("workers", "workers"),
                Fact("changes", "changes of the method"),
                Fact("optimum_s", "least time of the job", "s"),
            ),
            end=run.optimum.finish_s,
        )

    def _frame(self) -> LaneFrame:
        run = self._env.run
        now = run.now
        times_s = run.times_s[now - 1] if now else present_times_s(run)
        ahead = run.progress / run.uncompressed_progress - 1.0 if now else 0.0
        values: Values = {
            "times": [rounded(value) for value in times_s],
            "methods": self._bars(),
            "goodput_bps": rounded(run.conditions.goodput_bps[now]),
            "gain": rounded(100.0 * ahead),
            "progress": rounded(100.0 * max(run.progress, 0.0) / run.training.iterations),
            "workers": int(run.conditions.workers[now]),
            "changes": run.changes,
            "optimum_s": rounded(run.optimum.finish_s),
        }
        return LaneFrame(float(run.time_s), values)

    def _bars(self) -> list[list[float]]:
        """Return a bar for each time a method was in use: row, begin, end, state."""
        run = self._env.run
        bars: list[list[float]] = []
        for number, one in enumerate(run.windows):
            begin_s = number * run.interval_s
            if bars and bars[-1][0] == one.method:
                bars[-1][2] = rounded(begin_s + one.used_s)
            else:
                bars.append([one.method, rounded(begin_s), rounded(begin_s + one.used_s), one.method])
        return bars


def live_view(env: Any) -> RunView:
    """Return the live view of an environment of the family."""
    return RunView(env)
