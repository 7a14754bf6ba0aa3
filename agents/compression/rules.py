"""Rules: the crossover of the cost model, and less compression in critical phases."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.protocol import world_of
from sysgym.envs.compression.grad_compress import GradCompress
from sysgym.envs.compression.observation import NAMES, expected_gains
from sysgym.scenarios.errors import UnknownName
from sysgym.scenarios.schema.compression import METHODS

_GOODPUT = NAMES.index("goodput")
_CRITICAL = NAMES.index("critical")


class CrossoverAgent:
    """The method with the most expected progress per second by the cost model, with hysteresis.

    The model is evaluated at a moving average of the measured goodputs, with the losses of the present phase.
    The method changes only if the expected gain exceeds the hysteresis.

    Args:
        hysteresis: Least expected gain of a change, as a share of the progress per second.
        memory: Weight of the previous average; with 0, only the last measurement is used.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "crossover"

    def __init__(self, hysteresis: float = 0.05, memory: float = 0.25) -> None:
        self.hysteresis = in_range(self.name, "hysteresis", hysteresis, least=0.0)
        self.memory = in_range(self.name, "memory", memory, least=0.0, below=1.0)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Forget earlier measurements.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        self._world = world_of(env, self.name, GradCompress)
        self._mean: float | None = None
        self._method = 0

    def act(self, observation: Any) -> int:
        """Return the method with the largest expected gain, or the present one if it is almost as good."""
        measured = float(observation[_GOODPUT])
        self._mean = (
            measured if self._mean is None else self._mean + (1.0 - self.memory) * (measured - self._mean)
        )
        gains = expected_gains(self._world.run, 1e9 * 10.0**self._mean)
        best = int(gains.argmax())
        if gains[best] > gains[self._method] + np.log1p(self.hysteresis):
            self._method = best
        return self._method


class AccordionAgent:
    """Strong compression, and little or none in critical phases, in the manner of Accordion.

    Agarwal et al. (MLSys 2021) recognise critical phases by the change of the gradient's norm; here the
    observation contains them. This is not the authors' code, and results of this agent do not apply to
    theirs.

    Args:
        strong: Method outside critical phases.
        gentle: Method in critical phases.

    Raises:
        UnknownName: If there is no such method.
    """

    name = "accordion"

    def __init__(self, strong: str = "powersgd_1", gentle: str = "powersgd_4") -> None:
        for method in (strong, gentle):
            if method not in METHODS:
                raise UnknownName("method", method, METHODS)
        self._methods = METHODS.index(strong), METHODS.index(gentle)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Check the environment.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world_of(env, self.name, GradCompress)

    def act(self, observation: Any) -> int:
        """Return the method for the present phase."""
        return self._methods[int(observation[_CRITICAL] > 0.5)]
