"""Tables on terminals of any width."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from sysgym.bench.tables import Table
from sysgym.cli.terminal import console, page, print_error, print_table, table
from sysgym.errors import SysgymError

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


STRANGE = "a\x1b]0;planted\x1b\\\x1b[2J\x9b31m\u202eb [bold red]x[/bold red] é"


def test_nothing_but_letters_is_sent_to_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    print_error(SysgymError(STRANGE))
    for screen in (console(), page()):
        screen.print(STRANGE, markup=False)
        screen.print(f"one\ttwo\n{STRANGE}", markup=False, soft_wrap=True)
        screen.print(table(STRANGE.replace("[", "("), rows=[[STRANGE]]))
        print_table(screen, Table(STRANGE, (STRANGE, ">n"), ((STRANGE, "1"),)))
    out, err = capfd.readouterr()
    for text in (out, err):
        assert not {"\x1b", "\x9b", "\u202e"} & set(text)
        assert "[bold red]x[/bold red] é" in text
    assert "one\ttwo\n" in out or "one     two\n" in out


def test_brackets_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    console().print("d[v2]/[/x]/a.csv", style="bold")
    console().print(table("[red]file", title="[/t]", rows=[["[/x]/a.csv"]]))
    out = capsys.readouterr().out
    for literal in ("d[v2]/[/x]/a.csv\n", "[red]file", "[/t]", "\n[/x]/a.csv"):
        assert literal in out


def test_colours_are_still_sent(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    console().print(Text.assemble(("bold", "bold"), f" {STRANGE[:12]}"))
    out = capfd.readouterr().out
    assert "\x1b[1mbold\x1b[0m" in out
    assert out.count("\x1b") == 2
