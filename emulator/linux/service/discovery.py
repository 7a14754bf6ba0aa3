"""Search for a service on this machine, and private services."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

from sysgym.emulator.linux.child import module_command, surroundings
from sysgym.emulator.linux.service.connection import START_ONE
from sysgym.emulator.linux.service.runtime import ENDPOINT_VARIABLE, known_roots, runtime_root, services
from sysgym.emulator.linux.service.worlds import KERNEL
from sysgym.scenarios.errors import BackendUnavailable

CHECK = "sysgym emulator check says what is missing"


class PrivateService:
    """A private service of this process, which ends with it.

    Args:
        root: Folder for the service's folder; None uses this user's.
        kind: Kind of worlds.

    Raises:
        BackendUnavailable: If it does not start.
    """

    def __init__(self, root: Path | None = None, kind: str = KERNEL) -> None:
        folder = (root or runtime_root()).absolute()
        words = module_command("sysgym.emulator.linux.service.daemon", str(os.getpid()), str(folder), kind)
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            **surroundings(),
        )
        assert self._process.stdout is not None
        self.pid, self._for_pid = self._process.pid, os.getpid()
        with self._process.stdout as pipe:
            self.endpoint = pipe.readline().decode().strip()
        if not self.endpoint.startswith("ipc://"):
            status = self._process.wait()
            told = f"its service did not start (exit code {status}) {self.endpoint}".strip()
            raise BackendUnavailable("linux", told, CHECK)

    @property
    def is_own_and_alive(self) -> bool:
        """Whether it runs and belongs to this process; a forked process has none."""
        return self._for_pid == os.getpid() and self._process.poll() is None

    def stop(self) -> None:
        """Stop it and wait until it has removed everything."""
        if self._for_pid != os.getpid():
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=30.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_shared: list[PrivateService] = []
_users = 0
_sharing = threading.Lock()


def share_private_service() -> PrivateService:
    """Return the private service of this process, started for its first user; see :func:`let_go`."""
    global _users
    with _sharing:
        if _shared and not _shared[0].is_own_and_alive:
            _shared.clear()
            _users = 0
        if not _shared:
            _shared.append(PrivateService())
        _users += 1
        return _shared[0]


def let_go(service: PrivateService) -> None:
    """Give up a shared service; the last user stops it."""
    global _users
    with _sharing:
        if not _shared or _shared[0] is not service:
            return
        _users -= 1
        if not _users:
            _shared.clear()
            service.stop()


def running_service(roots: list[Path] | None = None) -> str:
    """Return the endpoint of the service on this machine that this user can talk to.

    Args:
        roots: Folders to search; None searches root's and this user's.

    Raises:
        BackendUnavailable: If there is no such service, or more than one.
    """
    found = []
    for service in services(roots):
        path = Path(service.endpoint.removeprefix("ipc://"))
        if service.alive and service.endpoint.startswith("ipc://") and os.access(path, os.W_OK):
            found.append(service.endpoint)
    if not found:
        searched = ", ".join(map(str, known_roots() if roots is None else roots))
        raise BackendUnavailable(
            "linux", f"no service runs here for this user (looked in {searched})", START_ONE
        )
    if len(found) > 1:
        raise BackendUnavailable(
            "linux",
            f"{len(found)} services run here: {', '.join(found)}",
            f"name one in ${ENDPOINT_VARIABLE}",
        )
    return found[0]
