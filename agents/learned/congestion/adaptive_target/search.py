"""Search for the constants of the law by CMA-ES over given scenarios, random networks and other laws.

All candidates of a generation play the same lessons, DCTCP too where the law is alone. The distribution is
over logarithms of constants, within their bounds. The result is the mean of the distribution that was best in
the same lessons of the validation split.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.arrays import read_tree, write_tree
from sysgym.agents.learned.checkpoint import installed_versions
from sysgym.agents.learned.congestion.adaptive_target.agent import FORM
from sysgym.agents.learned.congestion.adaptive_target.fitness import Judge
from sysgym.agents.learned.congestion.adaptive_target.lessons import Lesson, draw_lessons
from sysgym.agents.learned.congestion.evolution import (
    ask,
    distribution_state,
    like,
    new_distribution,
    note_generation,
    restore_distribution,
)
from sysgym.agents.learned.congestion.law import Law
from sysgym.emulator.packets.transports import get_transport
from sysgym.emulator.packets.transports.adaptive_target import CONSTANTS, adaptive_target_transport
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.files import read_limited, write_atomically

FINAL = "final.json"
STATE = "search.npz"
LARGEST_STATE_BYTES = 64_000_000

POPULATION = 14
GENERATIONS_A_VALIDATION = 5
VALIDATIONS = 2
"""Draws of lessons for a validation."""
VALIDATION_SEED = 12_345

NEIGHBOURS = ("dctcp", "cubic", "bbr", "swift")

_PROGRESS = ("generations", "steps", "wall_s", "best", "best_loss")

_FIRST = np.array([constant.value for constant in CONSTANTS])
_LEAST = np.array([constant.least for constant in CONSTANTS])
_MOST = np.array([constant.most for constant in CONSTANTS])


def constants_at(point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the constants at a point, whose coordinates are doublings of their first values."""
    constants: NDArray[np.float64] = np.clip(_FIRST * np.exp2(point), _LEAST, _MOST)
    return constants


