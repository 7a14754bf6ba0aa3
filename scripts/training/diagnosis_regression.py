"""Diagnosis of training jobs by a linear model that is fitted to jobs with known faults.

python scripts/training/diagnosis_regression.py
python scripts/training/diagnosis_regression.py --jobs 500

A rival of the suite's learned agents that needs neither reinforcement nor questions: a conditional logit
over the parts of a job, whose columns are linear and quadratic in what an agent sees at the beginning. It is
fitted to training jobs of a scenario, for which the cost of every fault is known, and names one part of each
test job.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import track

import sysgym  # noqa: F401  registers the environments
from sysgym.bench.statistics import estimate, mean
from sysgym.envs.diagnosis.observation import PART_COLUMNS
from sysgym.envs.diagnosis.training_diagnosis import TrainingDiagnosis
from sysgym.scenarios import load_scenario

SCENARIOS = ("diagnosis-jobs", "diagnosis-unseen")
KINDS = ("is_stage", "is_kind", "is_data_rank", "is_rank")
NUMBERS = ("computes", "excess", "steady", "late")
DESCENTS = 1500
LIKELIHOOD_DESCENTS = 500
"""Steps in which the likelihood is raised; the rest raises the score itself, from there."""
PENALTY = 1e-4
FORBIDDEN = -1e9


class Jobs(NamedTuple):
    """Jobs whose faults are known.

    Attributes:
        columns: Columns of the parts, float32 [n_jobs, n_parts, n_columns].
        score: Cost of each part's fault over that of the worst one, float32 [n_jobs, n_parts].
        allowed: Whether a part may be named, bool [n_jobs, n_parts].
    """

    columns: torch.Tensor
    score: torch.Tensor
    allowed: torch.Tensor


def columns_of(parts: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the columns: for each kind, numbers, numbers less the mean of like parts, and squares."""
    names = list(PART_COLUMNS)
    kinds = parts[:, [names.index(name) for name in KINDS]].astype(np.float64)
    numbers = parts[:, [names.index(name) for name in NUMBERS]].astype(np.float64)
    # The time above the ideal has the scale of the job's worst part.
    numbers[:, -1] /= max(numbers[:, -1].max(), 1e-9)
    of_kind = kinds.T @ numbers / np.maximum(kinds.sum(axis=0), 1.0)[:, None]
    terms = np.hstack([numbers, numbers - kinds @ of_kind, numbers**2])
    return np.hstack([(kinds[:, :, None] * terms[:, None]).reshape(len(parts), -1), kinds])


def known_jobs(scenario: str, split: str, first: int, n_jobs: int) -> Jobs:
    """Return jobs of a split, from a seed on."""
    env = gym.make("sysgym/TrainingDiagnosis-v0", scenario=scenario, split=split).unwrapped
    assert isinstance(env, TrainingDiagnosis)
    columns, scores, allowed = [], [], []
    for seed in track(range(first, first + n_jobs), f"{scenario}, {split}"):
        observation, _ = env.reset(options={"episode_seed": seed})
        n_rows = len(observation["parts"])
        score = [env.case.score(part) for part in env.case.parts]
        columns.append(columns_of(observation["parts"]))
        scores.append([*score, *[0.0] * (n_rows - len(score))])
        allowed.append(observation["action_mask"][n_rows:] > 0.0)
    return Jobs(
        torch.tensor(np.array(columns), dtype=torch.float32),
        torch.tensor(np.array(scores), dtype=torch.float32),
        torch.tensor(np.array(allowed)),
    )


def fitted(jobs: Jobs) -> torch.Tensor:
    """Return the weights: those that make the worst faults likely, then those nearby that raise the score."""
    weights = torch.zeros(jobs.columns.shape[2], requires_grad=True)
    descent = torch.optim.Adam([weights], lr=0.05)
    target = jobs.score / jobs.score.sum(dim=1, keepdim=True)
    for number in range(DESCENTS):
        logits = (jobs.columns @ weights).masked_fill(~jobs.allowed, FORBIDDEN)
        if number < LIKELIHOOD_DESCENTS:
            loss = -(torch.log_softmax(logits, 1) * target).sum(dim=1).mean()
        else:
            loss = -(torch.softmax(logits, 1) * jobs.score).sum(dim=1).mean() + PENALTY * (weights**2).sum()
        descent.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        descent.step()
    return weights.detach()


def scores_of(jobs: Jobs, weights: torch.Tensor) -> NDArray[np.float64]:
    """Return the score of the named part of each job."""
    named = (jobs.columns @ weights).masked_fill(~jobs.allowed, FORBIDDEN).argmax(dim=1)
    return jobs.score[torch.arange(len(named)), named].double().numpy()


def main() -> None:
    """Fit and test the model on both scenarios."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--jobs", type=int, default=2500, help="training jobs with known faults")
    options.add_argument("--tests", type=int, default=200, help="test jobs")
    given = options.parse_args()
    for scenario in SCENARIOS:
        splits = load_scenario(scenario).splits
        weights = fitted(known_jobs(scenario, "train", splits.train.seeds[0], given.jobs))
        scores = scores_of(known_jobs(scenario, "test", splits.test.seeds[0], given.tests), weights)
        found = estimate(scores[None], statistic=mean)
        print(f"{scenario}: score {found.value:.3f} [{found.low:.3f}, {found.high:.3f}], no questions")


if __name__ == "__main__":
    main()
