"""The command line: ``sysgym list``, ``show``, ``run``, ``train``, ``bench``, ``report`` and so on.

Commands import what they need when they run, so that ``sysgym --help`` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit the process.

    Errors are printed without a traceback. Exit codes: 0, success; 1, a failed check, such as rows that do
    not replay or failed episodes; 2, a wrong command line or input; 130, Ctrl-C.

    Args:
        arguments: Without the program's name; None: the arguments of this process.
    """
    from sysgym.cli import compiling
    from sysgym.cli.app import command
    from sysgym.cli.interrupts import second_interrupt_ends
    from sysgym.cli.moved import refuse_moved
    from sysgym.stray_settings import ignore_matplotlibs

    ignore_matplotlibs()
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words  # anywhere on the command line
    try:
        with second_interrupt_ends(), compiling.shown():
            plain = [word for word in words if word != "--debug"]
            refuse_moved(plain)
            code = command()(plain, prog_name="sysgym", standalone_mode=False)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        from sysgym.cli.terminal import print_error
        from sysgym.cli.usage import is_usage_error, print_usage_error
        from sysgym.errors import ResultMismatch, SysgymError
        from sysgym.scenarios.files import storage_error

        if not debug and isinstance(error, OSError):
            error = storage_error(error) or error
        if is_usage_error(error):
            print_usage_error(error)
            code = 2
        elif debug or not isinstance(error, SysgymError):
            raise
        else:
            print_error(error)
            code = 1 if isinstance(error, ResultMismatch) else 2
    sys.exit(code or 0)
