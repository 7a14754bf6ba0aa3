"""Safe start of Python child processes, some of them as root.

``python -m`` looks for modules in the current folder first, so a file ``msgpack.py`` in the folder from which
the service is started would run as root. A child therefore imports installed modules only, and works in a
folder that only root can write to, so that no relative path leads into the caller's folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

FOLDER = "/"
"""Working directory of child processes."""


def module_command(module: str, *words: str) -> list[str]:
    """Return the command that runs an installed module.

    ``-P`` leaves the current folder out of the search path. ``-E`` ignores ``PYTHONPATH``, ``PYTHONHOME`` and
    similar variables.
    """
    return [sys.executable, "-P", "-E", "-m", module, *words]


def surroundings(more: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return arguments of :class:`subprocess.Popen`: working directory and environment.

    The environment leaves out Python's own variables.

    Args:
        more: Variables to add.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {"cwd": FOLDER, "env": {**kept, **(more or {})}}


def run_and_leave(main: Callable[[], None]) -> NoReturn:
    """Run the entry point of a child process, and end the process with its exit code.

    The imported modules are not taken apart first: clients would wait a third of a second for that.
    """
    code: object = 0
    try:
        main()
    except SystemExit as left:
        code = left.code
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
