"""Search for the weights of the law by CMA-ES (Hansen, arXiv:1604.00772) over randomised scenarios.

The objective consists of the final metrics of an episode (queues, completion times, goodput), all flows share
the weights, and there are only a few dozen weights, so no gradient is needed. All candidates of a generation
play the same episodes as DCTCP, which cancels the variance between episodes. Scenarios in which the law is
worst relative to DCTCP are drawn more often (as in Genet's curriculum, Xia et al., SIGCOMM 2022, section 4).
There may be a first stage with the first scenario alone: solutions for incast persist when web search is
added, but are hard to find if both are played from the beginning. The result is the mean of the distribution
that was best on the validation split.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.congestion.episodes import Episode
from sysgym.agents.learned.congestion.evolution import (
    EvolutionSearch,
    ask,
    begin_or_resume,
    check_positive,
    checked_scenario,
    keep_generation,
    new_distribution,
    write_law,
)
from sysgym.agents.learned.congestion.neural.agent import FORM
from sysgym.agents.learned.congestion.neural.fitness import Judge
from sysgym.emulator.packets.transports.searched.neural import N_PARAMETERS, neural_transport
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError

EPISODES_A_GENERATION = 6
EPISODES_A_VALIDATION = 4
"""Number of episodes of every scenario in a validation."""
GENERATIONS_A_VALIDATION = 10
MEMORY = 0.8
"""Weight of the previous value in the moving average of a scenario's loss."""

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Schedule:
    """Stages of a search, and the widths of its distributions.

    Attributes:
        alone_steps: Decision intervals on the first scenario alone; the others are added afterwards.
        sigma: Width of the initial distribution, around DCTCP.
        joint_sigma: Width of the distribution when the other scenarios are added, around the best law so far.
    """

    alone_steps: int
    sigma: float
    joint_sigma: float

    def check(self, total_steps: int) -> None:
        """Raise SysgymError for invalid values, which may come from a command line or a suite."""
        for name in ("sigma", "joint_sigma"):
            check_positive(name, getattr(self, name), 0.2)
        if not isinstance(self.alone_steps, int):
            raise SysgymError(f"alone_steps is {self.alone_steps!r}; expected a whole number of steps")
        if not 0 <= self.alone_steps < total_steps:
            raise SysgymError(
                f"alone_steps is {self.alone_steps:,} of {total_steps:,} steps;"
                " expected 0 or more, and fewer than all"
            )


@dataclass
class Search(EvolutionSearch):
    """State of a search.

    Attributes:
        evolution: The distribution of weights.
        seed: Seed of the random draws.
        schedule: Stages, and the widths of the distributions.
        rng: Generator of scenarios and episode seeds.
        scenarios: All scenarios of the curriculum.
        standing: Moving average of the loss in each scenario.
        joined: Whether all scenarios are played, or only the first.
        generations: Number of generations so far.
        steps: Decision intervals simulated, excluding those of the baseline and of validations.
        wall_s: Time so far, s.
        best: Mean of the distribution that was best on the validation split in this stage.
        best_loss: Loss of ``best`` on the validation split.
    """

    kept = ("standing", "joined", *EvolutionSearch.kept)

    evolution: Any
    seed: int
    schedule: Schedule
    rng: np.random.Generator
    scenarios: list[CongestionScenario]
    standing: NDArray[np.float64]
    joined: bool
    generations: int = 0
    steps: int = 0
    wall_s: float = 0.0
    best: NDArray[np.float64] = field(default_factory=lambda: np.zeros(N_PARAMETERS))
    best_loss: float = np.inf

    @property
    def n_played(self) -> int:
        """Number of scenarios played in this stage."""
        return len(self.scenarios) if self.joined else 1

    def asked(self) -> dict[str, Any]:
        """Return the settings that a search must share with this one to resume it."""
        scenarios = [one.sha256() for one in self.scenarios]
        return {"list of scenarios": scenarios, "seed": self.seed, **asdict(self.schedule)}

    def progress(self) -> dict[str, Any]:
        """Return the state apart from the settings, including the generator of scenarios."""
        return {**super().progress(), "rng": self.rng.bit_generator.state}

    def set_progress(self, progress: Mapping[str, Any]) -> None:
        """Restore the progress of another search, and the generator of scenarios."""
        super().set_progress(progress)
        self.rng.bit_generator.state = progress["rng"]

    def stage_is_over(self, total_steps: int) -> bool:
        """Return whether this stage is complete, given the total number of steps of the search."""
        return self.steps >= (total_steps if self.joined else self.schedule.alone_steps)

    def join(self) -> None:
        """Begin the stage of all scenarios, around the best law of the first stage."""
        self.evolution = new_distribution(self.best, self.schedule.joint_sigma, self.seed)
        self.best_loss = np.inf
        self.joined = True

    def draw(self) -> tuple[list[int], list[Episode]]:
        """Draw the episodes of a generation: every scenario once, the rest mostly where the law is worst.

        Returns:
            Index of the scenario of each episode, and the episodes.
        """
        n = self.n_played
        standing = self.standing[:n]
        weight = np.exp(standing - standing.max())
        more = self.rng.choice(n, size=max(EPISODES_A_GENERATION - n, 0), p=weight / weight.sum())
        places = [*range(n), *sorted(more.tolist())]
        return places, [self._episode(place) for place in places]

    def _episode(self, place: int) -> Episode:
        scenario = self.scenarios[place]
        first, last = scenario.splits["train"].seeds
        return Episode(scenario, "train", int(self.rng.integers(first, last + 1)))

    def generation(self, judge: Judge) -> float:
        """Play one generation and update the distribution; return the mean loss of the candidates."""
        candidates = ask(self.evolution, self.seed, self.generations)
        places, episodes = self.draw()
        losses = judge.losses([neural_transport(weights) for weights in candidates], episodes)
        self.evolution.tell(list(zip(candidates, losses.mean(axis=1).tolist(), strict=True)))
        for place in set(places):
            found = losses[:, [number for number, other in enumerate(places) if other == place]].mean()
            self.standing[place] += (1.0 - MEMORY) * (found - self.standing[place])
        self.generations += 1
        self.steps += len(candidates) * sum(episode.scenario.control.episode_steps for episode in episodes)
        return float(losses.mean())

    def validate(self, judge: Judge) -> float:
        """Evaluate the mean of the distribution on the validation split; store it if it is the best one."""
        episodes = [
            Episode(scenario, "validation", scenario.splits["validation"].seeds[0] + number)
            for scenario in self.scenarios[: self.n_played]
            for number in range(EPISODES_A_VALIDATION)
        ]
        losses = judge.losses([neural_transport(self.evolution.mean)], episodes)
        return self.keep_if_best(float(losses.mean()))


