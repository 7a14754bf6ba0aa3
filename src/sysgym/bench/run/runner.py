"""Execution of a plan: finished parts are kept, workers run the rest, and each row is written immediately."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sysgym.bench.energy import DEFAULT, EnergySettings, check_method
from sysgym.bench.plan import Cell, Plan
from sysgym.bench.plugins import PluginFile
from sysgym.bench.results.records import RUN as RUN
from sysgym.bench.results.records import read_run
from sysgym.bench.results.rows import ResultsFile, Row
from sysgym.bench.results.versions import machine, must_match, versions
from sysgym.bench.run.cluster.shards import leftover_rows, remove_shard
from sysgym.bench.run.episodes import EpisodeJob, compile_for_workers
from sysgym.bench.run.executors import Executor, LocalExecutor
from sysgym.bench.run.milestones import Milestones
from sysgym.bench.run.pool import Done, Failed, Job, Progress
from sysgym.bench.run.training import Trained, Training
from sysgym.bench.run.tuning import Tuned, Tuning
from sysgym.errors import StorageError, SysgymError
from sysgym.scenarios.files import own_file, storing, write_atomically

ERRORS = "errors.log"


class Observer:
    """Observer of a run; its methods do nothing unless overridden."""

    def begin(self, *, n_cells: int, n_kept: int, trainings: Sequence[Training]) -> None:
        """Called at the beginning, with the trainings that are not finished."""

    def note(self, text: str) -> None:
        """Called with a message for the user."""

    def episode(self, row: Row) -> None:
        """Called after an episode, when its row is on disk."""

    def training_steps(self, training: Training, steps: int) -> None:
        """Called with the number of steps that a training has completed."""

    def trained(self, training: Training, result: Trained) -> None:
        """Called after a training."""

    def tuned(self, tuning: Tuning, result: Tuned) -> None:
        """Called after the choice of a contender's constants."""

    def failed(self, failure: Failed) -> None:
        """Called after a failed job; other jobs continue."""


@dataclass
class Outcome:
    """Outcome of a run.

    Attributes:
        n_cells: Number of episodes in the plan.
        n_kept: Number of rows from earlier runs.
        n_played: Number of episodes in this run.
        failures: Failed jobs.
        skipped: Episodes that were skipped because their training or tuning failed.
        wall_s: Wall time, s.
    """

    n_cells: int
    n_kept: int = 0
    n_played: int = 0
    failures: list[Failed] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether every episode has its row."""
        return self.n_kept + self.n_played == self.n_cells


class _Agenda:
    """Queue of jobs: trainings, then tunings, then episodes that depend on neither, then milestones.

    Episodes that depend on a training or a tuning are queued when it has finished.
    """

    def __init__(self, plan: Plan, folder: Path, energy: EnergySettings) -> None:
        self._folder, self._energy = folder, energy
        self._first_seeds: dict[tuple[str, str], int] = {}
        for cell in plan.cells:
            task = (cell.scenario.name, cell.split)
            self._first_seeds[task] = min(cell.seed, self._first_seeds.get(task, cell.seed))
        self.trainings: deque[Training] = deque()
        self.episodes: deque[EpisodeJob] = deque()
        self.milestones: deque[Milestones] = deque()
        self._milestones = {one.training.name: one for one in plan.milestones}
        self.waiting: dict[str, list[Cell]] = {}
        finished = {name: training.finished() for name, training in plan.trainings.items()}
        chosen = {name: tuning.finished() for name, tuning in plan.tunings.items()}
        self.tunings = deque(tuning for name, tuning in plan.tunings.items() if chosen[name] is None)
        for cell in plan.cells:
            trained = finished[cell.training] if cell.training is not None else None
            if cell.training is not None and trained is None:
                self.waiting.setdefault(cell.training, []).append(cell)
            elif cell.tuning is not None:
                tuned = chosen[cell.tuning]
                if tuned is None:
                    self.waiting.setdefault(cell.tuning, []).append(cell)
                else:
                    self.episodes.append(self._tuned_job(cell, plan.tunings[cell.tuning], tuned))
            else:
                self.episodes.append(self._job(cell, trained))
        self.trainings.extend(
            replace(training, energy=energy)
            for name, training in plan.trainings.items()
            if finished[name] is None
        )
        self._trained = {name: trained for name, trained in finished.items() if trained is not None}
        self._tuned = {
            name: plan.tunings[name].chosen(tuned) for name, tuned in chosen.items() if tuned is not None
        }
        for name in self._milestones:
            self._add_milestones(name)

    def _job(self, cell: Cell, trained: Trained | None) -> EpisodeJob:
        contender = cell.contender
        if trained is not None:
            contender = contender.with_checkpoint(trained.checkpoint, relative_to=self._folder)
        scenario = cell.scenario
        return EpisodeJob(
            scenario.resolved(),
            scenario.sha256(),
            cell.split,
            contender,
            cell.seed,
            str(self._folder),
            self._energy,
            keep_queue=cell.seed == self._first_seeds[scenario.name, cell.split],
        )

    def _tuned_job(self, cell: Cell, tuning: Tuning, tuned: Tuned) -> EpisodeJob:
        return self._job(replace(cell, contender=tuning.chosen(tuned)), None)

    def _add_milestones(self, name: str) -> None:
        """Queue the milestones of a training if the training and its heuristics' tunings have finished."""
        milestones, trained = self._milestones.get(name), self._trained.get(name)
        if (
            milestones is None
            or trained is None
            or not self._tuned.keys() >= set(milestones.tunings.values())
        ):
            return
        milestones = milestones.with_constants(self._tuned)
        if milestones.missing(trained):
            self.milestones.append(milestones)

    def release(self, training: Training, trained: Trained) -> None:
        self._trained[training.name] = trained
        self._add_milestones(training.name)
        self.episodes.extend(self._job(cell, trained) for cell in self.waiting.pop(training.name, []))

    def release_tuned(self, tuning: Tuning, tuned: Tuned) -> None:
        self._tuned[tuning.name] = tuning.chosen(tuned)
        for name, milestones in self._milestones.items():
            if tuning.name in milestones.tunings.values():
                self._add_milestones(name)
        cells = self.waiting.pop(tuning.name, [])
        self.episodes.extend(self._tuned_job(cell, tuning, tuned) for cell in cells)

    def drop(self, job: Training | Tuning) -> list[str]:
        cells = self.waiting.pop(job.name, [])
        return [f"{cell.scenario.name} / {cell.contender.name} / seed {cell.seed}" for cell in cells]

    @property
    def has_jobs(self) -> bool:
        """Whether there are jobs that can start now."""
        return bool(self.trainings or self.tunings or self.episodes or self.milestones)

    def next_job(self) -> Job | None:
        if self.trainings:
            return self.trainings.popleft()
        if self.tunings:
            return self.tunings.popleft()
        if self.episodes:
            return self.episodes.popleft()
        return self.milestones.popleft() if self.milestones else None


