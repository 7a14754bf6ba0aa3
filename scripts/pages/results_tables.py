"""Update a page's tables of results, and the README's picture, from a results folder.

python scripts/pages/results_tables.py results/quick docs/results.md
python scripts/pages/results_tables.py results/quick README.md --scenario iroko-dumbbell-10m
python scripts/pages/results_tables.py results/stragglers docs/stragglers-tables.md --metrics 6
python scripts/pages/results_tables.py results/entries/iroko/learners docs/iroko.md --metrics 5 --returns

The tables are between ``<!-- begin results SUITE -->`` and ``<!-- end results SUITE -->``. For a suite with
a matrix, they are the heat map and its table. The folder can be an entry of the leaderboard, whose rows are
part of the repository.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sysgym.bench.contenders import Contender
from sysgym.bench.report.content import REFERENCE, cell, heading
from sysgym.bench.report.data.benchmark import RETURN, BenchmarkResult, ScenarioResult, read_benchmark
from sysgym.bench.report.data.record import read_record
from sysgym.bench.report.pictures import heatmap
from sysgym.bench.report.pictures.labels import name_points
from sysgym.bench.report.pictures.plots import draw_tradeoff, shown_points, styles
from sysgym.bench.results.rows import read_rows
from sysgym.bench.run.episodes import make_contender, play
from sysgym.bench.statistics import estimate
from sysgym.bench.tables import interval_text, markdown_table

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
IMAGES = ROOT / "docs" / "images"
PICTURE = IMAGES / "quick.png"
SECTION = r"(<!-- begin results {name} -->\n).*?(<!-- end results {name} -->)"

MARK = "†"
"""Mark of contenders that learn from other episodes than the one that they play."""

PICTURED_SCENARIO = "incast-32"
PICTURED_CONTENDERS = ("cubic", "dctcp", "ppo")
COMPARED_SCENARIO = "iroko-dumbbell-10m"
PICTURED_S = 8.6e-3
"""Simulated time on the picture's left: four rounds of requests."""


def main() -> None:
    """Rewrite the section of the page; the README also gets its picture."""
    given = parse(sys.argv[1:])
    benchmark = read_benchmark(given.folder)
    given.page.write_text(updated(given, benchmark))
    if (scores := heatmap.scores_of(benchmark)) is not None:
        picture_of(suite_of(benchmark)).write_bytes(heatmap.draw(scores).png)
    if given.page.resolve() == README:
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        draw(benchmark, given.folder)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument("--metrics", type=int, default=4, help="columns of a table")
    parser.add_argument("--returns", action="store_true", help="begin with the return of an episode")
    parser.add_argument("--scenario", help="only this scenario's table")
    return parser.parse_args(arguments)


def updated(given: argparse.Namespace, benchmark: BenchmarkResult) -> str:
    """Return the page with the tables of a benchmark."""
    suite = suite_of(benchmark)
    text: str = given.page.read_text()
    section = re.compile(SECTION.format(name=re.escape(suite)), re.DOTALL)
    assert section.search(text), f"the page has no marks around the results of {suite}"
    scores = heatmap.scores_of(benchmark)
    if scores is None:
        lines = "\n".join(tables(benchmark, given.metrics, returns=given.returns, only=given.scenario))
    else:
        lines = "\n".join(matrix(scores, picture_of(suite).relative_to(given.page.resolve().parent)))
    return section.sub(lambda marks: marks[1] + lines + "\n" + marks[2], text)


def suite_of(benchmark: BenchmarkResult) -> str:
    """Return the name of the suite that was run; an entry's folder has another name."""
    return read_record(benchmark.folder).suite.name or benchmark.folder.resolve().name


def picture_of(suite: str) -> Path:
    """Return the file of a suite's heat map."""
    return IMAGES / f"{suite}.png"


