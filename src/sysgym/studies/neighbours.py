"""Study of neighbours: how the flows of two congestion control laws share a network.

Half of a scenario's long-lived flows use one law and half the other. A law that starves others cannot be
deployed beside them, and a law that is starved gains nothing from short queues. Neither effect is visible if
all flows use the same law, as in the suites.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from sysgym.bench.contenders import Contender
from sysgym.bench.results.row_format import ContenderFields, Digest, Name, Strict
from sysgym.bench.results.versions import must_match, versions
from sysgym.bench.run.pool import PLAYING
from sysgym.bench.statistics import Interval, estimate, mean
from sysgym.bench.tables import Table, interval_text
from sysgym.envs.congestion.sharing import CONVERGED, WINDOWS, flow_count, measure_sharing
from sysgym.errors import SysgymError
from sysgym.scenarios import CongestionScenario, scenario_from_resolved
from sysgym.studies.kept_rows import KeptRow, read_kept
from sysgym.studies.law_facts import facts_of
from sysgym.studies.laws import can_share, transport_of

ROWS = "neighbours.jsonl"
FAIR_SHARES = 0.5, 1.5
"""Range of the goodput of a law's flows, relative to the mean of all flows, in which each of two laws has at
least half of its fair share."""


class _FactFields(Strict):
    """Facts about a law."""

    marks: bool
    switches: bool
    kernel: bool


class _RowFields(KeptRow):
    """Line of the file of rows; rows written by older versions lack the fields with defaults."""

    laws: list[Name]
    contenders: Annotated[list[ContenderFields], Field(default_factory=list)]
    facts: Annotated[list[_FactFields], Field(default_factory=list)]
    scenario: Name = ""
    scenario_sha256: Digest = "0"
    duration_s: Annotated[float, Field(gt=0.0)] = 1.0
    seed: Annotated[int, Field(ge=0)] = 0
    share: Annotated[float, Field(ge=0.0, le=2.0)]
    jain_index: float
    converged_s: float | None
    queue_mean_bytes: float
    goodput_bps: float


@dataclass(frozen=True)
class NeighboursJob:
    """Job of one episode.

    Attributes:
        scenario: Resolved scenario.
        scenario_sha256: Digest of the scenario.
        laws: The two laws; twice the same law if all flows use it.
        duration_s: Simulated time.
        seed: Seed of the flows' start times. The first law has the flows with even numbers if the seed is
            even, otherwise those with odd numbers.
    """

    scenario: Mapping[str, Any]
    scenario_sha256: str
    laws: tuple[Contender, Contender]
    duration_s: float
    seed: int

    @property
    def label(self) -> str:
        """Name of the episode in messages."""
        return f"{self.laws[0].name} beside {self.laws[1].name}, seed {self.seed}"

    @property
    def key(self) -> str:
        """Key that identifies the row of this episode."""
        laws = [law.identity for law in self.laws]
        parts = (self.scenario_sha256, laws, self.duration_s, self.seed)
        return json.dumps([*parts, *must_match(versions())], sort_keys=True)

    def run(self, report: Callable[[Any], None]) -> dict[str, Any]:
        """Run the episode and return its row; only the beginning is reported."""
        scenario = scenario_from_resolved(self.scenario, expect=CongestionScenario)
        first, second = (transport_of(law) for law in self.laws)
        report(PLAYING)
        measured = measure_sharing(scenario, first, second, self.duration_s, self.seed)
        return {
            "laws": [law.name for law in self.laws],
            "contenders": [law.to_json() for law in self.laws],
            "facts": [facts_of(law)._asdict() for law in (first, second)],
            "scenario": scenario.name,
            "scenario_sha256": self.scenario_sha256,
            "duration_s": self.duration_s,
            "seed": self.seed,
            **measured._asdict(),
            "versions": versions(),
        }


@dataclass(frozen=True)
class Neighbours:
    """Settings of the study.

    Attributes:
        scenario: Scenario with an even number of long-lived flows.
        laws: Laws, of which pairs share the network.
        duration_s: Simulated time of an episode.
        n_seeds: Number of episodes for each pair, from seed 0 on.
        beside: Subset of ``laws``; every pair of different laws contains one of these; empty: all.
    """

    rows_file: ClassVar[str] = ROWS
    row_fields: ClassVar[type[KeptRow]] = _RowFields
    one_at_a_time: ClassVar[bool] = False

    scenario: CongestionScenario
    laws: Sequence[Contender]
    duration_s: float
    n_seeds: int
    beside: Sequence[Contender] = ()

    def __post_init__(self) -> None:
        """Raise SysgymError unless all episodes can be run."""
        if self.scenario.workload.kind != "long_lived":
            raise SysgymError(
                f"{self.scenario.name}: its workload is {self.scenario.workload.kind!r}; neighbours need"
                ' long-lived flows, as in dumbbell-10g (workload.kind = "long_lived")'
            )
        names = [law.name for law in self.laws]
        if len(names) < 2 or len(set(names)) < len(names):
            raise SysgymError(
                f"the laws are {', '.join(names)}; expected two or more with different names"
                " (-c NAME=WHO gives a name)"
            )
        n_flows = flow_count(self.scenario)
        if n_flows % 2:
            raise SysgymError(
                f"{self.scenario.name}: it has {n_flows} flows; the study needs an even number"
                " (--set workload.flows_per_pair=2)"
            )
        if not 0.0 < self.duration_s < math.inf:
            raise SysgymError(f"--duration: got {self.duration_s:g}, expected a positive number of seconds")
        self.pairs()

    def pairs(self) -> list[tuple[Contender, Contender]]:
        """Return the pairs of laws that can share a network, including every law with itself.

        Raises:
            SysgymError: A contender is not a law of single flows.
        """
        transports = {law: transport_of(law) for law in self.laws}

        def can_meet(first: Contender, second: Contender) -> bool:
            return can_share(self.scenario, transports[first], transports[second])

        pairs = itertools.combinations_with_replacement(self.laws, 2)
        beside = set(self.beside or self.laws)
        return [pair for pair in pairs if pair[0] is pair[1] or (beside & set(pair) and can_meet(*pair))]

    def jobs(self) -> list[NeighboursJob]:
        """Return the jobs of all episodes, seed by seed."""
        resolved, digest, pairs = self.scenario.resolved(), self.scenario.sha256(), self.pairs()
        return [
            NeighboursJob(resolved, digest, pair, self.duration_s, seed)
            for seed in range(self.n_seeds)
            for pair in pairs
        ]


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a folder; empty if it has no file of rows.

    Raises:
        SysgymError: A line is not a row.
    """
    return read_kept(folder / ROWS, _RowFields)[0]


