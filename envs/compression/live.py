"""Live view of a training run: goodput, times of an iteration, methods over time."""

from __future__ import annotations

from typing import Any

from sysgym.emulator.compression.times import N_METHODS
from sysgym.envs.compression.grad_compress import GradCompress
from sysgym.envs.compression.render import LABELS, present_times_s
from sysgym.envs.live import BarsPanel, Chart, Emit, Fact, LaneFrame, LevelsPanel, Scene, Values

_STYLES = ("quiet", *["group"] * (N_METHODS - 1))


class RunView:
    """Live view of ``sysgym/GradCompress-v0``, with a frame for each window.

    Args:
        env: The environment.
    """

    def __init__(self, env: GradCompress) -> None:
        self._env = env
        self._emit: Emit

    def watch(self, emit: Emit) -> None:
        """Begin to report frames, from the next reset on."""
        self._emit = emit

    def scene(self) -> Scene:
        """Return the scene of the present episode, and report its first frame."""
        run = self._env.run
        self.after_step()
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

    def set_interval(self, interval: float) -> None:
        """Do nothing: there is a frame for each window."""

    def after_step(self) -> None:
        """Report the last window."""
        run = self._env.run
        now = run.now
        times_s = run.times_s[now - 1] if now else present_times_s(run)
        ahead = run.progress / run.uncompressed_progress - 1.0 if now else 0.0
        values: Values = {
            "times": [_rounded(value) for value in times_s],
            "methods": self._bars(),
            "goodput_bps": _rounded(run.conditions.goodput_bps[now]),
            "gain": _rounded(100.0 * ahead),
            "progress": _rounded(100.0 * max(run.progress, 0.0) / run.training.iterations),
            "workers": int(run.conditions.workers[now]),
            "changes": run.changes,
            "optimum_s": _rounded(run.optimum.finish_s),
        }
        self._emit(LaneFrame(float(run.time_s), values))

    def change(self, key: str, value: float | str) -> None:
        """Do nothing: there are no settings that could change."""

    def _bars(self) -> list[list[float]]:
        """Return a bar for each time a method was in use: row, begin, end, state."""
        run = self._env.run
        bars: list[list[float]] = []
        for number, one in enumerate(run.windows):
            begin_s = number * run.interval_s
            if bars and bars[-1][0] == one.method:
                bars[-1][2] = _rounded(begin_s + one.used_s)
            else:
                bars.append([one.method, _rounded(begin_s), _rounded(begin_s + one.used_s), one.method])
        return bars


def live_view(env: Any) -> RunView:
    """Return the live view of an environment of the family."""
    return RunView(env)


def _rounded(value: float) -> float:
    """Return a number with four digits, so that files stay small."""
    return float(f"{value:.4g}")