def run_plan(
    plan: Plan,
    folder: Path,
    *,
    n_workers: int = 1,
    executor: Executor | None = None,
    plugins: Sequence[PluginFile] = (),
    observer: Observer | None = None,
    command: str | None = None,
    energy: EnergySettings | None = None,
    episode_limit_s: float | None = None,
) -> Outcome:
    """Run the missing trainings, tunings and episodes of a plan.

    Args:
        plan: The plan.
        folder: Results folder. Rows of earlier runs are kept if they belong to this plan and were made with
            the present versions.
        n_workers: Number of processes.
        executor: Executor of the jobs; None: processes on this machine.
        plugins: The user's files.
        observer: Observer of the run.
        command: The user's command, for the report.
        energy: Measurement of energy; None: by CPU time, with the world's mean carbon intensity.
        episode_limit_s: Time limit of an episode, s; an episode that exceeds the limit fails. None: no limit.

    Returns:
        Outcome of the run.

    Raises:
        SysgymError: If another run is writing to the folder, or the results cannot be read.
        StorageError: If the disk is full, or the folder cannot be written to.
        MissingExtra: If the library for measuring energy is not installed.
        KeyboardInterrupt: The user pressed Ctrl-C; the workers are stopped and all finished rows are on disk.
    """
    observer, energy = observer or Observer(), energy or DEFAULT
    check_method(energy.method)
    began_s = time.monotonic()
    with ResultsFile(folder) as results:
        if results.torn_bytes:
            observer.note(
                f"the last row was incomplete ({results.torn_bytes} bytes) and was removed;"
                " its episode is run again"
            )
        for training in plan.trainings.values():
            if aside := training.move_stale_aside():
                observer.note(
                    f"{training.label}: settings or versions changed; the earlier one was moved to {aside}"
                )
        if n_rows := _take_shards(folder, results):
            observer.note(f"{n_rows} rows of an interrupted run were taken over")
        agenda = _Agenda(plan, folder, energy)
        outcome = Outcome(len(plan.cells))
        _keep_matching(results, agenda, outcome, observer)
        record = _Record(folder, plan, command, energy, observer)
        if agenda.has_jobs:
            compile_for_workers(cell.scenario.family for cell in plan.cells)
        observer.begin(n_cells=outcome.n_cells, n_kept=outcome.n_kept, trainings=list(agenda.trainings))

        def end() -> None:
            outcome.n_played = results.count() - outcome.n_kept
            outcome.wall_s = time.monotonic() - began_s
            record.end(outcome)

        try:
            executor = executor or LocalExecutor(n_workers)
            with closing(executor.run_jobs(agenda.next_job, plugins, episode_limit_s)) as events:
                for event in events:
                    _handle(event, agenda, results, outcome, observer, folder)
            _take_shards(folder, results)
        except BaseException:
            with suppress(SysgymError):  # the error that stopped the run is the one to report
                end()
            raise
        end()
    return outcome