def train_neural(
    scenario: CongestionScenario,
    *,
    total_steps: int,
    out: str | PathLike[str],
    seed: int = 0,
    resume: bool = False,
    progress: Progress | None = None,
    also_on: Sequence[str] = (),
    episode_steps: int = 200,
    alone_steps: int = 0,
    sigma: float = 0.2,
    joint_sigma: float = 0.08,
) -> Path:
    """Search for weights on the train split of scenarios.

    The same arguments on the same machine give the same weights, with or without interruption.

    Args:
        scenario: The first scenario.
        total_steps: Decision intervals to simulate; rounded up to whole generations.
        out: Folder of the run.
        seed: Seed of the search.
        resume: Whether to resume an interrupted search in the folder.
        progress: Callback with the number of intervals so far.
        also_on: Names or files of the other scenarios.
        episode_steps: Largest number of intervals of an episode; longer episodes are truncated.
        alone_steps: Decision intervals of a first stage, in which only the first scenario is played.
        sigma: Width of the first distribution, whose mean is DCTCP.
        joint_sigma: Initial width in the second stage, whose initial mean is the best law of the first stage.

    Returns:
        Path of the checkpoint.

    Raises:
        MissingExtra: If cmaes is not installed.
        SysgymError: If a scenario is not for DatacenterCC, the first stage leaves no steps for the second, a
            width is not positive, or the folder holds another search.
    """
    folder = Path(out)
    chosen = [_shortened(one, episode_steps) for one in (scenario, *map(load_scenario, also_on))]
    schedule = Schedule(alone_steps, sigma, joint_sigma)
    schedule.check(total_steps)
    evolution = new_distribution(np.zeros(N_PARAMETERS), schedule.sigma, seed)
    rng, standing = np.random.default_rng(seed), np.zeros(len(chosen))
    search = Search(evolution, seed, schedule, rng, chosen, standing, joined=alone_steps == 0)
    begin_or_resume(search, folder, resume)
    judge = Judge()
    # Every stage, even a short one, ends with a validation.
    while search.steps < total_steps or math.isinf(search.best_loss):
        began_s = time.perf_counter()
        mean_loss = search.generation(judge)
        is_over = search.stage_is_over(total_steps)
        validation = None
        if search.generations % GENERATIONS_A_VALIDATION == 0 or is_over:
            validation = search.validate(judge)
        if is_over and not search.joined:
            search.join()
        search.wall_s += time.perf_counter() - began_s
        keep_generation(search, folder, mean_loss, validation)
        if progress is not None:
            progress(search.steps)
    asked = {"also_on": list(also_on), "episode_steps": episode_steps, **asdict(schedule)}
    return write_law(search, folder, FORM, search.best, asked)


def _shortened(given: Any, episode_steps: int) -> CongestionScenario:
    scenario = checked_scenario(given, FORM.agent)
    if scenario.control.episode_steps <= episode_steps:
        return scenario
    control = scenario.control.model_copy(update={"episode_steps": episode_steps})
    return scenario.model_copy(update={"control": control})
