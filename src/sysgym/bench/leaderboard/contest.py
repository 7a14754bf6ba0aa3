"""Contest of congestion control laws: scores, sharing and tracks of all entries that have played its suite.

A law takes part if its entry has rows of the law and of the classics in every episode of the suite; the entry
may belong to another suite. A law competes in the tracks that the facts in its neighbour rows allow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sysgym.bench.contenders import Contender
from sysgym.bench.leaderboard.entries import Entry
from sysgym.bench.leaderboard.neighbours import NEIGHBOURS, SEEDS, Sharing, sharing_of
from sysgym.bench.leaderboard.power import CLASSICS, mean_over_scenarios, scores_of
from sysgym.bench.results.rows import Row
from sysgym.bench.statistics import Interval, rank_ranges
from sysgym.bench.tables import interval_text
from sysgym.scenarios import load_scenario, load_suite
from sysgym.studies.law_facts import LawFacts
from sysgym.studies.neighbours import read_rows

SUITE = "contest"


def _any_signal(facts: LawFacts) -> bool:
    return True


def _end_to_end(facts: LawFacts) -> bool:
    return not facts.switches


def _on_kernel(facts: LawFacts) -> bool:
    return facts.kernel


TRACKS = {"INT allowed": _any_signal, "end to end": _end_to_end, "on the kernel": _on_kernel}
"""Track -> function that returns whether a law with the given facts competes in it."""


@dataclass(frozen=True)
class Competitor:
    """Law of one entry in the contest.

    Attributes:
        entry: The entry.
        law: Name of the law.
        score: Mean score over the networks; 0 is the power of the best classic of each, 1 twice that power.
        worst: Mean score of the worst training; None if there is only one.
        sharing: Sharing with neighbours; None if the entry lacks the neighbour rows.
        ranks: Track -> best and worst rank that the intervals allow; tracks in which the law does not compete
            are absent.
    """

    entry: Entry
    law: str
    score: Interval
    worst: float | None
    sharing: Sharing | None
    ranks: Mapping[str, tuple[int, int]]


def competitors(entries: Sequence[Entry]) -> list[Competitor]:
    """Return the laws that take part, in descending order of their scores."""
    cells = _cells()
    found = [one for entry in entries for one in _of_entry(entry, cells)]
    found.sort(key=lambda one: (-one.score.value, one.law))
    ranks: list[dict[str, tuple[int, int]]] = [{} for _ in found]
    for track, admits in TRACKS.items():
        inside = [k for k, one in enumerate(found) if one.sharing is not None and admits(one.sharing.facts)]
        ranges = rank_ranges([found[k].score for k in inside], higher_is_better=True)
        for k, places in zip(inside, ranges, strict=True):
            ranks[k][track] = places
    return [
        Competitor(one.entry, one.law, one.score, one.worst, one.sharing, places)
        for one, places in zip(found, ranks, strict=True)
    ]


def _cells() -> dict[str, set[tuple[str, int]]]:
    """Return the episodes of the suite, as digest of a scenario -> pairs (split, seed)."""
    found: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for task in load_suite(SUITE).tasks:
        found[load_scenario(task.scenario).sha256()] |= {(task.split, seed) for seed in task.seed_values}
    return found


def _of_entry(entry: Entry, cells: Mapping[str, set[tuple[str, int]]]) -> Iterator[Competitor]:
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in entry.benchmark.rows:
        if (row.split, row.seed) in cells.get(row.scenario_sha256, ()):
            rows[row.scenario_sha256].append(row)
    if set(rows) != set(cells):
        return
    complete = [law for law in entry.contenders if _has_all(law, rows, cells)]
    if not complete or not all(_has_all(law, rows, cells) for law in CLASSICS):
        return
    scores = [scores_of(some)[0] for some in rows.values()]
    neighbours = read_rows(entry.folder)
    for law in complete:
        strata = [one[law] for one in scores]
        trainings = [sum(one[k].mean() for one in strata) / len(strata) for k in range(len(strata[0]))]
        yield Competitor(
            entry,
            law,
            mean_over_scenarios(strata),
            min(trainings) if len(trainings) > 1 else None,
            sharing_of(neighbours, _trainings(entry, law)),
            {},
        )


def _has_all(law: str, rows: Mapping[str, Sequence[Row]], cells: Mapping[str, set[tuple[str, int]]]) -> bool:
    return all(
        {(row.split, row.seed) for row in some if row.contender.name == law} == cells[digest]
        for digest, some in rows.items()
    )


def _trainings(entry: Entry, law: str) -> list[Contender]:
    own = (row.contender for row in entry.benchmark.rows if row.contender.name == law)
    return list({one.identity: one for one in own}.values())


HEADS = (
    "law", "entry", ">score", *(f">{track}" for track in TRACKS), "switch support", "shares",
    ">smallest share: mean, worst episode", ">smallest share left to a competitor: mean, worst episode",
)  # fmt: skip


def row_of(one: Competitor) -> tuple[str, ...]:
    """Return the cells of a row of the table, without those of law and entry."""
    score = interval_text(one.score, 2)
    if one.worst is not None:
        score += f"; worst training {one.worst:.2f}"
    places = ("–" if track not in one.ranks else _place(one.ranks[track]) for track in TRACKS)
    if one.sharing is None:
        return (score, *places, "–", "not played", "–", "–")
    found, facts = one.sharing, one.sharing.facts
    asked = "telemetry" if facts.switches else "marks" if facts.marks else "nothing"
    return (
        score,
        *places,
        asked,
        "yes" if found.shares else "no",
        f"{found.least:.2f}, {found.least_episode:.2f}",
        f"{found.left:.2f}, {found.left_episode:.2f}",
    )


def _place(ranks: tuple[int, int]) -> str:
    first, last = ranks
    return str(first) if first == last else f"{first} to {last}"


def words() -> Iterator[str]:
    """Yield the paragraphs above the table."""
    yield (
        f"Laws of single flows on the {len(load_suite(SUITE).tasks)} networks of the suite `{SUITE}`. The"
        " score is the mean of log2 of a law's power over that of the best classic of the network on the same"
        " seeds ([definition](beyond-classics.md)): 0 is that classic, 1 is twice its power, and"
        " higher is better. A short file is enough to enter: [contest.md](contest.md)."
    )
    yield (
        "A law has a rank in every track for which the program finds it fit: all laws, also with telemetry of"
        " switches (INT); those that ask nothing of switches but marks; those that the Linux backend plays in"
        f" the kernel. Shares are beside {', '.join(NEIGHBOURS)}, half of the flows each, in {len(SEEDS)}"
        " episodes; 1 is fair. A law shares if on average it has, and leaves, at least half of a fair share"
        " beside each of them. Of several trainings the worst counts."
    )
