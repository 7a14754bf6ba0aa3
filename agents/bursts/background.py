"""Rules for background work: none, constant, AIMD, and the model with a tracked interference."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.protocol import world_of
from sysgym.emulator.bursts.multiplexing import (
    ACTIONS,
    BATCHES,
    ENDS,
    MOST_PIECES,
    interference_of,
    outcomes,
)
from sysgym.envs.bursts.mux import BurstMux
from sysgym.envs.bursts.observation import MUX_COLUMNS
from sysgym.scenarios.errors import SysgymError

_SLOWDOWN = list(MUX_COLUMNS).index("slowdown")


def action_of(batch: int, pieces: int) -> int:
    """Return the number of an action."""
    return 0 if batch == 0 or pieces == 0 else ACTIONS.index((batch, pieces))


def known_batch(agent: str, batch: int) -> int:
    """Return a batch size after checking that it is one of the known ones.

    Raises:
        SysgymError: If there is no such batch.
    """
    if batch not in BATCHES:
        raise SysgymError(f"{agent}: batch: expected one of {', '.join(map(str, BATCHES))}, got {batch!r}")
    return batch


class ConstantBackground:
    """One batch and number of outstanding pieces throughout.

    Args:
        batch: Batch of the background work.
        pieces: Pieces outstanding on each GPU.

    Raises:
        SysgymError: If there is no such action.
    """

    name = "constant_background"

    def __init__(self, batch: int = 16, pieces: int = 2) -> None:
        known_batch(self.name, batch)
        self._action = action_of(batch, in_range(self.name, "pieces", pieces, least=0, most=MOST_PIECES))

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Check the environment.

        Raises:
            SysgymError: If the environment is of another class.
        """
        world_of(env, self.name, BurstMux)

    def act(self, observation: Any) -> int:
        """Return the action."""
        return self._action


class NoBackground(ConstantBackground):
    """No background work."""

    name = "no_background"

    def __init__(self) -> None:
        super().__init__(0, 0)


class Aimd:
    """One more outstanding piece while the measured slowdown is below a target, half as many if it is above.

    Args:
        target: Target of the slowdown, as a ratio minus 1.
        batch: Batch of the background work.
        every: Windows between increases.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "aimd_background"

    def __init__(self, target: float = 0.15, batch: int = 16, every: int = 5) -> None:
        self.batch = known_batch(self.name, batch)
        self.target = in_range(self.name, "target", target, above=0.0)
        self.every = in_range(self.name, "every", every, least=1)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Begin with one piece.

        Raises:
            SysgymError: If the environment is of another class.
        """
        world_of(env, self.name, BurstMux)
        self._pieces, self._waited = 1, 0

    def act(self, observation: Any) -> int:
        """Return the action for the slowdown of the last window."""
        self._waited += 1
        if float(observation[_SLOWDOWN]) > self.target:
            self._pieces, self._waited = self._pieces // 2, 0
        elif self._waited >= self.every:
            self._pieces, self._waited = min(self._pieces + 1, MOST_PIECES), 0
        return action_of(self.batch, self._pieces)


class ModelBased:
    """The action with the highest value by the model, with the interference estimated from the last windows.

    A window without background work contains no information on the interference; the estimate is kept.

    Args:
        memory: Weight of the previous estimate in an update.
        margin: Reduction of the limit of the slowdown.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "model_background"

    def __init__(self, memory: float = 0.8, margin: float = 0.03) -> None:
        self.memory = in_range(self.name, "memory", memory, least=0.0, below=1.0)
        self.margin = in_range(self.name, "margin", margin, least=0.0)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Begin with the interference that the scenario expects.

        Raises:
            SysgymError: If the environment is of another class.
        """
        self._world = world_of(env, self.name, BurstMux)
        background = self._world.drawn.background
        self._estimate = background.interference
        self._ends = outcomes(self._world.episode.gaps, background, ENDS)
        self._action = 0

    def act(self, observation: Any) -> int:
        """Return the best action by the estimate."""
        gaps, background = self._world.episode.gaps, self._world.drawn.background
        if self._action:
            slowdown = 1.0 + float(observation[_SLOWDOWN])
            seen = interference_of(self._ends, self._action, slowdown)
            self._estimate += (1.0 - self.memory) * (seen - self._estimate)
        expected = outcomes(gaps, background, np.array([self._estimate]))
        self._action = int(expected.worth(background.most_slowdown - self.margin)[0].argmax())
        return self._action
