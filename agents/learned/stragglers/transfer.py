"""Transfer: gradient boosting on features of tasks relative to their siblings, over the train split's jobs.

NURD and similar methods are fitted anew in every job, to tasks that have finished and are therefore not
stragglers. This agent learns from completed jobs, whose stragglers are known. For every checkpoint of every
training job, LightGBM (Ke et al., NeurIPS 2017) learns which running tasks will reach the threshold, and for
which tasks a second attempt would shorten the job. The agent flags the former, and relaunches or copies the
latter. The least probability for an action is chosen on held-out training jobs, separately for flags,
relaunches and copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.stragglers.boosting import (
    TreesCheckpoint,
    fit,
    load_lightgbm,
    predict,
    write_checkpoint,
)
from sysgym.agents.learned.stragglers.examples import Examples, collect, halves
from sysgym.agents.learned.stragglers.features import feature_names, task_features
from sysgym.agents.stragglers.base import ACTIONS, Predictor
from sysgym.emulator.cluster.source import JobSource
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios import StragglerScenario
from sysgym.scenarios.errors import SysgymError

FORMAT = "sysgym-transfer-2"
QUESTIONS = FLAG, SHORTEN = "flag", "shorten"
LIMITS = (FLAG, *ACTIONS)

SHARE_HELD_OUT = 0.25
"""Share of the training jobs held out to choose the limits: the least probabilities for acting."""
MOMENTS = np.linspace(0.1, 1.0, 10)
"""Shares of the threshold at which F1 is evaluated."""
CANDIDATES = np.linspace(0.05, 0.95, 46)
"""Candidates for the limit of flags."""
ACTION_CANDIDATES = np.geomspace(0.005, 0.95, 40)
"""Candidates for the limits of actions. Few tasks shorten a job, so probabilities are small."""
NEVER = 2.0
"""Limit that no probability reaches."""

Progress = Callable[[int], None]


class Transfer(Predictor):
    """Agent that flags predicted stragglers; in mitigation, it acts on tasks if this may shorten the job.

    Args:
        checkpoint: Path of the checkpoint.
        expected: Name of the agent as requested; ignored.
        action: ``"relaunch"`` or ``"copy"``, in the mitigation environment.
        limit: Least probability for an action; None: the one chosen in training. The limit for copies is
            usually lower than that for relaunches, because a slow copy costs machine time only.

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
        self._checkpoint = TreesCheckpoint(Path(checkpoint), self.name, FORMAT, QUESTIONS)
        try:
            fitted = {of: float(self._checkpoint.data["limits"][of]) for of in LIMITS}
        except (KeyError, TypeError, ValueError) as error:
            raise self._checkpoint.damaged(error) from error
        self._limits = fitted if limit is None else dict.fromkeys(LIMITS, limit)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Begin an episode.

        Raises:
            SysgymError: If the environment's counters differ from those of the training.
        """
        super().begin(env)
        self._checkpoint.check_features(env, feature_names(env.unwrapped.counter_names))  # type: ignore[attr-defined]

    def predict(self, view: JobView) -> NDArray[np.bool_]:
        """Return the mask of running tasks to act on, shape (n_tasks,)."""
        question, limit_of = (SHORTEN, self.action) if self.mitigates else (FLAG, FLAG)
        found = np.zeros(len(view.running), dtype=bool)
        if view.running.any():
            probability = predict(self._checkpoint.models[question], task_features(view))
            found[view.running] = probability >= self._limits[limit_of]
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
        source: Source of jobs; None: the scenario's.

    Returns:
        Path of the checkpoint, one JSON file with both models in LightGBM's format.

    Raises:
        MissingExtra: If LightGBM is not installed.
        SysgymError: If all checkpoints belong to a single job.
    """
    load_lightgbm(Transfer.name)
    examples = collect(scenario, total_steps, seed, progress, source)
    jobs = np.unique(examples.group)
    if len(jobs) < 2:
        raise SysgymError(
            f"{scenario.name}: {total_steps} checkpoints are of one job; transfer needs one to learn from "
            f"and another to choose its limits on: train for more steps"
        )
    fitted_on, chosen_on = halves(examples, SHARE_HELD_OUT)
    models = {}
    probability = {}
    for question, labels in ((FLAG, fitted_on.straggler), (SHORTEN, fitted_on.shortens)):
        models[question] = fit(fitted_on.features, labels, "binary", seed, Transfer.name)
        probability[question] = predict(models[question], chosen_on.features)
    price = scenario.mitigation.waste_price
    limits = {FLAG: _best_f1_limit(chosen_on, probability[FLAG])} | {
        action: _best_action_limit(chosen_on, probability[SHORTEN], action, price) for action in ACTIONS
    }
    data = {
        "format": FORMAT,
        "agent": Transfer.name,
        "scenario": scenario.resolved(),
        "counters": list(examples.counter_names),
        "features": feature_names(examples.counter_names),
        "total_steps": total_steps,
        "seed": seed,
        "limits": limits,
        "models": {question: model.model_to_string() for question, model in models.items()},
    }
    return write_checkpoint(data, Path(out))


