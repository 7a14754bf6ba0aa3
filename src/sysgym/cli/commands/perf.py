"""``sysgym perf``: speed of simulator, environments and kernel backend."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from sysgym.cli.terminal import console, table

if TYPE_CHECKING:
    from sysgym.perf.figures import Figure


def print_figures(json_file: Path | None, only: str | None, backend: str = "packets") -> None:
    """Run measurements, print a table, and write JSON lines.

    Args:
        json_file: File for JSON lines; None: none.
        only: Only measurements whose label contains this text; None: all.
        backend: ``"linux"``: steps on the kernel; ``"packets"``: everything else.

    Raises:
        UnknownName: There is no such backend.
        SysgymError: No label contains the text, or the kernel backend is not available.
    """
    from sysgym.emulator.packets.sizing.estimate import LongEpisode
    from sysgym.envs.congestion.backends import LINUX, check_backend
    from sysgym.errors import SysgymError
    from sysgym.perf import figures as simulated
    from sysgym.perf import linux
    from sysgym.scenarios.files import make_folder, write_atomically
    from sysgym.scenarios.units import significant

    check_backend(backend)
    measurements = linux.measurements if backend == LINUX else simulated.measurements

    chosen = [(label, measure) for label, measure in measurements() if only is None or only in label]
    if not chosen:
        raise SysgymError(
            f'no measurement has "{only}" in its label; the labels are:'
            f" {', '.join(label for label, _ in measurements())}"
        )
    out, figures = console(), []
    with console(stderr=True).status("") as status, warnings.catch_warnings():
        warnings.simplefilter("ignore", LongEpisode)  # only a short part of each episode is measured
        for label, measure in chosen:
            status.update(f"measuring {label}")
            figures.append(measure())
    rows = [
        (figure.figure, figure.workload, significant(figure.value), figure.unit, _beside(figure))
        for figure in figures
    ]
    out.print(table("figure", "workload", ">value", "unit", ">ratio", rows=rows))
    if json_file is not None:
        make_folder(json_file.parent)
        text = "".join(json.dumps(figure.row()) + "\n" for figure in figures)
        write_atomically(json_file, text.encode())
        out.print(f"written to {json_file}", style="dim")


def _beside(figure: Figure) -> str:
    """Return the ratio of a figure to the reference measured beside it; JSON has that value too."""
    return "" if figure.ratio is None else f"{figure.ratio:.1f} x {figure.reference_name}"
