"""Base class of the family's agents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.protocol import wrong_environment
from sysgym.emulator.accelerators.matrices import Matrix, steps_of_matrix
from sysgym.emulator.accelerators.programs import Collective
from sysgym.envs.placement.base import PlacementEnv
from sysgym.envs.placement.joint import JointPlacement
from sysgym.envs.placement.multijob import MultiJobPlacement
from sysgym.envs.placement.observation import BUDGET_COLUMNS, CANDIDATE_COLUMNS
from sysgym.envs.placement.placement import CollectivePlacement
from sysgym.envs.placement.program import ReductionProgram
from sysgym.scenarios.schema.placement import MOST_LEVELS

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class JointView:
    """Observation of ``JointPlacement-v0`` by name.

    Costs are natural logarithms, relative to the nominal time of the default.

    Attributes:
        nominal: Log costs at nominal bandwidths, [K].
        level_shares: Shares of the nominal time bound by the links of each level, [K, MOST_LEVELS].
        collective_shares: Shares of the same time by collective, [K, n_collectives].
        count: Number of measurements, [K].
        mean: Mean log cost of the measurements, 0 without any, [K].
        left: Number of measurements left.
        price: Price of a measurement.
        noise_sd: Log standard deviation of the measurement noise.
        level_sd: Log standard deviation of a level's true bandwidth around the nominal one.
        collective_sd: Log standard deviation of a collective's efficiency.
        background: Mean share of every uplink used by background traffic.
        background_sd: Standard deviation of that share between measurements.
    """

    nominal: FloatArray
    level_shares: FloatArray
    collective_shares: FloatArray
    count: NDArray[np.int64]
    mean: FloatArray
    left: int
    price: float
    noise_sd: float
    level_sd: float
    collective_sd: float
    background: float
    background_sd: float

    @classmethod
    def of(cls, observation: Any) -> JointView:
        """Return the view of an observation."""
        table = np.asarray(observation["candidates"], np.float64)
        table = table[table[:, _column("exists")] > 0.0]
        budget = dict(
            zip(BUDGET_COLUMNS, np.asarray(observation["budget"], np.float64).tolist(), strict=True)
        )
        return cls(
            nominal=table[:, _column("nominal")],
            level_shares=table[:, [_column(f"level_{level}") for level in range(MOST_LEVELS)]],
            collective_shares=table[:, [_column(collective.value) for collective in Collective]],
            count=np.rint(table[:, _column("measured")]).astype(np.int64),
            mean=table[:, _column("mean")],
            left=round(budget["left"]),
            price=budget["price"],
            noise_sd=budget["noise"],
            level_sd=budget["level_error"],
            collective_sd=budget["collective_error"],
            background=budget["background"],
            background_sd=budget["background_sd"],
        )

    @property
    def is_told(self) -> bool:
        """Whether the observation discloses the size of deviations; otherwise all deviations in it are 0."""
        return any((self.noise_sd, self.level_sd, self.collective_sd, self.background, self.background_sd))

    @property
    def n_candidates(self) -> int:
        """Number of candidates, K."""
        return len(self.nominal)


@dataclass(frozen=True)
class Choice:
    """Decision in ``JointPlacement-v0``: measure a candidate, or commit to it and end the episode."""

    candidate: int
    commit: bool


class Placer:
    """Base class of the family's agents. A subclass has one method for every environment that it plays.

    ``place`` returns a matrix for ``CollectivePlacement-v0``, ``build`` the actions of a program for
    ``ReductionProgram-v0``, and ``assign`` the blocks of each job on each node for ``MultiJobPlacement-v0``;
    they are called once, at the first decision. ``choose`` is called at every
    decision of ``JointPlacement-v0``.

    Attributes:
        evaluations: Number of evaluations of the closed-form model in this episode, for placements, programs
            or single steps.
        simulations: Number of flow-level simulations in this episode.
    """

    name = ""
    place: Callable[[CollectivePlacement], Matrix] | None = None
    assign: Callable[[MultiJobPlacement], IntArray] | None = None
    build: Callable[[ReductionProgram], tuple[int, ...]] | None = None
    choose: Callable[[JointView], Choice] | None = None

    evaluations = 0
    simulations = 0

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Forget the previous episode.

        Raises:
            SysgymError: If the agent does not play the environment.
        """
        world = env.unwrapped
        self.evaluations = self.simulations = 0
        self._plan: list[int] | None = None
        methods = {
            CollectivePlacement: self.place,
            ReductionProgram: self.build,
            JointPlacement: self.choose,
            MultiJobPlacement: self.assign,
        }
        plays = tuple(kind for kind, method in methods.items() if method is not None)
        if not isinstance(world, plays):
            raise wrong_environment(self.name, world, *plays)
        assert isinstance(world, PlacementEnv)
        self._world = world

    def act(self, observation: Any) -> int:
        """Return the next action of the plan, or the choice."""
        if self.choose is not None and isinstance(self._world, JointPlacement):
            choice = self.choose(JointView.of(observation))
            n_rows = len(observation["candidates"])
            return choice.candidate + (n_rows if choice.commit else 0)
        if self._plan is None:
            self._plan = self._plans()
        return self._plan.pop(0)

    def _plans(self) -> list[int]:
        world = self._world
        if self.place is not None and isinstance(world, CollectivePlacement):
            # With a single device there is nothing to place: the only allowed action ends the episode.
            return list(steps_of_matrix(self.place(world))) or [0]
        if self.assign is not None and isinstance(world, MultiJobPlacement):
            rows = self.assign(world)
            return [node for row in rows for node in np.repeat(np.arange(len(row)), row).tolist()]
        assert self.build is not None
        assert isinstance(world, ReductionProgram)
        return list(self.build(world))


def _column(name: str) -> int:
    return list(CANDIDATE_COLUMNS).index(name)
