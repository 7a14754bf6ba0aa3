"""Worlds of the tests: small networks of the real kernel, and a check that nothing of them stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("needs Linux", allow_module_level=True)

from sysgym.emulator.linux.programs import Programs
from sysgym.scenarios import load_scenario

MakeWorld = Callable[..., Any]

SLOW_DUMBBELL = {
    "topology.link_rate_bps": 1e8,
    "queue.buffer_bytes": 150_000,
    "queue.ecn_threshold_bytes": 30_000,
    "workload.start_jitter_s": 0.0,
}


def children_of_mine() -> set[int]:
    """Processes that this one has started and that live."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return set(map(int, listed.split()))


def live_namespaces() -> int:
    """Network namespaces that the kernel keeps, also those that no process lives in."""
    for line in Path("/proc/slabinfo").read_text().splitlines():
        if line.startswith("net_namespace "):
            return int(line.split()[1])
    pytest.skip("the kernel does not say how many network namespaces there are")


@pytest.fixture(autouse=True)
def _nothing_stays(programs: Programs) -> Iterator[None]:
    """After every test the machine is as before: processes, namespaces, links."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, check=True).stdout
    children = children_of_mine()
    programs.sockets.close()
    yield
    assert children_of_mine() <= children
    assert subprocess.run(["ip", "-o", "link"], capture_output=True, check=True).stdout == links


@pytest.fixture
def make_world(programs: Programs) -> Iterator[MakeWorld]:
    """Builds worlds of a scenario with overrides, and takes them down."""
    from sysgym.emulator.linux.world import World

    made: list[World] = []

    def make(
        name: str = "iroko-dumbbell-1g",
        transport: str = "cubic",
        overrides: dict[str, Any] | None = None,
        flow_transports: dict[int, str] | None = None,
    ) -> World:
        chosen = SLOW_DUMBBELL if overrides is None else overrides
        scenario = load_scenario(name, overrides=chosen)
        session = len(made)
        world = World(
            programs.sid, scenario.resolved(), transport, flow_transports or {}, programs, session=session
        )
        made.append(world)
        return world

    yield make
    for world in made:
        world.close()


def wait_until(holds: Callable[[], bool], within_s: float = 5.0) -> bool:
    """Whether something comes to hold in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.02)
    return holds()
