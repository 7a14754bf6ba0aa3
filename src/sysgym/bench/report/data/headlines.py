"""Headlines: main findings in each scenario, as sentences; a lead is stated only if it is significant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sysgym.bench.report.data.benchmark import ScenarioResult
from sysgym.bench.report.data.ranking import differs, ranking
from sysgym.scenarios.family import Metric
from sysgym.scenarios.units import significant, with_interval

MOST_TIED = 5
"""Maximum number of names in a sentence."""


@dataclass(frozen=True)
class Headline:
    """Main findings in a scenario, as sentences."""

    scenario: str
    sentences: tuple[str, ...]


def headline(result: ScenarioResult) -> Headline:
    """Return the headline of one result."""
    parts = [text for metric in result.focus if (text := _leader(result, metric))]
    sentences = ["; ".join([*parts[:1], *map(uncapitalized, parts[1:])]) + "."] if parts else []
    for player in result.players:
        if player.learned and player.name != result.reference:
            sentences.append(_against_reference(result, player.name))
    return Headline(result.label, tuple(sentences))


def _leader(result: ScenarioResult, metric: Metric) -> str:
    found = ranking(result, metric)
    if found is None:
        return ""
    evaluation, estimates = result.evaluation, found.estimates
    shown = shown_interval(result, found.best, metric.name)
    condition = ""
    if found.unranked:
        benefit = uncapitalized(evaluation.benefit.label)
        condition = f" (of those with at least {100 * evaluation.enough_benefit:.0f} % of the most {benefit})"
    if found.tied:
        others = _some(result, found.tied, metric.name)
        tied_with = f"not significantly different from {others}"
        return f"{metric.label}: {found.best} with {shown}, {tied_with}{condition}"
    if not found.worse:
        return f"{metric.label}: {found.best} with {shown}{condition}"
    second = found.worse[0]
    gap = relative(estimates[found.best].value - estimates[second].value, estimates[second].value)
    than = f"{gap} {'as' if gap.endswith('as much') else 'than'}" if gap else "ahead of"
    equals = [name for name in found.worse[1:] if not differs(result, name, second, metric.name)]
    sentence = f"{metric.label}: {found.best} leads with {shown}, {than} the next, {second}{condition}"
    if equals:
        does = "do" if len(equals) > 1 else "does"
        sentence += f"; {_some(result, equals, metric.name)} {does} not differ significantly from {second}"
    return sentence


def _some(result: ScenarioResult, names: Sequence[str], metric: str) -> str:
    """Return names with their values; of many names, the first ones and the number of the others."""
    told = names if len(names) <= MOST_TIED else names[: MOST_TIED - 1]
    words = [f"{name} ({_shown(result, name, metric)})" for name in told]
    if len(told) < len(names):
        words.append(f"{len(names) - len(told)} others")
    return listed(words)


def _against_reference(result: ScenarioResult, name: str) -> str:
    parts = []
    wanted = [
        *result.focus,
        *(metric for metric in result.metrics if metric.name == result.evaluation.benefit.name),
    ]
    for metric in dict.fromkeys(wanted):
        score = result.scores.get((name, metric.name))
        base = result.scores.get((result.reference, metric.name))
        if score is None or base is None or score.difference is None:
            continue
        gap = relative(score.difference.value, base.estimate.value)
        if not score.difference.excludes_zero:
            gap = "not significantly different"
        elif not gap:
            ours, theirs = (_shown(result, one, metric.name) for one in (name, result.reference))
            gap = f"{ours} and not {theirs}"
        parts.append(f"{uncapitalized(metric.label)} {gap}")
    words = ", ".join(parts) or "no common episodes to compare"
    return f"{name} against {result.reference}: {words}."


def relative(difference: float, base: float) -> str:
    """Return a relative difference such as ``12 % lower``; empty if the base is not above zero."""
    if base <= 0.0:
        return ""
    share = difference / base
    if abs(share) > 1.0:
        return f"{significant(1.0 + share, 2)} times as much" if share > 0 else "lower"
    return f"{significant(100.0 * abs(share), 2)} % {'higher' if share > 0 else 'lower'}"


def shown_interval(result: ScenarioResult, name: str, metric: str, *, bounds: bool = True) -> str:
    """Return an estimate as text, such as ``9.71 [9.70, 9.72] Mb/s`` or ``9.71 Mb/s``.

    Args:
        result: Results of one scenario.
        name: Name of a contender.
        metric: Name of a metric.
        bounds: Whether to include the interval.
    """
    estimate, unit = result.scores[name, metric].estimate, result.unit(metric)
    value, low, high = with_interval(*(unit.shown(number) for number in estimate))
    return f"{value} [{low}, {high}] {unit.symbol}".rstrip() if bounds else f"{value} {unit.symbol}".rstrip()


def _shown(result: ScenarioResult, name: str, metric: str) -> str:
    unit = result.unit(metric)
    value = significant(unit.shown(result.scores[name, metric].estimate.value))
    return f"{value} {unit.symbol}".rstrip()


def uncapitalized(text: str) -> str:
    """Return a label for use in a sentence: with a small first letter, except for acronyms such as FCT."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def listed(words: Sequence[str]) -> str:
    """Return words as an enumeration, such as ``a, b and c``."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
