"""Program of the process in which a submission's functions run. It is started by path, in isolated mode.

Every line of standard input is a call as JSON, and answers are written to a copy of standard output. Whatever
the submission does to this process, the grader only reads answers, and does not trust them.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal  # noqa: F401  (some of its functions are removed)
import sys
import traceback
from typing import Any

MOST_PRINTED = 100_000
"""Maximum number of characters that a submission may print in one call."""


class Printed:
    """Standard output of a submission: counted and discarded."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.count = 0

    def write(self, text: str) -> int:
        """Count the characters of a text."""
        self.count += len(text)
        if self.count > MOST_PRINTED:
            raise OSError(f"printed more than {MOST_PRINTED} characters")
        return len(text)

    def flush(self) -> None:
        """Do nothing."""

    def isatty(self) -> bool:
        """Return False: there is no terminal."""
        return False


def limit(settings: dict[str, Any]) -> None:
    """Set limits of the operating system for processor time, memory, files and core dumps.

    Windows has no such limits; there, only the grader's time limits apply.
    """
    try:
        import resource
    except ImportError:
        return
    cpu_s = int(settings["cpu_s"])
    wanted = {
        "RLIMIT_CPU": (cpu_s, cpu_s + 1),
        "RLIMIT_AS": (int(settings["memory_bytes"]),) * 2,
        "RLIMIT_DATA": (int(settings["memory_bytes"]),) * 2,
        "RLIMIT_FSIZE": (0, 0),
        "RLIMIT_NOFILE": (64, 64),
        "RLIMIT_CORE": (0, 0),
    }
    for name, values in wanted.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):  # macOS refuses some
            resource.setrlimit(getattr(resource, name), values)


def no_more_processes() -> None:
    """Prevent the process from starting other processes; this has no effect for root."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


UNAUDITED = {
    "os": (
        *("mkfifo", "mknod", "memfd_create", "eventfd", "pidfd_open", "sendfile", "splice", "nice"),
        *("setsid", "setpgid", "setpriority", "sched_setaffinity", "sched_setscheduler", "sched_setparam"),
    ),
    "signal": ("pidfd_send_signal", "alarm", "setitimer"),
}
"""Names of functions, by module, that affect more than the process without raising an audit event."""


def forget() -> None:
    """Remove the functions in :data:`UNAUDITED`, which the guard cannot detect, also from native modules."""
    native = {"os": os.name, "signal": "_signal"}
    for module, names in UNAUDITED.items():
        for holder in (sys.modules[module], sys.modules[native[module]]):
            for name in names:
                if hasattr(holder, name):
                    delattr(holder, name)


REFUSED = (
    *("subprocess.", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "os.system", "os.fork"),
    *("os.kill", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate"),
    *("os.chmod", "os.chown", "os.chflags", "os.chdir", "os.fwalk", "os.walk", "os.utime", "os.lockf"),
    *("os.setxattr", "os.removexattr", "os.getxattr", "os.listxattr", "pty.", "shutil.", "socket."),
    *("ctypes.", "mmap.", "signal.", "resource.", "fcntl.", "syslog.", "pathlib.Path.glob", "glob."),
    *("webbrowser.", "winreg.", "_winapi.", "msvcrt.", "tempfile.", "sqlite3.", "urllib.", "ftplib."),
    *("gc.get_", "code.__new__", "cpython.run", "cpython._PySys_ClearAuditHooks", "sys.addaudithook"),
    *("sys._current_frames", "sys._current_exceptions", "sys.remote_exec"),
)
"""Prefixes of refused audit events."""


def guard(roots: tuple[str, ...]) -> Any:
    """Return an audit hook that refuses files, processes, sockets and native code.

    Only paths that are strings below a root and without ``..`` can be read. Folders of the grader's package
    are refused there as well, so that the package cannot be imported if a submission has removed
    :class:`NoGraders`. Everything that the hook uses is a default of its arguments, which no submission can
    reach: the hook has no closure, and calls nothing that a module could have replaced.
    """
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

    def hook(
        event: str,
        arguments: tuple[Any, ...],
        *,
        below: tuple[str, ...] = tuple(f"{root}{os.sep}" for root in roots),
        writing: int = writing,
        hidden: str = f"{os.sep}{GRADERS}{os.sep}",
        refused: tuple[str, ...] = REFUSED,
        kind: Any = type,
        text: Any = str,
        number: Any = int,
        length: Any = len,
        error: Any = PermissionError,
    ) -> None:
        if event.startswith(refused):
            raise error(f"a submission may not use {event}")
        opens = event == "open"
        if not opens and event not in ("os.listdir", "os.scandir"):
            return
        path = arguments[0]
        if opens and kind(path) is number:
            return
        if kind(path) is text and not (opens and arguments[2] & writing):
            for root in below:
                rest = path[length(root) :]
                inside = f"{path}{root[-1]}".startswith(root) and ".." not in rest
                if inside and hidden not in f"{root[-1]}{rest}{root[-1]}":
                    return
        verb = "open" if opens else "list"
        raise error(f"a submission may not {verb} {path if kind(path) is text else 'that'}")

    return hook


GRADERS = "sysgym"
"""Package that submissions may not import: it contains the graders, and functions that compute answers."""


class NoGraders:
    """Finder of modules that refuses the grader's package; it precedes all other finders.

    If the package is installed as a wheel, it is in a folder that a submission may read. If it is installed
    from a clone, it is not. A grade must not depend on this difference.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raise ImportError for the package and all modules in it."""
        if name.partition(".")[0] == GRADERS:
            raise ImportError("graded functions may use Python and NumPy, not sysgym")


def plain(value: Any) -> Any:
    """Return NumPy arrays, NumPy numbers and sets as types of JSON; raise TypeError for others."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"a graded function returned {type(value).__name__}; return numbers, lists or dicts")


