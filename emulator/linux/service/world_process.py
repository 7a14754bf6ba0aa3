"""World processes that are started ahead of need, as imports take longer than building a network."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import msgpack

from sysgym.emulator.linux.child import module_command, surroundings
from sysgym.emulator.linux.service.cleaning import tags
from sysgym.emulator.linux.service.session import Order

_LOG_TAIL_BYTES = 4000


class WorldProcess:
    """A process that waits for its order; see :mod:`sysgym.emulator.linux.service.session`.

    Args:
        kind: Kind of worlds.
        sid: The service's id.
        folder: The service's folder.
        number: Number of its future session.

    Attributes:
        number: Number of the session.
        log: File of its standard output and error.
        pidfd: Descriptor that becomes readable when it has ended.
        ready_fd: Pipe on which it reports that its world is ready.
    """

    def __init__(self, kind: str, sid: str, folder: Path, number: int) -> None:
        self.number = number
        self.log = folder / f"session-{number}.log"
        self.ready_fd, said_fd = os.pipe()
        self._order_fd = os.memfd_create("order", os.MFD_CLOEXEC)  # takes any size, where a pipe would block
        words = [kind, str(os.getpid()), str(said_fd), str(self._order_fd)]
        with os.fdopen(os.open(self.log, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as log:
            self._process = subprocess.Popen(
                module_command("sysgym.emulator.linux.service.session", *words),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[said_fd, self._order_fd],
                start_new_session=True,  # a Ctrl-C at the terminal goes to the service only
                **surroundings(tags(sid, folder, number)),
            )
        os.close(said_fd)
        os.set_blocking(self.ready_fd, False)
        self.pidfd = os.pidfd_open(self._process.pid)

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it is still running."""
        return self._process.poll() is None

    def order(self, order: Order) -> None:
        """Give it its order and let it begin."""
        content = msgpack.packb(vars(order))
        while content:
            content = content[os.write(self._order_fd, content) :]
        self._dismiss(b"go")

    def terminate(self) -> None:
        """Ask it to remove its world and to end."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()

    def bury(self) -> int:
        """Wait for its end and close its files.

        Returns:
            Its exit code, negative for a signal.
        """
        status = self._process.wait()
        self._dismiss(b"")
        for fd in (self.pidfd, self.ready_fd):
            if fd >= 0:
                os.close(fd)
        return status

    def said_all(self) -> None:
        """Close the pipe on which it reports."""
        os.close(self.ready_fd)
        self.ready_fd = -1

    def log_tail(self) -> str:
        """Return the end of its log."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_TAIL_BYTES))
                return file.read().decode(errors="replace").strip()
        except OSError:
            return ""

    def _dismiss(self, word: bytes) -> None:
        stdin = self._process.stdin
        if stdin is not None and not stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                stdin.write(word)
                stdin.close()
            os.close(self._order_fd)
