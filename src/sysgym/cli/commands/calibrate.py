"""``sysgym calibrate``: statistics of generated jobs beside their references."""

from __future__ import annotations

from collections import Counter

from rich.text import Text

from sysgym.cli.terminal import console, table

HEADINGS = ("figure", ">generated", ">reference", "verdict", ">tolerance", "source")
STYLES = {"fits": "green", "off": "bold red", "not claimed": "dim"}
"""Style of each verdict."""
WIDTH_WITH_SOURCES = 110
"""Least width of a terminal, in columns, for the column of sources."""


def print_calibration(scenario: str, n_jobs: int, overrides: list[str]) -> bool:
    """Generate a scenario's jobs and print their statistics beside the reference values.

    Args:
        scenario: Name or file; its jobs must be generated.
        n_jobs: Number of jobs, from the first seeds of the train split.
        overrides: ``KEY=VALUE`` texts.

    Returns:
        Whether every statistic with a tolerance is within it.

    Raises:
        SysgymError: The scenario cannot be read, or its jobs come from a trace.
    """
    from sysgym.emulator.cluster.calibration import FITS, NOT_CLAIMED, OFF, calibrate
    from sysgym.errors import ScenarioError
    from sysgym.scenarios import StragglerScenario, load_scenario, parse_overrides

    loaded = load_scenario(scenario, overrides=parse_overrides(overrides), expect=StragglerScenario)
    if loaded.jobs.kind != "generated":
        raise ScenarioError(
            scenario, "jobs.kind", loaded.jobs.kind, '"generated" (jobs of a trace are not calibrated)'
        )
    first = loaded.splits.train.first_seed
    with console(stderr=True).status(f"generating {n_jobs} jobs"):
        rows = calibrate(loaded.jobs, range(first, first + n_jobs))
    cells: list[tuple[str | Text, ...]] = []
    for row in rows:
        held = row.reference
        within = "" if held is None or held.within is None else f"{100 * held.within:g} %"
        cells.append(
            (
                row.figure,
                f"{row.generated:.3g}",
                f"{held.value:.3g}" if held else "",
                Text(row.verdict, style=STYLES[row.verdict]),
                within,
                held.source if held else "",
            )
        )
    out = console()
    # Narrow terminals have no room for sources; the documentation of scenarios lists them.
    shown = len(HEADINGS) if out.width >= WIDTH_WITH_SOURCES else len(HEADINGS) - 2
    title = f"{loaded.name}: {n_jobs} jobs"
    out.print(table(*HEADINGS[:shown], title=title, rows=[cell[:shown] for cell in cells]))
    counts = Counter(row.verdict for row in rows)
    out.print(
        f"{counts[FITS]} figures fit, {counts[OFF]} are off, {counts[NOT_CLAIMED]} are not claimed: "
        "they have no reference, or one that the jobs are not fitted to",
        style="dim",
    )
    return all(row.fits for row in rows)
