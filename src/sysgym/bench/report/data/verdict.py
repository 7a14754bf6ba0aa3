"""Verdict of a benchmark in one sentence, and the rankings that it is based on."""

from __future__ import annotations

from collections.abc import Sequence

from sysgym.bench.report.data.benchmark import BenchmarkResult, ScenarioResult
from sysgym.bench.report.data.headlines import MOST_TIED, listed, relative, uncapitalized
from sysgym.bench.report.data.ranking import Ranking, ranking


def rankings(benchmark: BenchmarkResult) -> list[tuple[ScenarioResult, list[Ranking]]]:
    """Return the rankings in the headline's metrics of every scenario that has any."""
    found = []
    for result in benchmark.results:
        ranked = [one for metric in result.focus if (one := ranking(result, metric)) is not None]
        if ranked:
            found.append((result, ranked))
    return found


def verdict(benchmark: BenchmarkResult) -> str:
    """Return one sentence on which contenders are best most often; empty without competitors."""
    ranked = rankings(benchmark)
    comparisons = [one for _, several in ranked for one in several]
    if not comparisons:
        return ""
    players = [player for player in benchmark.players if not player.privileged]
    wins = {
        player.name: sum(one.kind(player.name) in ("best", "tied") for one in comparisons)
        for player in players
    }
    most = max(wins.values())
    leaders = [name for name, count in wins.items() if count == most]
    who = listed(leaders) if len(leaders) <= MOST_TIED else f"{len(leaders)} contenders"
    verb = "is" if len(leaders) == 1 else "are each"
    words = f"{who} {verb} best or tied with the best in {_share(most, len(comparisons))} ({_what(ranked)})"
    learned = [player.name for player in players if player.learned and player.name not in leaders]
    if learned:
        words += f"; of the learned agents, {_counts({name: wins[name] for name in learned})}"
    return f"{words}."


def _share(count: int, total: int) -> str:
    if total == 1:
        return "the only comparison"
    return f"all {total} comparisons" if count == total else f"{count} of {total} comparisons"


def _what(ranked: Sequence[tuple[ScenarioResult, Sequence[Ranking]]]) -> str:
    labels = list(dict.fromkeys(uncapitalized(one.metric.label) for _, several in ranked for one in several))
    scenarios = ranked[0][0].label if len(ranked) == 1 else f"{len(ranked)} scenarios"
    return f"{'; '.join(labels)}; on {scenarios}"


def _counts(wins: dict[str, int]) -> str:
    groups: dict[int, list[str]] = {}
    for name, count in sorted(wins.items(), key=lambda one: -one[1]):
        groups.setdefault(count, []).append(name)
    parts = []
    for count, names in groups.items():
        who = listed(names) if len(names) <= MOST_TIED else f"{len(names)}"
        parts.append(f"{who} in {count or 'none'}")
    return ", ".join(parts)


def behind(found: Ranking, name: str) -> str:
    """Return the relative difference of a contender from the best as text; empty if there is none.

    Args:
        found: A ranking.
        name: One of its competitors.
    """
    best = found.estimates[found.best].value
    return relative(found.estimates[name].value - best, best)
