"""CMA-ES (Hansen, arXiv:1604.00772) with a state that can be stored, shared by searches for laws."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.arrays import read_tree, write_tree
from sysgym.agents.learned.checkpoint import installed_versions
from sysgym.agents.learned.congestion.law import Law, LawForm
from sysgym.agents.learned.curves import begin_curve
from sysgym.agents.learned.training.folders import in_use
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import MissingExtra, SysgymError
from sysgym.scenarios.files import own_file, read_limited, storing, write_atomically

FINAL = "final.json"
STATE = "search.npz"
CURVE = "progress.csv"
CURVE_COLUMNS = ("generation", "steps", "wall_s", "mean_loss", "validation_loss")
LARGEST_STATE_BYTES = 64_000_000
"""Limit of the size of the state of a search, which is typically a tenth of a megabyte."""


class EvolutionSearch:
    """Base class of searches, each in its own folder; subclasses are dataclasses with at least these fields.

    Attributes:
        kept: Names of the fields that are stored, besides the distribution.
        evolution: The distribution.
        scenarios: Given scenarios.
        seed: Seed of the random draws.
        generations: Number of generations so far.
        steps: Decision intervals simulated, excluding those of the baseline and of validations.
        wall_s: Time so far, s.
        best: Mean of the distribution that was best on the validation split.
        best_loss: Loss of ``best`` on the validation split.
    """

    kept: ClassVar[tuple[str, ...]] = ("generations", "steps", "wall_s", "best", "best_loss")

    evolution: Any
    scenarios: list[CongestionScenario]
    seed: int
    generations: int
    steps: int
    wall_s: float
    best: NDArray[np.float64]
    best_loss: float

    def asked(self) -> dict[str, Any]:
        """Return the settings, by description, that a search must share with this one to resume it."""
        raise NotImplementedError

    def progress(self) -> dict[str, Any]:
        """Return the state apart from the settings as numbers and arrays, for storage."""
        progress = {name: getattr(self, name) for name in self.kept}
        return {"evolution": distribution_state(self.evolution), **progress}

    def set_progress(self, progress: Mapping[str, Any]) -> None:
        """Restore the progress of another search.

        Raises:
            Exception: Any exception, if the progress belongs to a different kind of search.
        """
        restore_distribution(self.evolution, progress["evolution"])
        for name in self.kept:
            setattr(self, name, like(getattr(self, name), progress[name]))

    def keep_if_best(self, loss: float) -> float:
        """Store the mean of the distribution if its validation loss is the least so far; return the loss."""
        if loss < self.best_loss:
            self.best, self.best_loss = self.evolution.mean.copy(), loss
        return loss


def check_count(name: str, value: Any, example: int, least: int = 0) -> None:
    """Check that a hyper-parameter is a whole number and not below a least value; raises SysgymError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SysgymError(
            f"{name} is {value!r}; expected a whole number of {least} or more, such as {example}"
        )


def check_positive(name: str, value: Any, example: float) -> None:
    """Check that a hyper-parameter is a positive finite number; raises SysgymError."""
    if not isinstance(value, int | float) or not 0.0 < value < math.inf:
        raise SysgymError(f"{name} is {value!r}; expected a positive number, such as {example:g}")


def checked_scenario(scenario: Any, agent: str) -> CongestionScenario:
    """Return a scenario after checking that a law can be searched in it.

    Raises:
        SysgymError: If the scenario is not for ``sysgym/DatacenterCC-v0``.
    """
    if not isinstance(scenario, CongestionScenario) or scenario.env_id != "sysgym/DatacenterCC-v0":
        raise SysgymError(f'{scenario.name}: "{agent}" learns in scenarios of sysgym/DatacenterCC-v0 only')
    return scenario


def begin_or_resume(search: EvolutionSearch, folder: Path, resume: bool) -> None:
    """Create the folder of a search, or resume the search in it.

    Raises:
        SysgymError: If the folder holds a search and ``resume`` is False, or a search with other settings.
    """
    path = folder / STATE
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        return
    if not resume:
        raise in_use(folder)
    try:
        there = read_tree(read_limited(path, LARGEST_STATE_BYTES))
        others = [what for what, value in search.asked().items() if there["asked"].get(what) != value]
        if not others:
            search.set_progress(there["progress"])
    except Exception as error:  # damaged files can raise anything in zipfile, json or NumPy
        raise SysgymError(f"{path}: not the state of a search ({error!r}); use another folder") from error
    if others:
        raise SysgymError(
            f"{folder}: cannot resume, the search there has a different {others[0]}; use the same value, or"
            " another folder"
        )
    begin_curve(folder / CURVE, CURVE_COLUMNS, search.generations)


