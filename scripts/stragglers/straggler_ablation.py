"""Designs of a predictor that learns across jobs, compared on validation jobs, as Markdown tables.

    python scripts/stragglers/straggler_ablation.py google-2011

Features, models, numbers of training jobs, and the calibration of probabilities, by F1 over time of
permanent flags and by the Brier score. All designs have the same training jobs, limits that are chosen on
the same quarter of them, and the same validation jobs; no test job is played. Predictions do not affect a
job, so one run of each job scores all designs. scripts/stragglers/decision_ablation.py compares what
decides about second attempts.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sysgym.agents.learned.stragglers import boosting, transfer
from sysgym.agents.learned.stragglers.examples import Examples, collect, halves
from sysgym.agents.learned.stragglers.features import COUNTER_FEATURES, JOB_FEATURES, task_features
from sysgym.bench.statistics import estimate
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios import StragglerScenario, load_scenario

Array = NDArray[np.float64]
Scores = Callable[[Examples, tuple[Examples, ...], int], list[Array]]
"""From training examples, several other ones and a seed to numbers for each of the others; higher is more of
a straggler."""

EDGES = np.linspace(0.1, 1.0, 10)
"""Ends of the intervals of the discrete-time hazard, in thresholds."""
EPOCHS = 5
"""Passes of the network over the training jobs."""
BINS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Intervals of the reliability table."""


class Effort(NamedTuple):
    """Size of the comparison.

    Attributes:
        steps: Checkpoints of training jobs.
        trainings: Trainings of each design.
        validation_steps: Checkpoints of validation jobs.
    """

    steps: int
    trainings: int
    validation_steps: int


class Design(NamedTuple):
    """A row of the table of prediction.

    Attributes:
        label: What differs from ``transfer``.
        scores: Model.
        share: Checkpoints of training jobs, as a multiple of the usual number.
        raw: Whether features are the counters as they were measured.
        probabilities: Whether scores are probabilities.
    """

    label: str
    scores: Scores
    share: float = 1.0
    raw: bool = False
    probabilities: bool = True


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario")
    parser.add_argument("--steps", type=int, default=3000, help="checkpoints of training jobs")
    parser.add_argument("--trainings", type=int, default=3, help="trainings of each design")
    parser.add_argument("--validation-steps", type=int, default=2000, help="checkpoints of validation jobs")
    given = parser.parse_args()
    scenario = load_scenario(given.scenario, expect=StragglerScenario)
    print_designs(scenario, Effort(given.steps, given.trainings, given.validation_steps))


def print_designs(scenario: StragglerScenario, effort: Effort) -> None:
    """Print F1 over time and the Brier score of every design, and the reliability of the first."""
    n_counters = collect(scenario, 1, 0).features.shape[1] - len(JOB_FEATURES)
    n_counters //= len(COUNTER_FEATURES)
    clock = list(range(len(JOB_FEATURES)))
    ranks = [*clock, *range(len(clock), len(clock) + n_counters)]
    ratios = [*clock, *range(len(ranks), len(clock) + len(COUNTER_FEATURES) * n_counters)]
    designs = (
        Design("transfer: boosted trees, all features", trees()),
        Design("... without the counters", trees(clock)),
        Design("... counters as ranks only", trees(ranks)),
        Design("... counters as ratios only", trees(ratios)),
        Design("... raw counters instead", trees(), raw=True),
        Design("... logistic regression instead of trees", logistic),
        Design("... survival: hazard by tenths of the threshold", hazard),
        Design("... survival: latency over threshold, regressed", failure_time, probabilities=False),
        Design("... a set: trees with the siblings' mean features", pooled_trees),
        Design("... a set: network with pooled siblings", set_network),
        Design("... fewer jobs", trees(), share=0.1),
        Design("... fewer jobs", trees(), share=1 / 3),
        Design("... more jobs", trees(), share=3.0),
    )

    @lru_cache(maxsize=effort.trainings + 1)
    def seen_by(steps: int, seed: int, raw: bool, split: str = "train") -> Examples:
        features = raw_features if raw else task_features
        return collect(scenario, steps, seed, split=split, features=features)

    print("| | training jobs | F1 over time | Brier score | Brier score, calibrated |")
    print("| --- | ---: | ---: | ---: | ---: |")
    reliability: list[tuple[Array, NDArray[np.bool_]]] = []
    for design in designs:
        others = seen_by(effort.validation_steps, 0, design.raw, "validation")
        found, briers, jobs = [], [], 0
        for seed in range(1, effort.trainings + 1):
            seen = seen_by(round(design.share * effort.steps), seed, design.raw)
            jobs = len(np.unique(seen.group))
            fitted_on, chosen_on = halves(seen, transfer.SHARE_HELD_OUT)
            known, scored = design.scores(fitted_on, (chosen_on, others), seed)
            found.append(f1_over_time(chosen_on, others, known, scored))
            if design.probabilities:
                calibrated = IsotonicRegression(out_of_bounds="clip").fit(known, chosen_on.straggler)
                briers.append([brier(others, scored), brier(others, calibrated.predict(scored))])
                if design is designs[0]:
                    reliability.append((scored[others.in_time], others.straggler[others.in_time]))
        cells = [text(np.array(found))]
        cells += [text(np.array(briers)[:, which]) for which in (0, 1)] if briers else ["–", "–"]
        print(f"| {design.label} | {jobs} | " + " | ".join(cells) + " |", flush=True)
    print_reliability(
        np.concatenate([probability for probability, _ in reliability]),
        np.concatenate([straggler for _, straggler in reliability]),
    )