def _best_f1_limit(examples: Examples, probability: NDArray[np.float64]) -> float:
    """Return the limit with the best F1 of permanent flags, averaged over tenths of the threshold.

    F1 only at the end would favour late flags, because a task that has run for nearly the threshold is
    usually a straggler.
    """
    _, place = np.unique(examples.task_key, return_inverse=True)
    n_tasks = int(place.max()) + 1
    straggles = np.zeros(n_tasks, dtype=bool)
    straggles[place] = examples.straggler
    # Running maximum of each task's probability; late flags of stragglers do not count.
    highest = np.zeros((len(MOMENTS), n_tasks))
    for moment, so_far in zip(MOMENTS, highest, strict=True):
        seen = (examples.elapsed_share <= moment) & (examples.in_time | ~examples.straggler)
        np.maximum.at(so_far, place[seen], probability[seen])
    scores = []
    for limit in CANDIDATES:
        true = (highest[:, straggles] >= limit).sum(axis=1)
        false = (highest[:, ~straggles] >= limit).sum(axis=1)
        scores.append(float(np.mean(2 * true / np.maximum(true + false + straggles.sum(), 1))))
    return _best(CANDIDATES, scores)


def _best_action_limit(
    examples: Examples, probability: NDArray[np.float64], action: str, price: float
) -> float:
    """Return the limit with the best mean return in mitigation, or NEVER if no action is better.

    As in play, every task is acted on at most once, at the first checkpoint at which it reaches the limit.
    """
    order = np.lexsort((examples.checkpoint, examples.task_key))
    examples, probability = examples.where(order), probability[order]
    scores = [mean_return(examples, probability >= limit, action, price) for limit in ACTION_CANDIDATES]
    return _best(ACTION_CANDIDATES, scores) if max(scores) > -1.0 else NEVER


def mean_return(examples: Examples, acts: NDArray[np.bool_], action: str, price: float) -> float:
    """Return the mean over jobs of :func:`returns_of_jobs`, with the same arguments."""
    return float(np.mean(returns_of_jobs(examples, acts, action, price)))


def returns_of_jobs(
    examples: Examples, acts: NDArray[np.bool_], action: str, price: float
) -> NDArray[np.float64]:
    """Return the return of every job in mitigation, with at most one action on a task, shape (n_jobs,).

    Args:
        examples: Examples sorted by task and checkpoint.
        acts: Whether to act on the task at the checkpoint if it was not acted on before, shape (n,).
        action: ``"relaunch"`` or ``"copy"``.
        price: Completion time that is equivalent to one unit of wasted machine time per task.
    """
    _, first, task = np.unique(examples.task_key, return_index=True, return_inverse=True)
    _, job = np.unique(examples.job[first], return_inverse=True)
    end = (examples.now + examples.remaining)[first]
    wasted = np.zeros(len(first))
    rows = np.flatnonzero(acts & np.isfinite(examples.again))
    acted, place = np.unique(task[rows], return_index=True)
    rows = rows[place]
    now, left, again = examples.now[rows], examples.remaining[rows], examples.again[rows]
    if action == "copy":
        end[acted] = now + np.minimum(left, again)
        # If the copy ends first, the first attempt is wasted; otherwise the copy is.
        wasted[acted] = np.where(again < left, examples.elapsed[rows] + again, left)
    else:
        end[acted] = now + again
        wasted[acted] = examples.elapsed[rows]
    completion = np.zeros(job.max() + 1)
    np.maximum.at(completion, job, end)
    waste = np.bincount(job, wasted / examples.n_tasks[first])
    unaided = np.zeros_like(completion)
    unaided[job] = examples.completion[first]
    return np.asarray(-(completion + price * waste) / unaided)


def _best(candidates: NDArray[np.float64], scores: Sequence[float]) -> float:
    """Return the candidate with the highest score; if there are several, the middle one."""
    best = np.flatnonzero(np.asarray(scores) == max(scores))
    return float(candidates[best[len(best) // 2]])
