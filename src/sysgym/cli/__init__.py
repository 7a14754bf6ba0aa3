"""The command line: ``sysgym list``, ``show``, ``run``, ``train``, ``bench``, ``report`` and so on.

Commands import what they need when they run, so that ``sysgym --help`` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; does not return.

    An error that sysgym raises on purpose is printed without a traceback, exit code 2 (1 for rows that do not
    replay).

    Args:
        arguments: Without the program's name; None: those of this process.
    """
    from sysgym.cli.app import app

    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words  # wherever it stands
    try:
        app([word for word in words if word != "--debug"], prog_name="sysgym")
    except Exception as error:
        from sysgym.errors import ResultMismatch, SysgymError

        if debug or not isinstance(error, SysgymError):
            raise
        from sysgym.cli.terminal import print_error

        print_error(error)
        sys.exit(1 if isinstance(error, ResultMismatch) else 2)
