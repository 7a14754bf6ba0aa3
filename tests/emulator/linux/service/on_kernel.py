"""Helpers for tests of services with worlds of the kernel."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sysgym.emulator.linux.kernel.bpf_objects import KINDS, names
from sysgym.emulator.linux.service.cleaning import SESSION_VARIABLE, kill_tagged
from sysgym.emulator.linux.service.discovery import PrivateService
from sysgym.emulator.linux.service.runtime import SID_VARIABLE
from sysgym.scenarios import CongestionScenario, load_scenario


def scenario(overrides: dict[str, object] | None = None) -> CongestionScenario:
    """Two flows over 100 Mb/s."""
    return load_scenario("linux-dumbbell-100m", overrides=overrides or {}, expect=CongestionScenario)


def traces(sid: str) -> list[str]:
    """What this machine has of a service: processes, links, named namespaces, eBPF, congestion controls.

    The kernel frees maps a moment after their last user has gone.
    """
    found = [f"process of session {number}" for number in tagged(sid)]
    for command in (["ip", "-o", "link"], ["ip", "netns", "list"]):
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        found += [line for line in listed.splitlines() if f"sg{sid}" in line or f"_{sid}" in line]
    loaded = [name for kind in KINDS for name in names(kind)]
    loaded += Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    return found + [name for name in loaded if name.endswith(f"_{sid}")]


def tagged(sid: str) -> list[int]:
    """Sessions of a service that have processes, one entry a process."""
    found: list[int] = []

    def note(environment: dict[str, str]) -> bool:
        if environment[SID_VARIABLE] == sid:
            found.append(int(environment.get(SESSION_VARIABLE, "-1")))
        return False

    kill_tagged(note)
    return found


def sid_of(service: PrivateService) -> str:
    """A service's id."""
    return Path(service.endpoint.removeprefix("ipc://")).parent.name
