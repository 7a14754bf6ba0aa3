"""Progress of long commands: bars in a terminal, occasional lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from sysgym.bench.results.rows import Row
from sysgym.bench.run.pool import Failed
from sysgym.bench.run.runner import Observer
from sysgym.bench.run.training import Trained, Training
from sysgym.bench.run.tuning import Tuned, Tuning
from sysgym.studies.determinism import study as determinism
from sysgym.studies.determinism.training import Run, RunResult

LINE_EVERY_S = 15.0
"""Time between lines where there is no terminal."""


class BenchProgress(Observer):
    """Progress of a benchmark.

    Args:
        console: Console to print to; bars are drawn if it is a terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not self._live,
        )
        self._trainings: dict[str, TaskID] = {}
        self._episodes: TaskID | None = None
        self._n_cells = self._n_done = 0
        self._reasons: set[str] = set()
        self._steps: dict[str, tuple[int, int]] = {}
        self._next_line_s = time.monotonic() + LINE_EVERY_S

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, *, n_cells: int, n_kept: int, trainings: Sequence[Training]) -> None:
        """Show the numbers of episodes and trainings, and set up the bars."""
        self._n_cells, self._n_done = n_cells, n_kept
        words = f"{n_cells} episodes"
        if n_kept:
            words += f", {n_kept} finished earlier"
        if trainings:
            words += f"; {len(trainings)} trainings first"
        self._console.print(words)
        for training in trainings:
            self._steps[training.name] = (0, training.total_steps)
            self._trainings[training.name] = self._progress.add_task(
                f"training {training.name}", total=training.total_steps
            )
        self._episodes = self._progress.add_task("episodes", total=n_cells, completed=n_kept)

    def note(self, text: str) -> None:
        """Print a note."""
        self._console.print(Text.assemble(("note", "yellow"), f" {text}"))

    def episode(self, row: Row) -> None:
        """Advance the bar by one episode."""
        self._n_done += 1
        if self._episodes is not None:
            self._progress.update(self._episodes, completed=self._n_done)
        self._line()

    def training_steps(self, training: Training, steps: int) -> None:
        """Advance the bar of a training."""
        self._steps[training.name] = (steps, training.total_steps)
        self._progress.update(self._trainings[training.name], completed=steps)
        self._line()

    def trained(self, training: Training, result: Trained) -> None:
        """Remove the bar of a finished training and print its duration."""
        self._steps.pop(training.name, None)
        self._progress.remove_task(self._trainings.pop(training.name))
        self._console.print(f"{training.name}: trained in {result.wall_s:.0f} s")

    def tuned(self, tuning: Tuning, result: Tuned) -> None:
        """Print the constants that were chosen."""
        self._console.print(f"{tuning.name}: {tuning.words(result)}")

    def failed(self, failure: Failed) -> None:
        """Print the failure in one line; its traceback is in the log file. A reason is printed once."""
        if isinstance(failure.job, Training):
            self._steps.pop(failure.job.name, None)
            self._progress.remove_task(self._trainings.pop(failure.job.name))
        reason = failure.reason.partition("\n")[0]
        words = "the same reason" if reason in self._reasons else reason
        self._reasons.add(reason)
        self._console.print(Text.assemble(("failed", "red"), f" {failure.job.label}: {words}"))

    def _line(self) -> None:
        if self._live or time.monotonic() < self._next_line_s:
            return
        self._next_line_s = time.monotonic() + LINE_EVERY_S
        parts = [f"{name} {100 * done // total} %" for name, (done, total) in self._steps.items() if done]
        self._console.print(", ".join([*parts, f"{self._n_done} of {self._n_cells} episodes"]))


class DeterminismProgress(determinism.Observer):
    """Progress of a study of determinism: bars in a terminal, a line for every finished training elsewhere.

    Args:
        progress: Bars to use.
    """

    def __init__(self, progress: Progress) -> None:
        self._console, self._progress = progress.console, progress
        self._total_steps = self._n_runs = self._n_done = 0

    def begin(self, n_runs: int, n_kept: int, steps: int) -> None:
        """Print the number of trainings."""
        kept = f", {n_kept} of them finished earlier" if n_kept else ""
        self._console.print(f"{n_runs} trainings of {steps} steps{kept}")
        self._total_steps, self._n_runs, self._n_done = steps, n_runs, n_kept
        self._bar = self._progress.add_task("trainings", total=n_runs * steps, completed=n_kept * steps)

    def steps(self, run: Run, steps: int) -> None:
        """Advance the bar to the present step of a training."""
        done = self._n_done * self._total_steps + min(steps, self._total_steps)
        self._progress.update(self._bar, completed=done, description=run.name)

    def done(self, run: Run, result: RunResult) -> None:
        """Advance the bar to the end of a training."""
        self._n_done += 1
        self._progress.update(self._bar, completed=self._n_done * self._total_steps)
        if not self._console.is_terminal:
            self._console.print(f"{self._n_done} of {self._n_runs}: {run.name}, {result.wall_s:.0f} s")
