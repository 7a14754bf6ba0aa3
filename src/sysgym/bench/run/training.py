"""Trainings of a suite: a folder each, which a later run takes up where this one was stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sysgym.bench.contenders import file_sha256
from sysgym.bench.energy import DEFAULT, EnergySettings
from sysgym.bench.results.records import TrainedFields, read_record
from sysgym.bench.results.versions import must_match, versions
from sysgym.bench.run.training_energy import EnergyRecord
from sysgym.errors import SysgymError
from sysgym.scenarios import Scenario, TrainingSpec
from sysgym.scenarios.files import make_folder, read_json, storing, write_atomically

TRAINING_FOLDER = "training"
STARTED = "started.json"
FINISHED = "finished.json"


class Trained(NamedTuple):
    """What a finished training left.

    Attributes:
        checkpoint: The policy.
        sha256: Its digest.
        wall_s: Wall time of the last sitting, s.
    """

    checkpoint: Path
    sha256: str
    wall_s: float


@dataclass(frozen=True)
class Training:
    """One agent to train on the train split of one scenario.

    Attributes:
        name: Unique within the suite; name of the folder.
        agent: Learning algorithm.
        scenario: Name or path.
        scenario_sha256: Digest of the scenario.
        total_steps: Environment steps.
        seed: Of the training.
        n_envs: Environments side by side.
        action_scale: How the policy's output becomes a rate.
        hyper_parameters: For the algorithm.
        folder: Where checkpoints and curves go.
        energy: How its energy is measured; no part of what the training is.
    """

    name: str
    agent: str
    scenario: str
    scenario_sha256: str
    total_steps: int
    seed: int
    n_envs: int
    action_scale: str
    hyper_parameters: tuple[tuple[str, Any], ...]
    folder: str
    energy: EnergySettings = DEFAULT

    @classmethod
    def from_spec(cls, spec: TrainingSpec, scenario: Scenario, results: Path) -> Training:
        """Return the training that a suite describes; its folder lies in that of the results."""
        name = f"{spec.agent}-{scenario.name}-seed{spec.seed}"
        return cls(
            name,
            spec.agent,
            spec.scenario,
            scenario.sha256(),
            spec.total_steps,
            spec.seed,
            spec.n_envs,
            spec.action_scale,
            tuple(spec.hyper_parameters.items()),
            str(results / TRAINING_FOLDER / name),
        )

    @property
    def label(self) -> str:
        """How messages call it."""
        return f"training {self.name}"

    def identity(self) -> dict[str, Any]:
        """Return what has to be equal for a folder to be of this training."""
        return {
            "agent": self.agent,
            "scenario_sha256": self.scenario_sha256,
            "total_steps": self.total_steps,
            "seed": self.seed,
            "n_envs": self.n_envs,
            "action_scale": self.action_scale,
            "hyper_parameters": json.loads(json.dumps(dict(self.hyper_parameters))),
            "versions": list(must_match(versions())),
        }

    def finished(self) -> Trained | None:
        """Return what the training left if it is done and its checkpoint still is what it was."""
        folder = Path(self.folder)
        try:
            done = read_record(TrainedFields, folder / FINISHED)
        except SysgymError:
            return None  # not there or damaged: the training goes on from its last checkpoint
        if _read(folder / STARTED) != self.identity():
            return None
        checkpoint = folder / done["checkpoint"]
        if not checkpoint.is_file() or file_sha256(checkpoint) != done["sha256"]:
            return None
        return Trained(checkpoint, done["sha256"], done["wall_s"])

    def move_stale_aside(self) -> Path | None:
        """Move the folder of another training of this name away; returns where to, None if there is none."""
        folder = Path(self.folder)
        if not folder.exists() or _read(folder / STARTED) == self.identity():
            return None
        number = 1
        while (aside := folder.with_name(f"aside-{folder.name}-{number}")).exists():
            number += 1
        with storing(aside):
            folder.rename(aside)
        return aside

    def run(self, report: Callable[[Any], None]) -> Trained:
        """Train, or go on training; reports the number of steps done."""
        from sysgym.agents.learned import train

        began_s = time.perf_counter()
        folder = Path(self.folder)
        make_folder(folder)
        write_atomically(folder / STARTED, json.dumps(self.identity()).encode())
        record = EnergyRecord(folder, self.energy, self.total_steps)

        def told(steps: int) -> None:
            record.note(steps)
            report(steps)

        checkpoint = Path(
            train(
                self.agent,
                self.scenario,
                total_steps=self.total_steps,
                seed=self.seed,
                n_envs=self.n_envs,
                action_scale=self.action_scale,
                hyper_parameters=dict(self.hyper_parameters),
                out=folder,
                resume=True,
                progress=told,
            )
        )
        trained = Trained(checkpoint, file_sha256(checkpoint), round(time.perf_counter() - began_s, 3))
        done = {
            "checkpoint": checkpoint.resolve().relative_to(folder.resolve()).as_posix(),
            "sha256": trained.sha256,
            "wall_s": trained.wall_s,
            "versions": versions(learned=True),
            "energy": record.end(self.total_steps),
        }
        write_atomically(folder / FINISHED, json.dumps(done).encode())
        return trained


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data = read_json(path)
    except SysgymError:
        return None
    return data if isinstance(data, dict) else None
