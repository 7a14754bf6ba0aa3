"""Safe start of Python child processes, some of them as root.

``python -m`` looks for modules in the current folder first: a file ``msgpack.py`` that lies where somebody
calls the service would be root's code. A child imports what is installed and nothing else, and works in a
folder that only root can write to, so that no relative path leads into the caller's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

FOLDER = "/"
"""Where children work."""


def module_command(module: str, *words: str) -> list[str]:
    """The command that runs an installed module.

    ``-P`` leaves the current folder out of the search path, ``-E`` what ``PYTHONPATH``, ``PYTHONHOME`` and
    their like say.
    """
    return [sys.executable, "-P", "-E", "-m", module, *words]


def surroundings(more: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Arguments of :class:`subprocess.Popen`: the folder, and an environment without Python's own variables.

    Args:
        more: Variables to add.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {"cwd": FOLDER, "env": {**kept, **(more or {})}}
