"""Small systems and environments for tests of placement."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import pytest

import sysgym

REGISTERED = sysgym.__version__
IDS = {
    "placement": "sysgym/CollectivePlacement-v0",
    "program": "sysgym/ReductionProgram-v0",
    "joint": "sysgym/JointPlacement-v0",
}

MakeEnv = Callable[..., Any]


def level(
    name: str, cardinality: int, bandwidth: float, latency: float = 1e-6, **more: Any
) -> dict[str, Any]:
    """Return a level of a system."""
    described = {"name": name, "cardinality": cardinality, "bandwidth_bytes_per_s": bandwidth}
    return {**described, "latency_s": latency, **more}


def system(*levels: dict[str, Any]) -> dict[str, Any]:
    """Return overrides for a system of these levels, the same in every episode."""
    keys: dict[str, Any] = {"source": "levels", "preset": None, "nodes": 1, "levels": list(levels)}
    return {f"system.{key}": value for key, value in keys.items()}


def nodes_of(nodes: int, gpus: int, **more: Any) -> dict[str, Any]:
    """Return overrides for nodes of GPUs behind a NIC each, the constants of the preset p2-a100."""
    return system(level("node", nodes, 8.4e9, 14e-6, **more), level("gpu", gpus, 235e9, 3e-6))


def reductions(*described: tuple[list[int], float]) -> dict[str, Any]:
    """Return overrides for reductions: axes and size in bytes of each."""
    return {"problem.reductions": [{"axes": axes, "size_bytes": size} for axes, size in described]}


@pytest.fixture(scope="session")
def make_env() -> MakeEnv:
    """Makes one of the environments."""

    def make(kind: str, **arguments: Any) -> Any:
        return gym.make(IDS[kind], **arguments).unwrapped

    return make


@pytest.fixture(scope="session")
def world() -> SimpleNamespace:
    """Overrides that describe small systems and problems."""
    return SimpleNamespace(level=level, system=system, nodes_of=nodes_of, reductions=reductions)
