"""Milestones: the effort after which a training reached the best heuristic on the validation split."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sysgym.bench.contenders import Contender
from sysgym.bench.results.records import ValidationFields, read_record
from sysgym.bench.run.episodes import make_contender, play
from sysgym.bench.run.training import Trained, Training
from sysgym.bench.run.training_energy import read_energy
from sysgym.errors import SysgymError
from sysgym.scenarios.files import write_atomically

VALIDATION = "validation.json"
_STEP = re.compile(r"step_(\d+)\.\w+")


class Reached(NamedTuple):
    """Effort of a training to reach the best heuristic.

    Attributes:
        heuristic: Name of the best heuristic.
        target: Mean return of that heuristic on the validation split.
        steps: Number of steps of the first checkpoint with at least this mean return; None if there is none.
        energy_kwh: Energy used up to that checkpoint, kWh; None if unknown.
    """

    heuristic: str
    target: float
    steps: int | None
    energy_kwh: float | None


@dataclass(frozen=True)
class Milestones:
    """Job that evaluates the checkpoints of a training, and heuristics, on the validation split.

    Attributes:
        training: The training.
        scenario: Resolved scenario.
        heuristics: Contenders that are neither learned nor privileged.
        learned: Contender of the training.
        seeds: Episode seeds.
        tunings: Name of a heuristic -> name of the tuning that chooses its constants.
    """

    training: Training
    scenario: Mapping[str, Any]
    heuristics: tuple[Contender, ...]
    learned: Contender
    seeds: tuple[int, ...]
    tunings: Mapping[str, str] = field(default_factory=dict)

    def with_constants(self, chosen: Mapping[str, Contender]) -> Milestones:
        """Return the job with tuned heuristics.

        Args:
            chosen: Name of a tuning -> heuristic with the chosen constants.
        """
        heuristics = (
            chosen[self.tunings[one.name]] if one.name in self.tunings else one for one in self.heuristics
        )
        return replace(self, heuristics=tuple(heuristics))

    @property
    def label(self) -> str:
        """Name of the job in messages."""
        return f"checkpoints of {self.training.name} on the validation split"

    def missing(self, trained: Trained) -> bool:
        """Return whether the evaluation is missing or was made with other inputs."""
        try:
            before = read_record(ValidationFields, Path(self.training.folder) / VALIDATION).get("identity")
        except SysgymError:
            return True
        return bool(before != self._identity(trained.sha256))

    def _identity(self, sha256: str) -> dict[str, Any]:
        return {
            "checkpoint_sha256": sha256,
            "heuristics": [list(map(str, heuristic.identity)) for heuristic in self.heuristics],
            "seeds": list(self.seeds),
        }

    def run(self, report: Callable[[Any], None]) -> None:
        """Evaluate all checkpoints and heuristics; write ``validation.json`` in the training's folder."""
        trained = self.training.finished()
        if trained is None:
            raise RuntimeError(f"{self.training.name} is not finished")
        folder = Path(self.training.folder)
        heuristics = {one.name: self._mean_return(one) for one in self.heuristics}
        checkpoints = [
            (steps, self._mean_return(self.learned.with_checkpoint(path)))
            for steps, path in _checkpoints(folder, trained.checkpoint, self.training.total_steps)
        ]
        found = {
            "identity": self._identity(trained.sha256),
            "heuristics": heuristics,
            "checkpoints": checkpoints,
        }
        write_atomically(folder / VALIDATION, json.dumps(found).encode())

    def _mean_return(self, contender: Contender) -> float:
        env, agent = make_contender(self.scenario, "validation", contender)
        try:
            return float(np.mean([play(env, agent, seed).total_reward for seed in self.seeds]))
        finally:
            env.close()


def _checkpoints(folder: Path, final: Path, total_steps: int) -> Iterator[tuple[int, Path]]:
    """Yield the number of steps and the path of every checkpoint, with the final checkpoint last."""
    found = {
        int(match[1]): path
        for path in (folder / "checkpoints").glob("step_*")
        if (match := _STEP.fullmatch(path.name)) and int(match[1]) < total_steps
    }
    yield from sorted(found.items())
    yield total_steps, final


def reached(folder: Path) -> Reached | None:
    """Return the milestone stored in a training's folder; None if the training was not evaluated."""
    try:
        data = read_record(ValidationFields, folder / VALIDATION)
    except SysgymError:
        return None
    heuristics: dict[str, float] = data["heuristics"]
    checkpoints: list[tuple[int, float]] = data["checkpoints"]
    if not heuristics:
        return None
    best = max(heuristics, key=lambda name: heuristics[name])
    index = next((index for index, (_, mean) in enumerate(checkpoints) if mean >= heuristics[best]), None)
    if index is None:
        return Reached(best, heuristics[best], None, None)
    steps = checkpoints[index][0]
    # The final checkpoint includes the energy of the whole training, even beyond the requested steps.
    final = index == len(checkpoints) - 1
    return Reached(best, heuristics[best], steps, energy_at(folder, None if final else steps))


def energy_at(folder: Path, steps: int | None) -> float | None:
    """Return the energy that a training used up to a number of steps, kWh; None if unknown.

    The energy is interpolated linearly between records.

    Args:
        folder: Folder of the training.
        steps: Number of steps; None: the whole training.
    """
    points = read_energy(folder)
    if not points:
        return None
    if steps is None:
        return float(points[-1][1]["energy_kwh"])
    at: Sequence[int] = [0, *(point for point, _ in points)]
    used = [0.0, *(account["energy_kwh"] for _, account in points)]
    return float(np.interp(steps, at, used))
