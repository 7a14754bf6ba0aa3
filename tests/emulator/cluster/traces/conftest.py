"""Small traces, written by hand in each format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sysgym.emulator.cluster.traces import TraceSource, load_jobs


@dataclass(frozen=True)
class Spec:
    """What `load_jobs` is asked for, without the bounds of a scenario."""

    format: str
    paths: tuple[str, ...] = ()
    tasks_min: int = 2
    tasks_max: int = 10
    median_min_s: float = 0.0
    warmup_windows: int = 4
    static_counters: str = "lifetime"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


Read = Callable[..., TraceSource]
WriteRows = Callable[[str, Sequence[str]], str]


@pytest.fixture
def make_spec() -> type[Spec]:
    """Makes what `load_jobs` is asked for: the format, its paths, then what differs from the usual."""
    return Spec


@pytest.fixture
def read() -> Read:
    """Reads files: the format, then their paths, then what differs from the usual."""

    def load(format: str, *paths: str, **others: Any) -> TraceSource:
        return load_jobs(Spec(format, paths, **others))

    return load


@pytest.fixture
def write_rows(tmp_path: Path) -> WriteRows:
    """Writes rows to a file and returns its path."""

    def write(name: str, rows: Sequence[str]) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{row}\n" for row in rows))
        return str(path)

    return write
