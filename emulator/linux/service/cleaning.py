"""Discovery and removal of the remains of dead services.

A service that ends by itself leaves nothing behind. One that is killed (``kill -9``) takes its worlds with
it: the kernel ends their processes, and with these their namespaces, links and eBPF programs. What may remain
is its folder, a program that ran in a namespace, and, if it was killed while building, a link that was about
to be moved into a namespace.

Everything is found by the service's id and removed only if that service is dead: processes by two environment
variables that its children inherit, links by the prefix of their names.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sysgym.emulator.linux.service.runtime import (
    SID,
    SID_VARIABLE,
    pid_namespace,
    read_service,
    remove_folder,
    services,
)
from sysgym.scenarios.errors import BackendError

FOLDER_VARIABLE = "SYSGYM_SERVICE_FOLDER"
"""Environment variable of a service's children: its folder, whose lock tells whether the service lives."""

SESSION_VARIABLE = "SYSGYM_SESSION"
"""Environment variable of a session's processes: the number of the session."""

LINK_PREFIX = "sg"
"""Prefix of the names of links, followed by the service's id."""

_DIES_WITHIN_S = 5.0
_RTM_DELLINK = 17  # linux/rtnetlink.h


@dataclass(frozen=True)
class Leftover:
    """An object that a dead service has left behind.

    Attributes:
        sid: The service's id.
        kind: ``process``, ``link`` or ``folder``.
        name: Name of the object.
    """

    sid: str
    kind: str
    name: str


def tags(sid: str, folder: Path, session: int) -> dict[str, str]:
    """Return the environment variables for the children of a service's session."""
    return {SID_VARIABLE: sid, FOLDER_VARIABLE: str(folder), SESSION_VARIABLE: str(session)}


def leftovers(roots: list[Path] | None = None) -> list[Leftover]:
    """Return the remains of dead services on this machine, or only of those in the folders ``roots``."""
    dead = {service.folder: service.sid for service in services(roots) if not service.alive}
    found = []
    for pid, environment in _tagged_processes():
        folder = _dead_folder(environment, roots)
        if folder is not None:
            found.append(Leftover(folder.name, "process", str(pid)))
            dead.setdefault(folder, folder.name)
    living = {service.sid for service in services() if service.alive}
    found += [Leftover(sid, "link", name) for name, sid in _links(set(dead.values()) - living)]
    return found + [Leftover(sid, "folder", str(folder)) for folder, sid in dead.items() if folder.exists()]


def clean(roots: list[Path] | None = None) -> list[Leftover]:
    """Remove the remains of dead services.

    Returns:
        The removed objects: those that existed before and no longer do.
    """
    before = leftovers(roots)
    kill_tagged(lambda environment: _dead_folder(environment, roots) is not None)
    _remove_links([found.name for found in before if found.kind == "link"])
    for found in before:
        if found.kind == "folder":
            remove_folder(Path(found.name))
    after = set(leftovers(roots)) if before else set()
    return [found for found in before if found not in after]


def kill_tagged(wanted: Callable[[dict[str, str]], bool]) -> int:
    """Kill the services' processes with a wanted environment, and wait until they are gone.

    Returns:
        Number of killed processes.
    """
    killed = 0
    for _ in range(5):  # a process forked in the meantime has the same environment and is found next time
        fds = []
        for pid, environment in _tagged_processes():
            if not wanted(environment):
                continue
            with contextlib.suppress(OSError):
                fd = os.pidfd_open(pid)
                if _environment(pid) == environment:  # the id still belongs to the same process
                    fds.append(fd)
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
                else:
                    os.close(fd)
        if not fds:
            break
        killed += len(fds)
        _wait_until_gone(fds)
    return killed


def _wait_until_gone(fds: list[int]) -> None:
    end = time.monotonic() + _DIES_WITHIN_S
    for fd in fds:
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        poller.poll(max(0.0, end - time.monotonic()) * 1000)
        os.close(fd)


def _dead_folder(environment: dict[str, str], roots: list[Path] | None) -> Path | None:
    """Return the folder of the service that a process belongs to, if that service is dead."""
    folder = Path(environment[FOLDER_VARIABLE])
    if not SID.fullmatch(folder.name) or folder.name != environment[SID_VARIABLE]:
        return None
    if roots is not None and folder.parent not in roots:
        return None
    return None if read_service(folder).alive else folder


def _tagged_processes() -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the ids, in this pid namespace, and the environments of processes that services started."""
    here = pid_namespace()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        if not _is_ours(entry):
            continue  # another user must not choose which folder is removed
        environment = _environment(int(entry))
        if SID_VARIABLE not in environment or FOLDER_VARIABLE not in environment:
            continue
        with contextlib.suppress(OSError):
            # A process that looks dead from here may be alive elsewhere: in a container, in another mount
            # namespace.
            folder = environment[FOLDER_VARIABLE]
            same_files = _identity(f"/proc/{entry}/root{folder}") == _identity(folder)
            if same_files and os.stat(f"/proc/{entry}/ns/pid").st_ino == here:
                yield int(entry), environment


def _is_ours(entry: str) -> bool:
    """Return whether a process belongs to this user."""
    try:
        return os.stat(f"/proc/{entry}").st_uid == os.geteuid()
    except OSError:
        return False


def _identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of a path; None if it does not exist."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _environment(pid: int) -> dict[str, str]:
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (os.fsdecode(one).partition("=") for one in content.split(b"\0") if one)
    return {name: value for name, _, value in pairs}


def _links(sids: set[str]) -> list[tuple[str, str]]:
    """Return the links of this network namespace whose names begin with one of these services' prefixes."""
    prefixes = {LINK_PREFIX + sid: sid for sid in sids}
    length = len(LINK_PREFIX) + 4
    with contextlib.suppress(OSError):
        names = [name for name in os.listdir("/sys/class/net") if name[:length] in prefixes]
        return [(name, prefixes[name[:length]]) for name in names]
    return []


def _remove_links(names: list[str]) -> None:
    if not names:
        return
    from sysgym.emulator.linux.kernel.netlink import REQUEST, Netlink, link_message

    connection = Netlink(0)
    for name in names:
        with contextlib.suppress(BackendError):  # the other end of a pair is removed with the first
            connection.request(_RTM_DELLINK, REQUEST, link_message(connection.index(name)), f"remove {name}")
    connection.close()
