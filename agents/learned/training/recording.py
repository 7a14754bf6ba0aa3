"""Output of a training run: checkpoints, curves and a progress bar. Requires stable-baselines3."""

from __future__ import annotations

import csv
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from sysgym.agents.learned.curves import begin_curve
from sysgym.agents.learned.training.learner import restore_chance
from sysgym.agents.learned.training.progress import Progress, new_bar
from sysgym.agents.learned.training.resuming import Resumed
from sysgym.agents.learned.training.run import Training
from sysgym.scenarios.files import storing
from sysgym.scenarios.interrupts import interrupts_kept

COLUMNS = ("total_steps", "wall_s", "episode_return_mean")
EPISODES_AVERAGED = 20
REPORT_EVERY_S = 0.5

_LOGGED_METRICS = ("goodput_bps", "queue_delay_mean_s", "drop_fraction")


class Recording(BaseCallback):
    """Recorder of checkpoints, curves, episode metrics and progress; use as a context manager.

    Args:
        training: The run.
        total_steps: Number of steps at the end of the run.
        checkpoint_every: Environment steps between checkpoints.
        progress: True for a bar, or a callback with the number of steps done.
        resumed: Checkpoint from which the run resumes, if any.
    """

    def __init__(
        self,
        training: Training,
        total_steps: int,
        checkpoint_every: int,
        progress: Progress,
        resumed: Resumed | None,
    ) -> None:
        super().__init__()
        self._training = training
        self._total_steps = total_steps
        self._every = checkpoint_every
        self._progress = progress
        self._saved_at = resumed.meta.total_steps if resumed else 0
        self._earlier_s = resumed.meta.wall_s if resumed else 0.0
        self._resumed = resumed
        self._context = ExitStack()
        self._interrupted: Callable[[], bool] = bool
        self._began_s = time.perf_counter()
        self._told_s = 0.0
        earlier = resumed.state["returns"] if resumed else []
        self._returns: deque[float] = deque(earlier, maxlen=EPISODES_AVERAGED)
        self._curve = training.folder / "progress.csv"
        begin_curve(self._curve, COLUMNS, self._saved_at)
        self._bar: Any = None

    @property
    def wall_s(self) -> float:
        """Time spent on this run, including earlier sessions, s."""
        return self._earlier_s + time.perf_counter() - self._began_s

    def __enter__(self) -> Self:
        """Show the bar, and defer Ctrl-C until the learner is in a consistent state."""
        self._interrupted = self._context.enter_context(interrupts_kept())
        if self._progress is True:
            self._bar = new_bar()
            self._bar.start()
            label = f"{self._training.algorithm.name} on {self._training.scenario.name}"
            self._task = self._bar.add_task(label, total=self._total_steps, completed=self._saved_at, note="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop deferring Ctrl-C, and stop the bar."""
        self._context.close()
        if self._bar is not None:
            self._tell()
            self._bar.stop()

    def _on_rollout_start(self) -> None:
        if self._resumed is not None and self._resumed.state["in_rollout"]:
            # The checkpoint was written after the noise of its rollout was drawn; this rollout reuses it.
            restore_chance(self.model, self._resumed.state)
        self._resumed = None
        # Between rollouts the learner is consistent: it has learned from all collected data.
        interrupted = self._interrupted()
        if self.num_timesteps > self._saved_at and (
            interrupted or self.num_timesteps - self._saved_at >= self._every
        ):
            self.save(in_rollout=True)
        if interrupted:
            raise KeyboardInterrupt

    def save(self, *, in_rollout: bool) -> Path:
        """Write a checkpoint; argument and result as in :meth:`.Training.save`."""
        self._saved_at = self.num_timesteps
        return self._training.save(self.model, self.wall_s, self._returns, in_rollout=in_rollout)

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self._returns.append(float(info["episode"]["r"]))
                for name in _LOGGED_METRICS:
                    if name in info.get("episode_metrics", {}):
                        self.logger.record_mean(f"episode/{name}", info["episode_metrics"][name])
                self._write_row()
        now_s = time.perf_counter()
        if now_s - self._told_s >= REPORT_EVERY_S:
            self._told_s = now_s
            self._tell()
        return True

    def _on_training_end(self) -> None:
        self._tell()

    def _write_row(self) -> None:
        row = (self.num_timesteps, f"{self.wall_s:.3f}", f"{np.mean(self._returns):.6g}")
        with storing(self._curve), self._curve.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(row)

    def _tell(self) -> None:
        if self._bar is not None:
            note = f"return {np.mean(self._returns):.1f}" if self._returns else ""
            note = "stopping after this rollout" if self._interrupted() else note
            self._bar.update(self._task, completed=self.num_timesteps, note=note)
        elif callable(self._progress):
            self._progress(self.num_timesteps)
