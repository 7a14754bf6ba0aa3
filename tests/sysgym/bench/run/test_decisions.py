"""Time per decision: measured around the agent only, in rows and tables, and never compared."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.bench.contenders import Contender
from sysgym.bench.report import write
from sysgym.bench.results.rows import ResultsFile, Row, read_rows
from sysgym.bench.run.episodes import make_contender, play
from sysgym.errors import SysgymError
from sysgym.scenarios import load_scenario

MakeRow = Callable[..., Row]
CONTENDER = Contender("max", "paced", "max")


class _Slow:
    """Takes its time, long to begin with and a little in every decision."""

    name = "slow"

    def begin(self, env: Any) -> None:
        self.shape = env.action_space.shape
        time.sleep(0.5)

    def act(self, observation: Any) -> Any:
        time.sleep(0.004)
        return np.ones(self.shape, np.float32)


def test_only_the_time_to_decide_is_measured(tiny: Path) -> None:
    env, quick = make_contender(load_scenario(tiny).resolved(), "test", CONTENDER)
    slow = play(env, _Slow(), 200)
    played = play(env, quick, 200)
    env.close()
    assert slow.steps == played.steps == 12
    assert 4.0 <= slow.decision_ms < 4.0 + 500.0 / 12, "without the time to begin"
    assert 0.0 < played.decision_ms < slow.decision_ms


def test_rows_say_what_decisions_took(played: Path) -> None:
    rows = read_rows(played)
    assert all(row.decision_ms is not None and 0.0 < row.decision_ms < 1000.0 * row.wall_s for row in rows)
    assert not any("decision_ms" in row.metrics for row in rows)


def test_a_row_of_before_is_read(make_row: MakeRow) -> None:
    old = make_row()
    assert old.decision_ms is None
    assert "decision_ms" not in json.loads(old.to_line())
    assert Row.from_line(old.to_line()) == old
    new = dataclasses.replace(old, decision_ms=1.25)
    assert json.loads(new.to_line())["decision_ms"] == 1.25
    assert Row.from_line(new.to_line()) == new
    assert new.key == old.key


def test_a_key_that_is_no_rows_is_still_refused(make_row: MakeRow) -> None:
    data = json.loads(make_row().to_line()) | {"decision_s": 1.0}
    del data["sha256"]
    with pytest.raises(ValueError, match=r"not a row of format 1: decision_s is 1\.0; expected a key of"):
        Row.from_line(json.dumps(data).encode())


def test_a_time_that_json_has_not_is_refused(make_row: MakeRow) -> None:
    with pytest.raises(SysgymError, match="not a finite number: decision_ms"):
        dataclasses.replace(make_row(), decision_ms=float("inf")).to_line()


def _report(folder: Path, rows: list[Row]) -> tuple[str, str]:
    with ResultsFile(folder) as results:
        for row in rows:
            results.append(row)
    written = write(folder)
    return written.html.read_text(), written.markdown.read_text()


def _rows(make_row: MakeRow, name: str, times_ms: list[float | None]) -> list[Row]:
    return [
        dataclasses.replace(make_row(name, 200 + index), decision_ms=decision_ms)
        for index, decision_ms in enumerate(times_ms)
    ]


def test_tables_have_the_median_over_episodes(make_row: MakeRow, tmp_path: Path) -> None:
    rows = _rows(make_row, "dctcp", [0.5, 0.25, 900.0]) + _rows(make_row, "reno", [None, None, None])
    html, markdown = _report(tmp_path, rows)
    assert '<th scope="col">time per decision<small>median, this machine</small></th></tr>' in html
    assert '<td class="soft" data-sort="0.5"><span>500 µs</span></td></tr>' in html
    assert '<td class="soft"><span>–</span></td></tr>' in html
    lines = [line for line in markdown.partition("\n## ")[2].splitlines() if line.startswith("| ")]
    assert lines[0].endswith("| time per decision (median, this machine) |")
    assert lines[2].endswith("| 500 µs |")
    assert lines[3].endswith("| – |")
    assert len({line.count(" | ") for line in lines}) == 1
    assert '"Time per decision" is the wall time' in markdown


def test_where_nobody_measured_there_is_no_column(make_row: MakeRow, tmp_path: Path) -> None:
    for text in _report(tmp_path, _rows(make_row, "dctcp", [None, None])):
        assert "time per decision" not in text
