"""Tuning of a contender's constants before the test, on episodes other than those of the test."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sysgym.bench.contenders import Contender
from sysgym.bench.results.records import TunedFields, read_record
from sysgym.bench.results.versions import must_match, versions
from sysgym.bench.run.episodes import make_contender, play
from sysgym.bench.suite_checks import RETURN
from sysgym.errors import SysgymError
from sysgym.scenarios import ContenderSpec, Scenario, TuningSpec
from sysgym.scenarios.files import make_folder, write_atomically

TUNING_FOLDER = "constants"

Point = Mapping[str, Any]


class Tuned(NamedTuple):
    """Result of a tuning.

    Attributes:
        parameters: Parameters of the best point.
        scores: Mean score of every point, in the order of the grid.
    """

    parameters: Point
    scores: tuple[float, ...]


@dataclass(frozen=True)
class Tuning:
    """Job that plays every point of a contender's grid and keeps the best one.

    Attributes:
        scenario: Resolved scenario.
        scenario_sha256: Digest of the scenario.
        contender: Contender without the constants of the grid.
        points: Parameters of every point.
        constants: Names of the constants of the grid.
        task_split: Split of the task in which the contender plays with the chosen constants.
        split: Split of the episodes on which the constants are chosen.
        seeds: Seeds of these episodes.
        score: Quantity to average: :data:`RETURN`, or a key of ``episode_metrics``.
        higher_is_better: Whether the best point has the highest mean.
        file: Path of the file in which the result is stored.
    """

    scenario: Mapping[str, Any]
    scenario_sha256: str
    contender: Contender
    points: tuple[Point, ...]
    constants: tuple[str, ...]
    task_split: str
    split: str
    seeds: tuple[int, ...]
    score: str
    higher_is_better: bool
    file: str

    @classmethod
    def from_spec(
        cls,
        spec: TuningSpec,
        item: ContenderSpec,
        contender: Contender,
        scenario: Scenario,
        task_split: str,
        results: Path,
    ) -> Tuning:
        """Return the tuning of a suite's contender, with a file inside the results folder.

        Args:
            spec: Description of the tuning in the task.
            item: Description of the contender in the suite, with a grid.
            contender: The same contender.
            scenario: Scenario of the task.
            task_split: Split of the task.
            results: Results folder.

        Raises:
            SysgymError: If the contender is learned.
        """
        if contender.learned:
            raise SysgymError(
                f'{scenario.name}: "{contender.name}" has a grid, but {contender.agent} is learned and its '
                f"constants are chosen in training; remove the grid"
            )
        first = scenario.splits[spec.split].first_seed
        return cls(
            scenario.resolved(),
            scenario.sha256(),
            contender,
            item.points,
            tuple(item.grid),
            task_split,
            spec.split,
            tuple(range(first, first + spec.episodes)),
            spec.score,
            spec.direction == "higher",
            str(results / TUNING_FOLDER / scenario.name / task_split / f"{contender.name}.json"),
        )

    @property
    def name(self) -> str:
        """Name, unique within the suite and different from the names of trainings."""
        return f"tuning {self.contender.name} for {self.scenario['name']}, {self.task_split}"

    @property
    def label(self) -> str:
        """Name of the job in messages."""
        return f"{self.name} on the {self.split} split"

    def identity(self) -> dict[str, Any]:
        """Return the values that identify the tuning in its file."""
        found = {
            "scenario_sha256": self.scenario_sha256,
            "contender": list(map(str, self.contender.identity)),
            "points": list(map(dict, self.points)),
            "split": self.split,
            "seeds": list(self.seeds),
            "score": self.score,
            "higher_is_better": self.higher_is_better,
            "versions": list(must_match(versions())),
        }
        same: dict[str, Any] = json.loads(json.dumps(found))
        return same

    def finished(self) -> Tuned | None:
        """Return the result if it is stored and belongs to this tuning, otherwise None."""
        try:
            record = read_record(TunedFields, Path(self.file))
        except SysgymError:
            return None  # missing or damaged: the tuning is repeated
        if record["identity"] != self.identity() or len(record["scores"]) != len(self.points):
            return None
        return self._tuned(record["scores"])

    def chosen(self, tuned: Tuned) -> Contender:
        """Return the contender with the chosen constants."""
        return replace(self.contender, parameters=tuple(tuned.parameters.items()))

    def words(self, tuned: Tuned) -> str:
        """Return the choice as text, such as ``alpha = 0.25, the best of 7 on 20 episodes of validation``."""
        constants = ", ".join(f"{name} = {tuned.parameters[name]}" for name in self.constants)
        return f"{constants}, the best of {len(self.points)} on {len(self.seeds)} episodes of {self.split}"

    def run(self, report: Callable[[Any], None]) -> Tuned:
        """Play every point, write the scores and return the result."""
        scores = [self._mean_score(point) for point in self.points]
        make_folder(Path(self.file).parent)
        record = {"identity": self.identity(), "constants": list(self.constants), "scores": scores}
        write_atomically(Path(self.file), json.dumps(record, indent=1).encode())
        return self._tuned(scores)

    def _tuned(self, scores: list[float]) -> Tuned:
        # Of equal points, the first one is chosen, because a grid begins with the usual values.
        best = int(np.argmax(scores) if self.higher_is_better else np.argmin(scores))
        return Tuned(self.points[best], tuple(scores))

    def _mean_score(self, point: Point) -> float:
        contender = replace(self.contender, parameters=tuple(point.items()))
        env, agent = make_contender(self.scenario, self.split, contender)
        try:
            return float(np.mean([self._score(env, agent, seed) for seed in self.seeds]))
        finally:
            env.close()

    def _score(self, env: Any, agent: Any, seed: int) -> float:
        played = play(env, agent, seed)
        if self.score == RETURN:
            return played.total_reward
        metrics = played.info["episode_metrics"]
        if self.score not in metrics:
            raise SysgymError(
                f"{self.label}: the episode has no metric {self.score}; choose by one of {', '.join(metrics)}"
            )
        value = float(metrics[self.score])
        if not np.isfinite(value):
            raise SysgymError(f"{self.label}: {self.score} is {value} in the episode of seed {seed}")
        return value
