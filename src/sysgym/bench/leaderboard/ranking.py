"""Ranking of entries with intervals, suite by suite, and the page of the leaderboard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import numpy as np

from sysgym.bench import statistics
from sysgym.bench.energy import alike_words, measured_alike
from sysgym.bench.leaderboard import contest
from sysgym.bench.leaderboard.entries import Entry, read_entries
from sysgym.bench.report.data.benchmark import BenchmarkResult, ScenarioResult
from sysgym.bench.report.data.bound import bound_of, shares
from sysgym.bench.report.data.carbon import costs, energy_text, worth_of
from sysgym.bench.report.markdown import plain
from sysgym.bench.results.versions import must_match
from sysgym.bench.statistics import Interval
from sysgym.bench.tables import markdown_table
from sysgym.scenarios.files import write_atomically
from sysgym.scenarios.units import with_interval


@dataclass(frozen=True)
class Line:
    """One contender of one entry.

    Attributes:
        entry: The entry.
        contender: Name of the contender.
        score: Score, lower is better; None without rows in all scenarios.
        parts: Label of a scenario -> first metric as text.
        per_gram: Label of a scenario -> result per gram of CO2e as text.
        training: Cost of trainings as text.
        ranks: Best and worst rank that the intervals allow; None without a score.
    """

    entry: Entry
    contender: str
    score: Interval | None
    parts: Mapping[str, str]
    per_gram: Mapping[str, str]
    training: str
    ranks: tuple[int, int] | None = None


def rank(entries: Sequence[Entry]) -> list[Line]:
    """Return the lines of one suite's entries, the best first.

    A rank is a range: a contender is better only if its whole interval is below the other's. Contenders
    without rows in all scenarios are at the end.
    """
    ranked, others = [], []
    for entry in entries:
        for name in entry.contenders:
            score = score_of(entry.benchmark, name)
            parts = {result.label: _part(result, name) for result in entry.benchmark.results}
            grams = {result.label: _gram(result, name) for result in entry.benchmark.results}
            line = Line(entry, name, score, parts, grams, _training(entry, name))
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

    With an oracle it is the optimality gap in both metrics of every scenario's headline. Without one it is
    the shortfall from the values of the reference contender, negative if they are exceeded; if these values
    are not above zero, it is the first metric itself, provided that lower is better and all scenarios share
    it.
    """
    missing = []
    for result in benchmark.results:
        bound = bound_of(result)
        target = bound or result.reference
        for metric in result.focus:
            goal = result.sample(target, metric.name)
            if goal is None or np.any(goal[0] <= 0.0):
                continue  # without values it defines no gap
            found = shares(result, player, target, metric)
            if found is None:
                return None
            missing.append(1.0 - found if bound is None else np.maximum(1.0 - found, 0.0))
    if missing:
        return statistics.mean_of_means(missing)
    firsts = {result.focus[0] for result in benchmark.results}
    samples = [result.sample(player, result.focus[0].name) for result in benchmark.results]
    values = [sample[0] for sample in samples if sample is not None]
    if len(firsts) > 1 or next(iter(firsts)).higher_is_better or len(values) < len(samples):
        return None
    return statistics.mean_of_means(values)


def _part(result: ScenarioResult, player: str) -> str:
    metric = result.focus[0]
    estimate = result.estimates_of(metric.name).get(player)
    if estimate is None:
        return "–"
    unit = result.unit(metric.name)
    value, low, high = with_interval(*(unit.shown(number) for number in estimate))
    return f"{value} [{low}, {high}] {unit.symbol}".rstrip()


def _gram(result: ScenarioResult, player: str) -> str:
    worth = worth_of(result)
    return "–" if worth is None else worth.cell(player)[0]


def _training(entry: Entry, contender: str) -> str:
    """Return the cost of a contender's trainings, in all and to reach the best heuristic, as text."""
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
    """Return the page.

    Args:
        entries: All entries.
        root: Root of the repository.
        page_folder: Folder of the page, which links are relative to.
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
        "bootstrap intervals over training runs and episodes. A rank is a range if intervals overlap."
    )
    for suite in suites:
        if suite == contest.SUITE:
            continue  # its score is another one
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
        link = f"[{plain(one.entry.title)}]({_relative(one.entry.folder, root, page_folder)})"
        rows.append((plain(one.law), f"{link}, {plain(one.entry.by)}", *contest.row_of(one)))
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
    labels = list(dict.fromkeys(label for line in lines for label in line.parts))
    metrics = {result.label: result.focus[0].label for entry in entries for result in entry.benchmark.results}
    heads = ["rank", "contender", "entry", "score"]
    heads += ["training"] if len(ways) == 1 else []
    for label in labels:
        heads.append(plain(f"{label}: {metrics[label]}"))
        heads += [plain(f"{label}: per g CO2e")] if len(ways) == 1 else []
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * 3}{' ---: |' * (len(heads) - 3)}"
    for line in lines:
        link = _relative(line.entry.folder, root, page_folder)
        where, score = "–", "not all scenarios"
        if line.ranks is not None and line.score is not None:
            first, last = line.ranks
            where = str(first) if first == last else f"{first} to {last}"
            value, low, high = with_interval(*line.score)
            score = f"{value} [{low}, {high}]"
        cells = [where, plain(line.contender), f"[{plain(line.entry.title)}]({link}), {plain(line.entry.by)}"]
        cells += [score, *([plain(line.training)] if len(ways) == 1 else [])]
        for label in labels:
            cells.append(plain(line.parts.get(label, "–")))
            cells += [plain(line.per_gram.get(label, "–"))] if len(ways) == 1 else []
        yield f"| {' | '.join(cells)} |"


def _ways(entries: Sequence[Entry]) -> list[str]:
    accounts = [row.energy for entry in entries for row in entry.benchmark.rows if row.energy is not None]
    return sorted({measured_alike(one): alike_words(one) for one in accounts}.values())


def _relative(folder: Path, root: Path, page_folder: Path) -> str:
    up = len(page_folder.resolve().relative_to(root.resolve()).parts)
    return "../" * up + quote(folder.resolve().relative_to(root.resolve()).as_posix())


def write_page(root: Path) -> Path:
    """Write ``docs/leaderboard.md`` of a clone and return its path."""
    target = root / "docs" / "leaderboard.md"
    write_atomically(target, render(root).encode())
    return target


def render(root: Path) -> str:
    """Return the page of a clone."""
    return page(read_entries(root / "results" / "entries"), root, root / "docs")
