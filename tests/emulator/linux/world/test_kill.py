"""A world whose process is killed leaves no process and no namespace behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from sysgym.emulator.linux.kernel.bpf_programs import Programs

from .conftest import NamespaceWatch, wait_until

pytestmark = pytest.mark.linux

_WORLD = """
import os, sys
from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.emulator.linux.world import World
from sysgym.scenarios import load_scenario
programs = Programs(sys.argv[1])
programs.open()
scenario = load_scenario("iroko-dumbbell-1g", overrides={"topology.link_rate_bps": 1e8})
world = World(sys.argv[1], scenario.resolved(), "dctcp", {}, programs, session=3)
world.reset(1)
for _ in range(20):
    world.advance(0.01)
with open(f"/proc/self/task/{os.getpid()}/children") as file:
    print(file.read(), flush=True)
while True:
    world.advance(0.01)
"""


def test_nothing_stays_after_kill_9(programs: Programs) -> None:
    watch = NamespaceWatch()
    for _ in range(3):
        command = [sys.executable, "-c", _WORLD, programs.sid]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
            assert owner.stdout is not None
            pids = [int(pid) for pid in owner.stdout.readline().split()]
            assert len(pids) >= 6
            for pid in pids:
                watch.add(pid)
            assert len(watch.alive()) == 6
            owner.send_signal(signal.SIGKILL)

        def gone(pids: list[int] = pids) -> bool:
            return not any(os.path.exists(f"/proc/{pid}/ns/net") for pid in pids)

        assert wait_until(gone)
        assert wait_until(lambda: not watch.alive(), within_s=10.0)
