"""Pages of a benchmark's episodes: two contenders side by side, each compared with its row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from sysgym.bench.report.data.benchmark import ScenarioResult
from sysgym.bench.report.data.ranking import ranking
from sysgym.bench.results.rows import Row
from sysgym.bench.run.replay import check_source, compare
from sysgym.live.export import exported_page
from sysgym.live.frames import Frame
from sysgym.live.run import Run
from sysgym.scenarios import get_family, scenario_from_resolved

MOST_FRAMES = 500
"""Maximum number of frames of a page; a longer episode is thinned."""


class EpisodePage(NamedTuple):
    """Page of an episode.

    Attributes:
        html: The page.
        contenders: Names of the contenders on the page.
        seed: Seed of the episode.
    """

    html: str
    contenders: tuple[str, ...]
    seed: int


def rows_shown(result: ScenarioResult) -> list[Row]:
    """Return the rows of the best contender and of the reference on the first seed.

    If the reference is the best contender, or one of the two has no row, the next best contender is used.
    Contenders whose code is in a user's file are omitted, because a report runs no such code.

    Args:
        result: Results in one scenario.
    """
    found = ranking(result, result.focus[0]) if result.focus else None
    order = [] if found is None else [found.best, result.reference, *found.tied, *found.worse]
    names = list(dict.fromkeys([*order, *(player.name for player in result.players)]))
    for seed in result.seeds:
        rows = [row for name in names if (row := result.row(name, seed)) is not None]
        rows = [row for row in rows if not row.contender.plugins][:2]
        if rows:
            return sorted(rows, key=lambda row: row.contender.name != result.reference)
    return []


def episode_page(
    rows: Sequence[Row],
    folder: Path,
    *,
    trust: bool = False,
    watch: Callable[[float], None] = lambda share: None,
) -> EpisodePage:
    """Simulate the episode of some rows again, compare it with the rows, and return a page that shows it.

    Args:
        rows: Rows of one scenario and seed, one for each contender.
        folder: Results folder with the checkpoints of the rows.
        trust: Whether checkpoints may run code.
        watch: Callback with the completed share, from 0 to 1.

    Raises:
        ResultMismatch: The episode, the scenario or a checkpoint differs from that of a row.
        SysgymError: The family has no live view, or a contender cannot be created.
    """
    for row in rows:
        check_source(row, folder)
    scenario = scenario_from_resolved(rows[0].scenario_resolved)
    contenders = [replace(row.contender, trusted=trust) for row in rows]
    run = Run(scenario, rows[0].split, rows[0].seed, contenders, folder)
    frames: list[Frame] = []
    try:
        while (frame := run.next_frame()) is not None:
            frames.append(frame)
            watch(min(1.0, frame.time / run.end))
    finally:
        run.close()
    for row, lane in zip(rows, run.lanes, strict=True):
        metrics = {name: float(value) for name, value in lane.info["episode_metrics"].items()}
        again = replace(row, metrics=metrics, total_reward=lane.total_reward, steps=lane.steps)
        compare(row, again).raise_if_different()
    names = tuple(row.contender.name for row in rows)
    return EpisodePage(exported_page(run.header, frames, MOST_FRAMES), names, rows[0].seed)


def why_no_page(result: ScenarioResult, rows: Sequence[Row]) -> str:
    """Return the reason why a scenario has no page; empty if a page is possible."""
    if not get_family(result.resolved["family"]).live:
        return "its family declares no live view"
    if not rows:
        return "all its contenders come from Python files; sysgym live --plugin FILE shows them"
    return ""
