"""Study of determinism: variance of training due to seeds and due to tools.

The method follows Zhuang et al., Randomness in Neural Network Training: Characterizing the Impact of Tooling,
MLSys 2022. A policy is trained in four arms: with both kinds of noise, with one of them, and without noise.
Algorithmic noise is due to the seed (initial weights, exploration, order of batches, episodes). Tooling noise
is due to software and hardware: on a CPU, to the number of threads, which changes the order of sums, and to
nondeterministic operations. The arm without noise is the control: its policies must be bitwise identical.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sysgym.agents.learned.training.algorithms import get_algorithm
from sysgym.agents.registry import agent_info
from sysgym.bench.results.versions import versions
from sysgym.errors import SysgymError
from sysgym.scenarios import Scenario
from sysgym.scenarios.files import read_json, write_atomically
from sysgym.scenarios.locks import alone_in
from sysgym.studies.determinism.training import Run, RunResult, carry_out, finished

SETTINGS = "settings.json"


class Arm(NamedTuple):
    """Arm of the study, with its kinds of noise.

    Attributes:
        name: Name in folders and tables.
        algorithmic: Whether seeds differ between runs.
        tooling: Whether tools are unrestricted and differ between runs.
    """

    name: str
    algorithmic: bool
    tooling: bool


ARMS = (
    Arm("both", True, True),
    Arm("algorithmic", True, False),
    Arm("tooling", False, True),
    Arm("none", False, False),
)
CONTROL = ARMS[-1]


@dataclass(frozen=True)
class Settings:
    """Settings of the study.

    Attributes:
        scenario: Scenario.
        agent: Learning algorithm.
        n_seeds: Number of trainings in each arm, at least 2.
        total_steps: Number of environment steps of each training.
        n_episodes: Number of episodes for each policy, from the first seeds of the validation split.
        n_envs: Number of parallel environments.
        all_threads: Number of threads in every second run with unrestricted tools; all other runs use 1.
        hyper_parameters: Hyperparameters of the algorithm.
        first_seed: Seed of the first training, and of all trainings if seeds are fixed.
    """

    scenario: Scenario
    agent: str = "ppo"
    n_seeds: int = 5
    total_steps: int = 20_000
    n_episodes: int = 5
    n_envs: int = 4
    all_threads: int = 2
    hyper_parameters: Mapping[str, Any] = field(default_factory=dict)
    first_seed: int = 0

    def __post_init__(self) -> None:
        """Raise SysgymError if a number or the agent is invalid."""
        if self.n_seeds < 2:
            raise SysgymError(f"--seeds: got {self.n_seeds}, expected at least 2 to measure a spread")
        if self.all_threads < 2:
            raise SysgymError(
                f"threads: got {self.all_threads}, expected at least 2 for the arm with free tools"
            )
        first, last = self.scenario.splits["validation"].seeds
        if not 1 <= self.n_episodes <= last - first + 1:
            raise SysgymError(
                f"episodes: got {self.n_episodes}, but the validation split has only {last - first + 1} seeds"
            )
        if not self.own_trainer:
            get_algorithm(self.agent)

    @property
    def own_trainer(self) -> bool:
        """Whether the agent has a trainer of its own, whose policies are compared by their files."""
        return bool(agent_info(self.agent, self.scenario.family).trainer)

    def runs(self, arms: Sequence[Arm] = ARMS) -> list[Run]:
        """Return the trainings, alternating between arms so that changes in machine speed affect all arms."""
        first, _ = self.scenario.splits["validation"].seeds
        software = versions(learned=True)
        made = []
        for number in range(self.n_seeds):
            for arm in arms:
                made.append(
                    Run(
                        arm=arm.name,
                        number=number,
                        scenario=self.scenario.resolved(),
                        agent=self.agent,
                        total_steps=self.total_steps,
                        n_envs=self.n_envs,
                        hyper_parameters=self.hyper_parameters,
                        seed=self.first_seed + (number if arm.algorithmic else 0),
                        n_threads=self.all_threads if arm.tooling and number % 2 == 0 else 1,
                        deterministic=not arm.tooling,
                        episode_seeds=tuple(range(first, first + self.n_episodes)),
                        versions=software,
                    )
                )
        return made


class Observer:
    """Observer of the study; its methods do nothing unless overridden."""

    def begin(self, n_runs: int, n_kept: int, steps: int) -> None:
        """Handle the beginning, given the numbers of runs, of finished runs, and of steps per run."""

    def steps(self, run: Run, steps: int) -> None:
        """Handle the progress of a run, given the number of completed steps."""

    def done(self, run: Run, result: RunResult) -> None:
        """Handle the end of a run."""


Results = Mapping[str, Sequence[tuple[Run, RunResult]]]
"""Arm -> its runs with results."""


def train_all(
    settings: Settings, folder: Path, observer: Observer | None = None, arms: Sequence[Arm] = ARMS
) -> Results:
    """Train all policies that are not in the folder yet, one after another, each in a new process.

    Args:
        settings: Settings of the study.
        folder: Folder of results.
        observer: Observer of the study.
        arms: Arms to train.

    Raises:
        SysgymError: The folder was made with other settings or software or is in use, or a training failed.
    """
    observer = observer or Observer()
    runs = settings.runs(arms)
    results: dict[str, list[tuple[Run, RunResult]]] = {arm.name: [] for arm in arms}
    with alone_in(folder, "trains for a study in"):
        _claim(folder, settings, runs)
        kept = {run.name: result for run in runs if (result := finished(run, folder)) is not None}
        observer.begin(len(runs), len(kept), settings.total_steps)
        for run in runs:
            result = kept.get(run.name)
            if result is None:

                def tell(steps: int, run: Run = run) -> None:
                    observer.steps(run, steps)

                result = carry_out(run, folder, tell)
                observer.done(run, result)
            results[run.arm].append((run, result))
    return results


def _claim(folder: Path, settings: Settings, runs: Sequence[Run]) -> None:
    """Write the settings into a folder that has none, or check the existing settings."""
    about = {
        **{name: value for name, value in asdict(settings).items() if name not in ("scenario", "n_seeds")},
        "scenario_sha256": settings.scenario.sha256(),
        "versions": dict(runs[0].versions),
    }
    about = json.loads(json.dumps(about))
    path = folder / SETTINGS
    if path.is_file():
        before = read_json(path)
        if not isinstance(before, dict):
            raise SysgymError(f"{path}: expected settings of this study; use another --out")
        if other := [name for name in about if about[name] != before.get(name)]:
            raise SysgymError(f"{folder}: has runs with other {', '.join(other)}; use another --out")
        return
    write_atomically(path, json.dumps(about, indent=1).encode() + b"\n")
