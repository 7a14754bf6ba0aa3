"""Trainings of a suite, each with a folder from which an interrupted training is resumed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sysgym.bench.contenders import file_sha256
from sysgym.bench.energy import DEFAULT, EnergySettings
from sysgym.bench.plugins import Plugin
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
    """Result of a finished training.

    Attributes:
        checkpoint: Checkpoint of the policy.
        sha256: Digest of the checkpoint.
        wall_s: Wall time of the last session, s.
    """

    checkpoint: Path
    sha256: str
    wall_s: float


@dataclass(frozen=True)
class Training:
    """Job that trains one agent on the train split of one scenario.

    Attributes:
        name: Name of the training and of its folder, unique within the suite.
        agent: Learning algorithm.
        scenario: Name or path of the scenario.
        scenario_sha256: Digest of the scenario.
        total_steps: Number of environment steps.
        seed: Training seed.
        n_envs: Number of parallel environments.
        action_scale: Mapping from the policy's output to a rate.
        hyper_parameters: Hyperparameters of the algorithm.
        folder: Folder of checkpoints and curves.
        plugins: Digests of the user's files that define the environment or the agent, sorted.
        energy: Measurement of energy; not part of the training's identity.
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
    plugins: tuple[str, ...] = ()
    energy: EnergySettings = DEFAULT

    @classmethod
    def from_spec(
        cls, spec: TrainingSpec, scenario: Scenario, results: Path, plugins: Iterable[Plugin] = ()
    ) -> Training:
        """Return a training of a suite, with a folder inside the results folder.

        Args:
            spec: Description of the training in the suite.
            scenario: Scenario of the training.
            results: Results folder.
            plugins: The user's loaded files.
        """
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
            tuple(
                sorted(
                    plugin.sha256
                    for plugin in plugins
                    if scenario.env_id in plugin.environments or spec.agent in plugin.agents
                )
            ),
        )

    @property
    def label(self) -> str:
        """Name of the training in messages."""
        return f"training {self.name}"

    def identity(self) -> dict[str, Any]:
        """Return the values that identify the training in its folder."""
        identity = {
            "agent": self.agent,
            "scenario_sha256": self.scenario_sha256,
            "total_steps": self.total_steps,
            "seed": self.seed,
            "n_envs": self.n_envs,
            "action_scale": self.action_scale,
            "hyper_parameters": json.loads(json.dumps(dict(self.hyper_parameters))),
            "versions": list(must_match(versions())),
        }
        return {**identity, "plugins": list(self.plugins)} if self.plugins else identity

    def finished(self) -> Trained | None:
        """Return the result if the training is finished and its checkpoint is unchanged, otherwise None."""
        folder = Path(self.folder)
        try:
            done = read_record(TrainedFields, folder / FINISHED)
        except SysgymError:
            return None  # missing or damaged: the training continues from its last checkpoint
        if _read(folder / STARTED) != self.identity():
            return None
        checkpoint = folder / done["checkpoint"]
        if not checkpoint.is_file() or file_sha256(checkpoint) != done["sha256"]:
            return None
        return Trained(checkpoint, done["sha256"], done["wall_s"])

    def move_stale_aside(self) -> Path | None:
        """Rename the folder if it belongs to a different training of this name.

        Returns:
            The new path; None if the folder was not renamed.
        """
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
        """Start or resume the training, and report the number of completed steps."""
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
