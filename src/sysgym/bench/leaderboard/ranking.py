"""Ranking of entries with intervals, suite by suite, and the page of the leaderboard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import numpy as np

from sysgym.bench import statistics
from sysgym.bench.energy import alike_words, measured_alike
from sysgym.bench.leaderboard import contest
from sysgym.bench.leaderboard.entries import Entry, read_entries
from sysgym.bench.report.data.benchmark import BenchmarkResult
from sysgym.bench.report.data.bound import bound_of, shares
from sysgym.bench.report.data.carbon import costs, energy_text
from sysgym.bench.report.markdown import plain
from sysgym.bench.results.versions import must_match
from sysgym.bench.statistics import Interval
from sysgym.bench.tables import markdown_table
from sysgym.scenarios.files import write_atomically
from sysgym.scenarios.units import with_interval

MOST_SHARE = 100.0
"""Maximum value of an episode relative to the reference contender's.

Without this limit, a single episode, such as one with a delay of zero, could determine the score.
"""


@dataclass(frozen=True)
class Line:
    """Line of the ranking, for one contender of one entry.

    Attributes:
        entry: The entry.
        contender: Name of the contender.
        score: Score, lower is better; None without rows in all scenarios.
        training: Cost of trainings as text.
        ranks: Best and worst rank that the intervals allow; None without a score.
    """

    entry: Entry
    contender: str
    score: Interval | None
    training: str
    ranks: tuple[int, int] | None = None


def rank(entries: Sequence[Entry]) -> list[Line]:
    """Return the lines of one suite's entries, the best first.

    Ranks are ranges: a contender ranks before another only if its whole interval is below the other's.
    Contenders without rows in all scenarios are at the end.
    """
    ranked, others = [], []
    for entry in entries:
        for name in entry.contenders:
            score = score_of(entry.benchmark, name)
            line = Line(entry, name, score, _training(entry, name))
            if score is None:
                others.append(line)
            else:
                ranked.append((score, line))
    ranked.sort(key=lambda one: (one[0].value, one[1].contender))
    ranges = statistics.rank_ranges([score for score, _ in ranked], higher_is_better=False)
    lines = [replace(line, ranks=ranks) for (_, line), ranks in zip(ranked, ranges, strict=True)]
    return [*lines, *others]


def score_of(benchmark: BenchmarkResult, player: str) -> Interval | None:
    """Return the score over all scenarios of the suite, lower is better; None if a scenario is missing.

    With an oracle, the score is the optimality gap in both metrics of every scenario's headline. Without an
    oracle, it is the shortfall from the values of the reference contender, which is negative for better
    values, limited to :data:`MOST_SHARE` times those of the reference. If the reference's values are not
    above zero, the score is the first metric itself, provided that lower is better and all scenarios have the
    same first metric.
    """
    missing = []
    for result in benchmark.results:
        bound = bound_of(result)
        target = bound or result.reference
        for metric in result.focus:
            goal = result.sample(target, metric.name)
            if goal is None or np.any(goal[0] <= 0.0):
                continue  # without positive values of the target, the gap is undefined
            found = shares(result, player, target, metric)
            if found is None:
                return None
            missing.append(1.0 - np.minimum(found, MOST_SHARE if bound is None else 1.0))
    if missing:
        return statistics.mean_of_means(missing)
    firsts = {result.focus[0] for result in benchmark.results}
    samples = [result.sample(player, result.focus[0].name) for result in benchmark.results]
    values = [sample[0] for sample in samples if sample is not None]
    if len(firsts) > 1 or next(iter(firsts)).higher_is_better or len(values) < len(samples):
        return None
    return statistics.mean_of_means(values)


def _training(entry: Entry, contender: str) -> str:
    """Return the cost of a contender's trainings, in total and to reach the best heuristic, as text."""
    rows = entry.benchmark.rows
    names = {
        Path(row.contender.checkpoint).parent.name
        for row in rows
        if row.contender.name == contender and row.contender.checkpoint is not None
    }
    found = [cost for cost in costs(entry.folder) if cost.name in names]
    if not found:
        return "–"
    energies = [cost.account["energy_kwh"] for cost in found if cost.account is not None]
    words = [f"{len(found)} trainings" if len(found) > 1 else "1 training"]
    if len(energies) == len(found):
        words.append(f"{energy_text(sum(energies))} in total")
    looked = [cost.reached for cost in found if cost.reached is not None]
    if looked:
        there = [one.energy_kwh for one in looked if one.steps is not None and one.energy_kwh is not None]
        if there:
            words.append(f"heuristic baseline at {energy_text(float(np.median(there)))}")
        if missed := sum(one.steps is None for one in looked):
            words.append(f"heuristic baseline not reached in {missed}")
    return ", ".join(words)


