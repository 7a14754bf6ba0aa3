"""Inventory of kernel objects that sysgym could have created, compared before and after the tests.

    machine_state.py >FILE             # as JSON
    machine_state.py --compare FILE    # exit code 1, and the differences, if the state has changed

The inventory has every kind of object that a network of the Linux backend creates: links, named namespaces,
queues, eBPF programs and maps (links and registrations of programs end with these), processes, cgroups,
settings, files. Objects of other programs are left out: those named like a container engine's or a virtual
machine's, and queues, eBPF objects, processes and files that cannot be sysgym's. Objects of another sysgym
running at the same time are included.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

State = dict[str, list[str]]

OTHERS_LINKS = re.compile(
    r"lo|docker\d+|br-[0-9a-f]{12}|veth[0-9a-f]{7,}"
    r"|(bonding_masters|virbr|vnet|tap|tun|wg|cali|cni|lxc|lxd|flannel|tailscale).*"
)
OTHERS_NAMESPACES = re.compile(r"(cni|netns|qdhcp|qrouter|ovn)-.*")
QUEUES = {"htb", "bfifo", "clsact", "netem", "red"}
EBPF = re.compile(r"sg[a-z]+_[0-9a-f]{4}")
"""Programs, maps and congestion controls: the last digits are their service's."""
SERVICE = re.compile(r"\bsysgym emulator serve\b")
PROGRAMS_IN_NETWORKS = {"cat", "sleep", "mnexec", "python", "python3"}
"""Processes in network namespaces of the backend and of its tests."""
CGROUPS = re.compile(r".*sysgym.*|mininet|mn")
SETTINGS = (
    "net/ipv4/ip_forward",
    "net/ipv4/fib_multipath_hash_policy",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_ecn",
    "net/ipv4/tcp_no_metrics_save",
    "net/ipv6/conf/all/disable_ipv6",
)
FILES = re.compile(r"sg-.{8}|sysgym-was-here")
"""Folders of the tests' services; what a shell would have made, had one been asked."""


def machine_state() -> State:
    """Return what there is, by kind; a kind that cannot be looked at is absent."""
    found: State = {}
    for kind, look in _LOOKS.items():
        seen = look()
        if seen is not None:
            found[kind] = sorted(seen)
    return found


def differences(before: State, after: State) -> list[str]:
    """Return a line for everything that came or went, of the kinds that were looked at both times."""
    lines = []
    for kind in before:
        was, now = set(before[kind]), set(after.get(kind, before[kind]))
        lines += [f"{kind}: + {name}" for name in sorted(now - was)]
        lines += [f"{kind}: - {name}" for name in sorted(was - now)]
    return lines


def _links() -> list[str]:
    return [one for one in _names("/sys/devices/virtual/net") if not OTHERS_LINKS.fullmatch(one)]


def _namespaces() -> list[str]:
    """Named ones: those without a name live in their processes."""
    return [one for one in _names("/run/netns") if not OTHERS_NAMESPACES.fullmatch(one)]


def _queues() -> list[str] | None:
    try:
        done = subprocess.run(["tc", "qdisc", "show"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return [line.strip() for line in done.stdout.splitlines() if set(line.split()[1:2]) & QUEUES]


def _ebpf() -> list[str] | None:
    try:
        from sysgym.emulator.linux.kernel.bpf_objects import KINDS, names
        from sysgym.errors import SysgymError

        loaded = [f"{KINDS[kind]} {name}" for kind in KINDS for name in names(kind)]
    except (ImportError, SysgymError):  # not installed; no libbpf
        return None
    controls = _read("/proc/sys/net/ipv4/tcp_available_congestion_control").split()
    loaded += [f"congestion control {name}" for name in controls]
    return [one for one in loaded if EBPF.fullmatch(one.split()[-1])]


def _processes() -> Iterator[str]:
    """Those of a service, and what stands in network namespaces of this machine's own processes."""
    here = [_inode("self", kind) for kind in ("pid", "net")]
    for pid in filter(str.isdigit, _names("/proc")):
        command = _read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
        if not command or int(pid) == os.getpid():  # the kernel's own, and what has ended
            continue
        of_service = "sysgym.emulator.linux" in command or SERVICE.search(command)
        tagged = "\0SYSGYM_SID=" in "\0" + _read(f"/proc/{pid}/environ")
        name = _read(f"/proc/{pid}/comm").strip()
        namespaces = [_inode(pid, kind) for kind in ("pid", "net")]
        in_network = name in PROGRAMS_IN_NETWORKS and namespaces[0] == here[0] and namespaces[1] != here[1]
        if of_service or tagged or in_network:
            yield f"{pid} {command[:100]}"


def _cgroups() -> list[str]:
    folders = (folder for folder, _, _ in os.walk("/sys/fs/cgroup"))
    return [folder for folder in folders if CGROUPS.fullmatch(Path(folder).name)]


def _settings() -> list[str]:
    return [f"{name} = {' '.join(_read(f'/proc/sys/{name}').split())}" for name in SETTINGS]


def _files() -> list[str]:
    found = [f"/sys/fs/bpf/{name}" for name in _names("/sys/fs/bpf") if "sysgym" in name or EBPF.search(name)]
    found += [f"/run/sysgym/{name}" for name in _names("/run/sysgym")]
    return found + [f"/tmp/{name}" for name in _names("/tmp") if FILES.fullmatch(name)]


_LOOKS: dict[str, Callable[[], Iterable[str] | None]] = {
    "link": _links,
    "namespace": _namespaces,
    "queue": _queues,
    "eBPF": _ebpf,
    "process": _processes,
    "cgroup": _cgroups,
    "setting": _settings,
    "file": _files,
}


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        return Path(path).read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _inode(pid: str, kind: str) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/{kind}").st_ino
    except OSError:
        return 0


def main() -> int:
    """Print the state, or compare it; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--compare", type=Path, metavar="FILE", help="with what was printed before")
    parser.add_argument(
        "--within", type=float, default=10.0, metavar="S", help="what the kernel frees late may take; 10"
    )
    asked = parser.parse_args()
    before_file = asked.compare
    can_look = sys.platform == "linux" and os.geteuid() == 0
    if before_file is None:
        print(json.dumps(machine_state() if can_look else {}, indent=1))
        return 0
    before: State = json.loads(before_file.read_text())
    if not can_look or not before:
        print("machine: not looked at, that needs root on Linux")
        return 0
    end = time.monotonic() + asked.within
    while found := differences(before, machine_state()):
        if time.monotonic() > end:
            print("machine: not as before (+ came, - went):", *found, sep="\n  ")
            return 1
        time.sleep(0.5)
    absent = [kind for kind in _LOOKS if kind not in before]
    words = f"; not looked at: {', '.join(absent)}" if absent else ""
    print(f"machine: as before ({', '.join(before)}{words})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
