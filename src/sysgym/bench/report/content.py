"""Texts shared by the HTML page and the Markdown report."""

from __future__ import annotations

from collections.abc import Iterator

from sysgym.bench.report.data.benchmark import BenchmarkResult, ScenarioResult, Score
from sysgym.bench.report.data.bound import bound_of, has_gaps
from sysgym.bench.report.data.headlines import listed, relative
from sysgym.bench.report.data.record import machine_text
from sysgym.bench.report.texts import printable, shown_name
from sysgym.bench.statistics import AVERAGE_WORDS
from sysgym.scenarios.family import Metric
from sysgym.scenarios.units import significant, time_text, with_interval

MOST_PANELS = 4

REFERENCE = "reference"
"""Label of contenders that read more than the observation; they are not bounds, as others can be better."""


def averages(benchmark: BenchmarkResult) -> str:
    """Return the name of the average over episodes."""
    names = dict.fromkeys(AVERAGE_WORDS[result.evaluation.average] for result in benchmark.results)
    return " or the ".join(names)


def reading_guide(benchmark: BenchmarkResult) -> list[str]:
    """Return instructions for reading the tables, as paragraphs."""
    learned = [player.name for player in benchmark.players if player.learned]
    references = [player.name for player in benchmark.players if player.privileged]
    outside = any(result.outside_split for result in benchmark.results)
    guide = [
        f"All contenders run the same episodes{'' if outside else ', none of them seen in training'}. A "
        f"number is the {averages(benchmark)} over episodes, [low, high] its 95 % bootstrap interval. The "
        "best competitor of a column is marked best; = best means not significantly different from the best.",
        f"The last line of a cell is the difference to {benchmark.reference} on the same seeds (paired "
        "bootstrap); ≈ means that its 95 % interval contains zero. There is no correction for multiple "
        "comparisons: of twenty without a real difference, one is expected to show one. Intervals can "
        "overlap although the difference is significant, because episodes vary and the comparison is made "
        "seed by seed.",
    ]
    if learned:
        guide.append(_trained(benchmark, learned))
    if constants := [f"{one.name} ({one.constants})" for one in benchmark.players if one.constants]:
        guide.append(f"Constants that are not the defaults: {'; '.join(constants)}.")
    if references:
        guide.append(
            f"{listed(references)} {_verb(references, 'reads', 'read')} quantities that no controller can "
            "observe. Such contenders are references, not competitors. They are no bounds: a competitor can "
            "be better in a metric that the reference does not optimise."
        )
    if any(has_gaps(result) for result in benchmark.results):
        guide.append(
            f'"Gap to {bound_of(benchmark)}" is the optimality gap: the mean shortfall, episode by '
            "episode, from the reference's value in the named metric (twice the reference's delay is a gap "
            "of 50 %). Episodes better than the reference count as no gap and do not compensate for others."
        )
    if any(result.has_invalid for result in benchmark.results):
        guide.append(
            '"Not valid" is the share of episodes that ended with an action that the mask forbids, or with a '
            "choice that does not solve the problem. The other metrics of such an episode are those of a "
            "substitute, which the documentation of the environment describes: do not compare contenders "
            "with many of them by these metrics alone."
        )
    if any(result.timed for result in benchmark.results):
        guide.append(
            f'"{DECISION[:1].upper()}{DECISION[1:]}" is the wall time of the agent\'s choice of an action, '
            "the median over episodes. It depends on the machine and its load, and is not compared. A "
            "transport without an agent has one that always returns the same action; its time is that of a "
            "function call."
        )
    if any(metric.name in FROM_HISTOGRAMS for result in benchmark.results for metric in result.metrics):
        guide.append(
            "Percentiles of queues and of queueing delays come from a histogram and are exact to 3 %, so "
            "that a full queue can appear as up to 3 % more than the buffer holds."
        )
    return guide


FROM_HISTOGRAMS = frozenset({"queue_p99_bytes", "queue_delay_p99_s"})
"""Metrics whose values are the centres of histogram bins."""


def _trained(benchmark: BenchmarkResult, learned: list[str]) -> str:
    runs = {
        score.n_runs
        for result in benchmark.results
        for (name, _), score in result.scores.items()
        if name in learned
    }
    if runs != {1}:
        return f"{listed(learned)}: the interval is over training runs and episodes."
    return (
        f"{listed(learned)} {_verb(learned, 'has', 'have')} one checkpoint in each scenario. The interval is "
        "over episodes only and does not include the variation between training runs."
    )


