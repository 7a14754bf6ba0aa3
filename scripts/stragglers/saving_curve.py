"""Draw what mitigation saves against the work that it throws away, and print savings at equal waste.

    python scripts/stragglers/saving_curve.py results/mitigation docs/images/mitigation.png
    python scripts/stragglers/saving_curve.py results/mitigation m.png --page docs/stragglers-tables.md
    python scripts/stragglers/saving_curve.py results/mitigation m.png --reference speed-copy

Every agent plays the same jobs with several values of the constant that decides how much it acts (the suite
mitigation). Its curve is the upper hull of these points and of doing nothing: using one of two settings
at random reaches every point between them. A saving at equal waste is the height of that curve, as a mean
over jobs. Intervals are percentiles of a bootstrap over jobs. Differences from ``--reference`` are paired.

The curve chooses settings on the jobs that are shown, which flatters agents with many points. So a second
table chooses them for every job on the others: one setting or two at random, with 5 % waste on the other
nine tenths of the jobs. What they save and waste on jobs that had no part in the choice is printed.

With ``--page``, the first tables also replace what is between ``<!-- begin results mitigation -->`` and
``<!-- end results mitigation -->`` there. Agents with no saving at any waste are named below each table.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sysgym.agents import agent_info
from sysgym.bench.results.rows import Row, read_rows
from sysgym.bench.tables import markdown_table

Array = NDArray[np.float64]
Group = tuple[str, str]
"""Agent and action."""

SECTION = re.compile(r"(<!-- begin results mitigation -->\n).*?(<!-- end results mitigation -->)", re.DOTALL)
MARK = "†"
WASTE_PERCENT = (1.0, 2.0, 5.0, 10.0)
REFERENCE: Group = ("spark", "copy")
RESAMPLES, SEED = 2000, 0
HELD_OUT_WASTE_PERCENT, N_FOLDS = 5.0, 10
COLOURS = {
    "transfer": "#b2182b",
    "speed": "#d6a300",
    "spark": "#2166ac",
    "wrangler": "#1b7837",
    "clock": "#762a83",
    "nurd": "#e08214",
    "iforest": "#35978f",
    "flag_all": "#4d4d4d",
}
"""Agents with a colour; others are grey points."""
LEAST_WASTE_SHOWN, LEAST_SAVING_SHOWN = 0.3, -6.0
ORACLE: Group = ("oracle", "relaunch")
BEST_RETURNS = 5
LEAST_CURVES = 2
"""Agents with several settings that a scenario needs for a panel."""


class Points(NamedTuple):
    """Settings of one agent with one action.

    Attributes:
        saved: Share of the completion time saved, %, shape (n_points, n_jobs); a mean over trainings.
        wasted: Share of the machine time thrown away, %, likewise.
    """

    saved: Array
    wasted: Array


def main() -> None:
    """Print a table for each scenario and draw one panel for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--jobs", type=int, help="only so many jobs, the first ones")
    parser.add_argument("--page", type=Path, help="page whose tables are replaced")
    parser.add_argument("--reference", default="-".join(REFERENCE), help="AGENT-ACTION of the differences")
    given = parser.parse_args()
    agent, _, action = given.reference.rpartition("-")
    by_scenario: dict[str, list[Row]] = defaultdict(list)
    for row in read_rows(given.folder):
        by_scenario[row.scenario].append(row)
    found = {scenario: points_of(rows, given.jobs) for scenario, rows in by_scenario.items()}
    if missing := [scenario for scenario, groups in found.items() if (agent, action) not in groups]:
        parser.error(f"no rows of {given.reference} in {', '.join(missing)}")
    tables = {scenario: table(scenario, groups, (agent, action)) for scenario, groups in found.items()}
    for scenario, groups in found.items():
        print(f"\n{tables[scenario]}")
        print_held_out(scenario, groups, (agent, action))
        print_returns(scenario, by_scenario[scenario])
    if given.page is not None:
        text = given.page.read_text()
        if not SECTION.search(text):
            parser.error(f"{given.page} has no marks around the results of mitigation")
        lines = "\n".join(f"\n{one}" for one in tables.values())
        given.page.write_text(SECTION.sub(lambda marks: f"{marks[1]}{lines}\n{marks[2]}", text))
    drawn = {
        scenario: groups
        for scenario, groups in found.items()
        if sum(len(points.saved) > 1 for points in groups.values()) >= LEAST_CURVES
    }
    figure = Figure(figsize=(4.6 * len(drawn), 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(drawn), squeeze=False)[0]
    for (scenario, groups), axes in zip(drawn.items(), panels, strict=True):
        draw(axes, scenario, groups)
    panels[0].set_ylabel("Completion time saved, %")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(given.picture, dpi=120)


def points_of(rows: list[Row], n_jobs: int | None = None) -> dict[Group, Points]:
    """Return the points of every agent and action, with jobs in the order of their seeds.

    Args:
        rows: Rows of one scenario.
        n_jobs: Number of jobs; None: all.
    """
    found: dict[Group, dict[str, dict[int, list[tuple[float, float]]]]] = defaultdict(dict)
    for row in rows:
        if "waste_share" not in row.metrics or row.contender.agent == "none":
            continue
        parameters = dict(row.contender.parameters)
        action = str(parameters.pop("action", "relaunch"))
        jobs = found[row.contender.agent, action].setdefault(repr(sorted(parameters.items())), {})
        percent = (100.0 * row.metrics["completion_reduction"], 100.0 * row.metrics["waste_share"])
        jobs.setdefault(row.seed, []).append(percent)
    groups = {}
    for group, settings in found.items():
        values = np.array(
            [[np.mean(jobs[seed], axis=0) for seed in sorted(jobs)[:n_jobs]] for jobs in settings.values()]
        )
        groups[group] = Points(values[..., 0], values[..., 1])
    return groups


def table(scenario: str, groups: Mapping[Group, Points], reference: Group = REFERENCE) -> str:
    """Return savings at equal waste, and differences from the reference, in Markdown."""
    n_jobs = next(iter(groups.values())).saved.shape[1]
    weights = _bootstrap_weights(n_jobs)
    savings = {group: _savings(points, weights) for group, points in groups.items()}
    title = f"`{scenario}`, completion time saved in % on {n_jobs} jobs"
    heads = [title, *(f">at {waste:g} % waste" for waste in WASTE_PERCENT)]
    at_five = WASTE_PERCENT.index(5.0)
    rows, useless = [], []
    for group, found in sorted(savings.items(), key=lambda item: -item[1][0, at_five]):
        if not found[0].any():
            useless.append("-".join(group))
            continue
        cells = [_interval(found[:, column]) for column in range(len(WASTE_PERCENT))]
        gain = _interval(found[:, at_five] - savings[reference][:, at_five]) if group != reference else ""
        rows.append([_marked(group), *cells, gain])
    lines = [markdown_table([*heads, f">less {'-'.join(reference)} at 5 %"], rows), ""]
    lines.append(f"{MARK} learns from other jobs. No saving at any waste: {', '.join(useless) or 'none'}.")
    return "\n".join(lines)


def _marked(group: Group) -> str:
    info = agent_info(group[0], "stragglers")
    return "-".join(group) + (f" {MARK}" if info.learned or info.fits_train_split else "")


def print_held_out(scenario: str, groups: Mapping[Group, Points], reference: Group = REFERENCE) -> None:
    """Print what settings save and waste on jobs that had no part in their choice."""
    n_jobs = next(iter(groups.values())).saved.shape[1]
    weights = _bootstrap_weights(n_jobs)
    found = {group: held_out(points, HELD_OUT_WASTE_PERCENT) for group, points in groups.items()}
    subtracted = weights @ found[reference][0]
    less = f"less {'-'.join(reference)}"
    print(f"\n| `{scenario}`, settings chosen on other jobs | saved, % | wasted, % | {less} |")
    print("| --- | ---: | ---: | ---: |")
    for group, (saved, wasted) in sorted(found.items(), key=lambda item: -item[1][0].mean()):
        means = weights @ saved
        gain = _interval(means - subtracted) if group != reference else ""
        print(f"| {'-'.join(group)} | {_interval(means)} | {_interval(weights @ wasted)} | {gain} |")


def print_returns(scenario: str, rows: list[Row]) -> None:
    """Print the contenders with the best mean returns, in which waste has the scenario's price."""
    returns: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if not row.contender.privileged:
            returns[row.contender.name].append(row.total_reward)
    means = {name: float(np.mean(values)) for name, values in returns.items()}
    best = sorted(means, key=means.__getitem__, reverse=True)[:BEST_RETURNS]
    print(f"\n{scenario}, best mean returns: " + ", ".join(f"{name} {means[name]:.3f}" for name in best))


def held_out(points: Points, waste_percent: float) -> tuple[Array, Array]:
    """Return saving and waste of every job under the settings chosen on other jobs.

    Args:
        points: The settings.
        waste_percent: Waste that the settings have, as a mean, on the jobs on which they are chosen.
    """
    n_jobs = points.saved.shape[1]
    saved, wasted = np.empty(n_jobs), np.empty(n_jobs)
    for fold in range(N_FOLDS):
        jobs = np.arange(n_jobs) % N_FOLDS == fold
        shares = mixture_at(
            points.saved[:, ~jobs].mean(axis=1), points.wasted[:, ~jobs].mean(axis=1), waste_percent
        )
        saved[jobs], wasted[jobs] = shares @ points.saved[:, jobs], shares @ points.wasted[:, jobs]
    return saved, wasted


def mixture_at(saved: Array, wasted: Array, waste_percent: float) -> Array:
    """Return the share of each point in the point of the upper hull with this waste, shape (n_points,).

    The shares have the sum 1, or less where nothing is done for the rest of the jobs.
    """
    hull = upper_hull(saved, wasted)
    corners = [int(np.flatnonzero((wasted == w) & (saved == s))[0]) for w, s in hull[1:]]
    shares = np.zeros(len(saved))
    if not corners:
        return shares
    upper = int(np.searchsorted(hull[:, 0], waste_percent))
    if upper == len(hull):
        shares[corners[-1]] = 1.0
        return shares
    below, above = hull[upper - 1, 0], hull[upper, 0]
    share = (waste_percent - below) / (above - below)
    shares[corners[upper - 1]] = share
    if upper > 1:
        shares[corners[upper - 2]] = 1.0 - share
    return shares


def _bootstrap_weights(n_jobs: int) -> Array:
    """Return weights of jobs, shape (1 + RESAMPLES, n_jobs): first equal ones, then those of resamples."""
    rng = np.random.default_rng(SEED)
    weights = rng.multinomial(n_jobs, np.full(n_jobs, 1.0 / n_jobs), RESAMPLES) / n_jobs
    return np.vstack([np.full(n_jobs, 1.0 / n_jobs), weights])


def _savings(points: Points, weights: Array) -> Array:
    """Return the saving at each level of waste, shape (n_resamples, n_levels)."""
    saved, wasted = weights @ points.saved.T, weights @ points.wasted.T
    return np.array([saving_at(s, w) for s, w in zip(saved, wasted, strict=True)])


def saving_at(saved: Array, wasted: Array) -> Array:
    """Return the height of the upper hull at each of WASTE_PERCENT.

    Args:
        saved: Mean saving of each point, shape (n_points,).
        wasted: Its mean waste.
    """
    hull = upper_hull(saved, wasted)
    return np.interp(WASTE_PERCENT, hull[:, 0], hull[:, 1])


def upper_hull(saved: Array, wasted: Array) -> Array:
    """Return the corners (waste, saving) of the upper hull of points and (0, 0), up to the largest saving."""
    hull = [(0.0, 0.0)]
    for waste, saving in sorted(zip(wasted, saved, strict=True)):
        if saving <= hull[-1][1]:
            continue
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-2], (waste, saving)):
            hull.pop()
        hull.append((float(waste), float(saving)))
    return np.array(hull)