def text(values: Array) -> str:
    """Return the interquartile mean over trainings and jobs, with its interval."""
    value, low, high = estimate(values)
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def brier(examples: Examples, probability: Array) -> Array:
    """Return the mean squared error of the probability of a straggler in every job, before the threshold."""
    error = (probability - examples.straggler) ** 2
    return np.array(
        [error[(examples.job == job) & examples.in_time].mean() for job in np.unique(examples.job)]
    )


def print_reliability(probability: Array, straggler: NDArray[np.bool_]) -> None:
    """Print the share of stragglers among tasks by their predicted probability."""
    print("\n| predicted probability | tasks at checkpoints, % | mean prediction | stragglers |")
    print("| --- | ---: | ---: | ---: |")
    for low, high in itertools.pairwise(BINS):
        inside = (probability >= low) & ((probability < high) | (high == 1.0))
        if inside.any():
            share, mean = 100.0 * inside.mean(), probability[inside].mean()
            print(f"| {low:g} to {high:g} | {share:.1f} | {mean:.3f} | {straggler[inside].mean():.3f} |")


def f1_over_time(chosen_on: Examples, others: Examples, known: Array, scored: Array) -> Array:
    """Return it for every validation job, with the limit that is best on held-out training jobs."""
    # Limits are probabilities; any other score is put on that scale by its rank among the held-out rows.
    limit = transfer._best_f1_limit(chosen_on, _shares(known, known))
    acted = _shares(known, scored) >= limit
    jobs = [others.job == job for job in np.unique(others.job)]
    return np.array([_f1_of_job(others.where(rows), acted[rows]) for rows in jobs])


def _shares(known: Array, values: Array) -> Array:
    # Stragglers are few: all limits of interest lie among the highest scores.
    above = 1.0 - np.searchsorted(np.sort(known), values) / len(known)
    return np.asarray(1.0 - above / 0.5)


def _f1_of_job(examples: Examples, acted: NDArray[np.bool_]) -> float:
    straggles = len(np.unique(examples.task[examples.straggler]))
    found = []
    for moment in transfer.MOMENTS:
        counts = acted & (examples.elapsed_share <= moment) & (examples.in_time | ~examples.straggler)
        true = len(np.unique(examples.task[counts & examples.straggler]))
        false = len(np.unique(examples.task[counts & ~examples.straggler]))
        found.append(2 * true / max(true + false + straggles, 1))
    return float(np.mean(found))


def trees(columns: list[int] | None = None) -> Scores:
    """Boosted trees on some columns of the features; None: all."""

    def scores(seen: Examples, parts: tuple[Examples, ...], seed: int) -> list[Array]:
        chosen = slice(None) if columns is None else columns
        model = boosting.fit(seen.features[:, chosen], seen.straggler, "binary", seed, "transfer")
        return [boosting.predict(model, part.features[:, chosen]) for part in parts]

    return scores


def logistic(seen: Examples, parts: tuple[Examples, ...], seed: int) -> list[Array]:
    """Logistic regression."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(
        seen.features, seen.straggler
    )
    return [np.asarray(model.predict_proba(part.features)[:, 1]) for part in parts]


def hazard(seen: Examples, parts: tuple[Examples, ...], seed: int) -> list[Array]:
    """Discrete-time hazard by boosted trees: the probability of ending within each tenth of the threshold.

    A task contributes the intervals from its age on, until it ends; it is censored at the threshold, so that
    stragglers never end. The probability of a straggler is that of surviving all intervals to come.
    """
    final = _final_share(seen)
    rows, ends, ended = [], [], []
    for number, end in enumerate(EDGES):
        begin = EDGES[number - 1] if number else 0.0
        at_risk = np.flatnonzero((seen.elapsed_share < end) & (final >= begin))
        rows.append(at_risk)
        ends.append(np.full(len(at_risk), end))
        ended.append(final[at_risk] < end)
    row, end_of = np.concatenate(rows), np.concatenate(ends)
    # Every example appears in up to ten intervals; a quarter of the rows is about as many as other fits have.
    kept = np.random.default_rng(seed).random(len(row)) < 0.25
    features = _with_interval(seen.features[row[kept]], end_of[kept], seen.elapsed_share[row[kept]])
    model = boosting.fit(features, np.concatenate(ended)[kept], "binary", seed, "transfer")

    def survival(part: Examples) -> Array:
        survives = np.ones(len(part.features))
        for end in EDGES:
            ahead = np.flatnonzero(part.elapsed_share < end)
            ends = np.full(len(ahead), end)
            columns = _with_interval(part.features[ahead], ends, part.elapsed_share[ahead])
            survives[ahead] *= 1.0 - boosting.predict(model, columns)
        return survives

    return [survival(part) for part in parts]


def _with_interval(features: NDArray[np.float32], end: Array, age: Array) -> NDArray[np.float32]:
    return np.column_stack([features, end, end - age]).astype(np.float32)


def _final_share(examples: Examples) -> Array:
    """Return the latency of each example's task over the threshold."""
    return np.asarray(examples.elapsed_share * (1.0 + examples.remaining / examples.elapsed))


