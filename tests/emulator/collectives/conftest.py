"""Tasks and plans for tests of collectives."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.collectives.collective import Collective, Kind
from sysgym.emulator.collectives.faults import with_faults
from sysgym.emulator.collectives.generators import named_network
from sysgym.emulator.collectives.hops import hops_of
from sysgym.emulator.collectives.schedule import Plan, Schedule
from sysgym.emulator.collectives.spread import Spread
from sysgym.emulator.collectives.task import SynthesisTask
from sysgym.scenarios.schema.collectives import Faults, SystemLinks

SYSTEMS = (
    "ring-5",
    "fully-connected-4",
    "hypercube-8",
    "torus-3x3",
    "mesh-2x2x2",
    "dgx1-1",
    "dgx1-2",
    "nodes-2x4",
    "rails-3x2",
    "leaf-spine-2x3x2",
)


def system(topology: str, **keys: Any) -> SystemLinks:
    """Return a system of 1 GB/s links without latency, unless other keys are given."""
    plain = {"bandwidth_bytes_per_s": 1e9, "latency_s": 0.0, "uplink_latency_s": 0.0}
    return SystemLinks(topology=topology, **{**plain, **keys})


def task(topology: str, kind: str, size_bytes: float = 1e9, **keys: Any) -> SynthesisTask:
    """Return a task; ``members``, ``pieces``, ``faults`` and keys of the system may be given."""
    pieces, members = keys.pop("pieces", 1), keys.pop("members", None)
    faults, seed = Faults(**keys.pop("faults", {})), keys.pop("seed", 0)
    network = with_faults(named_network(system(topology, **keys)), faults, np.random.default_rng(seed))
    group = members or tuple(range(network.n_devices))
    collective = Collective(Kind(kind), group, network.n_devices, size_bytes, pieces)
    return SynthesisTask(hops_of(network), collective)


def earliest(one: SynthesisTask, rng: np.random.Generator | None = None) -> Schedule:
    """Return the schedule of the earliest candidates, or of random ones."""
    plans: list[Plan] = []
    for phase in one.collective.phases:
        spread = Spread(one, phase)
        while spread.n_missing:
            found = spread.candidates(16, 2)
            index = 0 if rng is None else int(rng.integers(len(found.hops)))
            spread.send(found.chunks[index], found.hops[index])
        plans.append(spread.plan)
    return Schedule.of_plans(one, plans)


Make = Callable[..., Any]


@pytest.fixture(scope="session")
def world() -> SimpleNamespace:
    """Small systems, tasks and schedules."""
    return SimpleNamespace(SYSTEMS=SYSTEMS, system=system, task=task, earliest=earliest)
