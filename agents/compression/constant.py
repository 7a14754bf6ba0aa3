"""Agents that ignore the observation: constant methods, and a random one."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym

from sysgym.agents.protocol import episode_rng, world_of
from sysgym.envs.compression.grad_compress import GradCompress
from sysgym.scenarios.schema.compression import METHODS

STREAM = 0xC0DE
"""Random stream of the random agent."""


class ConstantAgent:
    """Base class of agents that use one method throughout.

    Attributes:
        METHOD: Name of the method.
        name: Name of the agent.
    """

    METHOD: ClassVar[str] = "none"
    name = "never"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Check the environment.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world_of(env, self.name, GradCompress)

    def act(self, observation: Any) -> int:
        """Return the method's number."""
        return METHODS.index(self.METHOD)


class Never(ConstantAgent):
    """No compression."""


class HalfPrecision(ConstantAgent):
    """16 bits per value."""

    METHOD = name = "half_precision"


class PowerSGD1(ConstantAgent):
    """PowerSGD of rank 1."""

    METHOD = name = "powersgd_1"


class PowerSGD4(ConstantAgent):
    """PowerSGD of rank 4."""

    METHOD = name = "powersgd_4"


class PowerSGD8(ConstantAgent):
    """PowerSGD of rank 8."""

    METHOD = name = "powersgd_8"


class PowerSGD16(ConstantAgent):
    """PowerSGD of rank 16."""

    METHOD = name = "powersgd_16"


class TopK1Percent(ConstantAgent):
    """Top-K with 1 % of the values."""

    METHOD = name = "top_k_1_percent"


class TopK10Percent(ConstantAgent):
    """Top-K with 10 % of the values."""

    METHOD = name = "top_k_10_percent"


class Sign(ConstantAgent):
    """sign-SGD with majority vote."""

    METHOD = name = "sign"


class RandomAgent:
    """Uniformly random method, seeded by the episode."""

    name = "random"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Seed the generator by the episode.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world_of(env, self.name, GradCompress)
        self._rng = episode_rng(env, STREAM)

    def act(self, observation: Any) -> int:
        """Draw an action."""
        return int(self._rng.integers(len(METHODS)))
