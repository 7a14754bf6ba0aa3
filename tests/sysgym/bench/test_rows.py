"""Rows on disk: whole or torn at the very end, whoever dies when."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sysgym.bench.rows import ASIDE, RESULTS, ResultsFile, Row, read_rows
from sysgym.errors import SysgymError

MakeRow = Callable[..., Row]

finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(min_size=1, max_size=12)


@contextmanager
def _no_file_over(size: int) -> Iterator[None]:
    """Let the system refuse what a full disk refuses: bytes past a file's size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _write(folder: Path, *rows: Row) -> bytes:
    with ResultsFile(folder) as results:
        for row in rows:
            results.append(row)
    return (folder / RESULTS).read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(
    metrics=st.dictionaries(names, finite, max_size=5),
    total=finite,
    seed=st.integers(0, 2**31 - 1),
    contender=names,
    plugins=st.dictionaries(names, names, max_size=2),
)
def test_a_row_is_read_as_it_was_written(
    make_row: MakeRow,
    metrics: dict[str, float],
    total: float,
    seed: int,
    contender: str,
    plugins: dict[str, str],
) -> None:
    row = dataclasses.replace(
        make_row(contender, seed, metrics, plugins=tuple(plugins.items())), total_reward=total
    )
    line = row.to_line()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert Row.from_line(line) == row


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_has_not_is_refused(make_row: MakeRow, tmp_path: Path, bad: float) -> None:
    good = make_row()
    in_metrics = make_row(metrics={"goodput_bps": 1.0, "rtt_mean_s": bad})
    with pytest.raises(SysgymError, match=r"tiny / dctcp / test seed 200: not a finite number: rtt_mean_s"):
        in_metrics.to_line()
    with pytest.raises(SysgymError, match="not a finite number: return"):
        dataclasses.replace(good, total_reward=bad).to_line()
    with ResultsFile(tmp_path) as results, pytest.raises(SysgymError):
        results.append(in_metrics)
    assert (tmp_path / RESULTS).read_bytes() == b""


def test_appending_is_one_write_at_the_end_and_a_sync(
    make_row: MakeRow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, Any]] = []
    write, fsync = os.write, os.fsync

    def recorded_write(file: int, content: bytes) -> int:
        calls.append(("write", content))
        return write(file, content)

    def recorded_fsync(file: int) -> None:
        calls.append(("fsync", (tmp_path / RESULTS).read_bytes()))
        fsync(file)

    row = make_row()
    with ResultsFile(tmp_path) as results:
        monkeypatch.setattr(os, "write", recorded_write)
        monkeypatch.setattr(os, "fsync", recorded_fsync)
        results.append(row)
        # Someone else's line in between: whatever is there, the next row goes behind it.
        with (tmp_path / RESULTS).open("ab") as file:
            file.write(make_row(seed=201).to_line())
        results.append(make_row(seed=202))
    line = row.to_line()
    assert calls[:2] == [("write", line), ("fsync", line)]
    assert [kind for kind, _ in calls] == ["write", "fsync"] * 2
    assert [row.seed for row in read_rows(tmp_path)] == [200, 201, 202]


@pytest.mark.parametrize("kept_bytes", [1, 0.5, -1])
def test_a_torn_last_line_costs_its_row_and_no_other(
    make_row: MakeRow, tmp_path: Path, kept_bytes: float
) -> None:
    rows = [make_row(seed=seed) for seed in (200, 201, 202)]
    content = _write(tmp_path, *rows)
    line = rows[2].to_line()
    kept = int(kept_bytes * len(line)) if kept_bytes == 0.5 else int(kept_bytes) % len(line)
    (tmp_path / RESULTS).write_bytes(content[: len(content) - len(line) + kept])

    assert read_rows(tmp_path) == rows[:2]
    with ResultsFile(tmp_path) as results:
        assert results.torn_bytes == kept
        assert results.rows == rows[:2]
        results.append(rows[2])
    assert (tmp_path / RESULTS).read_bytes() == content
    with ResultsFile(tmp_path) as results:
        assert results.torn_bytes == 0


def test_a_last_line_that_never_reached_the_disk_is_torn(make_row: MakeRow, tmp_path: Path) -> None:
    content = _write(tmp_path, make_row())
    (tmp_path / RESULTS).write_bytes(content + b"\0" * 50 + b"\n")
    with ResultsFile(tmp_path) as results:
        assert results.torn_bytes == 51
        assert len(results.rows) == 1
    assert (tmp_path / RESULTS).read_bytes() == content


def _without_key(line: bytes) -> bytes:
    data = json.loads(line)
    del data["steps"]
    return json.dumps(data).encode()