def overall_guide(benchmark: BenchmarkResult) -> str:
    """Return instructions for reading the table over all scenarios."""
    text = (
        f"Probability that a contender beats {benchmark.reference} in a random episode of a random scenario, "
        "ties counting half (probability of improvement); 50 % is a draw. Only scenarios that both have run "
        "and that have the metric count, with equal weights."
    )
    if (bound := bound_of(benchmark)) is not None:
        text += f" The gap to {bound} is the mean over all scenarios, each with its first metric."
    return text


def _verb(names: list[str], of_one: str, of_more: str) -> str:
    return of_one if len(names) == 1 else of_more


def heading(result: ScenarioResult, metric: Metric) -> tuple[str, str]:
    """Return the label of a column, and its unit and direction."""
    unit = result.unit(metric.name).symbol
    arrow = "higher is better" if metric.higher_is_better else "lower is better"
    return metric.label, f"{unit}, {arrow}" if unit else arrow


def cell(result: ScenarioResult, metric: Metric, score: Score) -> tuple[str, str, str]:
    """Return estimate, interval and difference to the reference (empty for the reference itself) as texts."""
    unit = result.unit(metric.name)
    value, low, high = with_interval(*(unit.shown(number) for number in score.estimate))
    if score.difference is None:
        return value, f"[{low}, {high}]", ""
    if not score.difference.excludes_zero:
        return value, f"[{low}, {high}]", f"≈ {result.reference}"
    base = result.estimates_of(metric.name)[result.reference].value
    words = relative(score.difference.value, base)
    if not words:
        symbol = "points" if unit.symbol == "%" else unit.symbol
        size = f"{significant(unit.shown(abs(score.difference.value)))} {symbol}".rstrip()
        words = f"{size} {'more' if score.difference.value > 0.0 else 'less'}"
    return value, f"[{low}, {high}]", words


DECISION = "time per decision"


def decision(result: ScenarioResult, player: str) -> str:
    """Return the median time of a decision as text."""
    value = result.decision_ms(player)
    return "–" if value is None else time_text(value / 1e3)


def panels(result: ScenarioResult) -> list[Metric]:
    """Return the metrics of the dot plot: the two of the headline and the next most important ones."""
    wanted = (result.evaluation.headline.name, result.evaluation.benefit.name)
    first = [metric for metric in result.metrics if metric.name in wanted]
    chosen = dict.fromkeys([*result.focus, *first, *result.metrics])
    return list(chosen)[:MOST_PANELS]


def facts(benchmark: BenchmarkResult) -> Iterator[tuple[str, str]]:
    """Yield pairs of label and text about how the results were made; text in backticks is code."""
    played = [sitting for sitting in benchmark.sittings if sitting.played] or benchmark.sittings[-1:]
    for sitting in played:
        words = f"{sitting.began}: {sitting.played or 0} episodes"
        if sitting.wall_s is not None:
            words += f", {duration(sitting.wall_s)}"
        yield "run", words
        yield "command", code(sitting.command)
    for machine in {machine_text(sitting.machine): None for sitting in played}:
        yield "machine", machine
    yield "versions", ", ".join(f"{name} {version}" for name, version in versions_of(benchmark).items())
    for result in benchmark.results:
        yield "seeds", f"{result.label}: {seeds_text(result)}"
    yield (
        "simulation",
        f"{len(benchmark.rows)} rows, {duration(sum(row.wall_s for row in benchmark.rows))} of one core",
    )
    own = dict.fromkeys(path for row in benchmark.rows for path, _ in row.contender.plugins)
    again = code(f"sysgym validate {benchmark.folder}" + " --plugin FILE" * len(own))
    # The command omits paths from rows: a user who copies it would run files that came with the results.
    copies = f", with your copies of {listed([code(path) for path in own])} for FILE," if own else ""
    yield "replay", f"{again}{copies} replays sampled rows and compares their metrics bit by bit"


def code(text: object) -> str:
    """Return a text as code between backticks."""
    return "`" + printable(text).replace("`", "'") + "`"


def versions_of(benchmark: BenchmarkResult) -> dict[str, str]:
    """Return the versions of the software that made the rows, by name."""
    found: dict[str, str] = {}
    for row in benchmark.rows:
        found |= row.versions
    return {shown_name(name): shown_name(version) for name, version in found.items()}


def seeds_text(result: ScenarioResult) -> str:
    """Return the seeds of a scenario as text, and whether they are in the split."""
    outside = result.outside_split
    if not outside:
        return f"{_ranges(result.seeds)} ({result.split} split)"
    if len(outside) == len(result.seeds):
        return f"{_ranges(outside)} (outside the {result.split} split, with its parameters)"
    return f"{_ranges(result.seeds)} ({result.split} split, but {_ranges(outside)} outside it)"


def duration(seconds: float) -> str:
    """Return a duration as text in suitable units."""
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.1f} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"


def _ranges(numbers: list[int]) -> str:
    """Return sorted integers as text, such as ``1 to 4, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
