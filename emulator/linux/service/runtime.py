"""Runtime folders of services: one folder for each service, named by its id and locked.

``/run/sysgym/<sid>/`` (``$XDG_RUNTIME_DIR/sysgym/<sid>/`` for users other than root) holds ``service.sock``,
one socket and one log for each session, and ``lock``. The service holds an advisory lock (flock) on that file
while it lives. The kernel releases the lock however the process ends, so no process id has to be trusted. The
file names the process in JSON, for people and for clients.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sysgym.scenarios.errors import BackendError

SID = re.compile(r"[0-9a-f]{4}")
"""Pattern of a service's id."""

SID_VARIABLE = "SYSGYM_SID"
"""Environment variable of all processes that a service starts; cleaning finds them by it."""

ENDPOINT_VARIABLE = "SYSGYM_EMULATOR"
"""Environment variable that names the service to use."""

LONGEST_SOCKET_PATH = 107
"""Longest path in a Unix socket's address, bytes (unix(7))."""


@dataclass(frozen=True)
class Service:
    """A service's folder, and the content of its lock.

    Attributes:
        folder: Folder, named by the service's id.
        alive: Whether its process holds the lock.
        pid: Id of its process; 0 if the file does not say.
        endpoint: Endpoint of the service; empty if the file does not say.
    """

    folder: Path
    alive: bool
    pid: int
    endpoint: str

    @property
    def sid(self) -> str:
        """The service's id, four hexadecimal digits."""
        return self.folder.name


def runtime_root() -> Path:
    """Return the parent folder of the folders of services that this user starts."""
    if os.geteuid() == 0:
        return Path("/run/sysgym")
    users = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(users):  # the XDG Base Directory Specification: relative paths are invalid
        return Path(users) / "sysgym"
    return Path(tempfile.gettempdir()) / f"sysgym-{os.geteuid()}"


def known_roots() -> list[Path]:
    """Return the folders in which services may be found, root's first."""
    return list(dict.fromkeys([Path("/run/sysgym"), runtime_root()]))


def services(roots: list[Path] | None = None) -> Iterator[Service]:
    """Yield all services that have a folder, dead ones too."""
    for root in known_roots() if roots is None else roots:
        with contextlib.suppress(OSError):
            if _why_unsafe(root, root.lstat(), others=(0,)):
                continue  # another user may own its content
            for folder in sorted(root.iterdir()):
                if SID.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
                    yield read_service(folder)


def read_service(folder: Path) -> Service:
    """Return the service of a folder."""
    pid, endpoint = 0, ""
    try:
        with (folder / "lock").open(encoding="utf-8") as file:
            alive = _is_locked(file.fileno())
            content = json.load(file)
            pid, endpoint = int(content["pid"]), str(content["endpoint"])
    except FileNotFoundError:
        # Between making its folder and its lock a service has no lock: a young folder counts as alive.
        alive = folder.exists() and _age_s(folder) < 5.0
    except PermissionError:
        alive = True  # another user's: this process cannot tell
    except (OSError, ValueError, KeyError, TypeError):
        pass  # the file is incomplete: only the lock counts
    return Service(folder, alive, pid, endpoint)


class Claim:
    """Folder and id of a new service, released when the process ends or by :meth:`release`.

    Args:
        root: Folder of services.

    Raises:
        BackendError: If no folder can be made there.
    """

    def __init__(self, root: Path | None = None) -> None:
        parent = runtime_root() if root is None else root
        try:
            parent = _safe_root(parent.absolute())
            self.folder = self._new_folder(parent)
            self._lock = os.open(
                self.folder / "lock", os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o644
            )
        except OSError as error:
            raise BackendError(f"no folder for a service in {parent}: {error}") from error
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.sid = self.folder.name
        longest = len(os.fsencode(self.folder / "session-999.sock"))
        if longest > LONGEST_SOCKET_PATH:
            self.release()
            raise BackendError(
                f"{parent} is too long a name: sockets would have {longest} bytes, at most 107"
            )

    def write(self, endpoint: str) -> None:
        """Write the process and its endpoint into the lock file."""
        content = {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid()), "endpoint": endpoint}
        os.pwrite(self._lock, (json.dumps(content) + "\n").encode(), 0)

    def release(self) -> None:
        """Remove the folder and its files."""
        remove_folder(self.folder)
        os.close(self._lock)

    @staticmethod
    def _new_folder(parent: Path) -> Path:
        while True:
            folder = parent / secrets.token_hex(2)
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o755)
                return folder


def remove_folder(folder: Path) -> None:
    """Remove a service's folder and the files in it; subfolders and links are not followed."""
    with contextlib.suppress(FileNotFoundError):
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()


def start_ticks(pid: int) -> int:
    """Return a process's start in clock ticks after boot (proc(5), field 22); 0 if it does not exist."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[19])


def pid_namespace() -> int:
    """Return the inode of this process's pid namespace; 0 if the kernel does not say."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _safe_root(root: Path) -> Path:
    """Make the folder of services if it is missing.

    Its name can be guessed: another user may have made it, or a link in its place, to own the sockets that
    are put there.

    Raises:
        BackendError: If it does not belong to this user.
    """
    root.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        # Clients of other users look for root's services in root's folder; a user's folder is private.
        root.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700)
    status = root.lstat()
    if stat.S_ISREG(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(root))
    above = _why_unsafe(root.parent, root.parent.stat(), others=(0,))
    if why := _why_unsafe(root, status) or above:
        raise BackendError(
            f"no folder for a service in {root}: {why}; remove it, or set XDG_RUNTIME_DIR to one of yours"
        )
    return root


def _why_unsafe(folder: Path, status: os.stat_result, others: tuple[int, ...] = ()) -> str:
    """Return why a folder may belong to another user; empty if it belongs to this user.

    Args:
        folder: Path of the folder.
        status: Its status, or that of the link itself.
        others: Users who may own it besides this one.
    """
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is no folder"
    if status.st_uid not in (os.geteuid(), *others):
        return f"{folder} belongs to user {status.st_uid}, expected {os.geteuid()}"
    sticky = bool(status.st_mode & stat.S_ISVTX)  # /tmp: other users cannot rename files that are not theirs
    if status.st_mode & stat.S_IWOTH and not sticky:
        return f"everybody may write to {folder}"
    return ""


def _is_locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


def _age_s(path: Path) -> float:
    import time

    return max(time.time() - path.stat().st_mtime, 0.0)
