"""Executors: the same rows wherever they are made, failures, ends at any moment."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sysgym.bench.plan import make_plan
from sysgym.bench.report import write
from sysgym.bench.report.content import DECISION
from sysgym.bench.report.data.benchmark import read_benchmark
from sysgym.bench.results.rows import Row, read_rows
from sysgym.bench.run.cluster.executor import ClusterExecutor
from sysgym.bench.run.cluster.shards import SHARDS
from sysgym.bench.run.cluster.tasks import ClusterEnded, Task, perform
from sysgym.bench.run.executors import make_executor
from sysgym.bench.run.pool import TimedOut
from sysgym.bench.run.runner import Observer, Outcome, run_plan
from sysgym.bench.run.training import Trained, Training
from sysgym.errors import MissingExtra, SysgymError, UnknownName
from sysgym.scenarios import load_suite

WriteSuite = Callable[..., Path]
CommandLine = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).parents[5]

pytestmark = pytest.mark.slow

TRAINING = """\
[[training]]
agent = "ppo"
scenario = "./tiny.toml"
total_steps = 256
seed = 3
n_envs = 2
hyper_parameters = { n_steps = 64, batch_size = 64, n_epochs = 2 }

"""


class Here:
    """Backend that does each task at once, in this process.

    Args:
        lost: Numbers of tasks whose process dies before it has done anything.
    """

    target_s = 0.5

    def __init__(self, lost: Sequence[int] = ()) -> None:
        self.lost, self.tasks, self.cancelled = set(lost), [], []  # type: ignore[var-annotated]
        self.closed = False

    def slots(self) -> int:
        return 2

    def submit(self, task: Task) -> Any:
        self.tasks.append(task)
        if len(self.tasks) - 1 in self.lost:
            return [RuntimeError("the process died")]
        perform(task)
        return [None]

    def ended(self, handles: Sequence[Any], wait_s: float) -> list[Any]:
        return list(handles)

    def check(self, handle: Any) -> None:
        if handle[0] is not None:
            raise handle[0]

    def cancel(self, handle: Any) -> None:
        self.cancelled.append(handle)

    def close(self) -> None:
        self.closed = True


class Ears(Observer):
    """Remembers what a run said."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.trainings: list[str] = []

    def training_steps(self, training: Training, steps: int) -> None:
        self.steps.append(steps)

    def trained(self, training: Training, result: Trained) -> None:
        self.trainings.append(training.name)


def run(suite: Path, out: Path, executor: Any = None, **arguments: Any) -> tuple[Outcome, Ears]:
    ears = Ears()
    plan = make_plan(load_suite(suite), out)
    return run_plan(plan, out, executor=executor, observer=ears, command="test", **arguments), ears


def timeless(folder: Path) -> list[Row]:
    rows = [dataclasses.replace(row, wall_s=0.0, decision_ms=None, energy=None) for row in read_rows(folder)]
    return sorted(rows, key=lambda row: row.label)


def test_rows_are_those_of_local_processes(tmp_path: Path, write_suite: WriteSuite, played: Path) -> None:
    out, backend = tmp_path / "out", Here()
    outcome, _ = run(write_suite(), out, ClusterExecutor(backend, out))
    assert outcome.complete
    assert backend.closed
    assert timeless(out) == timeless(played)
    assert not list((out / SHARDS).iterdir())


def tables(folder: Path) -> str:
    """Return the report without what is measured by a clock: times, energies, when and how it was made."""
    text = write(folder).markdown.read_text().partition("## How this was made")[0]
    lines: list[str] = []
    timed: set[int] = set()
    for line in text.splitlines():
        cells = line.split("|")
        if DECISION in line:
            timed = {place for place, cell in enumerate(cells) if DECISION in cell or "CO2e" in cell}
        elif len(cells) == 1:
            timed = set()
        lines.append("|".join("" if place in timed else cell for place, cell in enumerate(cells)))
    return "\n".join(lines)


def test_tables_are_byte_by_byte_those_of_a_serial_run(tmp_path: Path, write_suite: WriteSuite) -> None:
    suite, serial, clustered = write_suite(), tmp_path / "serial" / "out", tmp_path / "clustered" / "out"
    run(suite, serial)
    run(suite, clustered, ClusterExecutor(Here(), clustered))
    assert "| dctcp" in tables(serial)
    assert tables(clustered).encode() == tables(serial).encode()