def keep_generation(
    search: EvolutionSearch, folder: Path, mean_loss: float, validation: float | None
) -> None:
    """Append a line to the learning curve of a search, and store the search's state."""
    path = folder / CURVE
    shown = "" if validation is None else f"{validation:.4f}"
    line = (search.generations, search.steps, f"{search.wall_s:.1f}", f"{mean_loss:.4f}", shown)
    with storing(path), open(path, "a", newline="", opener=own_file) as file:
        writer = csv.writer(file, lineterminator="\n")
        if file.tell() == 0:
            writer.writerow(CURVE_COLUMNS)
        writer.writerow(line)
    state = {"asked": search.asked(), "progress": search.progress()}
    write_atomically(folder / STATE, write_tree(state))


def run_generations(
    search: EvolutionSearch,
    folder: Path,
    total_steps: int,
    generations_a_validation: int,
    play: Callable[[], float],
    validate: Callable[[], float],
    progress: Callable[[int], None] | None,
) -> None:
    """Play generations up to a number of steps, and store each; the last one is always validated.

    Args:
        search: The search.
        folder: Folder of the search.
        total_steps: Decision intervals to simulate.
        generations_a_validation: Number of generations from one validation to the next.
        play: Function that plays a generation and returns the mean loss of its candidates.
        validate: Function that returns the loss on the validation split.
        progress: Callback with the number of intervals so far.
    """
    while search.steps < total_steps:
        began_s = time.perf_counter()
        mean_loss = play()
        validation = None
        if search.generations % generations_a_validation == 0 or search.steps >= total_steps:
            validation = validate()
        search.wall_s += time.perf_counter() - began_s
        keep_generation(search, folder, mean_loss, validation)
        if progress is not None:
            progress(search.steps)


def write_law(
    search: EvolutionSearch,
    folder: Path,
    form: LawForm,
    parameters: NDArray[np.float64],
    hyper_parameters: Mapping[str, Any],
) -> Path:
    """Write the law that a search has found, and return the path of the checkpoint."""
    law = Law(
        parameters=[float(value) for value in parameters],
        trained_on=[one.resolved() for one in search.scenarios],
        total_steps=search.steps,
        seed=search.seed,
        validation=search.best_loss,
        hyper_parameters=hyper_parameters,
        versions=installed_versions(("sysgym", "numpy", "numba", "cmaes")),
    )
    form.write(law, folder / FINAL)
    return folder / FINAL


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
        mean: Mean of the distribution, shape (n,).
        sigma: Initial width of the distribution.
        seed: Seed of the first random generator.
        population: Number of candidates in a generation; None: the default of CMA-ES, 4 + 3 ln n.
        bounds: Least and largest values, shape (n, 2); None: no bounds.

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

    The random generator of a distribution is not stored, so each generation has its own.
    """
    state = np.random.SeedSequence([seed, generation]).generate_state(1)
    distribution.reseed_rng(int(state[0]))
    return [distribution.ask() for _ in range(distribution.population_size)]


def distribution_state(distribution: Any) -> dict[str, Any]:
    """Return a distribution as numbers and arrays, for storage."""
    return {name: getattr(distribution, name) for name in vars(distribution) if name != "_rng"}


def restore_distribution(distribution: Any, state: Mapping[str, Any]) -> None:
    """Set a distribution to a stored state.

    Raises:
        Exception: Any exception, if the state belongs to a different kind of distribution.
    """
    for name, old in distribution_state(distribution).items():
        setattr(distribution, name, like(old, state[name]))


def like(old: Any, new: Any) -> Any:
    """Return a stored value after checking that it has the type and shape of the value that it replaces.

    Raises:
        ValueError: If type or shape differ.
    """
    if old is None and (new is None or isinstance(new, np.ndarray)):
        return new  # arrays that the distribution computes on first use
    if isinstance(old, np.ndarray):
        fits = isinstance(new, np.ndarray) and new.shape == old.shape and new.dtype == old.dtype
    else:
        fits = isinstance(new, int | float) and isinstance(old, bool) == isinstance(new, bool)
    if not fits:
        raise ValueError(f"{str(new)[:40]} in the place of {str(old)[:40]}")
    return new
