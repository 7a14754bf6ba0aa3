"""Distances between trained policies: returns, actions, weights, and the cost of training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.checkpoint import read_checkpoint
from sysgym.agents.learned.trust.policies import Seen, answers, differences, policy_of, watch, weights_of
from sysgym.bench.results.versions import machine
from sysgym.bench.statistics import RESAMPLES, SEED, FloatArray, Interval, estimate, mean, percentile_interval
from sysgym.scenarios import scenario_from_resolved
from sysgym.scenarios.files import write_atomically
from sysgym.studies.determinism.study import CONTROL, Results, Settings
from sysgym.studies.determinism.training import Run, RunResult

FORMAT = 1
OBSERVATIONS = "observations.npz"
N_OBSERVATIONS = 1000
MOST_EPISODES = 200
"""Maximum number of episodes that are run to collect the observations."""
TOLERANCE = 0.01
"""Difference above which continuous actions count as different, relative to the action space's range."""


@dataclass(frozen=True)
class ArmResult:
    """Distances between the policies of one arm.

    Attributes:
        name: Name of the arm.
        n_runs: Number of policies.
        return_mean: Mean return on the validation split.
        return_std: Standard deviation over runs of a run's mean return.
        episode_std_max: Standard deviation over runs of an episode's return, maximum over episodes.
        churn: Share of the frozen observations on which two policies act differently, mean over pairs.
        difference: Mean difference of their actions, relative to the range (for choices: equal to churn).
        weights_l2: L2 distance of their weights, mean over pairs.
        weights_relative: L2 distance divided by the mean norm of the two, mean over pairs.
        identical: Whether all policies are bitwise identical.

    The distances of actions and weights are None for agents with a trainer of their own, whose policies are
    not a single network.
    """

    name: str
    n_runs: int
    return_mean: Interval
    return_std: Interval
    episode_std_max: float
    churn: Interval | None
    difference: Interval | None
    weights_l2: Interval | None
    weights_relative: Interval | None
    identical: bool


@dataclass(frozen=True)
class Tools:
    """Cost of trainings with one setting of tools.

    Attributes:
        n_threads: Number of threads.
        deterministic: Whether only deterministic operations were allowed.
        n_runs: Number of trainings.
        wall_s: Mean wall time, s.
        cpu_s: Mean processor time, s.
        overhead: Wall time relative to that of free tools with all threads, minus 1; None for the latter.
    """

    n_threads: int
    deterministic: bool
    n_runs: int
    wall_s: Interval
    cpu_s: Interval
    overhead: Interval | None


@dataclass(frozen=True)
class Determinism:
    """Results of the study.

    Attributes:
        about: Training, software and machine.
        n_observations: Number of frozen observations; 0 if policies are compared by their files.
        arms: Results by arm, in the order of ARMS.
        tools: Costs by setting of tools, the deterministic ones first.
        operations_overhead: Processor time with deterministic operations only, relative to any operations,
            minus 1, on 1 thread.
        same_threads_identical: Whether runs of the tooling arm with the same number of threads are identical;
            None if there are no two such runs.
    """

    about: Mapping[str, Any]
    n_observations: int
    arms: Mapping[str, ArmResult]
    tools: tuple[Tools, ...]
    operations_overhead: Interval
    same_threads_identical: bool | None

    @property
    def holds(self) -> bool:
        """Whether the policies of the control are identical, as they must be."""
        return self.arms[CONTROL.name].identical

    def to_json(self) -> dict[str, Any]:
        """Return the results as JSON data."""
        return {"format": FORMAT, "tolerance": TOLERANCE, "control_holds": self.holds, **asdict(self)}


