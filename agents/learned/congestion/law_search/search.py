"""Search for the constants of a law by CMA-ES over given scenarios, random networks and other laws.

All candidates of a generation play the same lessons, DCTCP too where laws are compared with it. The
distribution is over logarithms of the searched constants, within their bounds. The result is the mean of the
distribution that was best in the same lessons of the validation split; the first mean, the law before the
search, is one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.congestion.evolution import (
    EvolutionSearch,
    ask,
    begin_or_resume,
    check_count,
    check_positive,
    checked_scenario,
    new_distribution,
    run_generations,
    write_law,
)
from sysgym.agents.learned.congestion.law import LawForm
from sysgym.agents.learned.congestion.law_search.fitness import Judge
from sysgym.agents.learned.congestion.law_search.lessons import VERSION, Lesson, draw_lessons
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.emulator.packets.transports.constants import Constant
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError, UnknownName

POPULATION = 14
GENERATIONS_A_VALIDATION = 2
VALIDATIONS = 4
"""Draws of lessons for a validation, unless another number is given."""
VALIDATION_SEED = 12_345

NEIGHBOURS = ("dctcp", "cubic", "bbr", "swift")


@dataclass(frozen=True)
class SearchedLaw:
    """Law whose constants are searched.

    Attributes:
        form: Form of its checkpoints.
        constants: Its constants, in the order of the transport's parameters. A search leaves those alone that
            are not marked as searched.
    """

    form: LawForm
    constants: Sequence[Constant]

    @property
    def searched(self) -> list[Constant]:
        """Constants that a search sets. A point has a coordinate for each: doublings of its first value."""
        return [constant for constant in self.constants if constant.searched]

    def searching(self, names: Sequence[str]) -> SearchedLaw:
        """Return the law with other constants marked as searched.

        Raises:
            UnknownName: If it has no such constant.
        """
        known = [constant.name for constant in self.constants]
        for name in names:
            if name not in known:
                raise UnknownName("constant", name, known)
        return replace(self, constants=[one._replace(searched=one.name in names) for one in self.constants])

    def starting_at(self, values: Sequence[float]) -> SearchedLaw:
        """Return the law with other first values."""
        pairs = zip(self.constants, values, strict=True)
        return replace(self, constants=[one._replace(value=value) for one, value in pairs])

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Bounds of a point, shape (n_searched, 2)."""
        least, most = (
            [np.log2(getattr(constant, which) / constant.value) for constant in self.searched]
            for which in ("least", "most")
        )
        return np.stack([np.array(least) - 1e-9, np.array(most) + 1e-9], axis=1)

    def constants_at(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return all constants at a point."""
        first, least, most = (
            np.array([getattr(constant, which) for constant in self.constants])
            for which in ("value", "least", "most")
        )
        doublings = np.zeros(len(first))
        doublings[[constant.searched for constant in self.constants]] = point
        constants: NDArray[np.float64] = np.clip(first * np.exp2(doublings), least, most)
        return constants

    def transport_at(self, point: NDArray[np.float64]) -> Transport:
        """Return the law with the constants at a point."""
        return self.form.transport(self.constants_at(point).tolist())


@dataclass
class Search(EvolutionSearch):
    """State of a search.

    Attributes:
        law: The law.
        evolution: The distribution of logarithms of constants.
        seed: Seed of the random draws.
        scenarios: Given scenarios.
        neighbours: Names of the laws with which links are shared.
        networks: Networks of the study in a generation.
        links: Links of any kind in a generation, for each neighbour.
        coexistence: Factor of the losses on links that are shared.
        validations: Draws of lessons for a validation.
        sigma: Width of the first distribution, in doublings.
        generations: Number of generations so far.
        steps: Decision intervals simulated, without those of the baseline and of validations.
        wall_s: Time so far, s.
        best: Mean of the distribution that was best on the validation split.
        best_loss: Its loss there.
    """

    law: SearchedLaw
    evolution: Any
    seed: int
    scenarios: list[CongestionScenario]
    neighbours: list[str]
    networks: int
    links: int
    coexistence: float
    validations: int
    sigma: float
    generations: int
    steps: int
    wall_s: float
    best: NDArray[np.float64]
    best_loss: float

    @classmethod
    def new(
        cls,
        law: SearchedLaw,
        scenarios: list[CongestionScenario],
        neighbours: list[str],
        networks: int,
        links: int,
        coexistence: float,
        validations: int,
        sigma: float,
        seed: int,
    ) -> Search:
        """Return a search around the first values."""
        start = np.zeros(len(law.searched))
        evolution = new_distribution(start, sigma, seed, population=POPULATION, bounds=law.bounds)
        begun = 0, 0, 0.0, start, math.inf
        drawn = scenarios, neighbours, networks, links, coexistence, validations
        return cls(law, evolution, seed, *drawn, sigma, *begun)

    def asked(self) -> dict[str, Any]:
        """Return what a search that is resumed must have in common with this one."""
        return {
            "law": self.law.form.agent,
            "list of constants": [constant.name for constant in self.law.searched],
            "start": [constant.value for constant in self.law.constants],
            "list of scenarios": [one.sha256() for one in self.scenarios],
            "list of neighbours": self.neighbours,
            "number of networks": self.networks,
            "number of links": self.links,
            "coexistence": self.coexistence,
            "number of validations": self.validations,
            "version of lessons": VERSION,
            "seed": self.seed,
            "sigma": self.sigma,
        }

    def generation(self, judge: Judge) -> float:
        """Play one generation and update the distribution; return the mean loss of the candidates."""
        points = ask(self.evolution, self.seed, self.generations)
        lessons = self._lessons("train", self.seed, self.generations)
        losses = judge.losses([self.law.transport_at(point) for point in points], lessons)
        self.evolution.tell(list(zip(points, losses.tolist(), strict=True)))
        self.generations += 1
        self.steps += len(points) * sum(lesson.steps for lesson in lessons)
        return float(losses.mean())

    def validate(self, judge: Judge) -> float:
        """Evaluate the mean of the distribution on the validation split; keep it if it is the best so far."""
        lessons = [
            lesson
            for number in range(self.validations)
            for lesson in self._lessons("validation", VALIDATION_SEED, number)
        ]
        losses = judge.losses([self.law.transport_at(self.evolution.mean)], lessons)
        return self.keep_if_best(float(losses[0]))

    def _lessons(self, split: str, seed: int, number: int) -> list[Lesson]:
        rng = np.random.default_rng([seed, number])
        return draw_lessons(self.scenarios, self.neighbours, split, rng, self.networks, self.links)


def search_law(
    law: SearchedLaw,
    scenario: CongestionScenario,
    *,
    total_steps: int,
    out: str | PathLike[str],
    seed: int = 0,
    resume: bool = False,
    progress: Callable[[int], None] | None = None,
    also_on: Sequence[str] = (),
    neighbours: Sequence[str] = NEIGHBOURS,
    networks: int = 0,
    links: int = 0,
    constants: Sequence[str] = (),
    start: str | None = None,
    coexistence: float = 1.0,
    validations: int = VALIDATIONS,
    sigma: float = 0.2,
) -> Path:
    """Search for constants on the train split of scenarios, on random networks and beside other laws.

    The same arguments on the same machine give the same constants, with or without interruption.

    Args:
        law: The law.
        scenario: The first scenario.
        total_steps: Decision intervals to simulate; rounded up to whole generations.
        out: Folder of the run.
        seed: Seed of the search.
        resume: Whether to resume an interrupted search in the folder.
        progress: Callback with the number of intervals so far.
        also_on: Names or files of the other scenarios.
        neighbours: Names of the laws with which links are shared.
        networks: Number of networks of a generation, drawn as those of ``sysgym study networks``. With
            some, lessons beside other laws are more and longer, too.
        links: Number of further links of a generation that are shared with each neighbour, drawn as those
            of ``sysgym study links``; for each there are three of its crowds.
        constants: Names of the constants to search for; none: those that the law says.
        start: Checkpoint of the law whose constants are the first ones; None: the law's own.
        coexistence: Factor of the losses on links that are shared, with other laws or by the law's own flows:
            with more than 1, the search gives up more of the score for fair shares.
        validations: Draws of lessons for a validation; more make its noise smaller.
        sigma: Width of the first distribution, in doublings of the constants.

    Returns:
        The checkpoint.

    Raises:
        MissingExtra: If cmaes is not installed.
        SysgymError: If a scenario is not for DatacenterCC, the width or the factor is not positive, a number
            is negative, there are no validations, neighbours or constants are no list, the start is no
            checkpoint of the law, or the folder holds another search.
        UnknownName: If there is no such neighbour or constant.
    """
    folder = Path(out)
    chosen = [checked_scenario(one, law.form.agent) for one in (scenario, *map(load_scenario, also_on))]
    check_positive("sigma", sigma, 0.2)
    check_positive("coexistence", coexistence, 2.0)
    for name, names, what in (("neighbours", neighbours, "laws"), ("constants", constants, "names")):
        if isinstance(names, str):
            raise SysgymError(f'{name} is {names!r}; expected a list of {what}, as ["{names}"]')
    for name in neighbours:
        get_transport(name)
    check_count("networks", networks, 40)
    check_count("links", links, 4)
    check_count("validations", validations, 8, least=1)
    law = law.searching(constants) if constants else law
    law = _started(law, start)
    asked = list(neighbours), networks, links, float(coexistence), validations
    search = Search.new(law, chosen, *asked, float(sigma), seed)
    begin_or_resume(search, folder, resume)
    judge = Judge(coexistence=search.coexistence)
    if search.generations == 0:
        search.validate(judge)  # nothing is found that is worse than what was there before
    run_generations(
        search,
        folder,
        total_steps,
        GENERATIONS_A_VALIDATION,
        lambda: search.generation(judge),
        lambda: search.validate(judge),
        progress,
    )
    hyper_parameters = {
        "also_on": list(also_on),
        "neighbours": search.neighbours,
        "networks": networks,
        "links": links,
        "constants": list(constants),
        "start": start,
        "coexistence": search.coexistence,
        "validations": validations,
        "sigma": search.sigma,
    }
    return write_law(search, folder, law.form, law.constants_at(search.best), hyper_parameters)


def _started(law: SearchedLaw, start: Any) -> SearchedLaw:
    """Return the law with the constants of a checkpoint as first values, if one is given."""
    if start is None:
        return law
    if not (isinstance(start, str) and start):
        raise SysgymError(
            f'start is {start!r}; expected a checkpoint of the law, such as "runs/mine/final.json"'
        )
    values = law.form.read(start).parameters
    law.form.transport(values)  # raises an error if one is outside its bounds
    return law.starting_at(values)
