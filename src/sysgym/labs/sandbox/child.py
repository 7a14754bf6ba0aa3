"""Program of the process in which a submission's functions run. It is started by path, in isolated mode.

Standard input has a line of JSON for each call, and a copy of standard output takes the answers. Whatever the
submission does to this process, the grader reads answers only, and treats them as claims.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from typing import Any

MOST_PRINTED = 100_000
"""Characters that a submission may print."""


class Printed:
    """Standard output of a submission: counted and thrown away."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.count = 0

    def write(self, text: str) -> int:
        """Count a text."""
        self.count += len(text)
        if self.count > MOST_PRINTED:
            raise OSError(f"printed more than {MOST_PRINTED} characters")
        return len(text)

    def flush(self) -> None:
        """Do nothing."""

    def isatty(self) -> bool:
        """Return that nobody is looking."""
        return False


def limit(settings: dict[str, Any]) -> None:
    """Set what the operating system can limit: processor time, memory, files, core dumps.

    Windows has no such limits; there the grader's clock is the only one.
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
    """Let the process start no other, which has no effect for root."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def guard(roots: tuple[str, ...]) -> Any:
    """Return an audit hook that refuses files, processes, sockets and native code."""
    refused = (
        "subprocess.",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.system",
        "os.fork",
        "os.kill",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.mkdir",
        "os.link",
        "os.symlink",
        "os.truncate",
        "os.chmod",
        "os.chown",
        "os.chdir",
        "os.fwalk",
        "os.walk",
        "os.utime",
        "pty.",
        "shutil.",
        "socket.",
        "ctypes.",
        "mmap.",
        "signal.",
        "resource.",
        "pathlib.Path.glob",
        "glob.",
        "webbrowser.",
        "winreg.",
        "_winapi.",
        "tempfile.",
        "sqlite3.",
        "urllib.",
        "ftplib.",
        "cpython.run",
        "sys.addaudithook",
    )
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

    def inside(path: Any) -> bool:
        found = os.path.realpath(os.fsdecode(path))
        return found.startswith(roots)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int):
                return
            if flags & writing or not inside(path):
                raise PermissionError(f"a submission may not open {os.fsdecode(path)}")
        elif event in ("os.listdir", "os.scandir"):
            if arguments[0] is None or not inside(arguments[0]):
                raise PermissionError(f"a submission may not list {arguments[0]}")
        elif event.startswith(refused):
            raise PermissionError(f"a submission may not use {event}")

    return hook


def plain(value: Any) -> Any:
    """Return what JSON has no type for as what it has: arrays and numbers of NumPy, sets."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"a graded function returned {type(value).__name__}; return numbers, lists or dicts")


def rich(value: Any) -> Any:
    """Return an argument with its arrays as arrays of NumPy."""
    import numpy as np

    if isinstance(value, dict):
        if value.keys() == {"array"}:
            return np.array(value["array"])
        return {name: rich(one) for name, one in value.items()}
    return [rich(one) for one in value] if isinstance(value, list) else value


def words(error: BaseException) -> str:
    """Return an error with the line of the submission at which it happened."""
    lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == "submission"]
    text = f"{type(error).__name__}: {error}"[:500]
    return f"{text} (line {lines[-1]})" if lines else text


def answer(namespace: dict[str, Any], order: dict[str, Any]) -> Any:
    """Return the answer to an order: a constant, or what a function returns."""
    found = namespace[order["name"]]
    if order["arguments"] is None:
        return found
    return found(*rich(order["arguments"]))


def main() -> None:
    """Load the submission, and answer until standard input ends."""
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
    import numpy  # noqa: F401  (it loads native code, which the guard refuses)

    no_more_processes()
    confine(tuple(settings["roots"]))
    sys.addaudithook(guard(tuple(settings["roots"])))
    namespace: dict[str, Any] = {"__name__": "submission", "__file__": "submission"}

    def reply(number: int, make: Any) -> None:
        try:
            text = json.dumps({"number": number, "result": make()}, default=plain)
        except BaseException as error:  # a SystemExit of a submission is an answer too
            text = json.dumps({"number": number, "error": words(error)})
        printed.count = 0
        replies.write(text + "\n")
        replies.flush()

    reply(0, lambda: exec(compile(json.loads(source), "submission", "exec"), namespace))
    for line in orders:
        order = json.loads(line)
        reply(order["number"], lambda order=order: answer(namespace, order))


def confine(roots: tuple[str, ...]) -> None:
    """Let Linux refuse files outside some folders and all TCP connections (Landlock), where it can.

    Also ends this process with the grader's. Where the kernel cannot, only the guard refuses.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
    create, add, restrict = 444, 445, 446
    version = libc.syscall(create, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return
    every_file = (1 << (13 if version == 1 else 14 if version == 2 else 15)) - 1
    handled = (ctypes.c_uint64 * 2)(every_file, 3 if version >= 4 else 0)
    size = ctypes.c_size_t(16 if version >= 4 else 8)
    rules = libc.syscall(create, ctypes.byref(handled), size, ctypes.c_uint32(0))
    if rules < 0:
        return
    read = 1 | 4 | 8  # execute (libraries are mapped), read files, read folders

    class Beneath(ctypes.Structure):
        _pack_ = 1
        _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))

    for root in roots:
        folder = os.open(root, os.O_PATH | os.O_CLOEXEC)
        rule = Beneath(read, folder)
        libc.syscall(add, rules, ctypes.c_uint32(1), ctypes.byref(rule), ctypes.c_uint32(0))
        os.close(folder)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    libc.syscall(restrict, rules, ctypes.c_uint32(0))
    os.close(rules)


if __name__ == "__main__":
    main()
