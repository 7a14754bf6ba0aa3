"""Write the constants of agents in the suites of stragglers into a page, from the suites themselves.

    python scripts/stragglers/constants_table.py docs/stragglers-tables.md

The table is between ``<!-- begin constants -->`` and ``<!-- end constants -->``. A row is a constant of an
agent, a column a scenario; the third column has the usual value, with which the grid of the suite
google-trace begins (that of scripts/stragglers/tune_stragglers.py too), and the fourth all values of the
grid.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from sysgym.bench.tables import markdown_table
from sysgym.scenarios import ContenderSpec, load_suite

SUITES = ("stragglers", "stragglers-hour")
GRIDS_FROM = "google-trace"
SECTION = re.compile(r"(<!-- begin constants -->\n).*?(<!-- end constants -->)", re.DOTALL)
OPEN_SUFFIX = "-95"
"""End of the name of a contender beside the tuned one, with a value of its own."""


def main() -> None:
    """Rewrite the section of the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path)
    page = parser.parse_args().page
    text = page.read_text()
    if not SECTION.search(text):
        parser.error(f"{page} has no <!-- begin constants --> and <!-- end constants -->")
    page.write_text(SECTION.sub(lambda marks: f"{marks[1]}\n{table()}\n\n{marks[2]}", text))


def table() -> str:
    """Return the table in Markdown."""
    tasks = [task for suite in SUITES for task in load_suite(suite).tasks]
    rows = []
    grids = {
        item.agent: item.grid
        for item in load_suite(GRIDS_FROM).tasks[0].contenders
        if isinstance(item, ContenderSpec)
    }
    for agent, grid in grids.items():
        for constant, values in grid.items():
            row = [
                agent,
                f"`{constant}`",
                f"{values[0]:g}",
                ", ".join(f"{value:g}" for value in sorted(values)),
            ]
            for task in tasks:
                found = [
                    item.parameters.get(constant)
                    for item in task.contenders
                    if isinstance(item, ContenderSpec)
                    and item.agent == agent
                    and not item.name.endswith(OPEN_SUFFIX)
                ]
                row.append(" ".join(f"{value}" for value in found) or "–")
            rows.append(row)
    heads = ["agent", "constant", "usual", "grid", *(f"`{task.scenario}`" for task in tasks)]
    return markdown_table(heads, rows)


if __name__ == "__main__":
    main()
