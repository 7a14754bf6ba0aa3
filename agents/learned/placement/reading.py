"""Conversion of the placement family's observations to vectors, for learned agents.

Rows are axes for placement, instructions for programs, candidates for measurements, and nodes for jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.choices.reading import Array, Observation, Parts, Reading
from sysgym.agents.learned.problems import MASK
from sysgym.agents.placement.measuring import BayesAgent
from sysgym.emulator.accelerators.programs import COLLECTIVES
from sysgym.envs.placement.observation import BUDGET_COLUMNS, CANDIDATE_COLUMNS
from sysgym.scenarios.schema.placement import MOST_LEVELS

LARGEST_GAP = 4.0
"""Upper bound of a candidate's log cost relative to the best one; larger values are clipped."""

_BAYES = BayesAgent()
"""Agent whose constants are used for deviations that the observation does not disclose."""

_CANDIDATES = {name: index for index, name in enumerate(CANDIDATE_COLUMNS)}
_LEVELS = [f"level_{level}" for level in range(MOST_LEVELS)]
_UNTOLD = {
    "noise": _BAYES.noise_sd,
    "level_error": _BAYES.level_sd,
    "collective_error": _BAYES.collective_sd,
}
N_COLLECTIVES = len(COLLECTIVES)


def placement_parts(observation: Observation) -> Parts:
    """Return the axes as rows, each with its placed factors and the reductions over it."""
    axes, reductions = observation["axes"], observation["reductions"]
    over = reductions[:, 2 : 2 + len(axes)].T
    # Sizes are logarithms around 0; flags distinguish reductions that do not involve an axis.
    rows = np.hstack(
        [axes, observation["matrix"], over, over * reductions[:, 1], _mask(observation, len(axes))]
    )
    context = [observation["levels"].ravel(), reductions[:, :2].ravel(), observation["next"]]
    return rows, np.concatenate(context)


def joint_parts(observation: Observation) -> Parts:
    """Return the candidates as rows, each with its own measurements and an estimate from all measurements."""
    table, columns = observation["candidates"].astype(np.float64), _CANDIDATES
    budget = dict(zip(BUDGET_COLUMNS, observation["budget"].tolist(), strict=True))
    exists = table[:, columns["exists"]] > 0.0
    expected, sd = _expected(table, budget)
    best = expected[exists].min() if exists.any() else 0.0
    told = [columns[name] for name in ("exists", "nominal", "latency", "measured", "mean")]
    gap = np.where(exists, np.minimum(expected - best, LARGEST_GAP), 0.0)
    rows = np.column_stack([table[:, told], gap, np.where(exists, sd, 0.0), _mask(observation, len(table))])
    rows[:, 1] = np.where(exists, rows[:, 1] - best, 0.0)
    rows[:, 4] = np.where(rows[:, 3] > 0.0, rows[:, 4] - best, 0.0)
    return rows, observation["budget"]


def _expected(table: NDArray[np.float64], budget: Mapping[str, float]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the expected log cost of each candidate and its uncertainty.

    The hidden factors of levels and collectives are assumed to act linearly, in proportion to the shares of
    time. Measurements are then Gaussian, and the posterior of unmeasured candidates follows from them.
    """
    # If the observation discloses no deviations, those estimated for measuring agents are used.
    told = budget if any(budget[name] for name in _UNTOLD) else _UNTOLD
    shares = np.hstack(
        [
            table[:, [_CANDIDATES[name] for name in _LEVELS]] * told["level_error"],
            table[:, [_CANDIDATES[str(name)] for name in COLLECTIVES]] * told["collective_error"],
        ]
    )
    residual = 0.0 if told is budget else _BAYES.residual_sd
    prior = shares @ shares.T + residual**2 * np.eye(len(table))
    expected, variance = table[:, _CANDIDATES["nominal"]], prior.diagonal()
    count = table[:, _CANDIDATES["measured"]]
    seen = np.flatnonzero(count)
    if len(seen):
        noise = (told["noise"] ** 2 + 1e-6) / count[seen]
        gain = np.linalg.solve(prior[np.ix_(seen, seen)] + np.diag(noise), prior[seen]).T
        expected = expected + gain @ (table[seen, _CANDIDATES["mean"]] - table[seen, _CANDIDATES["nominal"]])
        variance = variance - (gain * prior[:, seen]).sum(axis=1)
    return expected, np.sqrt(np.maximum(variance, 0.0))


def program_parts(observation: Observation) -> Parts:
    """Return the instructions as rows, each with its time and kind; the context contains the progress."""
    mask = observation[MASK]
    patterns, collectives = np.divmod(np.arange(len(mask)), N_COLLECTIVES)
    kinds = [np.eye(patterns[-1] + 1)[patterns], np.eye(N_COLLECTIVES)[collectives]]
    rows = np.hstack([mask[:, None], observation["costs"][:, None], *kinds])
    holds = observation["holds"]
    contributors = holds.reshape(len(holds), -1, len(holds)).sum(axis=2)
    much = [(contributors > 0).mean(axis=1), contributors.mean(axis=1) / len(holds)]
    return rows, np.concatenate([observation["levels"].ravel(), observation["progress"], *much])


def jobs_parts(observation: Observation) -> Parts:
    """Return the nodes as rows; the context contains all jobs, followed by the current one."""
    nodes, jobs = observation["nodes"], observation["jobs"]
    rows = np.hstack([nodes, _mask(observation, len(nodes))])
    return rows, np.concatenate([jobs.ravel(), jobs[:, 1] @ jobs])


_PARTS: Mapping[str, Callable[[Observation], Parts]] = {
    "axes": placement_parts,
    "candidates": joint_parts,
    "progress": program_parts,
    "jobs": jobs_parts,
}
"""Functions by a key that occurs only in the observation of one environment."""


def choice_parts(observation: Observation) -> Parts:
    """Return rows and context of an observation of any of the family's environments."""
    return next(parts for key, parts in _PARTS.items() if key in observation)(observation)


def _mask(observation: Observation, n_rows: int) -> Array:
    """Return the mask with a column for each action of a row."""
    mask = observation[MASK]
    return mask.reshape(len(mask) // n_rows, n_rows).T


READING = Reading(choice_parts, choice="choice")
