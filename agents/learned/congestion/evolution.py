"""CMA-ES (Hansen, arXiv:1604.00772) whose state can be stored: what searches for laws share."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.errors import MissingExtra
from sysgym.scenarios.files import own_file, storing

CURVE = "progress.csv"
CURVE_COLUMNS = ("generation", "steps", "wall_s", "mean_loss", "validation_loss")


def new_distribution(
    mean: NDArray[np.float64],
    sigma: float,
    seed: int,
    *,
    population: int | None = None,
    bounds: NDArray[np.float64] | None = None,
) -> Any:
    """Return a distribution over parameters.

    Args:
        mean: Its mean, shape (n,).
        sigma: Its width.
        seed: Seed of the first generator.
        population: Number of candidates in a generation; None: the algorithm's own, 4 + 3 ln n.
        bounds: Least and largest values, shape (n, 2); None: none.

    Raises:
        MissingExtra: If cmaes is not installed.
    """
    try:
        from cmaes import CMA
    except ImportError as error:
        raise MissingExtra("train", "searching for a law") from error
    return CMA(mean=mean.copy(), sigma=sigma, seed=seed, population_size=population, bounds=bounds)


def ask(distribution: Any, seed: int, generation: int) -> list[NDArray[np.float64]]:
    """Return the candidates of a generation.

    The generator of a distribution is not stored: each generation has one of its own.
    """
    state = np.random.SeedSequence([seed, generation]).generate_state(1)
    distribution.reseed_rng(int(state[0]))
    return [distribution.ask() for _ in range(distribution.population_size)]


def distribution_state(distribution: Any) -> dict[str, Any]:
    """Return a distribution as numbers and arrays, for a file."""
    return {name: getattr(distribution, name) for name in vars(distribution) if name != "_rng"}


def restore_distribution(distribution: Any, state: Mapping[str, Any]) -> None:
    """Set a distribution to a stored state.

    Raises:
        Exception: Any exception, if the state is not that of such a distribution.
    """
    for name, old in distribution_state(distribution).items():
        setattr(distribution, name, like(old, state[name]))


def like(old: Any, new: Any) -> Any:
    """Return a value from a file if it can replace another.

    Raises:
        ValueError: If it cannot.
    """
    if old is None and (new is None or isinstance(new, np.ndarray)):
        return new  # what is computed when it is needed
    if isinstance(old, np.ndarray):
        fits = isinstance(new, np.ndarray) and new.shape == old.shape and new.dtype == old.dtype
    else:
        fits = isinstance(new, int | float) and isinstance(old, bool) == isinstance(new, bool)
    if not fits:
        raise ValueError(f"{str(new)[:40]} in the place of {str(old)[:40]}")
    return new


def note_generation(folder: Path, values: Sequence[Any]) -> None:
    """Append a line to the curve of a search, in the order of :data:`CURVE_COLUMNS`."""
    path = folder / CURVE
    with storing(path), open(path, "a", newline="", opener=own_file) as file:
        writer = csv.writer(file)
        if file.tell() == 0:
            writer.writerow(CURVE_COLUMNS)
        writer.writerow(values)
