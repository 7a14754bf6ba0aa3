"""Shards: whole or absent, checked when read, taken over by the next run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sysgym.bench.plan import make_plan
from sysgym.bench.results.rows import Row, read_rows
from sysgym.bench.run.cluster.shards import (
    SHARDS,
    Failure,
    Shard,
    key_of,
    leftover_rows,
    path_of,
    read_shard,
    remove_shard,
    write_shard,
)
from sysgym.bench.run.runner import Observer, run_plan
from sysgym.errors import SysgymError
from sysgym.scenarios import load_suite

MakeRow = Callable[..., Row]


def test_a_shard_is_read_as_it_was_written(tmp_path: Path, make_row: MakeRow) -> None:
    shard = Shard({0: make_row(seed=200), 2: make_row(seed=201)}, [Failure(1, "it failed", "line 1\nline 2")])
    write_shard(tmp_path, "a", shard)
    assert read_shard(path_of(tmp_path, "a")) == shard
    remove_shard(path_of(tmp_path, "a"))
    remove_shard(path_of(tmp_path, "a"))
    assert list((tmp_path / SHARDS).iterdir()) == []


def test_keys_tell_jobs_apart() -> None:
    assert key_of(["a", 1]) == key_of(["a", 1])
    assert len({key_of(one) for one in (["a", 1], ["a", 2], ["a"], ["a1"])}) == 4


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"format": 2}', b'{"format": 1, "rows": {"0": "no row"}, "failures": []}'],
)
def test_damaged_shards_are_refused_and_put_aside(tmp_path: Path, content: bytes) -> None:
    path = path_of(tmp_path, "a")
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(SysgymError):
        read_shard(path)
    assert list(leftover_rows(tmp_path)) == []
    assert [one.name for one in (tmp_path / SHARDS).iterdir()] == ["a.json.broken"]


def test_a_changed_row_is_refused(tmp_path: Path, make_row: MakeRow) -> None:
    write_shard(tmp_path, "a", Shard({0: make_row()}, []))
    path = path_of(tmp_path, "a")
    data = json.loads(path.read_text())
    data["rows"]["0"] = data["rows"]["0"].replace('"seed":200', '"seed":201')
    path.write_text(json.dumps(data))
    with pytest.raises(SysgymError, match="digest"):
        read_shard(path)


class Ears(Observer):
    """Remembers what a run said."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_the_next_run_takes_over_what_was_left(
    tmp_path: Path, write_suite: Callable[..., Path], played: Path
) -> None:
    rows = read_rows(played)
    out = tmp_path / "out"
    # Two tasks did the same episode, and one of them another.
    write_shard(out, "a", Shard(dict(enumerate(rows[:1])), [Failure(1, "it failed", "")]))
    write_shard(out, "b", Shard(dict(enumerate(rows[:2])), []))
    ears = Ears()

    def run() -> Any:
        return run_plan(make_plan(load_suite(write_suite()), out), out, observer=ears)

    outcome = run()
    assert ears.notes == ["2 rows of an interrupted run were taken over"]
    assert (outcome.n_cells, outcome.n_kept, outcome.n_played) == (4, 2, 2)
    assert not list((out / SHARDS).iterdir())
    assert sorted(row.label for row in read_rows(out)) == sorted(row.label for row in rows)
    assert run().n_kept == 4
