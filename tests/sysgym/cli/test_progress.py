"""Lines of a benchmark's progress outside a terminal."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console

from sysgym.bench.run.pool import Failed
from sysgym.cli.progress import BenchProgress


@dataclass(frozen=True)
class Named:
    """A job with a name and nothing to do."""

    label: str

    def run(self, report: Callable[[object], None]) -> None:
        raise NotImplementedError


def test_a_reason_that_many_jobs_have_is_printed_once() -> None:
    out = io.StringIO()
    progress = BenchProgress(Console(file=out, width=200))
    for label, reason in (("a", "no torch"), ("b", "no torch"), ("c", "no disk"), ("d", "no disk\nmore")):
        progress.failed(Failed(Named(label), reason, "trace"))
    assert out.getvalue().splitlines() == [
        "failed a: no torch",
        "failed b: the same reason",
        "failed c: no disk",
        "failed d: the same reason",
    ]
