"""Small networks of the Linux kernel, and a check that they are removed completely."""

from __future__ import annotations

import os
import re
import secrets
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("needs Linux", allow_module_level=True)

from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.scenarios import load_scenario

MakeWorld = Callable[..., Any]

# So slow that a machine that is busy with other things keeps up.
SLOW_DUMBBELL = {
    "topology.link_rate_bps": 2e7,
    "queue.buffer_bytes": 60_000,
    "queue.ecn_threshold_bytes": 15_000,
    "workload.start_jitter_s": 0.0,
}


def children_of_mine() -> set[int]:
    """Processes that this one has started and that live."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return set(map(int, listed.split()))


class NamespaceWatch:
    """Tells which network namespaces are still there, without keeping them alive.

    The kernel lets one namespace give numbers to others (RTM_NEWNSID, what ``ip netns set`` does), and
    forgets a number when its namespace has gone.
    """

    _NEW, _ERROR = 88, 2
    _REQUEST_ACK = 0x5

    def __init__(self) -> None:
        self._next = secrets.randbelow(2**20) * 256 + 1
        self._mine: set[int] = set()

    def add(self, pid: int) -> None:
        """Watches the namespace of a process."""
        body = struct.pack("=BxxxHHiHHI", socket.AF_UNSPEC, 8, 1, self._next, 8, 2, pid)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
            netlink.send(struct.pack("=IHHII", 16 + len(body), self._NEW, self._REQUEST_ACK, 0, 0) + body)
            answer = netlink.recv(4096)
        assert struct.unpack_from("=H", answer, 4)[0] == self._ERROR
        assert struct.unpack_from("=i", answer, 16)[0] == 0, os.strerror(
            -struct.unpack_from("=i", answer, 16)[0]
        )
        self._mine.add(self._next)
        self._next += 1

    def alive(self) -> set[int]:
        """Numbers of those that are still there."""
        listed = subprocess.run(["ip", "netns", "list-id"], capture_output=True, text=True, check=True).stdout
        return self._mine & {int(number) for number in re.findall(r"nsid (\d+)", listed)}


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
        parameters: Mapping[str, Sequence[float]] | None = None,
    ) -> World:
        chosen = SLOW_DUMBBELL if overrides is None else overrides
        scenario = load_scenario(name, overrides=chosen)
        session = len(made)
        world = World(
            programs.sid,
            scenario.resolved(),
            transport,
            flow_transports or {},
            programs,
            session=session,
            parameters=parameters,
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