def failure_time(seen: Examples, parts: tuple[Examples, ...], seed: int) -> list[Array]:
    """The log of a task's latency over the threshold, by boosted trees: an accelerated failure time."""
    model = boosting.fit(seen.features, np.log(_final_share(seen)), "regression", seed, "transfer")
    return [boosting.predict(model, part.features) for part in parts]


def pooled_trees(seen: Examples, parts: tuple[Examples, ...], seed: int) -> list[Array]:
    """Boosted trees that also see the mean features of all running tasks of the job."""
    model = boosting.fit(_pooled(seen), seen.straggler, "binary", seed, "transfer")
    return [boosting.predict(model, _pooled(part)) for part in parts]


def _pooled(examples: Examples) -> NDArray[np.float32]:
    of = _set_of(examples)
    total = np.zeros((of.max() + 1, examples.features.shape[1]))
    np.add.at(total, of, examples.features)
    mean = total / np.bincount(of)[:, None]
    return np.hstack([examples.features, mean[of]]).astype(np.float32)


def _set_of(examples: Examples) -> NDArray[np.int64]:
    """Return the number of the job and checkpoint of every example."""
    key = examples.job * 1_000_000 + examples.checkpoint
    return np.asarray(np.unique(key, return_inverse=True)[1])


def set_network(seen: Examples, parts: tuple[Examples, ...], seed: int) -> list[Array]:
    """Network over the set of running tasks: each with the mean and maximum of all siblings' embeddings.

    Zaheer et al., Deep Sets, NeurIPS 2017, trained on the same labels as the trees.
    """
    import torch
    from torch import nn

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    n_features, width = seen.features.shape[1], 64
    embed = nn.Sequential(nn.Linear(n_features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
    judge = nn.Sequential(nn.Linear(n_features + 3 * width, width), nn.ReLU(), nn.Linear(width, 1))
    mean, deviation = seen.features.mean(axis=0), seen.features.std(axis=0) + 1e-6

    def logits(x: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
        own, n_sets = embed(x), int(of.max()) + 1
        total = torch.zeros(n_sets, width).index_add_(0, of, own)
        average = total / torch.bincount(of, minlength=n_sets)[:, None]
        most = torch.zeros(n_sets, width).scatter_reduce(0, of[:, None].expand_as(own), own, "amax")
        return torch.as_tensor(judge(torch.cat([x, own, average[of], most[of]], dim=1))[:, 0])

    def tensors(examples: Examples) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = torch.as_tensor((examples.features - mean) / deviation)
        return x, torch.as_tensor(_set_of(examples)), torch.as_tensor(examples.straggler.astype(np.float32))

    x, of, target = tensors(seen)
    parameters = [*embed.parameters(), *judge.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=1e-2)
    rng = np.random.default_rng(seed)
    order = torch.argsort(of, stable=True)
    bounds = np.concatenate([[0], np.cumsum(np.bincount(of.numpy()))])
    for _ in range(EPOCHS):
        for batch in np.array_split(rng.permutation(len(bounds) - 1), max(1, (len(bounds) - 1) // 32)):
            rows = torch.cat([order[bounds[one] : bounds[one + 1]] for one in batch])
            local = torch.as_tensor(np.repeat(np.arange(len(batch)), np.diff(bounds)[batch]))
            loss = nn.functional.binary_cross_entropy_with_logits(logits(x[rows], local), target[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    with torch.no_grad():
        return [
            np.asarray(torch.sigmoid(logits(*tensors(part)[:2])).numpy(), dtype=np.float64) for part in parts
        ]


def raw_features(view: JobView) -> NDArray[np.float32]:
    """Return the features with the counters as they were measured instead of compared with siblings."""
    relative = task_features(view)[:, : len(JOB_FEATURES)]
    return np.hstack([relative, view.x[view.running], view.last[view.running]]).astype(np.float32)


if __name__ == "__main__":
    main()
