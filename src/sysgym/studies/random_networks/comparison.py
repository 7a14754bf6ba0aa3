"""Scores, dominance and slowdowns of laws on random networks, with bootstrap intervals over networks.

The score is defined in docs/beyond-classics.md: log2 of the ratio of a law's power to that of the best of
eight classics on the same network. Power is goodput divided by the product of p99 queue and p99 slowdown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sysgym.bench.leaderboard.power import CLASSICS, log_power
from sysgym.bench.statistics import Interval, estimate, mean
from sysgym.bench.tables import Table, interval_text
from sysgym.envs.congestion.power import parts_of_power
from sysgym.envs.congestion.random_networks import KINDS
from sysgym.studies.random_networks.study import BY_RATE, FAIR, REFERENCES, WITH_TELEMETRY, RandomNetworks

Array: TypeAlias = NDArray[np.float64]
Metrics: TypeAlias = Mapping[str, float]

BASELINE, RIVAL = "dctcp", "swift"
EQUAL = 0.001
"""Relative difference up to which values count as equal."""

CLEAR = 0.05
"""Relative difference above which a slowdown counts as worse or better."""

SIZES = {
    "": "all flows",
    "_small": "below 100 kB",
    "_medium": "to 1 MB",
    "_large": "1 MB and more",
    "_huge": "10 MB and more",
}
QUANTILES = {"p50": "median", "p99": "p99"}
SLOWDOWNS = {
    f"fct_slowdown_{quantile}{size}": f"{words}, {which}"
    for size, words in SIZES.items()
    for quantile, which in QUANTILES.items()
}
"""Descriptions of slowdowns by metric."""


class Comparison:
    """Metrics of every law on each network.

    Attributes:
        own: Names of the laws in addition to the references.
        metrics: By law, metrics on each network, in the order of networks.
        kinds: Kind of each network.
        rates_bps: Rate of each network, shape (n_networks,).
        powers: log2 of the power on each network, shape (n_networks,), by law.
    """

    def __init__(self, settings: RandomNetworks, rows: Sequence[Mapping[str, Any]]) -> None:
        """Sort the rows.

        Args:
            settings: Settings of the study.
            rows: Its rows, network by network.
        """
        self.own = settings.own
        self.metrics = {
            law: [row["metrics"] for row in rows if row["law"] == law] for law in (*REFERENCES, *self.own)
        }
        some = [row for row in rows if row["law"] == BASELINE]
        self.kinds = [row["kind"] for row in some]
        self.rates_bps = np.array([row["rate_bps"] for row in some])
        self.powers = {law: _powers(found) for law, found in self.metrics.items()}
        if settings.fair:
            known = {row["network"]: row["metrics"] for row in rows if row["law"] == FAIR}
            self.metrics[FAIR] = [known.get(row["network"], {}) for row in some]

    @property
    def shown(self) -> list[str]:
        """Names of the laws in tables and pictures without room for all laws."""
        others = (RIVAL, BY_RATE, WITH_TELEMETRY, FAIR)
        return [*self.own, *(law for law in others if law in self.metrics)]

    def scores(self, law: str) -> Array:
        """Return a law's score on each network, shape (n_networks,)."""
        best = np.max([self.powers[classic] for classic in CLASSICS], axis=0)
        return np.asarray(self.powers[law] - best)

    def lead(self, law: str, other: str = RIVAL, chosen: Any = slice(None)) -> Interval:
        """Return the mean difference between the scores of two laws on chosen networks, with its interval."""
        return over_networks((self.powers[law] - self.powers[other])[chosen])

    def beaten(self, law: str) -> int:
        """Return the number of networks on which another classic is ahead of a law; see :func:`is_ahead`."""
        others = [self.metrics[classic] for classic in CLASSICS if classic != law]
        return sum(
            any(is_ahead(classic, ours) for classic in theirs)
            for ours, *theirs in zip(self.metrics[law], *others, strict=True)
        )

    def ended(self, law: str) -> float:
        """Return the mean share of completed flows."""
        return float(
            np.mean([one["completed_flows"] / max(one["offered_flows"], 1.0) for one in self.metrics[law]])
        )

    def changes(self, law: str, metric: str) -> Array:
        """Return logarithms of a slowdown divided by the baseline's, on the networks where both exist."""
        pairs = zip(self.metrics[law], self.metrics[BASELINE], strict=True)
        both = [
            (ours[metric], theirs[metric]) for ours, theirs in pairs if metric in ours and metric in theirs
        ]
        return np.array([math.log(ours / theirs) for ours, theirs in both])

    def parts(self) -> dict[str, NDArray[np.bool_]]:
        """Return masks of networks by rate and kind, each of shape (n_networks,)."""
        rates_bps, kinds = self.rates_bps, np.array(self.kinds)
        return {
            "below 1 Gb/s": rates_bps < 1e9,
            "1 to 25 Gb/s": (rates_bps >= 1e9) & (rates_bps < 25e9),
            "25 Gb/s and more": rates_bps >= 25e9,
            **{kind.replace("_", " "): kinds == kind for kind in KINDS},
        }


