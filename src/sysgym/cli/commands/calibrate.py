"""``sysgym calibrate``."""

from __future__ import annotations

from rich.text import Text

from sysgym.cli.terminal import console, table

HEADINGS = ("figure", ">generated", ">reference", "", ">held within", "source")
WIDTH_WITH_SOURCES = 110
"""Columns of a terminal."""


def print_calibration(scenario: str, n_jobs: int, overrides: list[str]) -> bool:
    """Generate a scenario's jobs and print their statistics beside what they are held to.

    Args:
        scenario: Name or file; its jobs must be generated.
        n_jobs: Jobs of the train split, from its first seed on.
        overrides: ``KEY=VALUE`` texts.

    Returns:
        Whether every figure that is held comes near enough.

    Raises:
        SysgymError: The scenario cannot be read, or its jobs are a trace's.
    """
    from sysgym.emulator.cluster.calibration import calibrate
    from sysgym.errors import ScenarioError
    from sysgym.scenarios import StragglerScenario, load_scenario, parse_overrides

    loaded = load_scenario(scenario, overrides=parse_overrides(overrides), expect=StragglerScenario)
    if loaded.jobs.kind != "generated":
        raise ScenarioError(scenario, "jobs.kind", loaded.jobs.kind, '"generated": a trace is as it is')
    first = loaded.splits.train.first_seed
    with console(stderr=True).status(f"generating {n_jobs} jobs"):
        rows = calibrate(loaded.jobs, range(first, first + n_jobs))
    cells: list[tuple[str | Text, ...]] = []
    for row in rows:
        held = row.reference
        within = "" if held is None or held.within is None else f"{100 * held.within:g} %"
        verdict = Text("fits" if row.fits else "off", style="green" if row.fits else "bold red")
        cells.append(
            (
                row.figure,
                f"{row.generated:.3g}",
                f"{held.value:.3g}" if held else "",
                verdict if row.is_held else "",
                within,
                held.source if held else "",
            )
        )
    out = console()
    # Where there is no room for sources, the page of scenarios has them.
    shown = len(HEADINGS) if out.width >= WIDTH_WITH_SOURCES else len(HEADINGS) - 2
    title = f"{loaded.name}: {n_jobs} jobs"
    out.print(table(*HEADINGS[:shown], title=title, rows=[cell[:shown] for cell in cells]))
    return all(row.fits for row in rows)
