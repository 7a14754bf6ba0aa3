"""What the heuristics need to know of the environment they play in."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.fairness import max_min_rates
from sysgym.envs.congestion.datacenter_cc import DatacenterCC
from sysgym.scenarios.errors import SysgymError

Action = NDArray[np.float32]


def congestion_env(env: gym.Env[Any, Any]) -> DatacenterCC:
    """Return the environment under all wrappers.

    Raises:
        SysgymError: If it is of another family.
    """
    unwrapped = env.unwrapped
    if not isinstance(unwrapped, DatacenterCC):
        raise SysgymError(f"this agent plays sysgym/DatacenterCC-v0, not {type(unwrapped).__name__}")
    return unwrapped


def distinct_routes(env: DatacenterCC) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return source host and links of every path that this episode's flows take, each once.

    It says who talks to whom over which way, and nothing of when.

    Returns:
        Hosts, shape (n_paths,), and links padded with -1, shape (n_paths, longest).
    """
    routes, first = np.unique(env.network.routes(), axis=0, return_index=True)
    return env.network.flows().src[first], routes.astype(np.int32)


def static_shares(env: DatacenterCC) -> NDArray[np.float64]:
    """Return every host's max-min fair rate if all paths were in use at once, as a fraction of its line rate.

    A host that never sends gets its line rate: only ACKs leave it.
    """
    src, routes = distinct_routes(env)
    topology = env.fabric.topology
    rates_bps = max_min_rates(routes, topology.link_rate_bps)
    total_bps = np.bincount(src, weights=rates_bps, minlength=env.fabric.n_hosts)
    return np.where(total_bps > 0.0, total_bps / env.fabric.line_rate_bps, 1.0)