WRONG: dict[str, Callable[[bytes], bytes]] = {
    "text": lambda line: b"hello",
    "blank": lambda line: b"",
    "a torn line in the middle": lambda line: line[: len(line) // 2],
    "two rows in one line": lambda line: line * 2,
    "JSON of someone else": lambda line: b'{"episode": 3, "reward": 0.5}',
    "a list": lambda line: b"[1, 2]",
    "another format": lambda line: line.replace(b'{"format":1,', b'{"format":2,'),
    "a key less": _without_key,
    "a key more": lambda line: line.replace(b'{"format":1,', b'{"format":1,"more":1,'),
    "a contender that is none": lambda line: line.replace(b'"transport":"dctcp"', b'"law":"dctcp"'),
    "a number that is none": lambda line: line.replace(b"9500000.0", b"NaN"),
    "not UTF-8": lambda line: line.replace(b"dctcp", b"\xff\xfe"),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_foreign_line_is_an_error_that_names_file_and_line(
    make_row: MakeRow, tmp_path: Path, what: str, number: int
) -> None:
    lines = [make_row(seed=seed).to_line().rstrip(b"\n") for seed in (200, 201, 202)]
    lines[number - 1] = WRONG[what](lines[number - 1])
    path = tmp_path / RESULTS
    path.write_bytes(b"\n".join(lines) + b"\n")
    before = path.read_bytes()
    with pytest.raises(SysgymError, match=rf"results\.jsonl, line {number}: ") as caught:
        read_rows(tmp_path)
    assert str(path) in str(caught.value)
    with pytest.raises(SysgymError, match=rf"line {number}: "):
        ResultsFile(tmp_path)
    assert path.read_bytes() == before, "a file that is not understood is not touched"


def test_no_rows_say_how_to_make_some(tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match="sysgym bench SUITE --out"):
        read_rows(tmp_path / "nothing")
    (tmp_path / RESULTS).touch()
    with pytest.raises(SysgymError, match=r"results\.jsonl: no rows in it"):
        read_rows(tmp_path)


def test_a_full_disk_costs_one_row(make_row: MakeRow, tmp_path: Path) -> None:
    first, second, third = (make_row(seed=seed) for seed in (200, 201, 202))
    with ResultsFile(tmp_path) as results:
        results.append(first)
        size = len(first.to_line())
        with _no_file_over(size + 100), pytest.raises(SysgymError, match="only part of a row"):
            results.append(second)
        assert (tmp_path / RESULTS).stat().st_size == size, "the next row would be glued to the rest"
        with _no_file_over(size), pytest.raises(SysgymError, match="could not be written"):
            results.append(second)
        results.append(third)
        assert results.rows == [first, third]
    assert read_rows(tmp_path) == [first, third]


def test_two_runs_do_not_write_into_one_folder(make_row: MakeRow, tmp_path: Path) -> None:
    with ResultsFile(tmp_path), pytest.raises(SysgymError, match="another benchmark is writing there"):
        ResultsFile(tmp_path)
    _write(tmp_path, make_row())  # the lock went with the run


def test_rows_that_are_not_asked_for_wait_aside_and_come_back(make_row: MakeRow, tmp_path: Path) -> None:
    rows = [make_row(seed=seed) for seed in (200, 201, 202)]
    content = _write(tmp_path, *rows)
    with ResultsFile(tmp_path) as results:
        assert results.keep_only([rows[1].key]) == [rows[0], rows[2]]
        assert results.rows == [rows[1]]
        results.append(make_row(seed=203))
    assert [row.seed for row in read_rows(tmp_path)] == [201, 203]
    assert {json.loads(line)["seed"] for line in (tmp_path / ASIDE).read_text().splitlines()} == {200, 202}
    with ResultsFile(tmp_path) as results:
        moved = results.keep_only([row.key for row in rows])
    assert [row.seed for row in moved] == [203]
    assert sorted((tmp_path / RESULTS).read_bytes().splitlines()) == sorted(content.splitlines())


def test_what_makes_two_rows_the_same(make_row: MakeRow) -> None:
    row = make_row(checkpoint="here.zip", checkpoint_sha256="ab")
    elsewhere = make_row(metrics={}, checkpoint="there.zip", checkpoint_sha256="ab")
    assert row.key == elsewhere.key
    others = [
        make_row(checkpoint="here.zip", checkpoint_sha256="cd"),
        make_row(seed=201, checkpoint_sha256="ab"),
        make_row("reno", checkpoint_sha256="ab"),
        make_row(digest="0" * 64, checkpoint_sha256="ab"),
        make_row(checkpoint_sha256="ab", row_versions={"sysgym": "0.0.1"}),
    ]
    assert len({row.key, *(other.key for other in others)}) == 6