def encoded(answer: dict[str, Any]) -> str:
    """Return an answer as a line of JSON."""
    try:
        return json.dumps(answer, default=plain)
    except TypeError as error:
        if not str(error).startswith("keys must be"):
            raise
    raise TypeError("a graded function returned a dict whose keys are not texts; return a list")


def rich(value: Any) -> Any:
    """Return an argument with its encoded arrays as NumPy arrays."""
    import numpy as np

    if isinstance(value, dict):
        if value.keys() == {"array"}:
            return np.array(value["array"])
        return {name: rich(one) for name, one in value.items()}
    return [rich(one) for one in value] if isinstance(value, list) else value


def words(error: BaseException) -> str:
    """Return an error as text, with the line of the submission at which it occurred."""
    lines = [number for frame, number in traceback.walk_tb(error.__traceback__) if _is_submission(frame)]
    text = f"{type(error).__name__}: {error}"[:500]
    return f"{text} (line {lines[-1]})" if lines else text


def _is_submission(frame: Any) -> bool:
    return bool(frame.f_code.co_filename == "submission")


def answer(namespace: dict[str, Any], order: dict[str, Any]) -> Any:
    """Return the answer to a request: a constant, or the result of a function."""
    found = namespace[order["name"]]
    if order["arguments"] is None:
        return found
    return found(*rich(order["arguments"]))


def main() -> None:
    """Load the submission, and answer requests until standard input ends."""
    settings = json.loads(sys.argv[1])
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    orders = os.fdopen(os.dup(0), "r", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    printed = Printed()
    sys.stdout = sys.stderr = printed
    source = orders.readline()
    limit(settings)
    import numpy  # noqa: F401  (loaded before the guard, which refuses native code)

    roots = tuple(settings["roots"])
    confine = runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "linux.py"))["confine"]
    confine(roots)
    no_more_processes()
    forget()
    sys.meta_path.insert(0, NoGraders)
    sys.addaudithook(guard((*roots, *(one for one in sys.path if os.path.realpath(one) in roots))))
    namespace: dict[str, Any] = {"__name__": "submission", "__file__": "submission"}

    def reply(number: int, make: Any) -> None:
        try:
            text = encoded({"number": number, "result": make()})
        except BaseException as error:  # a SystemExit of a submission is an answer too
            text = json.dumps({"number": number, "error": words(error)})
        printed.count = 0
        replies.write(text + "\n")
        replies.flush()

    reply(0, lambda: exec(compile(json.loads(source), "submission", "exec"), namespace))
    for line in orders:
        order = json.loads(line)
        reply(order["number"], lambda order=order: answer(namespace, order))


if __name__ == "__main__":
    main()