def tables(
    benchmark: BenchmarkResult, n_metrics: int, *, returns: bool, only: str | None = None
) -> Iterator[str]:
    """Yield one table for each scenario, or only one scenario's, with the most important metrics."""
    for result in benchmark.results:
        if only not in (None, result.name):
            continue
        metrics = result.metrics[:n_metrics]
        heads = [f"`{result.label}`", *(["Return"] if returns else [])]
        for metric in metrics:
            label, unit = heading(result, metric)
            heads.append(f"{label} ({unit.split(', ')[0]})" if ", " in unit else label)
        yield from ("", _line(heads), _line(["---", *["---:"] * (len(heads) - 1)]))
        scores = [result.scores_of(metric) for metric in metrics]
        for player in result.players:
            name = player.name + (f" {MARK}" if player.knows_other_episodes else "")
            cells = [f"{name} ({REFERENCE})" if player.privileged else name]
            cells += [_return(result, player.name)] if returns else []
            for metric, of_metric in zip(metrics, scores, strict=True):
                score = of_metric.get(player.name)
                value, interval, _ = cell(result, metric, score) if score else ("–", "", "")
                cells.append(
                    f"**{value}** {interval}"
                    if score and score.tied and not player.privileged
                    else f"{value} {interval}"
                )
            yield _line(cells)
    yield ""
    if any(player.knows_other_episodes for player in benchmark.players):
        yield from (f"{MARK} learns from other episodes, of the train split.", "")


def matrix(scores: heatmap.Scores, picture: Path) -> Iterator[str]:
    """Yield the heat map and its table."""
    yield from ("", f"![{heatmap.draw(scores).description}]({picture})", "")
    found = heatmap.page(scores).table
    yield from (markdown_table(found.columns, found.rows), "")


def _return(result: ScenarioResult, player: str) -> str:
    sample = result.sample(player, RETURN)
    return "–" if sample is None else interval_text(estimate(sample[0]))


def draw(benchmark: BenchmarkResult, folder: Path) -> None:
    """Draw the queue under incast over time, and goodput against delay."""
    result = next(one for one in benchmark.results if one.name == PICTURED_SCENARIO)
    looks = styles(benchmark.players)
    figure = Figure(figsize=(10.0, 3.8), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
    buffer_bytes = 0.0
    for name, contender, scenario in _pictured(result, folder):
        env, agent = make_contender(scenario, result.split, contender, folder)
        times_s, queues_bytes = [0.0], [0.0]

        def watch(
            _: int, info: dict[str, Any], t: list[float] = times_s, q: list[float] = queues_bytes
        ) -> None:
            t.append(info["time_s"])
            q.append(info["metrics"]["queue_max_bytes"])

        play(env, agent, result.seeds[0], watch)
        shown = np.asarray(times_s) <= PICTURED_S
        left.plot(
            np.asarray(times_s)[shown] * 1e3,
            np.asarray(queues_bytes)[shown] / 1e3,
            color=looks[name].colour,
            marker=looks[name].marker,
            markersize=3.5,
            linewidth=1.6,
            label=name,
        )
        buffer_bytes = scenario["queue"]["buffer_bytes"]
    left.axhline(buffer_bytes / 1e3, color="#555555", linestyle=":", linewidth=1.2)
    left.annotate("buffer", (PICTURED_S * 1e3, buffer_bytes / 1e3), ha="right", va="bottom", color="#555555")
    left.set_title("32 servers answer at once: queue of the one switch port", fontsize=10)
    left.set_xlabel("simulated time (ms)")
    left.set_ylabel("longest queue in a decision interval (kB)")
    left.set_ylim(0.0, 1.25 * buffer_bytes / 1e3)
    left.legend(frameon=False, loc="upper left", ncols=len(PICTURED_CONTENDERS), fontsize=9)
    duel = next(one for one in benchmark.results if one.name == COMPARED_SCENARIO)
    draw_tradeoff(right, duel, looks, "#222222")
    right.set_title("Iroko's dumbbell at 10 Mb/s: held-out episodes", fontsize=10)
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    name_points(right, shown_points(duel), duel.in_colour, "#222222")
    FigureCanvasAgg(figure).print_png(str(PICTURE))


def _pictured(result: ScenarioResult, folder: Path) -> Iterator[tuple[str, Contender, dict[str, Any]]]:
    """Yield who is drawn, with the scenario as recorded in the rows."""
    rows = [row for row in read_rows(folder) if row.scenario == result.name]
    for name in PICTURED_CONTENDERS:
        row = next(row for row in rows if row.contender.name == name)
        yield name, row.contender, dict(row.scenario_resolved)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
