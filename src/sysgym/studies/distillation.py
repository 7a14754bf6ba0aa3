"""Study of distillation: a small student compared with its teacher and two controls.

The method follows Ruffy and Chahal (arXiv 1912.10850): equal budgets, several seeds and two controls. One
control is the student's network trained by reinforcement learning alone, with the same number of environment
steps; the other is a larger student, distilled in the same way. All policies are evaluated on the same
held-out episodes. A student also benefits from the steps of its teacher's training, so their number is the
default budget of every arm.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.checkpoint import Checkpoint, read_checkpoint
from sysgym.agents.learned.deploy.c_header import table_bytes
from sysgym.agents.learned.deploy.distill import (
    Recipe,
    action_scale_name,
    distill,
    student_algorithm,
    student_hyper_parameters,
)
from sysgym.agents.learned.deploy.graph import n_parameters
from sysgym.agents.learned.training.train import train
from sysgym.bench.contenders import contender_from, file_sha256
from sysgym.bench.run.episodes import make_contender, play
from sysgym.bench.statistics import Interval, estimate, paired_difference
from sysgym.errors import SysgymError
from sysgym.scenarios import get_family, scenario_from_resolved
from sysgym.scenarios.files import make_folder, read_json, write_atomically
from sysgym.scenarios.locks import alone_in

STUDENT, ALONE, LARGER, TEACHER = "student", "alone", "larger", "teacher"
ARMS = (STUDENT, ALONE, LARGER)

MEANING = {
    STUDENT: "small network, distilled",
    ALONE: "the same network, trained alone",
    LARGER: "larger network, distilled",
    TEACHER: "the policy to imitate",
}

FEWEST_SEEDS = 5
"""Recommended number of seeds for a difference that is not due to chance."""

FINISHED = "finished.json"


@dataclass(frozen=True)
class Survey:
    """Settings of the study.

    Attributes:
        teacher: Checkpoint of the teacher.
        folder: Folder of students and results.
        recipe: Recipe of the student; the larger student's differs in its layers only.
        larger: Widths of the larger student's hidden layers.
        n_seeds: Number of policies in each arm.
        n_episodes: Number of held-out episodes for each policy.
    """

    teacher: Checkpoint
    folder: Path
    recipe: Recipe
    larger: tuple[int, ...]
    n_seeds: int
    n_episodes: int

    def hidden(self, arm: str) -> tuple[int, ...]:
        """Return the widths of an arm's layers."""
        return self.larger if arm == LARGER else self.recipe.hidden

    def identity(self, arm: str, seed: int) -> dict[str, Any]:
        """Return the values that identify a result on disk as one of this run."""
        settings: dict[str, Any] = {"n_episodes": self.n_episodes}
        if arm != TEACHER:
            settings |= asdict(self.recipe) | {"hidden": list(self.hidden(arm)), "seed": seed}
        if arm == ALONE:  # trained without a recipe
            kept = ("hidden", "seed", "n_episodes", "total_steps", "n_envs")
            settings = {name: settings[name] for name in kept}
        return {"arm": arm, "teacher_sha256": file_sha256(self.teacher.path), **settings}

    def runs(self) -> list[tuple[str, int]]:
        """Return arm and seed of all runs, seed by seed."""
        return [(TEACHER, 0), *((arm, seed) for seed in range(self.n_seeds) for arm in ARMS)]


@dataclass(frozen=True)
class Result:
    """Result of one policy.

    Attributes:
        arm: Arm of the study.
        seed: Training seed.
        checkpoint: Path of the checkpoint.
        returns: Returns of the held-out episodes, in the order of their seeds.
        n_parameters: Number of weights and biases.
        int8_bytes: Size of its tables in C with 8-bit integers.
        total_steps: Number of environment steps of the training.
        difference: Mean difference from the teacher's actions; None if it was not measured.
        wall_s: Wall time of training and evaluation, s.
    """

    arm: str
    seed: int
    checkpoint: str
    returns: tuple[float, ...]
    n_parameters: int
    int8_bytes: int
    total_steps: int
    difference: float | None
    wall_s: float


def run_survey(survey: Survey, told: Callable[[str, int, int], None] | None = None) -> Iterator[Result]:
    """Train and evaluate all missing policies; yield every result, including those on disk.

    Args:
        survey: Settings of the study.
        told: Callback with an arm, a seed, and the number of environment steps done.

    Raises:
        MissingExtra: The extra ``train`` is not installed.
        SysgymError: The folder has another study or is in use, or the teacher cannot be imitated.
    """
    with alone_in(survey.folder, "distils into"):
        for arm, seed in survey.runs():  # check all results before training anything
            _finished(survey, arm, seed)
        for arm, seed in survey.runs():
            tell = partial(told or _nobody, arm, seed)
            yield _finished(survey, arm, seed) or _run(survey, arm, seed, tell)


def _nobody(arm: str, seed: int, steps: int) -> None:
    """Ignore progress."""


def _folder(survey: Survey, arm: str, seed: int) -> Path:
    return survey.folder / (arm if arm == TEACHER else f"{arm}-seed{seed}")


def _finished(survey: Survey, arm: str, seed: int) -> Result | None:
    """Return the result on disk, or None if there is none.

    Raises:
        SysgymError: The result belongs to another study, or the file is damaged.
    """
    folder = _folder(survey, arm, seed)
    if not (folder / FINISHED).is_file():
        return None
    try:
        return _result(survey, arm, seed, read_json(folder / FINISHED))
    except (KeyError, TypeError) as error:
        raise SysgymError(
            f"{folder / FINISHED}: expected the result of a training: {error}; delete the file"
        ) from error


