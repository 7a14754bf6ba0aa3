"""Commands of ``sysgym`` in processes forked from one that has imported what they need.

A process of its own keeps what a command registers, and where it works, away from the tests. Starting one
takes a second or two of imports; forking one takes a hundredth. Nothing here starts a thread, as with the
workers of a benchmark: a copy has only the thread that made it.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, Self

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 600


class Commands:
    """Process that forks commands.

    Args:
        variables: Environment variables that have to be there before anything is imported.
    """

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self._variables = dict(variables or {})
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],  # beside this file is a folder named sysgym
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | self._variables,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(
        self, words: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``sysgym`` with these words in a folder.

        Args:
            words: Arguments of the command.
            folder: Working directory.
            variables: Environment variables of the command, beside those of this process.
        """
        return self._do({"words": [*words]}, folder, variables)

    def run_python(self, program: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a program, as ``python -c`` would."""
        return self._do({"program": program}, folder, None)

    def _do(
        self, order: dict[str, object], folder: Path, variables: Mapping[str, str] | None
    ) -> subprocess.CompletedProcess[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        environment = os.environ | self._variables | {"NO_COLOR": "1", "COLUMNS": "200", **(variables or {})}
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            order |= {"folder": str(folder), "environment": environment, "out": out.name, "err": err.name}
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            text = [file.read().decode() for file in (out, err)]
        return subprocess.CompletedProcess(str(order), code, *text)


def _serve() -> None:
    """Fork a process for each line of standard input, and write its exit code when it has ended."""
    from sysgym.bench.run import warm  # noqa: F401
    from sysgym.cli.app import command

    command()
    gc.freeze()  # a collection in a copy would write to the memory that the copies share
    for line in sys.stdin:
        _import_what_is_needed(line)
        child = os.fork()
        if not child:
            _leave(_exit_code(json.loads(line)))
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


def _import_what_is_needed(order: str) -> None:
    """Import what takes a copy long, here and once, before the first order that speaks of it.

    The compiler of torch, which nobody uses, is imported by the first optimiser of a process.
    """
    if re.search(r'"train", "\w*ppo|stable_baselines3', order):
        with suppress(ImportError):  # as the command says better
            import stable_baselines3  # noqa: F401
            import torch._dynamo  # noqa: F401
    if '"plot"' in order or '"report"' in order:
        with suppress(ImportError):
            import matplotlib.pyplot  # noqa: F401


def _exit_code(order: dict[str, object]) -> object:
    """Do what is ordered; return what a process would have ended with."""
    try:
        _become(order)
    except SystemExit as left:
        return left.code
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _leave(code: object) -> NoReturn:
    """End the process without taking apart what it has imported, which takes longer than most commands."""
    if not isinstance(code, int | None):
        sys.stderr.write(f"{code}\n")
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def _become(order: dict[str, object]) -> None:
    """Do what is ordered as a process that was started for it would."""
    from sysgym.cli import main

    signal.alarm(TIMEOUT_S)
    for descriptor, (name, flags) in enumerate(
        [(os.devnull, os.O_RDONLY), (str(order["out"]), os.O_WRONLY), (str(order["err"]), os.O_WRONLY)]
    ):
        opened = os.open(name, flags)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(str(order["folder"]))
    environment = order["environment"]
    assert isinstance(environment, dict)
    os.environ.clear()
    os.environ.update(environment)
    if "program" in order:
        sys.path.insert(0, "")
        exec(compile(str(order["program"]), "<string>", "exec"), {"__name__": "__main__"})
        return
    words = order["words"]
    assert isinstance(words, list)
    sys.argv = ["sysgym", *words]
    main()


if __name__ == "__main__":
    _serve()
