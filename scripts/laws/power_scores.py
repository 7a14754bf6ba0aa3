"""Score congestion control laws by their power, as docs/beyond-classics.md says.

    python scripts/laws/power_scores.py results/beyond-classics
    python scripts/laws/power_scores.py results/beyond-classics-wide --law adaptive_swift
    python scripts/laws/power_scores.py FOLDER --page docs/beyond-classics.md --picture frontier.png
    python scripts/laws/power_scores.py results/entries/beyond-dctcp/neural --cost-of neural

Power is goodput over the product of p99 queue and p99 slowdown. An episode's score is log2 of a law's power
over that of the best classic of its scenario on the same seed. Prints the mean scores with 95 % intervals
(bootstrap over trainings, common to all scenarios, and seeds) of all laws in the rows, the law's less those
of the best classic, of tuned Swift and of HPCC, the classics that are ahead in a scenario in
goodput, p99 queue and p99 slowdown at once, and what the law costs against DCTCP by size of flow. The picture
shows p99 slowdown against p99 queue. With ``--page``, the tables replace what is between
``<!-- begin scores -->`` and ``<!-- end scores -->`` there. Rows without adaptive_target give the scores
alone. With ``--cost-of`` only what a law costs is printed, in the networks with flows that end.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from sysgym.bench.leaderboard.power import (
    CLASSICS,
    Values,
    mean_difference,
    mean_over_scenarios,
    scores_of,
    values_of,
)
from sysgym.bench.results.rows import Row, read_rows
from sysgym.bench.tables import interval_text, markdown_table

LAW = "adaptive_target"
WITH_TELEMETRY = "hpcc"
TUNED = "tuned_swift"
"""Classic with constants found by search; it is no classic in what the score compares with."""
BASELINE = "dctcp"
LIKE_LESSONS = ("incast-64", "dumbbell-10g", "incast-32-shared", "fattree-k4-websearch-shared")
"""Scenarios that lessons of the search are variations of, or that differ from one in their buffers alone."""

EQUAL = 0.001
"""Relative difference of two means that counts as none."""

SECTION = re.compile(r"(<!-- begin scores -->\n).*?(<!-- end scores -->)", re.DOTALL)
SIZES = ("small", "medium", "large", "huge")
OWN_COLOUR = "#b2182b"
COLOURS = {TUNED: "#b35806", "dctcp": "#2166ac", "swift": "#1b7837", "hpcc": "#762a83", "cubic": "#4d4d4d"}


def score_table(scores: Mapping[str, Values], own: str = LAW) -> str:
    """Return the mean scores over new scenarios and over all, and those of each training, in Markdown."""
    new = [one for scenario, one in scores.items() if scenario not in LIKE_LESSONS]
    every = list(scores.values())
    body = []
    for name in sorted(set.intersection(*map(set, every)), key=lambda law: -_mean_score(new, law)):
        intervals = [mean_over_scenarios([one[name] for one in some]) for some in (new, every)]
        body.append([name, *(interval_text(interval, 2) for interval in intervals)])
    best = max(CLASSICS, key=lambda law: _mean_score(new, law))
    others = (best, *(law for law in (TUNED, WITH_TELEMETRY) if law in new[0]))
    for other in others if own in new[0] else ():
        less = [
            mean_difference([one[own] for one in some], [one[other] for one in some]) for some in (new, every)
        ]
        body.append([f"{own} less {other}", *(interval_text(interval, 2) for interval in less)])
    heads = ["law", f">score, {len(new)} new scenarios", f">all {len(every)}"]
    parts = [markdown_table(heads, body)]
    for law in (own, TUNED):
        if law in new[0]:
            each = np.mean([one[law].mean(axis=1) for one in new], axis=0)
            trainings = ", ".join(f"{score:.2f}" for score in each)
            parts.append(f"Trainings of `{law}`, new scenarios: {trainings}.")
    return "\n\n".join(parts)


def _mean_score(scores: Sequence[Values], law: str) -> float:
    return float(np.mean([one[law].mean() for one in scores]))


def scenario_table(
    scores: Mapping[str, Values], bests: Mapping[str, str], rows: Mapping[str, list[Row]], own: str = LAW
) -> str:
    """Return the law's score in every scenario, and the classics as good in everything, in Markdown."""
    body = []
    tuned = all(TUNED in one for one in scores.values())
    for scenario, one in scores.items():
        better = list(better_in_everything(rows[scenario], own))
        jain = values_of(rows[scenario], "jain_index").get(own)
        body.append(
            [
                f"`{scenario}`",
                bests[scenario],
                interval_text(mean_over_scenarios([one[own]]), 2),
                *([interval_text(mean_over_scenarios([one[TUNED]]), 2)] if tuned else []),
                f"{one[own].mean(axis=1).min():.2f}",
                ", ".join(better) or "none",
                "–" if jain is None else f"{jain.mean():.3f}, {jain.min():.3f}",
            ]
        )
    heads = ["scenario", "best classic", f">`{own}`", *([f">`{TUNED}`"] if tuned else [])]
    heads += [">worst training of the law", "classics ahead in everything", ">Jain's index, mean and least"]
    return markdown_table(heads, body)


