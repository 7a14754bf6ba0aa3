"""Report of a benchmark: a self-contained HTML page, and the same content as Markdown with picture files.

``data`` computes the content, ``tables`` and ``pictures`` arrange it, and ``html`` and ``markdown`` write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sysgym.bench import surveys
from sysgym.bench.report import html, markdown
from sysgym.bench.report.content import panels
from sysgym.bench.report.data import carbon
from sysgym.bench.report.data.benchmark import BenchmarkResult, ScenarioResult, read_benchmark
from sysgym.bench.report.data.curves import read_curves
from sysgym.bench.report.data.headlines import Headline, headline
from sysgym.bench.report.data.overall import overall
from sysgym.bench.report.pictures import heatmap, over_time, plots, profiles, queues, trainings
from sysgym.bench.report.pictures.gallery import Gallery, Shown
from sysgym.bench.results.rows import COMPRESSED, RESULTS
from sysgym.bench.statistics import AVERAGE_WORDS
from sysgym.errors import SysgymError
from sysgym.scenarios.files import write_atomically

PLOTS, LIVE = "plots", "live"
"""Names of the folders of pictures and of live pages in a results folder."""


@dataclass(frozen=True)
class Written:
    """Files and headlines of a written report."""

    html: Path
    markdown: Path
    headlines: list[Headline]


@dataclass(frozen=True)
class Episode:
    """Page that plays an episode.

    Attributes:
        page: The page, self-contained HTML.
        words: Text of the link to the page.
    """

    page: str
    words: str


def write(
    folder: Path, *, reference: str | None = None, episodes: Mapping[str, Episode] | None = None
) -> Written:
    """Write ``report.html``, ``report.md`` and ``plots/`` into a results folder.

    Args:
        folder: Results folder with ``results.jsonl``.
        reference: Contender with which the others are compared; None: that of the family, if it has rows.
        episodes: Live pages by :attr:`~sysgym.bench.report.data.benchmark.ScenarioResult.slug`, which are
            written into ``live/`` and linked.

    Raises:
        SysgymError: If there are no rows, or the folder cannot be written to.
        UnknownName: If the reference has no rows.
    """
    benchmark = read_benchmark(folder, reference)
    important = [name for result in benchmark.results for name in result.in_colour]
    looks = plots.styles(benchmark.players, important)
    pages = surveys.read(folder)
    gallery = _gallery(benchmark, folder, looks)
    if gallery.matrix is not None:
        pages.append(gallery.matrix[0])
    trainings = carbon.costs(folder)
    if (reason := carbon.refusal(benchmark, trainings)) is not None:
        benchmark.warnings.append(reason)
    headlines = [headline(result) for result in benchmark.results]
    totals = overall(benchmark) if len(benchmark.results) > 1 else []
    rows_file = RESULTS if (folder / RESULTS).is_file() else COMPRESSED
    episodes = episodes or {}
    links = {name: (f"{LIVE}/{name}.html", episode.words) for name, episode in episodes.items()}

    written = Written(folder / "report.html", folder / "report.md", headlines)
    page = html.page(benchmark, headlines, gallery, totals, looks, pages, trainings, rows_file, links)
    twin = markdown.text(benchmark, headlines, gallery, totals, PLOTS, pages, trainings, rows_file, links)
    plots_folder = _own_folder(folder / PLOTS)
    for picture in gallery:
        _write(plots_folder / f"{picture.name}.png", picture.png)
    for name, episode in episodes.items():
        _write(_own_folder(folder / LIVE) / f"{name}.html", episode.page.encode())
    _write(written.html, page.encode())
    _write(written.markdown, twin.encode())
    return written


def _own_folder(path: Path) -> Path:
    """Make a folder inside the results folder; links are refused, because they could lead outside it."""
    if path.is_symlink():
        raise SysgymError(
            f"{path}: expected a folder, got a link, which could lead outside the results folder; delete it"
        )
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise SysgymError(f"{path}: cannot be created: {error.strerror or error}") from error
    return path


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(path.name + ".part")
    if part.is_symlink() or path.is_dir():
        which = part if part.is_symlink() else path
        raise SysgymError(f"{which}: expected a file that the report can replace; delete it")
    try:
        write_atomically(path, content)
    except OSError as error:
        raise SysgymError(f"{path}: the report cannot be written: {error.strerror or error}") from error


def _gallery(benchmark: BenchmarkResult, folder: Path, looks: dict[str, plots.Style]) -> Gallery:
    curves = read_curves(folder)
    names = {result.sha256: result.name for result in benchmark.results}
    trained = trainings.training_curves(curves, looks, names)
    profile = profiles.draw_profiles(benchmark, looks)
    scores = heatmap.scores_of(benchmark)
    return Gallery(
        {result.slug: _pictures(result, folder, looks) for result in benchmark.results},
        () if profile is None else (profile,),
        () if trained is None else ((trained, trainings.caption(curves)),),
        None if scores is None else (heatmap.page(scores), (heatmap.draw(scores), heatmap.caption(scores))),
    )


def _pictures(result: ScenarioResult, folder: Path, looks: dict[str, plots.Style]) -> list[Shown]:
    found = []
    if (picture := plots.tradeoff(result, looks)) is not None:
        found.append((picture, plots.tradeoff_caption(result)))
    if (shown := queues.queues_over_time(result, folder, looks)) is not None:
        found.append(shown)
    if (picture := over_time.over_time(result, looks)) is not None:
        found.append((picture, over_time.caption(result)))
    if (picture := plots.dots(result, panels(result), looks)) is not None:
        average = AVERAGE_WORDS[result.evaluation.average]
        found.append((picture, f"Every episode (ticks), {average} (marker) and its 95 % interval (bar)."))
    return found