def _take_shards(folder: Path, results: ResultsFile) -> int:
    """Move the rows of leftover shards into the results; return the number of new rows."""
    present = {row.key for row in results.rows}
    before = len(present)
    for path, rows in leftover_rows(folder):
        for row in rows:
            if row.key not in present:
                results.append(row)
                present.add(row.key)
        remove_shard(path)
    return len(present) - before


def _keep_matching(results: ResultsFile, agenda: _Agenda, outcome: Outcome, observer: Observer) -> None:
    ours = must_match(versions())
    planned = {(*job.cell, *ours) for job in agenda.episodes}
    aside = results.keep_only(planned)
    if aside:
        observer.note(f"{_why_aside(aside)}; moved to aside.jsonl")
    present = {row.cell for row in results.rows}
    outcome.n_kept = len(present)
    agenda.episodes = deque(job for job in agenda.episodes if job.cell not in present)


def _why_aside(rows: Sequence[Row]) -> str:
    ours = must_match(versions())
    old = sum(must_match(row.versions) != ours for row in rows)
    parts = [f"{old} rows were made with other versions or sources of sysgym"] if old else []
    if len(rows) > old:
        parts.append(
            f"{len(rows) - old} rows do not belong to this plan (scenario, contender, checkpoint or seed)"
        )
    return ", ".join(parts)


def _handle(
    event: Progress | Done | Failed,
    agenda: _Agenda,
    results: ResultsFile,
    outcome: Outcome,
    observer: Observer,
    folder: Path,
) -> None:
    job = event.job
    if isinstance(event, Progress):
        assert isinstance(job, Training)
        observer.training_steps(job, int(event.news))
    elif isinstance(event, Failed):
        _record_failure(event, agenda, outcome, observer, folder)
    elif isinstance(job, Milestones):
        pass  # the job has written its own file and has no row
    elif isinstance(job, Training):
        agenda.release(job, event.result)
        observer.trained(job, event.result)
    elif isinstance(job, Tuning):
        agenda.release_tuned(job, event.result)
        observer.tuned(job, event.result)
    else:
        try:
            results.append(event.result)
        except StorageError:
            raise  # the next row would fail too, after a useless episode
        except SysgymError as error:
            _record_failure(Failed(job, str(error), f"{error}\n"), agenda, outcome, observer, folder)
            return
        outcome.n_played += 1
        observer.episode(event.result)


def _record_failure(
    failure: Failed, agenda: _Agenda, outcome: Outcome, observer: Observer, folder: Path
) -> None:
    outcome.failures.append(failure)
    if isinstance(failure.job, Training | Tuning):
        outcome.skipped += agenda.drop(failure.job)
    path = folder / ERRORS
    with storing(path), open(path, "a", encoding="utf-8", opener=own_file) as log:
        log.write(f"{_now()}  {failure.job.label}\n{failure.trace}\n")
    observer.failed(failure)


class _Record:
    """Writer of ``run.json``: the suite and every session of the benchmark with its machine."""

    def __init__(
        self, folder: Path, plan: Plan, command: str | None, energy: EnergySettings, observer: Observer
    ) -> None:
        self._path = folder / RUN
        try:
            sittings = [sitting for sitting in read_run(folder)["sittings"] if sitting.get("played", 1)]
        except SysgymError as error:
            aside = self._path.with_name(f"{RUN}.broken")
            with storing(aside):
                self._path.replace(aside)
            observer.note(f"{error}; the file was moved to {aside.name}, and a new one was begun")
            sittings = []
        self._data: dict[str, Any] = {"format": 1, "suite": plan.describe(), "sittings": sittings}
        self._sitting: dict[str, Any] = {
            "command": command or " ".join(sys.argv),
            "began": _now(),
            "machine": machine(),
            "versions": versions(learned=bool(plan.trainings)),
            "energy": energy.to_json(),
            "cells": len(plan.cells),
        }
        self._write()

    def end(self, outcome: Outcome) -> None:
        self._sitting |= {"wall_s": round(outcome.wall_s, 1), "played": outcome.n_played}
        self._sitting["failed"] = len(outcome.failures)
        self._sitting["failures"] = [
            {"job": failure.job.label, "reason": failure.reason.partition("\n")[0]}
            for failure in outcome.failures
        ]
        self._sitting["missing"] = outcome.n_cells - outcome.n_kept - outcome.n_played
        self._write()

    def _write(self) -> None:
        data = {**self._data, "sittings": [*self._data["sittings"], self._sitting]}
        write_atomically(self._path, json.dumps(data, indent=1).encode())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
