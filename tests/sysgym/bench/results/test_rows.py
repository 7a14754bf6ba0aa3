"""Rows on disk: complete, or incomplete at the very end only, after any interruption."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import math
import os
import re
import resource
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sysgym.bench.contenders import Contender
from sysgym.bench.results.row_format import EnergyFields, digest_of
from sysgym.bench.results.rows import ASIDE, COMPRESSED, RESULTS, ResultsFile, Row, read_rows
from sysgym.errors import StorageError, SysgymError
from sysgym.scenarios.names import LONGEST_NAME, NAME

MakeRow = Callable[..., Row]

finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.from_regex(NAME, fullmatch=True).filter(lambda name: len(name) <= LONGEST_NAME)
digests = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
paths = st.from_regex(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,40}", fullmatch=True)


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
    plugins=st.dictionaries(paths, digests, max_size=2),
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


def test_a_new_file_and_a_renamed_one_are_synced_with_their_folder(
    make_row: MakeRow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def recorded(file: int) -> None:
        synced.append(Path(f"/proc/self/fd/{file}").readlink().name)
        fsync(file)

    monkeypatch.setattr(os, "fsync", recorded)
    out = tmp_path / "out"
    with ResultsFile(out) as results:
        assert synced == ["out"]
        results.append(make_row())
        assert synced == ["out", RESULTS]
        synced.clear()
        results.keep_only([])
    synced = [re.sub(r"^\.(.+)\.[0-9a-f]{8}\.tmp$", r"new \1", name) for name in synced]
    assert synced == [f"new {ASIDE}", "out", f"new {RESULTS}", "out"]


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


def _with(**changes: Any) -> Callable[[bytes], bytes]:
    """Return what changes fields of a row, whose digest then is right; None takes the field away."""

    def changed(line: bytes) -> bytes:
        data = {**json.loads(line), **changes}
        data = {key: value for key, value in data.items() if value is not None}
        if "sha256" not in changes:
            del data["sha256"]
            data["sha256"] = digest_of(data)
        return json.dumps(data, separators=(",", ":")).encode()

    return changed


ACCOUNT: dict[str, Any] = dict.fromkeys(EnergyFields.model_fields, 1.0)
WRONG: dict[str, Callable[[bytes], bytes]] = {
    "text": lambda line: b"hello",
    "blank": lambda line: b"",
    "a torn line in the middle": lambda line: line[: len(line) // 2],
    "two rows in one line": lambda line: line * 2,
    "JSON of someone else": lambda line: b'{"episode": 3, "reward": 0.5}',
    "a list": lambda line: b"[1, 2]",
    "another format": lambda line: line.replace(b'{"format":1,', b'{"format":2,'),
    "a key less": _with(steps=None),
    "a key more": _with(more=1),
    "a key twice": lambda line: line.replace(b'{"format":1,', b'{"format":1,"seed":200,'),
    "a contender that is none": _with(contender={"name": "dctcp", "law": "dctcp", "agent": "max"}),
    "a number that is none": lambda line: line.replace(b"9500000.0", b"NaN"),
    "a number that is too large": lambda line: line.replace(b"9500000.0", b"1e999"),
    "not UTF-8": lambda line: line.replace(b"dctcp", b"\xff\xfe"),
    "another value under the old digest": lambda line: line.replace(b"9500000.0", b"9500001.0"),
    "another digest": lambda line: line.replace(b'"sha256":"', b'"sha256":"0'),
    "a digest that is no text": _with(sha256=[1]),
    "a scenario outside the folder": _with(scenario="../../x"),
    "a scenario that is a tag": _with(scenario="<script>alert(1)</script>"),
    "a resolved scenario of another name": _with(scenario_resolved={"name": "other"}),
    "a resolved scenario that is a list": _with(scenario_resolved=[1]),
    "a digest of the scenario that is none": _with(scenario_sha256="nothing"),
    "a contender that is a tag": _with(contender={"name": "<b>", "transport": "", "agent": "max"}),
    "a contender's parameter that is a list": _with(
        contender={"name": "a", "transport": "", "agent": "max", "parameters": {"a": [1]}}
    ),
    "a checkpoint with a zero byte": _with(
        contender={"name": "a", "transport": "", "agent": "max", "checkpoint": "a\0b"}
    ),
    "a plugin without a digest": _with(
        contender={"name": "a", "transport": "", "agent": "max", "plugins": {"a.py": "<i>"}}
    ),
    "a metric that is a tag": _with(metrics={"<img src=x>": 1.0}),
    "a metric that is a text": _with(metrics={"goodput_bps": "many"}),
    "a metric that is true": _with(metrics={"goodput_bps": True}),
    "metrics that are a list": _with(metrics=[1.0]),
    "a split that is none": _with(split="exam"),
    "an environment that is none": _with(env_id="x"),
    "a seed that is a text": _with(seed="200"),
    "a seed below zero": _with(seed=-1),
    "steps of a million digits": lambda line: line.replace(b'"steps":12', b'"steps":' + b"2" * 900_000),
    "steps with a fraction": _with(steps=1.5),
    "a time below zero": _with(wall_s=-0.1),
    "a return that is a list": _with(**{"return": [1.0]}),
    "a version that is a tag": _with(versions={"numpy": "<svg/onload=alert(1)>"}),
    "a version that is a number": _with(versions={"numpy": 2}),
    "energy that is a number": _with(energy=3),
    "energy with a text": _with(energy=ACCOUNT | {"method": "cpu-time", "energy_kwh": "much"}),
    "energy measured by a tag": _with(energy=ACCOUNT | {"method": "<b>"}),
    "brackets nested a hundred thousand deep": lambda line: b"[" * 100_000 + b"]" * 100_000,
    "brackets nested 900 deep": _with(scenario_resolved={"name": json.loads("[" * 900 + "]" * 900)}),
    "a row of many lists": _with(scenario_resolved={"name": "tiny", "zz": [[]] * 30_000}),
    "metrics without an end": _with(metrics={f"m{number}": 1.0 for number in range(30_000)}),
    "a line of a megabyte": _with(scenario_resolved={"name": "x" * 1_000_000}),
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
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 800, "a sentence"
    with pytest.raises(SysgymError, match=rf"line {number}: "):
        ResultsFile(tmp_path)
    assert path.read_bytes() == before, "a file that is not understood is not touched"


def test_a_row_has_its_digest_and_rows_of_before_need_none(make_row: MakeRow) -> None:
    row = make_row()
    data = json.loads(row.to_line())
    digest = data.pop("sha256")
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    assert digest == hashlib.sha256(text.encode()).hexdigest()
    assert Row.from_line(json.dumps(data).encode()) == row
    shuffled = dict(sorted({**data, "sha256": digest}.items(), reverse=True))
    assert Row.from_line(json.dumps(shuffled).encode()) == row, "the order of keys says nothing"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scenario": "../../x"}, r"scenario is '\.\./\.\./x'; expected a text that matches"),
        ({"versions": {"numpy": "<b>"}}, r"versions\.numpy is '<b>'"),
        ({"scenario_resolved": {"name": "tiny", "title": "x" * 1_000_000}}, "scenario_resolved"),
        ({"seed": -1}, "seed is -1; expected at least 0"),
    ],
)
def test_a_run_writes_no_row_that_could_not_be_read(
    make_row: MakeRow, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with ResultsFile(tmp_path) as results, pytest.raises(SysgymError, match=words):
        results.append(dataclasses.replace(make_row(), **changes))
    assert (tmp_path / RESULTS).read_bytes() == b""


SAME_EPISODE: dict[str, tuple[dict[str, Any], str]] = {
    "a copy": ({}, "with the same results"),
    "played by others": ({"versions": {"sysgym": "0.0.1"}, "wall_s": 3.0}, "with the same results"),
    "another metric": (
        {"metrics": {"goodput_bps": 1.0, "queue_delay_p99_s": 2e-3}},
        r"with different results \(goodput_bps: 9500000\.0 and 1\.0\)",
    ),
    "another return": ({"total_reward": 7.0}, r"with different results \(return: 1\.5 and 7\.0\)"),
    "another scenario": ({"scenario_sha256": "0" * 64}, "of different scenarios of this name"),
    "another contender": (
        {"contender": Contender("dctcp", "reno", "max")},
        "of different contenders of this name",
    ),
}


@pytest.mark.parametrize("what", SAME_EPISODE)
def test_two_rows_of_one_episode_are_refused_with_cell_and_lines(
    make_row: MakeRow, tmp_path: Path, what: str
) -> None:
    changes, words = SAME_EPISODE[what]
    row = make_row()
    rows = [row, make_row(seed=201), dataclasses.replace(row, **changes)]
    (tmp_path / RESULTS).write_bytes(b"".join(one.to_line() for one in rows))
    expected = rf"results\.jsonl, lines 1 and 3: two rows of tiny / dctcp / test seed 200, {words}; "
    with pytest.raises(SysgymError, match=expected):
        read_rows(tmp_path)


def test_runs_of_one_training_each_are_no_duplicates(make_row: MakeRow, tmp_path: Path) -> None:
    rows = [make_row("ppo", checkpoint=f"{digest}.zip", checkpoint_sha256=digest) for digest in ("aa", "bb")]
    assert _write(tmp_path, *rows)
    assert read_rows(tmp_path) == rows


def test_a_run_does_not_go_on_from_rows_that_contradict_each_other(make_row: MakeRow, tmp_path: Path) -> None:
    rows = [make_row(), make_row(metrics={"goodput_bps": 1.0})]
    content = b"".join(row.to_line() for row in rows)
    (tmp_path / RESULTS).write_bytes(content)
    with pytest.raises(SysgymError, match=r"lines 1 and 2: .* with different results"):
        ResultsFile(tmp_path)
    assert (tmp_path / RESULTS).read_bytes() == content
    (tmp_path / RESULTS).write_bytes(rows[0].to_line() * 2)
    with ResultsFile(tmp_path) as results:
        results.keep_only([rows[0].key])
    assert read_rows(tmp_path) == rows[:1], "a copy is dropped"


def test_compressed_rows_are_whole_and_no_bomb(
    make_row: MakeRow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, line = tmp_path / COMPRESSED, make_row().to_line()
    path.write_bytes(gzip.compress(line))
    assert read_rows(tmp_path) == [make_row()]
    path.write_bytes(gzip.compress(line[:-10]))
    with pytest.raises(SysgymError, match=r"gz, line 1: ends in the middle of a line"):
        read_rows(tmp_path)
    monkeypatch.setattr("sysgym.bench.results.rows.LARGEST_RESULTS_BYTES", 100_000)
    path.write_bytes(gzip.compress(line * 1000))
    with pytest.raises(SysgymError, match=r"gz: larger than 0\.1 MB when unpacked"):
        read_rows(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"), [(b"\n", "line 1: not JSON"), (b" ", r"line 1: longer than 1 MB")]
)
def test_a_bomb_is_refused_at_its_first_line(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / COMPRESSED).write_bytes(gzip.compress(content * 10_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(SysgymError, match=words):
            read_rows(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_no_rows_say_how_to_make_some(tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match="sysgym bench SUITE --out"):
        read_rows(tmp_path / "nothing")
    (tmp_path / RESULTS).touch()
    with pytest.raises(SysgymError, match=r"results\.jsonl: the file has no rows"):
        read_rows(tmp_path)


def test_a_full_disk_costs_one_row(make_row: MakeRow, tmp_path: Path) -> None:
    first, second, third = (make_row(seed=seed) for seed in (200, 201, 202))
    with ResultsFile(tmp_path) as results:
        results.append(first)
        size = len(first.to_line())
        with (
            _no_file_over(size + 100),
            pytest.raises(StorageError, match=r"jsonl: cannot be written: File too"),
        ):
            results.append(second)
        assert (tmp_path / RESULTS).stat().st_size == size, "the next row would be glued to the rest"
        with _no_file_over(size), pytest.raises(StorageError, match=r"jsonl: cannot be written: File too"):
            results.append(second)
        results.append(third)
        assert results.rows == [first, third]
    assert read_rows(tmp_path) == [first, third]


def test_two_runs_do_not_write_into_one_folder(make_row: MakeRow, tmp_path: Path) -> None:
    with (
        ResultsFile(tmp_path),
        pytest.raises(SysgymError, match="another process writes a benchmark to this folder"),
    ):
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


@pytest.mark.parametrize("name", [".lock", RESULTS])
def test_a_planted_link_is_not_written_through(tmp_path: Path, name: str) -> None:
    out, victim = tmp_path / "out", tmp_path / "victim"
    out.mkdir()
    (out / name).symlink_to(victim)
    with pytest.raises(StorageError, match="symbolic link"):
        ResultsFile(out)
    assert not victim.exists()


def test_a_row_of_many_lists_is_refused_before_its_fields_are_read(
    make_row: MakeRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = make_row(seed=200).to_line()
    monkeypatch.setattr(
        "sysgym.bench.results.row_format.checked", lambda *_: pytest.fail("the fields were read")
    )
    line = _with(scenario_resolved={"name": "tiny", "zz": [[]] * 30_000})(line)
    with pytest.raises(ValueError, match="at most 20,000 values in all"):
        Row.from_line(line)
