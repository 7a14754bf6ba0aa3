"""``sysgym calibrate``: the comparison and its exit code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sysgym.cli.app import app
from sysgym.errors import ScenarioError


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = app(["calibrate", *arguments], standalone_mode=False)
    return int(code or 0), capsys.readouterr().out


def test_it_prints_figures_references_and_sources(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = _run(capsys, "google-2011", "--jobs", "5")
    assert out.startswith("google-2011: 5 jobs")
    line = next(line for line in out.splitlines() if line.startswith("slowest / median, mean over jobs"))
    assert re.search(r"\s8\s+(fits|off)\s+15 %\s+Dolly, NSDI 2013", line)
    figures = [line for line in out.splitlines() if re.search(r"\d", line) and " / median" in line]
    assert figures
    assert all(re.search(r"\s(fits|off|not claimed)(\s|$)", line) for line in figures)
    assert re.search(r"\d+ figures fit, \d+ are off, \d+ are not claimed", out)


def test_a_narrow_terminal_still_shows_what_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out = _run(capsys, "google-2011", "--jobs", "5")
    line = next(line for line in out.splitlines() if line.startswith("slowest / median, mean over jobs"))
    assert re.search(r"\s8\s+(fits|off)\s*$", line)


def test_what_is_off_is_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = _run(capsys, "alibaba-2018", "--jobs", "3", "--set", "jobs.base_time_log_mean=9.0")
    assert code == 1
    line = next(line for line in out.splitlines() if line.startswith("median latency, mean of log s"))
    assert "off" in line


def test_a_trace_is_not_calibrated(tmp_path: Path) -> None:
    path = tmp_path / "replay.toml"
    path.write_text(
        'schema = 1\nname = "replay"\nfamily = "stragglers"\nenv_id = "sysgym/StragglerPrediction-v0"\n'
        'title = "R"\ndescription = "R"\n[jobs]\nkind = "trace"\nformat = "spar"\n'
        "[splits.train]\nseeds = [0, 1]\n[splits.validation]\nseeds = [2, 3]\n[splits.test]\nseeds = [4, 5]\n"
    )
    with pytest.raises(ScenarioError, match="jobs of a trace are not calibrated"):
        app(["calibrate", str(path)], standalone_mode=False)