@dataclass
class Search:
    """State of a search.

    Attributes:
        evolution: The distribution of logarithms of constants.
        seed: Seed of the random draws.
        scenarios: Given scenarios.
        neighbours: Names of the laws with which links are shared.
        sigma: Width of the first distribution, in doublings.
        generations: Number of generations so far.
        steps: Decision intervals simulated, without those of the baseline.
        wall_s: Time so far, s.
        best: Mean of the distribution that was best on the validation split.
        best_loss: Its loss there.
    """

    evolution: Any
    seed: int
    scenarios: list[CongestionScenario]
    neighbours: list[str]
    sigma: float
    generations: int
    steps: int
    wall_s: float
    best: NDArray[np.float64]
    best_loss: float

    @classmethod
    def new(
        cls, scenarios: list[CongestionScenario], neighbours: list[str], sigma: float, seed: int
    ) -> Search:
        """Return a search around the first values."""
        bounds = np.stack([np.log2(_LEAST / _FIRST) - 1e-9, np.log2(_MOST / _FIRST) + 1e-9], axis=1)
        start = np.zeros(len(CONSTANTS))
        evolution = new_distribution(start, sigma, seed, population=POPULATION, bounds=bounds)
        return cls(evolution, seed, scenarios, neighbours, sigma, 0, 0, 0.0, start, math.inf)

    def asked(self) -> dict[str, Any]:
        """Return what a search that is resumed must have in common with this one."""
        return {
            "list of scenarios": [one.sha256() for one in self.scenarios],
            "list of neighbours": self.neighbours,
            "seed": self.seed,
            "sigma": self.sigma,
        }

    def state(self) -> dict[str, Any]:
        """Return the state as numbers and arrays, for a file."""
        progress = {name: getattr(self, name) for name in _PROGRESS}
        return {"asked": self.asked(), "evolution": distribution_state(self.evolution), **progress}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore the state of another search.

        Raises:
            Exception: Any exception, if the state does not belong to such a search.
        """
        restore_distribution(self.evolution, state["evolution"])
        for name in _PROGRESS:
            setattr(self, name, like(getattr(self, name), state[name]))

    def generation(self, judge: Judge) -> float:
        """Play one generation and update the distribution; return the mean loss of the candidates."""
        points = ask(self.evolution, self.seed, self.generations)
        lessons = self._lessons("train", self.seed, self.generations)
        losses = judge.losses([adaptive_target_transport(constants_at(point)) for point in points], lessons)
        self.evolution.tell(list(zip(points, losses.tolist(), strict=True)))
        self.generations += 1
        self.steps += len(points) * sum(lesson.steps for lesson in lessons)
        return float(losses.mean())

    def validate(self, judge: Judge) -> float:
        """Evaluate the mean of the distribution on the validation split; keep it if it is the best so far."""
        lessons = [
            lesson
            for number in range(VALIDATIONS)
            for lesson in self._lessons("validation", VALIDATION_SEED, number)
        ]
        found = float(
            judge.losses([adaptive_target_transport(constants_at(self.evolution.mean))], lessons)[0]
        )
        if found < self.best_loss:
            self.best, self.best_loss = self.evolution.mean.copy(), found
        return found

    def _lessons(self, split: str, seed: int, number: int) -> list[Lesson]:
        return draw_lessons(self.scenarios, self.neighbours, split, np.random.default_rng([seed, number]))


def train_adaptive_target(
    scenario: CongestionScenario,
    *,
    total_steps: int,
    out: str | PathLike[str],
    seed: int = 0,
    resume: bool = False,
    progress: Callable[[int], None] | None = None,
    also_on: Sequence[str] = (),
    neighbours: Sequence[str] = NEIGHBOURS,
    sigma: float = 0.35,
) -> Path:
    """Search for constants on the train split of scenarios, on random networks and beside other laws.

    The same arguments on the same machine give the same constants, with or without interruption.

    Args:
        scenario: The first scenario.
        total_steps: Decision intervals to simulate; rounded up to whole generations.
        out: Folder of the run.
        seed: Seed of the search.
        resume: Whether to resume an interrupted search in the folder.
        progress: Callback with the number of intervals so far.
        also_on: Names or files of the other scenarios.
        neighbours: Names of the laws with which links are shared.
        sigma: Width of the first distribution, in doublings of the constants.

    Returns:
        The checkpoint.

    Raises:
        MissingExtra: If cmaes is not installed.
        SysgymError: If a scenario is not for DatacenterCC, the width is not positive, or the folder holds
            another search.
        UnknownName: If there is no such neighbour.
    """
    folder = Path(out)
    chosen = [_checked(one) for one in (scenario, *map(load_scenario, also_on))]
    given: Any = sigma  # from a command line or a suite
    if not isinstance(given, int | float) or not 0.0 < given < math.inf:
        raise SysgymError(f"sigma is {sigma!r}; expected a positive number, as 0.35")
    for name in neighbours:
        get_transport(name)
    search = Search.new(chosen, list(neighbours), float(sigma), seed)
    _begin_or_resume(search, folder, resume)
    judge = Judge()
    # Every search ends with a validation, even a short one.
    while search.steps < total_steps or math.isinf(search.best_loss):
        began_s = time.perf_counter()
        mean_loss = search.generation(judge)
        validation = ""
        if search.generations % GENERATIONS_A_VALIDATION == 0 or search.steps >= total_steps:
            validation = f"{search.validate(judge):.4f}"
        search.wall_s += time.perf_counter() - began_s
        line = (search.generations, search.steps, f"{search.wall_s:.1f}", f"{mean_loss:.4f}", validation)
        note_generation(folder, line)
        write_atomically(folder / STATE, write_tree(search.state()))
        if progress is not None:
            progress(search.steps)
    law = Law(
        parameters=[float(value) for value in constants_at(search.best)],
        trained_on=[one.resolved() for one in search.scenarios],
        total_steps=search.steps,
        seed=seed,
        validation=search.best_loss,
        hyper_parameters={"also_on": list(also_on), "neighbours": list(neighbours), "sigma": search.sigma},
        versions=installed_versions(("sysgym", "numpy", "numba", "cmaes")),
    )
    FORM.write(law, folder / FINAL)
    return folder / FINAL


def _checked(scenario: Any) -> CongestionScenario:
    if not isinstance(scenario, CongestionScenario) or scenario.env_id != "sysgym/DatacenterCC-v0":
        raise SysgymError(
            f'{scenario.name}: "{FORM.agent}" learns in scenarios of sysgym/DatacenterCC-v0 only'
        )
    return scenario


def _begin_or_resume(search: Search, folder: Path, resume: bool) -> None:
    path = folder / STATE
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        return
    if not resume:
        raise SysgymError(f"{folder}: the folder holds a run already; go on with resume, or use another")
    asked = search.asked()
    try:
        there = read_tree(read_limited(path, LARGEST_STATE_BYTES))
        others = [what for what, value in asked.items() if there["asked"][what] != value]
        if not others:
            search.set_state(there)
    except Exception as error:  # damaged files can raise anything in zipfile, json or NumPy
        raise SysgymError(f"{path}: not the state of a search ({error!r}); use another folder") from error
    if others:
        raise SysgymError(
            f"{folder}: cannot go on, the search there has another {others[0]};"
            " ask for the same again, or use another folder"
        )
