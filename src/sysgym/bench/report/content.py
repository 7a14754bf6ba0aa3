"""Words that the page and its Markdown twin share."""

from __future__ import annotations

from collections.abc import Iterator

from sysgym.bench.families import Metric
from sysgym.bench.report.bound import bound_of, has_gaps
from sysgym.bench.report.headlines import relative
from sysgym.bench.report.study import Contest, Score, Study
from sysgym.bench.statistics import AVERAGE_WORDS
from sysgym.bench.units import significant, with_interval

MOST_PANELS = 4


def averages(study: Study) -> str:
    """Return what stands for many episodes, in words."""
    names = dict.fromkeys(AVERAGE_WORDS[contest.family.average] for contest in study.contests)
    return " or the ".join(names)


def reading_guide(study: Study) -> list[str]:
    """Return how to read the tables, a paragraph each."""
    learned = [player.name for player in study.players if player.learned]
    bounds = [player.name for player in study.players if player.privileged]
    guide = [
        "Every contender plays the same episodes, none of them seen in training. A "
        f"number is the {averages(study)} over episodes, [low, high] its 95 % bootstrap interval. The best "
        "competitor of a column is marked best; = best means that these seeds cannot tell it from the best.",
        f"The last line of a cell compares with {study.reference} on the same seeds (paired bootstrap of the "
        "difference); ≈ says that the 95 % interval of the difference has zero in it. Nothing is corrected "
        "for many comparisons: of twenty without a real difference, one shows one. Intervals can overlap "
        "where the difference is clear: episodes differ from each other, and the comparison is seed by seed.",
    ]
    if learned:
        runs = {
            score.n_runs
            for contest in study.contests
            for (name, _), score in contest.scores.items()
            if name in learned
        }
        if runs == {1}:
            guide.append(
                f"{_and(learned)} {_verb(learned, 'was', 'were')} trained once for each scenario. The "
                "interval is over episodes only: another training run can come out differently, and this "
                "does not show it."
            )
        else:
            guide.append(f"{_and(learned)}: the interval is over training runs and episodes.")
    if bounds:
        guide.append(
            f"{_and(bounds)} {_verb(bounds, 'reads', 'read')} what no controller can observe: a bound to "
            "compare with, not a competitor."
        )
    if any(has_gaps(contest) for contest in study.contests):
        guide.append(
            f'"Gap to {bound_of(study)}" is the optimality gap: how much of the bound\'s value, episode by '
            "episode, is missing on average in the metric named there (twice the bound's delay is a gap of "
            "50 %); what is better than the bound counts as no gap, and does not make up for others."
        )
    if any(contest.timed for contest in study.contests):
        guide.append(
            f'"{DECISION}" is the wall time in which the contender chose an action, the median over '
            "episodes, on the machine that played them: other machines, and others' work on this one, "
            "give other numbers. It is compared with nothing."
        )
    return guide


def overall_guide(study: Study) -> str:
    """Return how to read the table over all scenarios."""
    text = (
        f"How likely a contender beats {study.reference} in an episode of a scenario taken at random, ties "
        "counting half (probability of improvement); 50 % is a draw. Only scenarios that both play and that "
        "have the metric count, each the same."
    )
    if (bound := bound_of(study)) is not None:
        text += f" The gap to {bound} is over all scenarios with their first metrics, as above."
    return text


def _verb(names: list[str], of_one: str, of_more: str) -> str:
    return of_one if len(names) == 1 else of_more


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def heading(contest: Contest, metric: Metric) -> tuple[str, str]:
    """Return a column's label, and unit and direction."""
    unit = contest.unit(metric.name).symbol
    arrow = "higher is better" if metric.higher_is_better else "lower is better"
    return metric.label, f"{unit}, {arrow}" if unit else arrow


def cell(contest: Contest, metric: Metric, score: Score) -> tuple[str, str, str]:
    """Return estimate, interval and difference to the reference, which has none, as texts."""
    unit = contest.unit(metric.name)
    value, low, high = with_interval(*(unit.shown(number) for number in score.estimate))
    if score.difference is None:
        return value, f"[{low}, {high}]", ""
    if not score.difference.excludes_zero:
        return value, f"[{low}, {high}]", f"≈ {contest.reference}"
    base = contest.scores[contest.reference, metric.name].estimate.value
    words = relative(score.difference.value, base)
    if not words:
        symbol = "points" if unit.symbol == "%" else unit.symbol
        size = f"{significant(unit.shown(abs(score.difference.value)))} {symbol}".rstrip()
        words = f"{size} {'more' if score.difference.value > 0.0 else 'less'}"
    return value, f"[{low}, {high}]", words


DECISION = "ms a decision"


def decision(contest: Contest, player: str) -> str:
    """Return the median time of a decision as text."""
    value = contest.decision_ms(player)
    return "–" if value is None else significant(value, 2)


def panels(contest: Contest) -> list[Metric]:
    """Return the metrics of the dot plot: the headline's two and the next most important ones."""
    wanted = (contest.family.headline.name, contest.family.benefit.name)
    first = [metric for metric in contest.metrics if metric.name in wanted]
    chosen = dict.fromkeys([*contest.focus, *first, *contest.metrics])
    return list(chosen)[:MOST_PANELS]


def facts(study: Study) -> Iterator[tuple[str, str]]:
    """Yield how the results were made."""
    played = [sitting for sitting in study.sittings if sitting.get("played")] or study.sittings[-1:]
    for sitting in played:
        words = f"{sitting['began']}: {sitting.get('played', 0)} episodes"
        if "wall_s" in sitting:
            words += f", {duration(sitting['wall_s'])}"
        yield "run", words
        yield "command", f"`{sitting['command']}`"
    for machine in {_machine(sitting): None for sitting in played}:
        yield "machine", machine
    yield "versions", ", ".join(f"{name} {version}" for name, version in _versions(study).items())
    for contest in study.contests:
        yield "seeds", f"{contest.label}: {_ranges(contest.seeds)} ({contest.split} split)"
    yield (
        "simulation",
        f"{len(study.rows)} rows, {duration(sum(row.wall_s for row in study.rows))} of one core",
    )
    yield "again", f"`sysgym validate {study.folder}` plays sampled rows again and compares them bit by bit"


def _versions(study: Study) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in study.rows:
        found |= row.versions
    return found


def _machine(sitting: object) -> str:
    data = sitting.get("machine", {}) if isinstance(sitting, dict) else {}
    memory = data.get("memory_bytes")
    words = f"{data.get('processor', '?')}, {data.get('cpus', '?')} CPUs"
    return words + (f", {memory / 2**30:.0f} GiB" if memory else "") + f", {data.get('platform', '?')}"


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