def _slope(start: tuple[float, float], end: tuple[float, float]) -> float:
    return (end[1] - start[1]) / max(end[0] - start[0], 1e-12)


def _interval(values: Array) -> str:
    """Return the first value with the percentile interval of the others."""
    low, high = np.percentile(values[1:], (2.5, 97.5))
    return f"{values[0]:.1f} [{low:.1f}, {high:.1f}]"


def draw(axes: Axes, scenario: str, groups: Mapping[Group, Points]) -> None:
    """Draw copies as solid lines, relaunches as dashed ones, and other agents as grey points."""
    for (agent, action), points in groups.items():
        saved, wasted = points.saved.mean(axis=1), points.wasted.mean(axis=1)
        name = f"{agent}, {'relaunches' if action == 'relaunch' else 'copies'}"
        if (agent, action) == ORACLE:
            axes.plot(wasted, saved, "*", color="black", markersize=11, label="oracle")
        elif agent not in COLOURS:
            axes.plot(wasted, saved, "o", color="0.75", markersize=3, zorder=1)
        elif saved.max() > 0.0:
            dashed, colour = action == "relaunch", COLOURS[agent]
            hull = upper_hull(saved, wasted)
            line = "o--" if dashed else "o-"
            face = "white" if dashed else colour
            label = name if agent in ("transfer", "spark") or not dashed else None
            axes.plot(*hull[1:].T, line, color=colour, markerfacecolor=face, markersize=4.5, label=label)
    axes.set_xscale("log")
    axes.set_xlim(LEAST_WASTE_SHOWN, 60.0)
    axes.set_ylim(bottom=max(axes.get_ylim()[0], LEAST_SAVING_SHOWN))
    axes.set_xticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    axes.minorticks_off()
    axes.set_xlabel("Machine time thrown away, % of the job's")
    axes.set_title(scenario, fontsize=11)
    axes.grid(alpha=0.3)


if __name__ == "__main__":
    main()
