"""Grader's side of a submission's process: start, calls, time limits and end."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from sysgym.labs.intake.texts import printable

CHILD = Path(__file__).with_name("child.py")

LONGEST_ANSWER = 2_000_000
"""Maximum number of characters of an answer; a longer answer ends the process."""

MOST_UNREAD = 4
"""Maximum number of unread lines; if a process writes more, the rest of its output is ignored."""

START_S = 30.0
"""Time for Python and NumPy to load."""

CLOSE_S = 1.0
"""Time for the pipe to close after the end of the process."""

_KEPT = ("SYSTEMROOT", "PATH", "LANG", "LC_ALL")
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Stopped(Exception):
    """End of a submission's process, by itself or by the grader; the text states the reason."""


class Refused(Exception):
    """Exception in a submission's code; the text contains the error and its line."""


@dataclass(frozen=True)
class Limits:
    """Limits of a submission's process.

    Attributes:
        call_s: Time of one call.
        cpu_s: Processor time of the whole process.
        memory_bytes: Memory.
    """

    call_s: float = 10.0
    cpu_s: int = 60
    memory_bytes: int = 2_000_000_000


class Sandbox:
    """Process with the definitions of a submission.

    Args:
        source: Python source; see :func:`sysgym.labs.sources.definitions`.
        limits: Limits of the process.

    Raises:
        Stopped: The process ended while it loaded the source.
        Refused: The source raised.
    """

    def __init__(self, source: str, limits: Limits) -> None:
        self._limits = limits
        self._folder = tempfile.TemporaryDirectory(prefix="sysgym-lab-", ignore_cleanup_errors=True)
        settings = asdict(limits) | {"roots": readable_folders()}
        own_group: dict[str, Any] = {} if os.name == "nt" else {"start_new_session": True}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", str(CHILD), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._folder.name,
            env={name: os.environ[name] for name in _KEPT if name in os.environ}
            | {name: "1" for name in _ONE_THREAD},
            text=True,
            encoding="utf-8",
            errors="replace",
            **own_group,
        )
        assert self._process.stdout is not None
        self._lines: queue.Queue[str] = queue.Queue(MOST_UNREAD)
        arguments = (self._process.stdout, self._lines)
        self._reader = threading.Thread(target=_read, args=arguments, daemon=True)
        self._reader.start()
        self._number = 0
        try:
            self._send(source)
            self._answer(START_S + limits.call_s)
        except BaseException:
            self.close()
            raise

    def constant(self, name: str) -> Any:
        """Return a constant of the submission, as JSON's types."""
        return self._ask(name, None)

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        """Call a function of the submission; NumPy arrays are passed as arrays.

        Raises:
            Stopped: The process ended, or was ended because it took too long or sent an invalid answer.
            Refused: The function raised.
        """
        return self._ask(name, [_sent(one) for one in arguments])

    def close(self) -> None:
        """End the process and its session, without waiting for other processes that hold the pipe open."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.name == "nt":
                    self._process.kill()
                else:
                    os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._reader.join(CLOSE_S)
        self._folder.cleanup()

    def _ask(self, name: str, arguments: list[Any] | None) -> Any:
        self._number += 1
        self._send({"number": self._number, "name": name, "arguments": arguments})
        return self._answer(self._limits.call_s)

    def _send(self, order: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except (OSError, ValueError):  # ValueError: the pipe is closed
            raise Stopped(self._ended()) from None

    def _answer(self, limit_s: float) -> Any:
        try:
            line = self._lines.get(timeout=limit_s)
        except queue.Empty:
            self.close()
            raise Stopped(
                f"took longer than {self._limits.call_s:g} s for one call; is there a loop?"
            ) from None
        if not line:
            raise Stopped(self._ended())
        try:
            found = json.loads(line)
            if found["number"] != self._number or not {"result", "error"} & found.keys():
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.close()
            raise Stopped("wrote something else than answers to the grader") from None
        if "error" in found:
            raise Refused(printable(str(found["error"]), 600))
        return found["result"]

    def _ended(self) -> str:
        """Return the reason why the process has ended."""
        try:
            code = self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            self.close()
            return "closed its connection to the grader"
        if code >= 0:
            return f"ended its process (exit code {code}) instead of answering"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        reasons = {
            "SIGXCPU": f"used more than {self._limits.cpu_s} s of processor time",
            "SIGKILL": f"was killed: out of memory, or more than {self._limits.cpu_s} s of processor time",
            "SIGXFSZ": "wrote to a file",
        }
        return reasons.get(name, f"crashed ({name})")


def readable_folders() -> list[str]:
    """Return the folders that a submission may read: Python, its libraries and those of the system."""
    paths = sysconfig.get_paths()
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {str(Path(one).parent) for one in (np.__file__,)}
    system = ("/lib", "/lib64", "/usr/lib", "/usr/share/zoneinfo") if os.name == "posix" else ()
    return sorted({os.path.realpath(one) for one in (*found, *system) if Path(one).is_dir()})


def _read(pipe: IO[str], lines: queue.Queue[str]) -> None:
    """Put the lines of a pipe, and an empty one at its end, into a queue until it is full; close the pipe."""
    with contextlib.suppress(ValueError, OSError, queue.Full):
        with pipe:
            while line := pipe.readline(LONGEST_ANSWER):
                lines.put_nowait(line)
                if not line.endswith("\n"):
                    break
        lines.put_nowait("")


def _sent(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {name: _sent(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_sent(one) for one in value]
    return value
