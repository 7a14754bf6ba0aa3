"""Performance profiles: share of episodes better than each threshold, over common scenarios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sysgym.bench import statistics
from sysgym.bench.report.data.benchmark import ALL_IN_COLOUR, BenchmarkResult, ScenarioResult
from sysgym.bench.report.data.bound import bound_of, shares
from sysgym.bench.report.pictures.plots import Picture, Style, log_scale, make_picture, tidy
from sysgym.bench.report.texts import in_picture
from sysgym.bench.statistics import FloatArray
from sysgym.scenarios.family import Metric

FEWEST_SEEDS = 5
POINTS = 201
LOG_BELOW = 0.1
"""Share below which the value of the median contender makes the scale logarithmic."""


@dataclass(frozen=True)
class Panel:
    """Panel of performance profiles.

    Attributes:
        title: Metric.
        x_label: Meaning of a threshold.
        higher_is_better: Direction of the scores.
        strata: Contender -> scores, one array of shape (n_runs, n_seeds) for each scenario.
        relative: Whether scores are relative to a contender's value.
    """

    title: str
    x_label: str
    higher_is_better: bool
    strata: Mapping[str, Sequence[FloatArray]]
    relative: bool


def panels(benchmark: BenchmarkResult) -> tuple[list[ScenarioResult], list[Panel]]:
    """Return the scenarios whose episodes are combined, and a panel for each of the two headline metrics.

    Scenarios with fewer than :data:`FEWEST_SEEDS` seeds are ignored. The scenarios are those that every
    trained agent has played. If these are fewer than two or have no scores, all scenarios are used; if these
    have no scores either, scenarios with the same first metric are used.
    """
    enough = [result for result in benchmark.results if len(result.seeds) >= FEWEST_SEEDS]
    learned = {player.name for player in benchmark.players if player.learned}
    groups = [[one for one in enough if learned <= {player.name for player in one.players}], enough]
    firsts = [result.focus[0] for result in enough]
    for metric in sorted(dict.fromkeys(firsts), key=firsts.count, reverse=True):
        groups.append([one for one in enough if one.focus[0] == metric])
    for results in groups:
        if len(results) > 1 and (found := _panels(benchmark, results)):
            return results, found
    return [], []


def _panels(benchmark: BenchmarkResult, results: Sequence[ScenarioResult]) -> list[Panel]:
    names = [
        player.name
        for player in benchmark.players
        if all(player.name in {one.name for one in result.players} for result in results)
    ]
    found = []
    for rank in range(2):
        if len(names) > 1 and all(len(result.focus) > rank for result in results):
            panel = _panel(benchmark, results, names, [result.focus[rank] for result in results])
            if panel is not None:
                found.append(panel)
    return found


def _panel(
    benchmark: BenchmarkResult,
    results: Sequence[ScenarioResult],
    names: Sequence[str],
    metrics: Sequence[Metric],
) -> Panel | None:
    title = " / ".join(dict.fromkeys(metric.label for metric in metrics))
    bounds = {bound_of(result) for result in results}
    target = bounds.pop() if len(bounds) == 1 else None
    target = target or (benchmark.reference if benchmark.reference in names else None)
    if target is not None:
        strata = {
            name: [shares(one, name, target, metric) for one, metric in zip(results, metrics, strict=True)]
            for name in names
            if name != target
        }
        kept = {
            name: [sample for sample in samples if sample is not None]
            for name, samples in strata.items()
            if all(sample is not None for sample in samples)
        }
        if kept:
            return Panel(title, f"share of {target}'s value", True, kept, relative=True)
    if len(set(metrics)) > 1:
        return None  # metrics in different units cannot be combined
    (metric,) = set(metrics)
    own = {name: [one.sample(name, metric.name) for one in results] for name in names}
    complete = {
        name: [sample[0] for sample in samples if sample is not None]
        for name, samples in own.items()
        if all(sample is not None for sample in samples)
    }
    unit = results[0].unit(metric.name)
    scaled = {name: [sample / unit.size for sample in samples] for name, samples in complete.items()}
    label = f"{metric.label} ({unit.symbol})" if unit.symbol else metric.label
    return Panel(title, label, metric.higher_is_better, scaled, relative=False) if scaled else None


def thresholds_of(panel: Panel) -> tuple[FloatArray, bool]:
    """Return the thresholds of a panel, and whether the scale is logarithmic."""
    pooled = [np.concatenate([one.ravel() for one in strata]) for strata in panel.strata.values()]
    values = np.concatenate(pooled)
    values = values[np.isfinite(values)]
    low, high = np.percentile(values, [0.5, 99.5])
    if panel.relative:
        high = min(max(high, 1.0), 1e3) * 1.03
        if np.median([np.median(one) for one in pooled]) < LOG_BELOW or high > 10.0:
            low = max(low, high * 1e-4)
            return np.geomspace(low * 0.97, high, POINTS), True
        return np.linspace(max(low - 0.03, 0.0), high, POINTS), False
    margin = 0.02 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, POINTS), False


def draw_profiles(benchmark: BenchmarkResult, looks: Mapping[str, Style]) -> tuple[Picture, str] | None:
    """Return the picture of profiles and its caption; None unless several scenarios have enough seeds."""
    results, shown = panels(benchmark)
    if not shown:
        return None
    names = list(dict.fromkeys(name for panel in shown for name in panel.strata))
    in_colour = {name for result in results for name in result.in_colour}
    strong = set(names) if len(names) <= ALL_IN_COLOUR else in_colour
    columns_of_legend = 6 if max(map(len, names)) <= 14 else 3
    rows = -(-len(strong & set(names)) // columns_of_legend)

    def draw(figure: Figure, ink: str) -> None:
        columns = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        for axes, panel in zip(columns, shown, strict=True):
            thresholds, logarithmic = thresholds_of(panel)
            for name, strata in panel.strata.items():
                _curve(axes, panel, strata, thresholds, looks[name] if name in strong else None, name, ink)
            if logarithmic:
                log_scale(axes, "x", wide=thresholds[-1] > 30.0 * thresholds[0])
            if panel.relative:
                axes.axvline(1.0, color=ink, linestyle=":", linewidth=1.0, alpha=0.6)
            if not panel.higher_is_better:
                axes.invert_xaxis()  # better is to the right, as in the other panels
            axes.set_title(in_picture(panel.title, 60, lines=2), fontsize=10, loc="left")
            axes.set_xlabel(in_picture(f"τ: {panel.x_label}", 60, lines=2))
            axes.set_ylim(-0.02, 1.02)
            tidy(axes, ink, grid="both")
        columns[0].set_ylabel("share of episodes better than τ")
        handles = {
            label: handle
            for axes in columns
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=columns_of_legend,
            frameon=False,
            fontsize=9,
        )

    titles = "; ".join(f"{panel.title} as {panel.x_label}" for panel in shown)
    words = f"Performance profiles of {', '.join(names)}: {titles}"
    return make_picture("profiles", words, draw, (9.6, 3.4 + 0.24 * rows)), _caption(
        results, all(name in strong for name in names)
    )


def _curve(
    axes: Any,
    panel: Panel,
    strata: Sequence[FloatArray],
    thresholds: FloatArray,
    look: Style | None,
    name: str,
    ink: str,
) -> None:
    """Draw the curve of one contender, in the background if it has no style."""
    sign = 1.0 if panel.higher_is_better else -1.0
    order = slice(None, None, int(sign))
    profile = statistics.performance_profile([sign * one for one in strata], (sign * thresholds)[order])
    value, low, high = (part[order] for part in profile)
    if look is None:
        axes.plot(thresholds, value, color=ink, alpha=0.28, linewidth=0.9, drawstyle="steps-post", zorder=1)
        return
    axes.plot(
        thresholds,
        value,
        color=look.colour,
        label=in_picture(name, 28),
        linewidth=1.8,
        linestyle="-" if look.filled else "--",
        marker=look.marker,
        markerfacecolor=look.face,
        markersize=0.65 * look.size,
        markevery=(_place(name) % 25, 25),
        drawstyle="steps-post",
    )
    axes.fill_between(thresholds, low, high, color=look.colour, alpha=0.13, linewidth=0.0, step="post")


def _place(name: str) -> int:
    """Return a number derived from a name, the same in all processes, to place the first marker."""
    return sum(index * byte for index, byte in enumerate(name.encode(), 1))


def _caption(results: Sequence[ScenarioResult], everyone: bool) -> str:
    labels = ", ".join(result.label for result in results)
    return (
        f"Performance profiles over {labels}, with equal weights of scenarios: the share of episodes that "
        "are better than a threshold τ, for every threshold. A contender whose curve is above another's "
        "everywhere is better at every threshold; if curves cross, it depends on the threshold. Bands are "
        "95 %, pointwise."
    ) + ("" if everyone else " Contenders in the background of other pictures are thin and grey here too.")
