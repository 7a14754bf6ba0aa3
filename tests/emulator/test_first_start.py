"""The line that tells a program's user why its first start takes long."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sysgym.emulator import first_start


def test_the_line_is_written_again_for_a_family_that_is_used_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    times_s = iter((1000.0, 1000.0 + first_start.AGAIN_S - 1.0, 1000.0 + first_start.AGAIN_S, 1500.0))
    monkeypatch.setattr(first_start, "time", SimpleNamespace(monotonic=lambda: next(times_s)))
    announcer = first_start.OneLine()
    n_lines = []
    for _ in range(4):
        announcer.begin("run_until")
        announcer.end()
        n_lines.append(len(caplog.records))
    assert n_lines == [1, 1, 2, 3]
    assert {one.message for one in caplog.records} == {first_start.WORDS}
