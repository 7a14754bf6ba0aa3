"""Base of placers: the environments that they play, and a plan with its cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.matrices import Matrix, steps_of_matrix
from sysgym.emulator.accelerators.programs import Collective
from sysgym.envs.placement.base import PlacementEnv
from sysgym.envs.placement.joint import JointPlacement
from sysgym.envs.placement.observation import BUDGET_COLUMNS, CANDIDATE_COLUMNS
from sysgym.envs.placement.placement import CollectivePlacement
from sysgym.envs.placement.program import ReductionProgram
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.placement import MOST_LEVELS

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class JointView:
    """What ``JointPlacement-v0`` shows, by name. Costs are natural logs, relative to the default's nominal.

    Attributes:
        nominal: Log costs by the nominal bandwidths, [K].
        level_shares: Shares of the nominal time that the links of each level bound, [K, MOST_LEVELS].
        collective_shares: The same time divided by collectives, [K, n_collectives].
        count: Measurements of each, [K].
        mean: Their mean log cost, 0 where there are none, [K].
        left: Measurements that are left.
        price: Of a measurement.
        noise_sd: Log standard deviation of a measurement's noise.
        level_sd: Log standard deviation of a level's true bandwidth around the nominal one.
        collective_sd: The same of what a collective makes of it.
        background: Mean share of every uplink that others' traffic takes.
        background_sd: Its standard deviation from measurement to measurement.
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
        """Read an observation."""
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
    def n_candidates(self) -> int:
        """Number of candidates, K."""
        return len(self.nominal)


@dataclass(frozen=True)
class Choice:
    """What to do in ``JointPlacement-v0``: measure a candidate, or commit to it and end."""

    candidate: int
    commit: bool


class Placer:
    """Base of the family's agents. A subclass has one method for every environment that it plays.

    ``place`` returns a matrix for ``CollectivePlacement-v0``, ``build`` the actions of a program for
    ``ReductionProgram-v0``; both are asked once, at the first decision, and what they return is carried out.
    ``choose`` is asked at every decision of ``JointPlacement-v0``.

    Attributes:
        evaluations: Cost evaluations of this episode: placements, programs or single steps whose time by the
            closed-form model the agent has asked for.
        simulations: Flow-level simulations of this episode.
    """

    name = ""
    place: Callable[[CollectivePlacement], Matrix] | None = None
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
        methods = {CollectivePlacement: self.place, ReductionProgram: self.build, JointPlacement: self.choose}
        plays = tuple(kind for kind, method in methods.items() if method is not None)
        if not isinstance(world, plays):
            names = " and ".join(kind.__name__ for kind in plays)
            raise SysgymError(f'the agent "{self.name}" plays {names}, not {type(world).__name__}')
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
            # Nothing to place on a single device: the one action that is allowed ends the episode.
            return list(steps_of_matrix(self.place(world))) or [0]
        assert self.build is not None
        assert isinstance(world, ReductionProgram)
        return list(self.build(world))


def episode_rng(env: gym.Env[Any, Any], stream: int) -> np.random.Generator:
    """Return an agent's own generator, seeded by the episode.

    Args:
        env: The environment, after its reset.
        stream: Keeps the agent's numbers apart from those of the problem, which has the same seed.
    """
    seed = getattr(env.unwrapped, "episode_seed", None)
    return np.random.default_rng([stream, 0 if seed is None else int(seed)])


def _column(name: str) -> int:
    return list(CANDIDATE_COLUMNS).index(name)
