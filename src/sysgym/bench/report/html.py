"""The report as one HTML page that loads nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

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
from sysgym.bench.report.plots import Picture, Style
from sysgym.bench.report.study import Contest, Study
from sysgym.bench.report.style import CSS
from sysgym.bench.surveys import Page


def page(
    study: Study,
    headlines: Sequence[Headline],
    pictures: Mapping[str, Sequence[tuple[Picture, str]]],
    totals: Sequence[Overall],
    looks: Mapping[str, Style],
    surveyed: Sequence[Page] = (),
    trainings: Sequence[Cost] = (),
) -> str:
    """Return the page.

    Args:
        study: What to report.
        headlines: One for each contest.
        pictures: Label of the contest (or ``"training"``) -> pictures with their captions.
        totals: The table over all scenarios.
        looks: Contender -> style.
        surveyed: Of the suite's survey.
        trainings: What they cost.
    """
    measured = is_measured(study, list(trainings))
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(study.title)}</title><style>{CSS}</style></head><body>",
        f"<h1>{escape(study.title)}</h1>",
        f'<p class="soft">{escape(study.description)}</p>',
        *(f'<p class="warn">{escape(text)}</p>' for text in study.warnings),
        _headlines(headlines),
        *(_survey(one) + _figures(pictures.get(one.title, ())) for one in surveyed),
        "<h3>How to read this</h3>",
        *(f"<p>{escape(text)}</p>" for text in [*reading_guide(study), *guide(study, list(trainings))]),
        *(_contest(contest, pictures.get(contest.label, ()), looks, measured) for contest in study.contests),
        _overall(study, totals, looks) + _figures(pictures.get("overall", ())) if totals else "",
        _training(pictures.get("training", ()), trainings, measured),
        "<h2>How this was made</h2><dl>",
        *(f"<dt>{escape(name)}</dt><dd>{_code(text)}</dd>" for name, text in facts(study)),
        "</dl></body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _headlines(headlines: Sequence[Headline]) -> str:
    items = [
        f'<li><b><a href="#{_anchor(item.scenario)}">{escape(item.scenario)}</a></b>'
        f"{'<br>'.join(escape(text) for text in item.sentences)}</li>"
        for item in headlines
    ]
    return '<ul class="headlines">' + "".join(items) + "</ul>"


def _survey(page: Page) -> str:
    heads = "".join(f"<th>{escape(column)}</th>" for column in page.columns)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in page.rows)
    return (
        f"<h2>{escape(page.title)}</h2><p>{_code(page.text)}</p>"
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>'
    )


def _contest(
    contest: Contest, pictures: Sequence[tuple[Picture, str]], looks: Mapping[str, Style], measured: bool
) -> str:
    return (
        f'<h2 id="{_anchor(contest.label)}">{escape(contest.label)}</h2>'
        f"<p>{escape(contest.title)}</p>"
        f'<p class="soft">{escape(contest.description)}</p>{_table(contest, looks, measured)}'
        f"{_figures(pictures)}"
    )


def _table(contest: Contest, looks: Mapping[str, Style], measured: bool) -> str:
    heads = ["<th>contender</th>"]
    for metric in contest.metrics:
        label, unit = heading(contest, metric)
        heads.append(f"<th>{escape(label)}<small>{escape(unit)}</small></th>")
    gaps = has_gaps(contest)
    if gaps:
        label = contest.focus[0].label
        heads.append(f"<th>Gap to {escape(bound_of(contest) or '')}<small>{escape(label)}</small></th>")
    if contest.timed:
        heads.append(f"<th>{DECISION}<small>median, this machine</small></th>")
    worth = worth_of(contest) if measured else None
    if worth is not None:
        heads.append(f"<th>{escape(worth.label)} per g CO2e<small>estimate</small></th>")
    lines = []
    for player in contest.players:
        what = player.parts
        note = "upper bound" if player.privileged else "learned" if player.learned else ""
        small = ", ".join(word for word in (what if what != player.name else "", note) if word)
        cells = [f"<td>{_key(player.name, looks)}{escape(player.name)}{_small(small)}</td>"]
        for metric in contest.metrics:
            score = contest.scores.get((player.name, metric.name))
            if score is None:
                cells.append("<td>–</td>")
                continue
            value, interval, versus = cell(contest, metric, score)
            competes = not player.privileged
            kind = "best" if score.best else "tied" if score.tied and competes else ""
            mark = "best" if score.best else "= best" if score.tied and competes else ""
            cells.append(
                f'<td class="{kind}"><span>{value}</span>'
                f"{_small(interval)}{_small(mark)}{_small(versus)}</td>"
            )
        if gaps:
            cells.append(_percent(gap(contest, player.name), better=None))
        if contest.timed:
            cells.append(f'<td class="soft">{decision(contest, player.name)}</td>')
        if worth is not None:
            value, mass = worth.cell(player.name)
            cells.append(f'<td class="soft">{value}{_small(mass)}</td>')
        lines.append(f"<tr{' class=bound' if player.privileged else ''}>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll"><table><thead><tr>{"".join(heads)}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _overall(study: Study, totals: Sequence[Overall], looks: Mapping[str, Style]) -> str:
    metrics, bound = metrics_of(study), bound_of(study)
    heads = ["<th>contender</th><th>scenarios</th>"]
    if bound is not None:
        heads.append(f"<th>Gap to {escape(bound)}<small>lower is better</small></th>")
    heads += [f"<th>{escape(metric.label)}</th>" for metric in metrics]
    lines = []
    for line in totals:
        cells = [f"<td>{_key(line.player, looks)}{escape(line.player)}</td><td>{line.n_scenarios}</td>"]
        if bound is not None:
            cells.append(_percent(line.gap, better=None))
        for metric in metrics:
            wins = line.wins.get(metric.name)
            better = None if wins is None else wins.low > 0.5
            cells.append(_percent(wins, better=better))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        "<h2>All scenarios together</h2>"
        f"<p>{escape(overall_guide(study))} Green: the interval lies above 50 %.</p>"
        f'<div class="scroll"><table><thead><tr>{"".join(heads)}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _percent(interval: tuple[float, float, float] | None, *, better: bool | None) -> str:
    if interval is None:
        return "<td>–</td>"
    value, low, high = (f"{100.0 * number:.3g}" for number in interval)
    return f'<td class="{"best" if better else ""}"><span>{value} %</span>{_small(f"[{low}, {high}]")}</td>'


def _training(pictures: Sequence[tuple[Picture, str]], trainings: Sequence[Cost], measured: bool) -> str:
    if not pictures and not trainings:
        return ""
    heads = "".join(f"<th>{escape(column)}</th>" for column in COST_COLUMNS)
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in training.cells(measured=measured))}</tr>"
        for training in trainings
    )
    table = f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>'
    return f"<h2>Training</h2>{_figures(pictures)}{table if trainings else ''}"


def _figures(pictures: Sequence[tuple[Picture, str]]) -> str:
    return "".join(
        f"<figure>{picture.svg}<figcaption>{escape(caption)}</figcaption></figure>"
        for picture, caption in pictures
    )


def _small(text: str) -> str:
    return f"<small>{escape(text)}</small>" if text else ""


def _key(name: str, looks: Mapping[str, Style]) -> str:
    look = looks[name]
    inside = look.colour if look.filled else "none"
    return f'<span class="key" style="border-color:{look.colour};background:{inside}"></span>'


def _anchor(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "-", label).strip("-")


def _code(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))
