"""Output in a terminal while the simulator is compiled."""

from __future__ import annotations

import io
import time

import pytest

from sysgym.cli import compiling
from sysgym.emulator import first_start


class Terminal(io.StringIO):
    """A file that says that somebody looks."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_start, "_depth", 0)
    monkeypatch.setattr(first_start, "_announcer", first_start.OneLine())
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with compiling.shown():
        first_start.compiling("run_until")
        first_start.compiling("a function that it calls")
        first_start.compiled()
        assert compiling.DESCRIPTION in terminal.getvalue()
        assert "\u2501" in terminal.getvalue()
        time.sleep(0.3)
        first_start.compiled()
        length = len(terminal.getvalue())
        time.sleep(0.2)
        assert len(terminal.getvalue()) == length, "it is still drawn"
        first_start.compiling("cap_hosts")  # an error may keep it from its end
    length = len(terminal.getvalue())
    time.sleep(0.2)
    assert len(terminal.getvalue()) == length
    assert not caplog.records


def test_a_pipe_gets_a_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with compiling.shown():
        first_start.compiling("run_until")
        first_start.compiled()
    assert [one.message for one in caplog.records] == [first_start.WORDS]


def test_nothing_is_shown_where_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with compiling.shown():
        pass
    assert terminal.getvalue() == ""