def page(entries: Sequence[Entry], root: Path, page_folder: Path) -> str:
    """Return the page of the leaderboard as Markdown.

    Args:
        entries: All entries.
        root: Root of the repository.
        page_folder: Folder of the page, to which links are relative.
    """
    return "\n".join(_lines(entries, root, page_folder)) + "\n"


def _lines(entries: Sequence[Entry], root: Path, page_folder: Path) -> Iterator[str]:
    yield "# Leaderboard"
    yield ""
    yield "<!-- Written by scripts/pages/leaderboard.py from results/entries; do not edit. -->"
    yield ""
    yield (
        "This page ranks the published entries of the contest and of each suite. Every line can be replayed: "
        "`sysgym validate results/entries/SUITE/ENTRY` replays sampled rows and compares them bit by bit. "
        "`sysgym report results/entries/SUITE/ENTRY` writes a report with the metrics of each scenario. "
        "How to submit: [CONTRIBUTING](../CONTRIBUTING.md#submitting-a-result)."
    )
    suites = list(dict.fromkeys(entry.suite for entry in entries))
    if not suites:
        yield ""
        yield "There are no entries yet."
        return
    yield from _contest(entries, root, page_folder)
    yield ""
    yield "## Suites"
    yield ""
    yield (
        "The score is the optimality gap: the mean shortfall from the oracle's values, over all scenarios of "
        "the suite and both metrics of a scenario's headline (lower is better; without an oracle, the "
        "shortfall from the reference contender's values, or the first metric itself). In brackets: 95 % "
        "bootstrap intervals over training runs and episodes. A rank is a range if intervals overlap. "
        "Training is the number of training runs and their energy; the heuristic baseline is the best "
        "heuristic on the validation split ([Energy and carbon](evaluation.md#energy-and-carbon))."
    )
    for suite in suites:
        if suite == contest.SUITE:
            continue  # the contest has a different score
        yield from _suite([entry for entry in entries if entry.suite == suite], root, page_folder)


def _contest(entries: Sequence[Entry], root: Path, page_folder: Path) -> Iterator[str]:
    found = contest.competitors(entries)
    if not found:
        return
    yield ""
    yield "## Contest: congestion control laws"
    for words in contest.words():
        yield ""
        yield words
    yield ""
    rows = []
    for one in found:
        rows.append((plain(one.law), _source(one.entry, root, page_folder), *contest.row_of(one)))
    yield markdown_table(contest.HEADS, rows)


def _suite(entries: Sequence[Entry], root: Path, page_folder: Path) -> Iterator[str]:
    yield ""
    yield f"### {plain(entries[0].suite)}: {plain(entries[0].benchmark.title)}"
    yield ""
    lines = rank(entries)
    ways = _ways(entries)
    if len({must_match(row.versions) for entry in entries for row in entry.benchmark.rows}) > 1:
        yield "Entries were made with different versions or sources; compare across entries with care."
        yield ""
    if len(ways) > 1:
        yield f"Energy was measured in different ways ({plain('; '.join(ways))}) and is not compared."
        yield ""
    shared = len(entries) == 1
    if shared:
        yield f"Entry: {_source(entries[0], root, page_folder)}."
        yield ""
    heads = ["rank", "contender", *([] if shared else ["entry"]), ">score"]
    heads += ["training"] if len(ways) == 1 else []
    rows = []
    for line in lines:
        where, score = "–", "not all scenarios"
        if line.ranks is not None and line.score is not None:
            first, last = line.ranks
            where = str(first) if first == last else f"{first} to {last}"
            value, low, high = with_interval(*line.score)
            score = f"{value} [{low}, {high}]"
        cells = [where, plain(line.contender)]
        cells += [] if shared else [_source(line.entry, root, page_folder)]
        cells += [score, *([plain(line.training)] if len(ways) == 1 else [])]
        rows.append(cells)
    yield markdown_table(heads, rows)


def _source(entry: Entry, root: Path, page_folder: Path) -> str:
    """Return a link to an entry, with its authors."""
    return f"[{plain(entry.title)}]({_relative(entry.folder, root, page_folder)}), {plain(entry.by)}"


def _ways(entries: Sequence[Entry]) -> list[str]:
    accounts = [row.energy for entry in entries for row in entry.benchmark.rows if row.energy is not None]
    return sorted({measured_alike(one): alike_words(one) for one in accounts}.values())


def _relative(folder: Path, root: Path, page_folder: Path) -> str:
    up = len(page_folder.resolve().relative_to(root.resolve()).parts)
    return "../" * up + quote(folder.resolve().relative_to(root.resolve()).as_posix())


def write_page(root: Path) -> Path:
    """Write ``docs/leaderboard.md`` in a clone of the repository and return its path."""
    target = root / "docs" / "leaderboard.md"
    write_atomically(target, render(root).encode())
    return target


def render(root: Path) -> str:
    """Return the page for a clone of the repository."""
    return page(read_entries(root / "results" / "entries"), root, root / "docs")