def shares(laws: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Interval]:
    """Return the share of every law beside every other law, with its interval over seeds.

    Args:
        laws: Names of the laws.
        rows: Rows from :func:`~sysgym.studies.kept_rows.run_kept`.

    Returns:
        Interval by (law, neighbour): goodput of the law's flows over the mean of all flows. 1 is fair; the
        two shares of a pair sum to 2. Pairs that cannot share a network are left out.
    """
    found = {}
    for first, second in itertools.combinations(laws, 2):
        own = np.array([row["share"] for row in rows if row["laws"] == [first, second]])
        if not len(own):
            continue
        found[first, second] = estimate(own[None], statistic=mean)
        found[second, first] = estimate(2.0 - own[None], statistic=mean)
    return found


def tables(
    laws: Sequence[str], rows: Sequence[Mapping[str, Any]], *, intervals: bool = True
) -> Iterator[Table]:
    """Yield the table of shares, and the table of every law among its own flows.

    Args:
        laws: Names of the laws.
        rows: Rows from :func:`~sysgym.studies.kept_rows.run_kept`.
        intervals: Whether to include intervals of the shares, which make the table wide.
    """
    found = shares(laws, rows)
    title = "Share of the law (row) beside its neighbour (column); 1 is fair, 2 is everything"
    cells = tuple((law, *(_share(found.get((law, other)), intervals) for other in laws)) for law in laws)
    yield Table(title, ("law", *(f">{law}" for law in laws)), cells)
    alone = []
    for law in laws:
        own = [row for row in rows if row["laws"] == [law, law]]
        times_s = [row["converged_s"] for row in own if row["converged_s"] is not None]
        alone.append(
            (
                law,
                _interval(own, "jain_index", 1.0, 3),
                f"{1e3 * float(np.median(times_s)):.3g}" if len(times_s) == len(own) else "",
                f"{len(times_s)} of {len(own)}",
                _interval(own, "goodput_bps", 1e-9, 3),
                _interval(own, "queue_mean_bytes", 1e-3, 3),
            )
        )
    columns = (
        "law", ">Jain's index", ">converged after, ms", ">converged", ">goodput, Gb/s", ">mean queue, kB",
    )  # fmt: skip
    yield Table("Every law among its own flows", columns, tuple(alone))


def _share(share: Interval | None, interval: bool) -> str:
    if share is None:
        return ""
    return f"{share.value:.2f}" + (f" [{share.low:.2f}, {share.high:.2f}]" if interval else "")


def _interval(rows: Sequence[Mapping[str, Any]], name: str, scale: float, digits: int) -> str:
    values = np.array([row[name] * scale for row in rows])
    return interval_text(estimate(values[None], statistic=mean), digits)


MET_ALL, MET_NONE = "shares with all of them", "met none of the others"


def verdicts(laws: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each law, with the neighbours that it starves and those that starve it."""
    found = shares(laws, rows)
    low, high = FAIR_SHARES
    sentences = []
    for law in laws:
        starves = [other for other in laws if (law, other) in found and found[law, other].value > high]
        starved = [other for other in laws if (law, other) in found and found[law, other].value < low]
        words = [f"leaves less than half of a fair share to {', '.join(starves)}"] if starves else []
        words += [f"gets less than half of one beside {', '.join(starved)}"] if starved else []
        met = any((law, other) in found for other in laws)
        sentences.append(f"{law} {' and '.join(words) or MET_ALL if met else MET_NONE}.")
    return sentences


def markdown(neighbours: Neighbours, found: Sequence[Table], sentences: Sequence[str]) -> str:
    """Return the report as Markdown."""
    parts = [
        f"# {neighbours.scenario.title}: laws beside each other",
        f"Scenario `{neighbours.scenario.name}`, {neighbours.duration_s:g} s, {neighbours.n_seeds} episodes"
        " each. In every episode half of the flows play one law and half the other; goodput counts in the"
        f" second half. Converged: Jain's index of a {WINDOWS}th of the episode stays at {CONVERGED:g} or"
        " more. Intervals: 95 %, bootstrap over episodes.",
        "\n".join(f"- {sentence}" for sentence in sentences),
        *(one.markdown() for one in found),
    ]
    return "\n\n".join(parts) + "\n"