def analyse(settings: Settings, results: Results, folder: Path | None = None) -> Determinism:
    """Compare the policies of all arms.

    The frozen observations are those of the control's first policy on the validation split.

    Args:
        settings: Settings of the study.
        results: Results of all arms.
        folder: Folder for the frozen observations; None: they are not written.
    """
    first_run, first = results[CONTROL.name][0]
    seen = None if settings.own_trainer else freeze(first_run, first)
    if folder is not None and seen is not None:
        file = BytesIO()
        np.savez_compressed(file, inputs=seen.inputs, episode=seen.episode)
        write_atomically(folder / OBSERVATIONS, file.getvalue())

    policies = {arm: [describe(result, seen) for _, result in of_arm] for arm, of_arm in results.items()}
    threads = np.array([run.n_threads for run, _ in results["tooling"]])
    groups = [
        [policies["tooling"][index] for index in np.flatnonzero(threads == n)] for n in np.unique(threads)
    ]
    repeated = [group for group in groups if len(group) > 1]
    every = [pair for of_arm in results.values() for pair in of_arm]
    scenario = settings.scenario
    return Determinism(
        about={
            "scenario": scenario.name,
            "scenario_sha256": scenario.sha256(),
            "agent": settings.agent,
            "n_seeds": settings.n_seeds,
            "total_steps": settings.total_steps,
            "n_envs": settings.n_envs,
            "n_episodes": settings.n_episodes,
            "all_threads": settings.all_threads,
            "hyper_parameters": dict(settings.hyper_parameters),
            "versions": dict(first_run.versions),
            "machine": machine(),
            "process": dict(first.about),
        },
        n_observations=0 if seen is None else len(seen.inputs),
        arms={name: compare(name, of_arm) for name, of_arm in policies.items()},
        tools=_tools(results, settings.all_threads),
        operations_overhead=_ratio(
            *(
                np.array(
                    [result.cpu_s for run, result in every if (run.n_threads, run.deterministic) == setting]
                )
                for setting in ((1, True), (1, False))
            )
        ),
        same_threads_identical=all(map(_identical, repeated)) if repeated else None,
    )


class Described(NamedTuple):
    """Properties of a policy that are compared.

    Attributes:
        answers: Actions for the frozen observations: choices, shape (n,), or shares of the range, shape
            (n, n_outputs); None if the policy is not a single network.
        weights: All weights and biases, shape (n_parameters,); otherwise the bytes of the checkpoint.
        returns: Returns of the episodes.
    """

    answers: NDArray[Any] | None
    weights: NDArray[Any]
    returns: FloatArray


def freeze(run: Run, result: RunResult) -> Seen:
    """Return the observations of a policy in its episodes, on which all policies are compared.

    If the episodes give too few observations, more episodes of the split are run.
    """
    checkpoint = read_checkpoint(result.checkpoint)
    seeds = run.episode_seeds
    seen = watch(checkpoint, "validation", seeds)
    if len(seen.inputs) < N_OBSERVATIONS:
        first, last = scenario_from_resolved(run.scenario).splits["validation"].seeds
        needed = math.ceil(N_OBSERVATIONS / len(seen.inputs) * len(seeds))
        n = min(needed, last - first + 1, MOST_EPISODES)
        seen = watch(checkpoint, "validation", range(first, first + n))
    return seen.thinned(N_OBSERVATIONS)


def describe(result: RunResult, seen: Seen | None) -> Described:
    """Return the compared properties of a run's policy.

    Args:
        result: Result of the run.
        seen: Frozen observations; None if the policy is not a single network.
    """
    if seen is None:
        content = np.frombuffer(result.checkpoint.read_bytes(), np.uint8)
        return Described(None, content, np.array(result.returns))
    checkpoint = read_checkpoint(result.checkpoint)
    return Described(
        answers(policy_of(checkpoint), seen.inputs, seen.masks),
        weights_of(checkpoint),
        np.array(result.returns),
    )


def _identical(policies: Sequence[Described]) -> bool:
    first = policies[0]
    return all(
        np.array_equal(first.weights, other.weights)
        and (first.answers is None or other.answers is None or np.array_equal(first.answers, other.answers))
        and np.array_equal(first.returns, other.returns)
        for other in policies[1:]
    )


