"""Access of heuristics to their environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.scenarios.errors import SysgymError

Action = NDArray[np.float32]


def congestion_env(env: gym.Env[Any, Any]) -> DatacenterCC:
    """Return the environment without wrappers.

    Raises:
        SysgymError: If the environment belongs to another family.
    """
    unwrapped = env.unwrapped
    if not isinstance(unwrapped, DatacenterCC):
        raise SysgymError(f"this agent plays sysgym/DatacenterCC-v0, not {type(unwrapped).__name__}")
    return unwrapped
