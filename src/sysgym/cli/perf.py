"""``sysgym perf``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from sysgym.cli.terminal import console, table

if TYPE_CHECKING:
    from sysgym.perf import Figure


def print_figures(json_file: Path | None, only: str | None) -> None:
    """Measure, print a table, and write JSON lines.

    Args:
        json_file: Where to.
        only: Only measurements whose label contains this.

    Raises:
        SysgymError: No label does.
    """
    from sysgym.bench.units import significant
    from sysgym.errors import SysgymError
    from sysgym.perf import measurements

    chosen = [(label, measure) for label, measure in measurements() if only is None or only in label]
    if not chosen:
        raise SysgymError(
            f'no figure has "{only}" in its label; there are: {", ".join(x for x, _ in measurements())}'
        )
    out, figures = console(), []
    with console(stderr=True).status("") as status:
        for label, measure in chosen:
            status.update(f"measuring {label}")
            figures.append(measure())
    rows = [
        (figure.figure, figure.workload, significant(figure.value), figure.unit, *_beside(figure))
        for figure in figures
    ]
    out.print(table("figure", "workload", ">value", "unit", ">yardstick", ">ratio", rows=rows))
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text("".join(json.dumps(figure.row()) + "\n" for figure in figures), encoding="utf-8")
        out.print(f"[dim]written to {json_file}[/dim]")


def _beside(figure: Figure) -> tuple[str, str]:
    """What the yardstick did, and the ratio to it."""
    from sysgym.bench.units import significant

    if figure.yardstick is None or figure.ratio is None:
        return "", ""
    return significant(figure.yardstick), f"{figure.ratio:.1f} x {figure.yardstick_name}"