def better_in_everything(rows: list[Row], own: str = LAW) -> Iterator[str]:
    """Yield the classics that are ahead of the law in goodput, p99 queue and p99 slowdown.

    Ahead is not worse by more than a thousandth in any, and better by more than that in one.
    """
    signs = {"goodput_bps": 1.0, "queue_p99_bytes": -1.0, "fct_slowdown_p99": -1.0}
    found = {metric: values_of(rows, metric) for metric in signs}
    for classic in CLASSICS:
        gains = [
            signs[metric] * (one[classic].mean() / one[own].mean() - 1.0)
            for metric, one in found.items()
            if classic in one
        ]
        if gains and min(gains) >= -EQUAL and max(gains) > EQUAL:
            yield classic


def cost_table(rows: Mapping[str, list[Row]], law: str = LAW) -> str:
    """Return a law's change of goodput and of slowdowns by size against DCTCP, in Markdown.

    The mean over trainings, and in brackets that of the worst training.
    """
    metrics = {"goodput_bps": "goodput", "fct_slowdown_p50": "median", "fct_slowdown_p99": "p99"}
    for size in SIZES:
        metrics |= {f"fct_slowdown_p50_{size}": f"{size}, median", f"fct_slowdown_p99_{size}": f"{size}, p99"}
    body = []
    for scenario, some in rows.items():
        cells = []
        for metric in metrics:
            values = values_of(some, metric)
            if law not in values or BASELINE not in values:
                cells.append("–")
                continue
            changes = 100.0 * np.expm1(np.log(values[law] / values[BASELINE]).mean(axis=1))
            mean = 100.0 * math.expm1(float(np.log(values[law] / values[BASELINE]).mean()))
            worst = changes.min() if metric == "goodput_bps" else changes.max()
            cells.append(f"{mean:+.1f} ({worst:+.1f})".replace("-", "−"))
        body.append([f"`{scenario}`", *cells])
    return markdown_table([f"`{law}` against DCTCP, %", *(f">{name}" for name in metrics.values())], body)


def draw(rows: Mapping[str, list[Row]], path: Path, own: str = LAW) -> None:
    """Draw p99 slowdown against p99 queue, one panel for each scenario with flows that end."""
    shown = {name: some for name, some in rows.items() if values_of(some, "fct_slowdown_p99")}
    columns = 4 if len(shown) <= 8 else 5
    lines = -(-len(shown) // columns)
    figure = Figure(figsize=(2.9 * columns, 2.7 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    for (name, some), axes in zip(shown.items(), panels, strict=False):
        _panel(axes, name, some, own)
    figure.supxlabel("Queue, p99 (kB)")
    figure.supylabel("FCT slowdown, p99 (×)")
    figure.savefig(path, dpi=110)


def _panel(axes: Axes, name: str, rows: list[Row], own: str) -> None:
    queue, slowdown = values_of(rows, "queue_p99_bytes"), values_of(rows, "fct_slowdown_p99")
    for law in (*CLASSICS, WITH_TELEMETRY, TUNED, own):
        if law not in slowdown:
            continue
        x, y = queue[law].mean(axis=1) / 1e3, slowdown[law].mean(axis=1)
        colour = OWN_COLOUR if law == own else COLOURS.get(law, "#999999")
        axes.scatter(x, y, s=26 if law == own else 16, color=colour, zorder=3 if law == own else 2)
        if law != own:
            axes.annotate(
                law, (x[0], y[0]), fontsize=6, color=colour, xytext=(3, 2), textcoords="offset points"
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(NullFormatter())
    # A panel spans at least a factor of two, so that differences of some percent look like that.
    axes.set_xlim(*_wide_enough(axes.get_xlim()))
    axes.set_ylim(*_wide_enough(axes.get_ylim()))
    axes.set_title(name, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.3)


def _wide_enough(limits: tuple[float, float]) -> tuple[float, float]:
    low, high = limits
    widen = max(math.sqrt(2.5 * low / high), 1.0)
    return low / widen, high * widen


def main() -> None:
    """Print the tables; draw, and write them into a page, if asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--law", default=LAW, help="law that is compared with the others (%(default)s)")
    parser.add_argument("--page", type=Path, help="page whose tables are replaced")
    parser.add_argument("--picture", type=Path, help="picture to draw")
    parser.add_argument("--cost-of", metavar="LAW", help="print only what this law costs against DCTCP")
    given = parser.parse_args()
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in read_rows(given.folder):
        rows[row.scenario].append(row)
    if given.cost_of is not None:
        ending = {name: some for name, some in rows.items() if values_of(some, "fct_slowdown_p99")}
        print(cost_table(ending, given.cost_of))
        return
    scores, bests = {}, {}
    for scenario, some in rows.items():
        scores[scenario], bests[scenario] = scores_of(some)
    parts = [score_table(scores, given.law)]
    if all(given.law in one for one in scores.values()):
        parts += [scenario_table(scores, bests, rows, given.law), cost_table(rows, given.law)]
    text = "\n\n".join(parts)
    print(text)
    if given.picture is not None:
        draw(rows, given.picture, given.law)
    if given.page is not None:
        page = given.page.read_text()
        if not SECTION.search(page):
            parser.error(f"{given.page} has no marks around the scores")
        given.page.write_text(SECTION.sub(lambda marks: f"{marks[1]}\n{text}\n\n{marks[2]}", page))


if __name__ == "__main__":
    main()
