"""Transfer: gradient boosting on features of tasks relative to their siblings, over the train split's jobs.

NURD and similar methods are fitted anew in every job, to tasks that have finished and are therefore not
stragglers. This agent learns from completed jobs, whose stragglers are known: at every checkpoint of every
training job, which running tasks will reach the threshold (it flags these), and which would finish sooner if
relaunched (it relaunches these). LightGBM (Ke et al., NeurIPS 2017) learns both. The probability threshold
for acting is chosen on held-out training jobs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.stragglers.examples import Examples, collect
from sysgym.agents.learned.stragglers.features import feature_names, task_features
from sysgym.agents.learned.stragglers.trees import checked_trees
from sysgym.agents.stragglers.base import Predictor
from sysgym.emulator.cluster.source import JobSource
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios import StragglerScenario
from sysgym.scenarios.errors import MissingExtra, SysgymError
from sysgym.scenarios.files import LARGEST_JSON_BYTES, parse_json, read_limited, write_atomically

FORMAT = "sysgym-transfer-1"
FINAL = "final.zip"
EXTRA = "stragglers"
QUESTIONS = FLAG, RELAUNCH = "flag", "relaunch"

TREES = 250
PARAMETERS = {
    "objective": "binary",
    "learning_rate": 0.05,
    "num_leaves": 31,
    "min_data_in_leaf": 100,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.5,
    "bagging_freq": 1,
    "lambda_l2": 1.0,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}
SHARE_HELD_OUT = 0.25
"""Share of the training jobs held out to choose the probability threshold for acting."""
MOMENTS = np.linspace(0.1, 1.0, 10)
"""Shares of the threshold at which F1 is taken."""
CANDIDATES = np.linspace(0.05, 0.95, 46)
NEVER = 2.0
"""A limit that no probability reaches."""

Progress = Callable[[int], None]


class Transfer(Predictor):
    """Agent that flags predicted stragglers; in mitigation it relaunches tasks that benefit from it.

    Args:
        checkpoint: Path of the checkpoint.
        expected: Name of the agent as requested; ignored.
        action: ``"relaunch"`` or ``"copy"``, in the mitigation environment.
        limit: Probability from which it acts; None: the one fitted in training, which in mitigation is for
            relaunches. A copy costs no time if it is slower, so it pays at a lower probability.

    Raises:
        SysgymError: If the file is not a checkpoint of this agent.
        MissingExtra: If LightGBM is not installed.
    """

    name = "transfer"

    def __init__(
        self,
        checkpoint: str | PathLike[str],
        expected: str = "transfer",
        action: str = "relaunch",
        limit: float | None = None,
    ) -> None:
        super().__init__(action)
        self._path = Path(checkpoint)
        data = _read(self._path)
        lightgbm = _lightgbm()
        try:
            self._counters: list[str] = data["counters"]
            self._features: list[str] = data["features"]
            self._limits = {
                question: float(data["limits"][question]) if limit is None else limit
                for question in QUESTIONS
            }
            self._models = {
                question: lightgbm.Booster(model_str=checked_trees(data["models"][question]))
                for question in QUESTIONS
            }
            if any(model.num_feature() != len(self._features) for model in self._models.values()):
                raise ValueError("trees over another number of features")
        except (KeyError, TypeError, ValueError, AttributeError, lightgbm.basic.LightGBMError) as error:
            raise SysgymError(
                f"{self._path}: damaged checkpoint of the agent transfer ({error!r})"
            ) from error

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Begin an episode.

        Raises:
            SysgymError: If the environment has different counters from those of the training.
        """
        super().begin(env)
        counters = list(env.unwrapped.counter_names)  # type: ignore[attr-defined]
        if counters != self._counters:
            raise SysgymError(f"{self._path}: trained on the counters {self._counters}, here are {counters}")
        if feature_names(counters) != self._features:
            raise SysgymError(f"{self._path}: trained on other features than this version computes")

    def predict(self, view: JobView) -> NDArray[np.bool_]:
        """Return which running tasks to act on."""
        question = RELAUNCH if self.mitigates else FLAG
        found = np.zeros(len(view.running), dtype=bool)
        if view.running.any():
            probability = self._models[question].predict(task_features(view), num_threads=1)
            found[view.running] = np.asarray(probability) >= self._limits[question]
        return found