def compare(name: str, policies: Sequence[Described]) -> ArmResult:
    """Return the distances between policies, with intervals over runs."""
    returns = np.array([policy.returns for policy in policies])
    of_run = returns.mean(axis=1)
    return ArmResult(
        name,
        len(policies),
        return_mean=estimate(of_run[:, None], statistic=mean),
        return_std=estimate(of_run[:, None], statistic=_deviation),
        episode_std_max=float(returns.std(axis=0, ddof=1).max()),
        **_distances(policies),
        identical=_identical(policies),
    )


def _distances(policies: Sequence[Described]) -> dict[str, Interval | None]:
    """Return the distances of :class:`ArmResult` between actions and weights."""
    n = len(policies)
    found = {name: np.zeros((n, n)) for name in ("churn", "difference", "weights_l2", "weights_relative")}
    for i, one in enumerate(policies):
        for j, other in enumerate(policies):
            if one.answers is None or other.answers is None:
                return dict.fromkeys(found)
            discrete = one.answers.ndim == 1
            apart = differences(one.answers, other.answers)
            found["churn"][i, j] = (apart > (0.0 if discrete else TOLERANCE)).mean()
            found["difference"][i, j] = (
                apart.mean() if discrete else np.abs(one.answers - other.answers).mean()
            )
            distance = np.linalg.norm(one.weights - other.weights)
            norms = np.linalg.norm(one.weights) + np.linalg.norm(other.weights)
            found["weights_l2"][i, j] = distance
            found["weights_relative"][i, j] = 2.0 * distance / norms
    return {name: pair_estimate(of_pairs) for name, of_pairs in found.items()}


def _deviation(values: FloatArray) -> FloatArray:
    # Values relative to the first one, so that the deviation of equal values is exactly 0.
    found: FloatArray = np.std(values - values[..., :1], axis=-1, ddof=1)
    return found


def pair_estimate(of_pairs: FloatArray) -> Interval:
    """Return the mean over pairs of different runs, with an interval from resampling runs.

    Args:
        of_pairs: Symmetric matrix, shape (n, n); pairs of a run with itself, on the diagonal or in a
            resample, are not counted.
    """
    n = len(of_pairs)
    above = np.triu_indices(n, 1)
    values = of_pairs[above]
    drawn = np.random.default_rng(SEED).integers(n, size=(RESAMPLES, n))
    often = np.zeros((RESAMPLES, n))
    np.add.at(often, (np.arange(RESAMPLES)[:, None], drawn), 1.0)
    weights = often[:, above[0]] * often[:, above[1]]
    total = weights.sum(axis=1)
    resamples = (weights @ values)[total > 0.0] / total[total > 0.0]
    return percentile_interval(values.mean(), resamples)


def _tools(results: Results, all_threads: int) -> tuple[Tools, ...]:
    every = [pair for of_arm in results.values() for pair in of_arm]
    groups = {
        setting: [result for run, result in every if (run.n_threads, run.deterministic) == setting]
        for setting in ((1, True), (1, False), (all_threads, False))
    }
    fastest = np.array([result.wall_s for result in groups[all_threads, False]])
    made = []
    for (n_threads, deterministic), of_group in groups.items():
        wall_s = np.array([result.wall_s for result in of_group])
        cpu_s = np.array([result.cpu_s for result in of_group])
        reference = (n_threads, deterministic) == (all_threads, False)
        made.append(
            Tools(
                n_threads,
                deterministic,
                len(of_group),
                estimate(wall_s[:, None], statistic=mean),
                estimate(cpu_s[:, None], statistic=mean),
                None if reference else _ratio(wall_s, fastest),
            )
        )
    return tuple(made)


def _ratio(ours: FloatArray, theirs: FloatArray) -> Interval:
    """Return the ratio of means minus 1, with both samples resampled independently."""
    rng = np.random.default_rng(SEED)
    drawn = [
        values[rng.integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1)
        for values in (ours, theirs)
    ]
    return percentile_interval(ours.mean() / theirs.mean() - 1.0, drawn[0] / drawn[1] - 1.0)
