"""Reasons to doubt results: different versions, missing episodes, failures, few seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sysgym.bench.results.records import FailureFields, RunFields
from sysgym.bench.results.rows import Row
from sysgym.bench.results.versions import must_match


class ContestFacts(Protocol):
    """Properties of one scenario's results that can give reasons to doubt."""

    name: str
    seeds: list[int]

    @property
    def label(self) -> str:
        """Name of the scenario, with the split unless it is the test split."""


def warnings_of(rows: Sequence[Row], record: RunFields, results: Sequence[ContestFacts]) -> list[str]:
    """Return the reasons to doubt the results, one sentence each.

    Args:
        rows: All rows.
        record: Record of the runs in the folder.
        results: Properties by scenario and split.
    """
    found = []
    if len({must_match(row.versions) for row in rows}) > 1:
        found.append(
            "The rows were made with different versions or sources of sysgym and should not be compared."
        )
    last = record.sittings[-1] if record.sittings else None
    if last is not None and last.missing is None and last.cells is not None and len(rows) < last.cells:
        found.append(
            f"{len(rows)} of {last.cells} episodes: the benchmark goes on or was killed, and the tables"
            " are of what is there."
        )
    if last is not None and (missing := last.missing):
        found.append(
            f"{missing} episodes of the suite are missing; run the same command again to finish them."
        )
        found += _failures(last.failures)
    for result in results:
        hashes = {row.scenario_sha256 for row in rows if row.scenario == result.name}
        if len(hashes) > 1:
            found.append(f"{result.name}: the rows are of {len(hashes)} different scenarios of this name.")
        if len(result.seeds) < 5:
            found.append(
                f"{result.label}: {len(result.seeds)} seeds are too few; their intervals are too narrow."
            )
    return found


def _failures(failures: Sequence[FailureFields]) -> list[str]:
    """Return one sentence for each reason of failed jobs."""
    jobs_of: dict[str, list[str]] = {}
    for failure in failures:
        jobs_of.setdefault(failure.reason, []).append(failure.job)
    return [
        f"Failed: {', '.join(jobs[:5])}{f' and {len(jobs) - 5} more' if len(jobs) > 5 else ''}: {reason}."
        for reason, jobs in jobs_of.items()
    ]
