"""Access of heuristics to their environment."""

from __future__ import annotations

import gymnasium as gym
import pytest

from sysgym.agents.congestion.world import congestion_env
from sysgym.scenarios.errors import SysgymError


def test_another_family_is_refused() -> None:
    with pytest.raises(SysgymError, match="not CartPoleEnv"):
        congestion_env(gym.make("CartPole-v1"))