def is_ahead(one: Metrics, other: Metrics) -> bool:
    """Return whether one dominates the other in goodput, p99 queue and p99 slowdown.

    It is better in at least one of the three and worse in none, by more than :data:`EQUAL`.
    """
    ours, theirs = parts_of_power(one), parts_of_power(other)
    gains = (ours[0] / theirs[0] - 1.0, theirs[1] / ours[1] - 1.0, theirs[2] / ours[2] - 1.0)
    return min(gains) >= -EQUAL and max(gains) > EQUAL


def _powers(found: Sequence[Metrics]) -> Array:
    return np.array([log_power(*parts_of_power(one)) for one in found])


def over_networks(values: Array) -> Interval:
    """Return the mean over networks with its bootstrap interval."""
    return estimate(values[None, :], statistic=mean)


def in_percent(logarithms: Array) -> Interval:
    """Return the geometric mean of ratios as a change in percent, with its interval."""
    return Interval(*(100.0 * math.expm1(end) for end in over_networks(logarithms)))


def tables(found: Comparison) -> Iterator[Table]:
    """Yield the tables of scores, of score differences by kind of network, and of slowdowns."""
    yield _score_table(found)
    yield _part_table(found)
    yield _slowdown_table(found)


def _score_table(found: Comparison) -> Table:
    rows = []
    for law in sorted(found.powers, key=lambda one: -found.powers[one].mean()):
        leads = [
            "" if law == rival else interval_text(found.lead(law, rival), 2) for rival in (RIVAL, BY_RATE)
        ]
        score = interval_text(over_networks(found.scores(law)), 2)
        beaten = f"{found.beaten(law)} of {len(found.kinds)}"
        rows.append((law, score, *leads, beaten, f"{found.ended(law):.1%}"))
    heads = (">score", f">less {RIVAL}'s", f">less {BY_RATE}'s", ">a classic is ahead in everything")
    return Table("Scores", ("law", *heads, ">flows that ended"), tuple(rows))


def _part_table(found: Comparison) -> Table:
    laws = [law for law in found.shown if law not in (RIVAL, FAIR)]
    rows = []
    for part, chosen in found.parts().items():
        cells = [interval_text(found.lead(law, RIVAL, chosen), 2) if chosen.any() else "" for law in laws]
        rows.append((part, str(chosen.sum()), *cells))
    title = f"Scores less {RIVAL}'s on some of the networks"
    return Table(title, ("networks", ">number", *(f">{law}" for law in laws)), tuple(rows))


def _slowdown_table(found: Comparison) -> Table:
    rows = [
        (words, *(_change(found.changes(law, metric)) for law in found.shown))
        for metric, words in SLOWDOWNS.items()
    ]
    title = (
        f"Slowdowns against {BASELINE}'s, %: geometric mean; networks on which they are more than"
        f" {CLEAR:.0%} worse / better, %"
    )
    return Table(title, ("flows", *(f">{law}" for law in found.shown)), tuple(rows))


def _change(logarithms: Array) -> str:
    if not len(logarithms):
        return ""
    value, low, high = in_percent(logarithms)
    worse = 100.0 * (logarithms > math.log1p(CLEAR)).mean()
    better = 100.0 * (logarithms < math.log1p(-CLEAR)).mean()
    return f"{value:+.0f} [{low:+.0f}, {high:+.0f}]; {worse:.0f} / {better:.0f}".replace("-", "−")


def verdicts(found: Comparison) -> list[str]:
    """Return a sentence on the score of each own law, and one on its slowdowns."""
    sentences = []
    for law in found.own:
        lead = found.lead(law)
        clear = "above" if lead.low > 0.0 else "below" if lead.high < 0.0 else "not distinguishable from"
        sentences.append(
            f"{law}: its score is {clear} {RIVAL}'s (difference {interval_text(lead, 2)}); a classic is ahead"
            f" of it in goodput, p99 queue and p99 slowdown at once on {found.beaten(law)} of"
            f" {len(found.kinds)} networks."
        )
        worse = []
        for metric, words in SLOWDOWNS.items():
            changes = found.changes(law, metric)
            if len(changes) and (change := in_percent(changes)).low > 0.0:
                worse.append(f"{words} ({change.value:+.0f} %)")
        sentences.append(
            f"{law}: slowdowns clearly above {BASELINE}'s in the mean: {'; '.join(worse) or 'none'}."
        )
    return sentences


def markdown(settings: RandomNetworks, found: Sequence[Table], sentences: Sequence[str]) -> str:
    """Return the report as Markdown."""
    parts = [
        "# Laws on networks drawn at random",
        f"Number of networks: {settings.n_networks}, from seed {settings.seed}. Every law plays one episode"
        " on each; p99 queue and goodput count while flows arrive, slowdowns until the network is empty. The"
        " score is log2 of power, goodput / (p99 queue × p99 slowdown), over that of the best of"
        f" {len(CLASSICS)} classics on the same network. {BY_RATE}: Swift whose two delays are divided by the"
        " rate over 10 Gb/s, where it is higher. Intervals: 95 %, bootstrap over networks.",
        "\n".join(f"- {sentence}" for sentence in sentences),
        *(one.markdown() for one in found),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
