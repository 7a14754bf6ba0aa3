"""Tables on terminals of any width."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from sysgym.bench.tables import Table
from sysgym.cli.terminal import print_table

TABLE = Table(
    "Simulator and kernel",
    ("what is measured", ">cubic", ">dctcp", ">neural"),
    (
        ("mean queue", "163 kB / 167 kB (-2.8%)", "22.3 kB / 22.7 kB (-1.8%)", "9.38 kB / 22.0 kB (-57.3%)"),
        ("overhead of 2 threads", "1.16 [1.07, 1.25]", "0.974 [0.956, 0.990]", "-11.1 % [-19.9, -0.8]"),
    ),
)


def printed(width: int) -> str:
    out = StringIO()
    print_table(Console(file=out, width=width, highlight=False), TABLE)
    return out.getvalue()


@pytest.mark.parametrize("width", [120, 80, 60])
def test_no_number_is_cut_where_a_table_is_too_wide(width: int) -> None:
    text = printed(width)
    words = text.split()
    for row in TABLE.rows:
        for cell in row:
            assert all(words.count(word) >= 1 for word in cell.split()), cell
    assert all(len(line.rstrip()) <= width for line in text.splitlines())


def test_a_table_that_fits_has_a_line_a_row() -> None:
    assert TABLE.rows[0][1] in printed(120)
    assert TABLE.rows[0][1] not in printed(60)
