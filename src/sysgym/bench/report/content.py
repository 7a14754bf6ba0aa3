"""Words that the page and its Markdown twin share."""

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
"""What a contender is called that reads more than the observation. It is no bound: it can be beaten."""


def averages(benchmark: BenchmarkResult) -> str:
    """Return what stands for many episodes, in words."""
    names = dict.fromkeys(AVERAGE_WORDS[result.evaluation.average] for result in benchmark.results)
    return " or the ".join(names)


def reading_guide(benchmark: BenchmarkResult) -> list[str]:
    """Return how to read the tables, a paragraph each."""
    learned = [player.name for player in benchmark.players if player.learned]
    references = [player.name for player in benchmark.players if player.privileged]
    outside = any(result.outside_split for result in benchmark.results)
    guide = [
        f"Every contender plays the same episodes{'' if outside else ', none of them seen in training'}. A "
        f"number is the {averages(benchmark)} over episodes, [low, high] its 95 % bootstrap interval. The "
        "best competitor of a column is marked best; = best means that these seeds cannot tell it from the "
        "best.",
        f"The last line of a cell compares with {benchmark.reference} on the same seeds (paired bootstrap of "
        "the difference); ≈ says that the 95 % interval of the difference has zero in it. Nothing is "
        "corrected for many comparisons: of twenty without a real difference, one shows one. Intervals can "
        "overlap where the difference is clear: episodes differ from each other, and the comparison is seed "
        "by seed.",
    ]
    if learned:
        guide.append(_trained(benchmark, learned))
    if references:
        guide.append(
            f"{listed(references)} {_verb(references, 'reads', 'read')} what no controller can observe. That "
            "makes a reference to compare with, no competitor; and no bound: a contender can be better in a "
            "metric that the reference does not aim at."
        )
    if any(has_gaps(result) for result in benchmark.results):
        guide.append(
            f'"Gap to {bound_of(benchmark)}" is the optimality gap: how much of the reference\'s '
            "value, episode by episode, is missing on average in the metric named there (twice the "
            "reference's delay is a gap of 50 %); what is better than the reference counts as no gap, and "
            "does not make up for others."
        )
    if any(result.timed for result in benchmark.results):
        guide.append(
            f'"{DECISION[:1].upper()}{DECISION[1:]}" is the wall time in which the contender\'s agent chose '
            "an action, the median over episodes, on the machine that played them: other machines, and "
            "others' work on this one, give other numbers. It is compared with nothing. A transport that no "
            "agent steers has an agent that always returns the same action; its time is that of a call."
        )
    if any(metric.name in FROM_HISTOGRAMS for result in benchmark.results for metric in result.metrics):
        guide.append(
            "Percentiles of queues and of queueing delays are read from a histogram and exact to 3 %. A "
            "queue that fills its buffer can therefore read as up to 3 % more than the buffer holds."
        )
    return guide


FROM_HISTOGRAMS = frozenset({"queue_p99_bytes", "queue_delay_p99_s"})
"""Metrics that are middles of a histogram's buckets."""


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
        f"{listed(learned)} {_verb(learned, 'was', 'were')} trained once for each scenario. The interval is "
        "over episodes only: another training run can come out differently, and this does not show it."
    )


def overall_guide(benchmark: BenchmarkResult) -> str:
    """Return how to read the table over all scenarios."""
    text = (
        f"How likely a contender beats {benchmark.reference} in an episode of a scenario taken at random, "
        "ties counting half (probability of improvement); 50 % is a draw. Only scenarios that both play and "
        "that have the metric count, each the same."
    )
    if (bound := bound_of(benchmark)) is not None:
        text += f" The gap to {bound} is over all scenarios with their first metrics."
    return text


def _verb(names: list[str], of_one: str, of_more: str) -> str:
    return of_one if len(names) == 1 else of_more


def heading(result: ScenarioResult, metric: Metric) -> tuple[str, str]:
    """Return a column's label, and unit and direction."""
    unit = result.unit(metric.name).symbol
    arrow = "higher is better" if metric.higher_is_better else "lower is better"
    return metric.label, f"{unit}, {arrow}" if unit else arrow


def cell(result: ScenarioResult, metric: Metric, score: Score) -> tuple[str, str, str]:
    """Return estimate, interval and difference to the reference, which has none, as texts."""
    unit = result.unit(metric.name)
    value, low, high = with_interval(*(unit.shown(number) for number in score.estimate))
    if score.difference is None:
        return value, f"[{low}, {high}]", ""
    if not score.difference.excludes_zero:
        return value, f"[{low}, {high}]", f"≈ {result.reference}"
    base = result.scores[result.reference, metric.name].estimate.value
    words = relative(score.difference.value, base)
    if not words:
        symbol = "points" if unit.symbol == "%" else unit.symbol
        size = f"{significant(unit.shown(abs(score.difference.value)))} {symbol}".rstrip()
        words = f"{size} {'more' if score.difference.value > 0.0 else 'less'}"
    return value, f"[{low}, {high}]", words


DECISION = "time a decision"


def decision(result: ScenarioResult, player: str) -> str:
    """Return the median time of a decision as text."""
    value = result.decision_ms(player)
    return "–" if value is None else time_text(value / 1e3)


def panels(result: ScenarioResult) -> list[Metric]:
    """Return the metrics of the dot plot: the headline's two and the next most important ones."""
    wanted = (result.evaluation.headline.name, result.evaluation.benefit.name)
    first = [metric for metric in result.metrics if metric.name in wanted]
    chosen = dict.fromkeys([*result.focus, *first, *result.metrics])
    return list(chosen)[:MOST_PANELS]


def facts(benchmark: BenchmarkResult) -> Iterator[tuple[str, str]]:
    """Yield how the results were made; what stands in backticks is code."""
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
    again = code(f"sysgym validate {benchmark.folder}")
    yield "again", f"{again} plays sampled rows again and compares their metrics bit by bit"


def code(text: object) -> str:
    """Return a text as code between backticks."""
    return "`" + printable(text).replace("`", "'") + "`"


def versions_of(benchmark: BenchmarkResult) -> dict[str, str]:
    """Return the software that made the rows: its name and version."""
    found: dict[str, str] = {}
    for row in benchmark.rows:
        found |= row.versions
    return {shown_name(name): shown_name(version) for name, version in found.items()}


def seeds_text(result: ScenarioResult) -> str:
    """Return the seeds of a scenario, and whether they are of the split."""
    outside = result.outside_split
    if not outside:
        return f"{_ranges(result.seeds)} ({result.split} split)"
    if len(outside) == len(result.seeds):
        return f"{_ranges(outside)} (outside the {result.split} split, with its parameters)"
    return f"{_ranges(result.seeds)} ({result.split} split, but {_ranges(outside)} outside it)"


def duration(seconds: float) -> str:
    """Return a duration as people say it."""
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.1f} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"


def _ranges(numbers: list[int]) -> str:
    """Return sorted whole numbers as ``1 to 4, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
