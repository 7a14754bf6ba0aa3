"""The report as Markdown, with its pictures in files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sysgym.bench.report.bound import bound_of, gap, has_gaps
from sysgym.bench.report.carbon import COST_COLUMNS, Cost, guide, is_measured, worth_of
from sysgym.bench.report.content import (
    DECISION,
    cell,
    decision,
    facts,
    heading,
    overall_guide,
    reading_guide,
)
from sysgym.bench.report.headlines import Headline
from sysgym.bench.report.overall import Overall, metrics_of
from sysgym.bench.report.plots import Picture
from sysgym.bench.report.study import Contest, Study
from sysgym.bench.surveys import Page


def text(
    study: Study,
    headlines: Sequence[Headline],
    pictures: Mapping[str, Sequence[tuple[Picture, str]]],
    totals: Sequence[Overall],
    folder: str,
    pages: Sequence[Page] = (),
    trainings: Sequence[Cost] = (),
) -> str:
    """Return the document.

    Args:
        study: What to report.
        headlines: One for each contest.
        pictures: Label of the contest (or ``"training"``) -> pictures with their captions.
        totals: The table over all scenarios.
        folder: Where the pictures are, relative to the document.
        pages: Of the suite's survey.
        trainings: What they cost.
    """
    return "\n".join(_lines(study, headlines, pictures, totals, folder, pages, trainings)) + "\n"


def _lines(
    study: Study,
    headlines: Sequence[Headline],
    pictures: Mapping[str, Sequence[tuple[Picture, str]]],
    totals: Sequence[Overall],
    folder: str,
    pages: Sequence[Page],
    trainings: Sequence[Cost],
) -> Iterator[str]:
    measured = is_measured(study, list(trainings))
    yield from (f"# {_plain(study.title)}", "", _plain(study.description), "")
    for warning in study.warnings:
        yield from (f"> **Note:** {_plain(warning)}", "")
    for item in headlines:
        yield f"- **{_plain(item.scenario)}**: {_plain(' '.join(item.sentences))}"
    yield ""
    for page in pages:
        yield page.markdown()
        yield from _figures(pictures.get(page.title, ()), folder)
    yield from ("## How to read this", "")
    for paragraph in [*reading_guide(study), *guide(study, list(trainings))]:
        yield from (_plain(paragraph), "")
    for contest in study.contests:
        yield from (f"## {_plain(contest.label)}", "")
        yield from (f"{_plain(contest.title)}. {_plain(contest.description)}", "")
        yield from _table(contest, measured)
        yield ""
        yield from _figures(pictures.get(contest.label, ()), folder)
    if totals:
        yield from _overall(study, totals)
        yield from _figures(pictures.get("overall", ()), folder)
    if pictures.get("training") or trainings:
        yield from ("## Training", "")
        yield from _figures(pictures.get("training", ()), folder)
    if trainings:
        yield _line(COST_COLUMNS)
        yield _line(["---", *["---:"] * (len(COST_COLUMNS) - 1)])
        yield from (_line([*map(_plain, training.cells(measured=measured))]) for training in trainings)
        yield ""
    yield from ("## How this was made", "")
    for name, words in facts(study):
        yield f"- {name}: {words}"


def _table(contest: Contest, measured: bool) -> Iterator[str]:
    heads = ["contender"]
    for metric in contest.metrics:
        label, unit = heading(contest, metric)
        heads.append(_plain(f"{label} ({unit})"))
    gaps = has_gaps(contest)
    if gaps:
        heads.append(_plain(f"Gap to {bound_of(contest)} ({contest.focus[0].label})"))
    if contest.timed:
        heads.append(f"{DECISION} (median, this machine)")
    worth = worth_of(contest) if measured else None
    if worth is not None:
        heads.append(_plain(f"{worth.label} per g CO2e (estimate)"))
    yield _line(heads)
    yield _line(["---", *["---:"] * (len(heads) - 1)])
    for player in contest.players:
        cells = [_plain(player.name) + (" (upper bound)" if player.privileged else "")]
        for metric in contest.metrics:
            score = contest.scores.get((player.name, metric.name))
            if score is None:
                cells.append("–")
                continue
            value, interval, versus = cell(contest, metric, score)
            shown = f"**{value}**" if score.best else value
            tie = "= best" if score.tied and not score.best and not player.privileged else ""
            cells.append(" ".join(word for word in (shown, interval) if word))
            remarks = _plain(", ".join(word for word in (tie, versus) if word))
            cells[-1] += f"<br>{remarks}" if remarks else ""
        if gaps:
            cells.append(_percent(gap(contest, player.name)))
        if contest.timed:
            cells.append(decision(contest, player.name))
        if worth is not None:
            cells.append("<br>".join(word for word in worth.cell(player.name) if word))
        yield _line(cells)


def _overall(study: Study, totals: Sequence[Overall]) -> Iterator[str]:
    metrics, bound = metrics_of(study), bound_of(study)
    yield from ("## All scenarios together", "")
    yield from (_plain(overall_guide(study)), "")
    heads = ["contender", "scenarios"]
    if bound is not None:
        heads.append(_plain(f"Gap to {bound}"))
    heads += [_plain(metric.label) for metric in metrics]
    yield _line(heads)
    yield _line(["---", *["---:"] * (len(heads) - 1)])
    for line in totals:
        cells = [_plain(line.player), str(line.n_scenarios)]
        if bound is not None:
            cells.append(_percent(line.gap))
        yield _line([*cells, *(_percent(line.wins.get(metric.name)) for metric in metrics)])
    yield ""


def _figures(pictures: Sequence[tuple[Picture, str]], folder: str) -> Iterator[str]:
    for picture, caption in pictures:
        yield from (
            f"![{_plain(picture.description)}]({folder}/{picture.name}.png)",
            "",
            f"*{_plain(caption)}*",
            "",
        )


def _percent(interval: tuple[float, float, float] | None) -> str:
    if interval is None:
        return "–"
    value, low, high = (f"{100.0 * number:.3g}" for number in interval)
    return f"{value} % [{low}, {high}]"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(words: str) -> str:
    """Return text on one line in which nothing is a tag, a column's end or emphasis."""
    return re.sub(r"([\\|<`*])", r"\\\1", " ".join(words.split()))
