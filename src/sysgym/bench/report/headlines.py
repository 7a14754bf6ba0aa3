"""Who won, in a sentence a scenario: a lead is only called one where the seeds can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sysgym.bench.families import Metric
from sysgym.bench.report.study import Contest
from sysgym.bench.units import significant, with_interval

MOST_TIED = 5
"""How many names a sentence lists."""


@dataclass(frozen=True)
class Headline:
    """What there is to say of a scenario."""

    scenario: str
    sentences: tuple[str, ...]


def headline(contest: Contest) -> Headline:
    """Return the headline of one contest."""
    parts = [text for metric in contest.focus if (text := _leader(contest, metric))]
    sentences = ["; ".join([*parts[:1], *map(_uncapitalized, parts[1:])]) + "."] if parts else []
    for player in contest.players:
        if player.learned and player.name != contest.reference:
            sentences.append(_against_reference(contest, player.name))
    return Headline(contest.label, tuple(sentences))


def _leader(contest: Contest, metric: Metric) -> str:
    family = contest.family
    allowed = contest.enough_benefit() if metric.name == family.cost.name else None
    estimates = {name: score.estimate for (name, key), score in contest.scores.items() if key == metric.name}
    best = contest.best(metric, estimates, allowed)
    if best is None:
        return ""
    rivals = {
        player.name
        for player in contest.players
        if player.name in estimates
        and player.name != best
        and not player.privileged
        and (allowed is None or player.name in allowed)
    }
    shown = shown_interval(contest, best, metric.name)
    condition = ""
    if allowed is not None and len(allowed) < len(estimates):
        benefit = _uncapitalized(family.benefit.label)
        condition = f" (of those with at least {100 * family.enough_benefit:.0f} % of the most {benefit})"
    if not rivals:
        return f"{metric.label}: {best} with {shown}{condition}"
    tied = [name for name in rivals if not _differs(contest, name, best, metric.name)]
    tied.sort(key=lambda name: estimates[name].value, reverse=metric.higher_is_better)
    if tied:
        told = tied if len(tied) <= MOST_TIED else tied[: MOST_TIED - 1]
        words = [f"{name} ({_shown(contest, name, metric.name)})" for name in told]
        if len(told) < len(tied):
            words.append(f"{len(tied) - len(told)} others")
        others = _listed(words)
        tied_with = f"which the seeds cannot tell from {others}"
        return f"{metric.label}: {best} with {shown}, {tied_with}{condition}"
    second = contest.best(metric, estimates, rivals)
    assert second is not None
    gap = relative(estimates[best].value - estimates[second].value, estimates[second].value)
    than = f"{gap} {'as' if gap.endswith('as much') else 'than'}" if gap else "ahead of"
    return f"{metric.label}: {best} leads with {shown}, {than} the next, {second}{condition}"


def _against_reference(contest: Contest, name: str) -> str:
    parts = []
    wanted = [
        *contest.focus,
        *(metric for metric in contest.metrics if metric.name == contest.family.benefit.name),
    ]
    for metric in dict.fromkeys(wanted):
        score = contest.scores.get((name, metric.name))
        base = contest.scores.get((contest.reference, metric.name))
        if score is None or base is None or score.difference is None:
            continue
        gap = relative(score.difference.value, base.estimate.value)
        if not score.difference.excludes_zero:
            gap = "not significantly different"
        elif not gap:
            ours, theirs = (_shown(contest, one, metric.name) for one in (name, contest.reference))
            gap = f"{ours} and not {theirs}"
        parts.append(f"{_uncapitalized(metric.label)} {gap}")
    words = ", ".join(parts) or "no common episodes to compare"
    return f"{name} against {contest.reference}: {words}."


def _differs(contest: Contest, ours: str, theirs: str, metric: str) -> bool:
    difference = contest.difference(ours, theirs, metric)
    return difference is not None and difference.excludes_zero


def relative(difference: float, base: float) -> str:
    """Return a difference in words, ``12 % lower``; empty where the base is not above zero."""
    if base <= 0.0:
        return ""
    share = difference / base
    if abs(share) > 1.0:
        return f"{significant(1.0 + share, 2)} times as much" if share > 0 else "lower"
    return f"{significant(100.0 * abs(share), 2)} % {'higher' if share > 0 else 'lower'}"


def shown_interval(contest: Contest, name: str, metric: str) -> str:
    """Return ``9.71 [9.70, 9.72] Mb/s``."""
    estimate, unit = contest.scores[name, metric].estimate, contest.unit(metric)
    value, low, high = with_interval(*(unit.shown(number) for number in estimate))
    return f"{value} [{low}, {high}] {unit.symbol}".rstrip()


def _shown(contest: Contest, name: str, metric: str) -> str:
    unit = contest.unit(metric)
    value = significant(unit.shown(contest.scores[name, metric].estimate.value))
    return f"{value} {unit.symbol}".rstrip()


def _uncapitalized(text: str) -> str:
    """Return a label as it stands inside a sentence; FCT and RTT stay as they are."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
