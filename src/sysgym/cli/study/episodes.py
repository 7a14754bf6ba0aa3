"""Bar and interruption of studies that keep their episodes, so that the same command resumes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from sysgym.cli.terminal import bars, console

Rows = list[dict[str, Any]]


def with_bar(folder: Path, run: Callable[[Callable[[int, int], None]], Rows]) -> Rows:
    """Run a study under a progress bar and return its rows; say how to continue after Ctrl-C.

    Args:
        folder: Folder of the rows.
        run: Function of a callback with the number of finished episodes and of all episodes.
    """
    try:
        with bars() as progress:
            bar = progress.add_task("episodes", total=None)
            return run(lambda done, of: progress.update(bar, completed=done, total=of))
    except KeyboardInterrupt:
        console().print(f"stopped; finished episodes are in {folder}; run the same command again to continue")
        raise typer.Exit(130) from None
