"""Report as Markdown with pictures in files, in which every text is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sysgym.bench.report import tables
from sysgym.bench.report.content import REFERENCE, facts, overall_guide, reading_guide, seeds_text
from sysgym.bench.report.data.benchmark import BenchmarkResult
from sysgym.bench.report.data.carbon import Cost, guide, is_measured
from sysgym.bench.report.data.headlines import Headline
from sysgym.bench.report.data.overall import Overall
from sysgym.bench.report.data.verdict import verdict
from sysgym.bench.report.pictures.gallery import Gallery
from sysgym.bench.report.pictures.plots import Picture
from sysgym.bench.report.tables import Cell, Column, ReportTable
from sysgym.bench.report.texts import printable
from sysgym.bench.surveys import Page

_SPECIAL = re.compile(r"(?P<interval>\[[\d., −-]+\](?![(\[:]))|(?P<mark>[\\`*_\[\]<>|~$])")
"""Characters with a meaning anywhere in a line, except the brackets of an interval."""
_BEGINNING = re.compile(r"^(\d{1,9})?((?(1)[.)]|[#+=-]))(?=[\s#=+-]|$)")
"""Characters that begin a heading, a list or a rule."""
_ADDRESS = re.compile(r"(?i)\b(www)\.|:(?=//)")
"""Texts that GitHub turns into links automatically."""


def text(
    benchmark: BenchmarkResult,
    headlines: Sequence[Headline],
    gallery: Gallery,
    totals: Sequence[Overall],
    folder: str,
    surveyed: Sequence[Page] = (),
    trainings: Sequence[Cost] = (),
    rows_file: str = "results.jsonl",
    episodes: Mapping[str, tuple[str, str]] | None = None,
) -> str:
    """Return the report as a Markdown document.

    Args:
        benchmark: Results to report.
        headlines: One headline for each result.
        gallery: The pictures.
        totals: Rows of the table over all scenarios.
        folder: Folder of the pictures, relative to the document.
        surveyed: Pages of the suite's survey.
        trainings: Costs of trainings.
        rows_file: Name of the file of rows in the same folder.
        episodes: Slug of a result -> address and text of the link to the live page of an episode.
    """
    lines = _lines(
        benchmark, headlines, gallery, totals, folder, surveyed, trainings, rows_file, episodes or {}
    )
    return "\n".join(lines) + "\n"


def _lines(
    benchmark: BenchmarkResult,
    headlines: Sequence[Headline],
    gallery: Gallery,
    totals: Sequence[Overall],
    folder: str,
    surveyed: Sequence[Page],
    trainings: Sequence[Cost],
    rows_file: str,
    episodes: Mapping[str, tuple[str, str]],
) -> Iterator[str]:
    measured = is_measured(benchmark, list(trainings))
    yield from (f"# {plain(benchmark.title)}", "", plain(benchmark.description), "")
    for warning in benchmark.warnings:
        yield from (f"> **Note:** {plain(warning)}", "")
    if words := verdict(benchmark):
        yield from (f"**{plain(words)}**", "")
    if (summary := tables.summary_table(benchmark)) is not None:
        yield from (*_table(summary), "")
    for item in headlines:
        yield f"- **{plain(item.scenario)}**: {plain(' '.join(item.sentences))}"
    yield ""
    for page in surveyed:
        yield from (f"## {plain(page.title)}", "", coded(page.text), "")
        yield from (*_table(tables.survey_table(page)), "")
        yield from _figures(gallery.of_survey(page), folder)
    for result in benchmark.results:
        yield from (f"## {plain(result.label)}", "")
        yield from (f"{plain(result.title)}. {plain(result.description)}", "")
        yield from (*_table(tables.contest_table(result, measured=measured)), "")
        yield from _figures(gallery.of_result(result), folder)
        if result.slug in episodes:
            address, words = episodes[result.slug]
            yield from (f"[{plain(words)}]({address})", "")
        digest = plain(result.sha256[:16])
        yield f"Seeds {plain(seeds_text(result))}; scenario {digest}; [rows]({rows_file})."
        yield ""
    if totals:
        yield from ("## All scenarios together", "", plain(overall_guide(benchmark)), "")
        yield from (*_table(tables.overall_table(benchmark, totals)), "")
        yield from _figures(gallery.overall, folder)
    if gallery.training or trainings:
        yield from ("## Training", "")
        yield from _figures(gallery.training, folder)
    if trainings:
        yield from (*_table(tables.training_table(trainings, measured=measured)), "")
    yield from ("## How to read this", "")
    for paragraph in [*reading_guide(benchmark), *guide(benchmark, list(trainings))]:
        yield from (plain(paragraph), "")
    yield from ("## How this was made", "")
    for name, words in facts(benchmark):
        yield f"- {plain(name)}: {coded(words)}"


def _table(grid: ReportTable) -> Iterator[str]:
    yield _line([_head(column) for column in grid.columns])
    yield _line(["---", *["---:"] * (len(grid.columns) - 1)])
    for row in grid.rows:
        yield _line([_name(row[0]), *map(_cell, row[1:])])


def _head(column: Column) -> str:
    label = plain(f"{column.label} ({column.note})" if column.note else column.label)
    return f"{plain(column.group[1])}<br>{label}" if column.group is not None else label


def _name(cell: Cell) -> str:
    # Of a contender's notes, only the mark of a reference is shown.
    kind = [note for note in cell.notes if note == REFERENCE]
    return plain(cell.text) + "".join(f" ({plain(note)})" for note in kind)


def _cell(cell: Cell) -> str:
    words = plain(cell.text)
    first = f"**{words}**" if cell.kind == "best" else words
    notes = [plain(note) for note in cell.notes if note != "best"]
    if notes and cell.notes[0].startswith("["):  # the interval is on the line of its value
        first = f"{first} {notes.pop(0)}"
    return "<br>".join([first, *([", ".join(notes)] if notes else [])])


def _figures(pictures: Sequence[tuple[Picture, str]], folder: str) -> Iterator[str]:
    for picture, caption in pictures:
        yield from (
            f"![{plain(picture.description)}]({folder}/{picture.name}.png)",
            "",
            f"*{plain(caption)}*",
            "",
        )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def plain(words: object) -> str:
    """Return text on one line, escaped so that it has no tag, link, heading, end of a cell or emphasis."""
    line = " ".join(printable(words).split()).replace("&", "&amp;")
    line = _SPECIAL.sub(lambda found: found["interval"] or f"\\{found['mark']}", line)
    line = _ADDRESS.sub(lambda found: f"{found[1]}\\." if found[1] else "\\:", line)
    return _BEGINNING.sub(lambda found: f"{found[1] or ''}\\{found[2]}", line)


def coded(words: object) -> str:
    """Return text as :func:`plain` does, except that text in backticks remains code."""
    parts = printable(words).split("`")
    return "".join(
        plain_part(part) if index % 2 == 0 else f"`{' '.join(part.split())}`" if part.strip() else ""
        for index, part in enumerate(parts)
    )


def plain_part(words: str) -> str:
    """Return a part of a line as :func:`plain` does, keeping spaces at its ends."""
    if not words.strip():
        return " " if words else ""
    before, after = " " * words[:1].isspace(), " " * words[-1:].isspace()
    return f"{before}{plain(words)}{after}"
