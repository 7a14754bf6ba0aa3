"""The report of a benchmark: an HTML page that loads nothing, and a Markdown twin with its pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sysgym.bench import surveys
from sysgym.bench.report import carbon, heatmap, html, markdown, over_time, plots, profiles
from sysgym.bench.report.content import panels
from sysgym.bench.report.curves import read_curves
from sysgym.bench.report.headlines import Headline, headline
from sysgym.bench.report.overall import overall
from sysgym.bench.report.study import Contest, read_study
from sysgym.bench.rows import write_atomically
from sysgym.bench.statistics import AVERAGE_WORDS

PLOTS = "plots"


@dataclass(frozen=True)
class Written:
    """What was written, and what it says in short."""

    html: Path
    markdown: Path
    headlines: list[Headline]


def write(folder: Path, *, reference: str | None = None) -> Written:
    """Write ``report.html``, ``report.md`` and ``plots/`` into a results folder.

    Args:
        folder: With ``results.jsonl``.
        reference: Contender that others are compared with; the family's if it plays.

    Raises:
        SysgymError: There are no rows.
        UnknownName: The reference plays nowhere.
    """
    study = read_study(folder, reference)
    important = [name for contest in study.contests for name in contest.in_colour]
    looks = plots.styles(study.players, important)
    pictures = {contest.label: _pictures(contest, looks) for contest in study.contests}
    curves = read_curves(folder)
    if (picture := plots.training_curves(curves, looks)) is not None:
        pictures["training"] = [
            (picture, "Return of training episodes with exploration, mean of the last 20.")
        ]
    if (profile := profiles.draw_profiles(study, looks)) is not None:
        pictures["overall"] = [profile]
    pages = surveys.read(folder)
    scores = heatmap.scores_of(study)
    if scores is not None:
        pictures[heatmap.PAGE] = [(heatmap.draw(scores), heatmap.caption(scores))]
        pages.append(heatmap.page(scores))
    trainings = carbon.costs(folder)
    if (reason := carbon.refusal(study, trainings)) is not None:
        study.warnings.append(reason)
    headlines = [headline(contest) for contest in study.contests]
    totals = overall(study) if len(study.contests) > 1 else []

    (folder / PLOTS).mkdir(exist_ok=True)
    for shown in pictures.values():
        for picture, _ in shown:
            write_atomically(folder / PLOTS / f"{picture.name}.png", picture.png)
    written = Written(folder / "report.html", folder / "report.md", headlines)
    page = html.page(study, headlines, pictures, totals, looks, pages, trainings)
    twin = markdown.text(study, headlines, pictures, totals, PLOTS, pages, trainings)
    write_atomically(written.html, page.encode())
    write_atomically(written.markdown, twin.encode())
    return written


def _pictures(contest: Contest, looks: dict[str, plots.Style]) -> list[tuple[plots.Picture, str]]:
    found = []
    if (picture := plots.tradeoff(contest, looks)) is not None:
        benefit, cost = contest.family.benefit.label, contest.family.cost.label
        caption = (
            f"{benefit} against {cost[:1].lower()}{cost[1:]}: up and to the left is better. Bars are 95 % "
            "intervals; the dashed line joins competitors that no other beats in both."
        )
        found.append((picture, caption))
    if (picture := over_time.over_time(contest, looks)) is not None:
        found.append((picture, over_time.caption(contest)))
    if (picture := plots.dots(contest, panels(contest), looks)) is not None:
        average = AVERAGE_WORDS[contest.family.average]
        found.append((picture, f"Every episode (ticks), {average} (marker) and its 95 % interval (bar)."))
    return found