def _result(survey: Survey, arm: str, seed: int, data: Any) -> Result | None:
    folder = _folder(survey, arm, seed)
    if data["identity"] != json.loads(json.dumps(survey.identity(arm, seed))):
        raise SysgymError(
            f"{folder}: has a study with another teacher, layers, budget or episodes; use another --out"
        )
    path = Path(data["result"]["checkpoint"])
    if arm != TEACHER and (not path.is_file() or file_sha256(path) != data["checkpoint_sha256"]):
        return None
    return Result(**{**data["result"], "returns": tuple(data["result"]["returns"])})


def _run(survey: Survey, arm: str, seed: int, told: Callable[[int], None]) -> Result:
    began_s = time.perf_counter()
    folder = _folder(survey, arm, seed)
    difference = None
    if arm == TEACHER:
        path = survey.teacher.path
    elif arm == ALONE:
        path = _train_alone(survey, folder, seed, told)
    else:
        recipe = Recipe(**{**asdict(survey.recipe), "hidden": survey.hidden(arm)})
        found = distill(survey.teacher, recipe, folder, seed=seed, progress=told)
        path, difference = found.checkpoint, found.difference
    checkpoint = read_checkpoint(path)
    if checkpoint.policy is None:
        raise SysgymError(f"{path}: the policy is not a network that runs without torch")
    result = Result(
        arm=arm,
        seed=seed,
        checkpoint=str(path),
        returns=tuple(_returns(checkpoint, survey.n_episodes)),
        n_parameters=n_parameters(checkpoint.policy),
        int8_bytes=table_bytes(checkpoint.policy, "int8"),
        total_steps=checkpoint.meta.total_steps,
        difference=difference,
        wall_s=round(time.perf_counter() - began_s, 3),
    )
    data = {
        "identity": survey.identity(arm, seed),
        "checkpoint_sha256": file_sha256(path),
        "result": asdict(result),
    }
    make_folder(folder)
    write_atomically(folder / FINISHED, json.dumps(data, indent=1).encode())
    return result


def _train_alone(survey: Survey, folder: Path, seed: int, told: Callable[[int], None]) -> Path:
    """Train the student's network with the teacher's algorithm, for as many steps as the student."""
    meta = survey.teacher.meta
    names = ("features", "history", "reward")
    chosen = {name: meta.env_kwargs[name] for name in names if name in meta.env_kwargs}
    scenario = scenario_from_resolved(meta.scenario)
    if "preset" in meta.env_kwargs:  # training takes a preset, and its history, from the scenario
        own = {f"flow.{name}": meta.env_kwargs[name] for name in ("preset", "history")}
        scenario = scenario.with_overrides(own)
    return train(
        student_algorithm(meta).name,
        scenario,
        total_steps=survey.recipe.total_steps,
        out=folder,
        seed=seed,
        n_envs=survey.recipe.n_envs,
        hyper_parameters=student_hyper_parameters(meta, survey.recipe.hidden),
        action_scale=action_scale_name(meta),
        resume=True,
        progress=told,
        **chosen,
    )


def _returns(checkpoint: Checkpoint, n_episodes: int) -> Iterator[float]:
    """Run the first episodes of the test split and yield their returns."""
    meta = checkpoint.meta
    scenario = scenario_from_resolved(meta.scenario)
    transports = get_family(scenario.family).transports
    transport = "" if transports is None else transports.driven
    contender = contender_from(meta.agent, transport, meta.agent, family=scenario.family)
    env, agent = make_contender(meta.scenario, "test", contender.with_checkpoint(checkpoint.path))
    first = scenario.splits["test"].first_seed
    try:
        for seed in range(first, first + n_episodes):
            yield float(play(env, agent, seed).total_reward)
    finally:
        env.close()


@dataclass(frozen=True)
class Line:
    """Results of one arm.

    Attributes:
        arm: Arm of the study.
        n_parameters: Number of parameters of each network.
        int8_bytes: Size of its tables in C with 8-bit integers.
        total_steps: Number of environment steps of each run.
        score: Return, interquartile mean over runs and episodes.
        over_alone: Return minus that of the network trained alone, on the same episodes; None for this
            network itself.
        over_teacher: Return minus that of the teacher; None for the teacher itself.
        difference: Mean difference from the teacher's actions; None if it was not measured.
    """

    arm: str
    n_parameters: int
    int8_bytes: int
    total_steps: int
    score: Interval
    over_alone: Interval | None
    over_teacher: Interval | None
    difference: float | None


def lines_of(results: Sequence[Result]) -> list[Line]:
    """Return the results of each arm; those of the teacher are last."""
    samples: dict[str, NDArray[np.float64]] = {
        arm: np.array([one.returns for one in results if one.arm == arm]) for arm in (*ARMS, TEACHER)
    }

    def over(arm: str, other: str) -> Interval | None:
        return None if arm == other else paired_difference(samples[arm], samples[other])

    lines = []
    for arm, sample in samples.items():
        one = next(result for result in results if result.arm == arm)
        measured = [r.difference for r in results if r.arm == arm and r.difference is not None]
        lines.append(
            Line(
                arm,
                one.n_parameters,
                one.int8_bytes,
                one.total_steps,
                estimate(sample),
                over(arm, ALONE),
                over(arm, TEACHER),
                float(np.mean(measured)) if measured else None,
            )
        )
    return lines


def verdict(lines: Sequence[Line]) -> str:
    """Return a sentence on the gain of distillation over training alone, with its interval."""
    by_arm = {line.arm: line for line in lines}
    gain = by_arm[STUDENT].over_alone
    assert gain is not None
    interval = f"{gain.value:.4g} [{gain.low:.4g}, {gain.high:.4g}]"
    if not gain.excludes_zero:
        return f"no significant difference to training alone: {interval}"
    word = "gains" if gain.value > 0.0 else "loses"
    return f"distilling {word} against training alone, with equal environment steps: {interval}"