def train_transfer(
    scenario: StragglerScenario,
    *,
    total_steps: int,
    out: str | PathLike[str],
    seed: int = 0,
    progress: Progress | None = None,
    source: JobSource | None = None,
) -> Path:
    """Train on the train split of a scenario.

    Args:
        scenario: The scenario.
        total_steps: Number of checkpoints of training jobs.
        out: Folder for the checkpoint.
        seed: Seed of the choice of jobs and of the trees.
        progress: Callback with the number of checkpoints so far.
        source: Source of jobs other than the scenario.

    Returns:
        The checkpoint: one JSON file with both models in LightGBM's format.

    Raises:
        MissingExtra: If LightGBM is not installed.
        SysgymError: If all checkpoints belong to a single job.
    """
    _lightgbm()
    examples = collect(scenario, total_steps, seed, progress, source)
    jobs = np.unique(examples.group)
    if len(jobs) < 2:
        raise SysgymError(
            f"{scenario.name}: {total_steps} checkpoints are of one job; transfer needs one to learn from "
            f"and another to choose its limits on: train for more steps"
        )
    held_out = np.isin(examples.group, jobs[: max(1, round(SHARE_HELD_OUT * len(jobs)))])
    models, limits = {}, {}
    for question, labels in ((FLAG, examples.straggler), (RELAUNCH, examples.curable)):
        model = _fit(examples.features[~held_out], labels[~held_out], seed)
        probability = model.predict(examples.features[held_out], num_threads=1)
        choose = _best_f1_limit if question == FLAG else _best_saving_limit
        limits[question] = choose(examples.where(held_out), np.asarray(probability))
        models[question] = model.model_to_string()
    data = {
        "format": FORMAT,
        "agent": Transfer.name,
        "scenario": scenario.resolved(),
        "counters": list(examples.counter_names),
        "features": feature_names(examples.counter_names),
        "total_steps": total_steps,
        "seed": seed,
        "limits": limits,
        "models": models,
    }
    path = Path(out) / FINAL
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(data).encode())
    return path


def _fit(features: NDArray[np.float32], labels: NDArray[np.bool_], seed: int) -> Any:
    lightgbm = _lightgbm()
    data = lightgbm.Dataset(features, label=labels.astype(np.float32), params={"verbosity": -1})
    return lightgbm.train({**PARAMETERS, "seed": seed}, data, num_boost_round=TREES)


def _best_f1_limit(examples: Examples, probability: NDArray[np.float64]) -> float:
    """Return the limit with the best F1 of permanent flags, averaged over tenths of the threshold.

    F1 at the end alone would favour waiting, because a task that has run for nearly the threshold is usually
    a straggler.
    """
    _, place = np.unique(examples.task_key, return_inverse=True)
    n_tasks = int(place.max()) + 1
    straggles = np.zeros(n_tasks, dtype=bool)
    straggles[place] = examples.straggler
    # Running maximum of each task's probability; flags after the threshold do not count.
    highest = np.zeros((len(MOMENTS), n_tasks))
    for moment, so_far in zip(MOMENTS, highest, strict=True):
        seen = (examples.elapsed_share <= moment) & (examples.in_time | ~examples.straggler)
        np.maximum.at(so_far, place[seen], probability[seen])
    scores = []
    for limit in CANDIDATES:
        true = (highest[:, straggles] >= limit).sum(axis=1)
        false = (highest[:, ~straggles] >= limit).sum(axis=1)
        scores.append(float(np.mean(2 * true / np.maximum(true + false + straggles.sum(), 1))))
    return _best(scores)


def _best_saving_limit(examples: Examples, probability: NDArray[np.float64]) -> float:
    """Return the limit at which a single relaunch, as early as possible, saves the most task time."""
    order = np.lexsort((examples.checkpoint, examples.task_key))
    keys, saved = examples.task_key[order], examples.saving[order]
    scores = []
    for limit in CANDIDATES:
        acted = probability[order] >= limit
        chosen, first = np.unique(keys[acted], return_index=True)
        scores.append(float(saved[acted][first].sum()) if len(chosen) else 0.0)
    return _best(scores) if max(scores) >= 0.0 else NEVER


def _best(scores: Sequence[float]) -> float:
    """Return the candidate with the highest score; the middle one if there are several."""
    best = np.flatnonzero(np.asarray(scores) == max(scores))
    return float(CANDIDATES[best[len(best) // 2]])


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise SysgymError(f"{path}: no such checkpoint")
    try:
        data = parse_json(read_limited(path, LARGEST_JSON_BYTES))
    except ValueError as error:
        raise SysgymError(f"{path}: not a checkpoint of the agent transfer ({error})") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise SysgymError(f"{path}: not a checkpoint of the format {FORMAT}")
    return data


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError as error:
        raise MissingExtra(EXTRA, "the agent transfer") from error
    return lightgbm