class Reader(Ears):
    """Reads the results after every row, as the report of a benchmark under way does."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.warnings = folder, []  # type: ignore[var-annotated]

    def episode(self, row: Row) -> None:
        self.warnings.append(read_benchmark(self.folder).warnings)


def test_a_report_of_a_run_under_way_says_that_it_is_partial(tmp_path: Path, write_suite: WriteSuite) -> None:
    out = tmp_path / "out"
    plan, reader = make_plan(load_suite(write_suite()), out), Reader(out)
    run_plan(plan, out, observer=reader, command="test")
    partial = [[line for line in lines if "the benchmark goes on" in line] for lines in reader.warnings]
    assert [bool(lines) for lines in partial] == [True] * (len(plan.cells) - 1) + [False]
    assert partial[0][0].startswith(f"1 of {len(plan.cells)} episodes: ")
    assert not any("the benchmark goes on" in line for line in read_benchmark(out).warnings)


def test_trainings_and_their_episodes(tmp_path: Path, write_suite: WriteSuite) -> None:
    suite = write_suite('"ppo"', training=TRAINING)
    out, backend = tmp_path / "out", Here()
    outcome, ears = run(suite, out, ClusterExecutor(backend, out))
    assert (outcome.complete, outcome.n_played) == (True, 2)
    assert ears.trainings == ["ppo-tiny-seed3"]
    assert isinstance(backend.tasks[0].jobs[0], Training)
    # A second run finds all of it, whoever did it.
    again, _ = run(suite, out)
    assert again.n_kept == 2


def test_a_lost_task_fails_and_is_done_by_the_next_run(tmp_path: Path, write_suite: WriteSuite) -> None:
    out = tmp_path / "out"
    outcome, _ = run(write_suite(), out, ClusterExecutor(Here(lost=[1]), out))
    assert not outcome.complete
    assert [failure.reason for failure in outcome.failures] == ["RuntimeError: the process died"]
    outcome, _ = run(write_suite(), out, ClusterExecutor(Here(), out))
    assert outcome.complete


def test_plugins_and_failures(
    tmp_path: Path, write_suite: WriteSuite, agents_file: Path, command_line: CommandLine
) -> None:
    """One agent raises an exception, another one ends its process; the other episodes are played."""
    out = tmp_path / "out"
    suite = write_suite('"fragile", "deadly", "dctcp"')
    options = ("--plugin", str(agents_file), "--on", "slurm-here", "-j", "2")
    done = command_line("bench", str(suite), "--out", str(out), *options)
    assert done.returncode == 1
    assert "2 episodes are missing, 2 jobs failed" in done.stdout
    labels = {row.label for row in read_rows(out)}
    assert len(labels) == 4
    assert not {"tiny / fragile / test seed 201", "tiny / deadly / test seed 201"} & labels
    assert "too much for me" in (out / "errors.log").read_text()


def test_late_episodes_are_told_apart(tmp_path: Path, write_suite: WriteSuite) -> None:
    out = tmp_path / "out"
    outcome, _ = run(write_suite(), out, ClusterExecutor(Here(), out), episode_limit_s=1e-6)
    assert outcome.failures
    assert all(isinstance(failure, TimedOut) for failure in outcome.failures)


def test_an_error_cancels_what_is_out(tmp_path: Path, write_suite: WriteSuite) -> None:
    class Waiting(Here):
        def ended(self, handles: Sequence[Any], wait_s: float) -> list[Any]:
            raise KeyboardInterrupt

    out, backend = tmp_path / "out", Waiting()
    with pytest.raises(KeyboardInterrupt):
        run(write_suite(), out, ClusterExecutor(backend, out))
    assert len(backend.cancelled) == 2
    assert backend.closed
    # What they had written is not lost.
    outcome, _ = run(write_suite(), out)
    assert (outcome.complete, outcome.n_kept) == (True, 2)


def test_the_end_of_the_cluster_ends_the_run(tmp_path: Path, write_suite: WriteSuite) -> None:
    class Ended(Here):
        def submit(self, task: Task) -> Any:
            return [ClusterEnded("it has ended")] if self.tasks else super().submit(task)

    out = tmp_path / "out"
    with pytest.raises(ClusterEnded):
        run(write_suite(), out, ClusterExecutor(Ended(), out))
    assert len(read_rows(out)) == 1
    assert not (out / "errors.log").exists()


def test_jobs_of_submitit(tmp_path: Path, write_suite: WriteSuite, played: Path) -> None:
    out = tmp_path / "out"
    executor = make_executor("slurm-here", out, 2, options={"timeout_min": 5})
    outcome, _ = run(write_suite('"dctcp"'), out, executor)
    assert outcome.complete
    assert timeless(out) == [row for row in timeless(played) if row.contender.name == "dctcp"]


def test_a_ray_cluster_of_this_machine(tmp_path: Path, write_suite: WriteSuite, played: Path) -> None:
    """In a process of its own, as Ray leaves threads and handlers of signals behind."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "sysgym", "bench", str(write_suite()), "--out", str(out), "--on", "ray"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert timeless(out) == timeless(played)
    assert not list((out / SHARDS).iterdir())


def test_kills_lose_and_double_nothing() -> None:
    """A task, the benchmark, a node and the whole cluster; the script takes more of them."""
    script = ROOT / "scripts" / "robustness" / "kill_benchmarks.py"
    options = ["--kills", "4", "--most-rows", "5", "--episodes", "14", "--steps", "500"]
    done = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 kills; 70 rows, 70 expected, 0 differences" in done.stdout


def test_errors_of_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match="slurm"):
        make_executor("slrm", tmp_path, 1)
    with pytest.raises(SysgymError, match="--address applies to --on ray"):
        make_executor("local", tmp_path, 1, address="auto")
    with pytest.raises(SysgymError, match="--cluster applies to --on slurm"):
        make_executor("ray", tmp_path, 1, options={"timeout_min": 1})
    with pytest.raises(SysgymError, match="Slurm"):
        make_executor("slurm-here", tmp_path, 1, options={"colour": "red"})
    for extra, module in (("ray", "ray"), ("slurm", "submitit")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtra, match=extra):
            make_executor(extra, tmp_path, 1)
