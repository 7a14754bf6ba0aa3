"""Fitness of a law: its power over DCTCP's, its share beside other laws, and fairness among its own flows.

Power is goodput over the product of p99 queue and p99 slowdown, as in the score of
docs/beyond-classics.md, in natural logarithms. The rest are bounds: medians and classes of sizes that are
worse than DCTCP's, goodput, and fairness in the worst of these episodes. On shared links and in crowds only
shares and Jain's index count, in the mean. On networks of the study it is the power over Swift's, the best
classic there, and no slowdown may be above DCTCP's in the mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numba
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.congestion.episodes import Baseline
from sysgym.agents.learned.congestion.law_search.lessons import (
    ANY_CROWDS,
    COLLECTIVES,
    CROWDS,
    FLOWS,
    INCAST,
    ITSELF,
    LINKS,
    LOTS,
    NETWORKS,
    SLOW,
    Lesson,
)
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.emulator.threads import in_threads
from sysgym.envs.congestion.power import LEAST_QUEUE_BYTES, parts_of_power, power
from sysgym.envs.congestion.sharing import measure_sharing

BASELINE, RIVAL = "dctcp", "swift"

WEIGHTS = {
    "queue_p99_bytes": 1.0,
    "fct_slowdown_p99": 1.0,
    "fct_slowdown_p50": 0.3,
}
"""Weights of the mean logarithm of a metric over the baseline's; inapplicable metrics are omitted."""

SPARED_SLOWDOWN = math.log(1.05)
WORSE_SLOWDOWN_WEIGHT = 5.0
"""Weight of each slowdown, by size or of all flows, that is worse than the baseline's by more than that."""

SPARED_GOODPUT = {
    FLOWS: 0.02, INCAST: 0.01, LINKS: 0.01, SLOW: 0.01, LOTS: 0.5, COLLECTIVES: 0.01,
}  # fmt: skip
"""Relative loss of goodput that is not penalised; episodes that are cut off at their end need some, and on
several bottlenecks a fair share of the long path's flows costs the others more than they gain."""
LOST_GOODPUT_WEIGHT = 10.0
GOODPUT_WEIGHT = 1.0
"""Weight of the logarithm of goodput, which random losses reduce."""

LEAST_FAIRNESS = 0.985
"""Jain's index from which flows of the law share well enough."""
MOST_UNFAIR = 0.2
"""Shortfall from which it costs no more; about a fifth of the flows starve there."""
FAIRNESS_WEIGHTS = {ITSELF: 20.0, CROWDS: 100.0, ANY_CROWDS: 100.0}
"""Weights of the mean shortfall; few crowds do not share, and in those it is large."""
LINKS_FAIRNESS = 0.98
LINKS_FAIRNESS_WEIGHT = 4.0

FAIR_DOUBLINGS = 1.0
"""log2 of the share over the neighbour's, in either direction, from which it costs more."""
MOST_DOUBLINGS = 2.0
"""The same from which it costs no more: on some links no constants help, and what they cost is noise."""
SHARE_WEIGHTS = 0.3, 2.0

KIND_WEIGHTS = {
    FLOWS: 2.5, INCAST: 1.0, LINKS: 1.0, SLOW: 1.0, LOTS: 1.0, COLLECTIVES: 1.5, CROWDS: 1.0, ITSELF: 1.0,
    ANY_CROWDS: 1.0,
}  # fmt: skip
NEIGHBOUR_WEIGHT = 0.4
NETWORKS_WEIGHT = 2.0
SLOWER_WEIGHT = 2.5
"""Weight of each mean slowdown above the baseline's on networks of the study."""

_SLOWDOWN = "fct_slowdown_"

Metrics = Mapping[str, float]


def compare(metrics: Metrics, baseline: Metrics) -> dict[str, float]:
    """Return the logarithm of each metric over the baseline's, and the shortfall of fairness."""
    queue, least = "queue_p99_bytes", LEAST_QUEUE_BYTES
    found = {queue: math.log(max(metrics[queue], least) / max(baseline[queue], least))}
    found |= _slowdowns(metrics, baseline)
    found["goodput_bps"] = math.log(max(metrics["goodput_bps"], 1.0) / max(baseline["goodput_bps"], 1.0))
    if "jain_index" in metrics:
        found["unfair"] = max(min(LINKS_FAIRNESS, baseline["jain_index"]) - metrics["jain_index"], 0.0)
    return found


def loss_of_kind(kind: str, compared: Sequence[Metrics]) -> float:
    """Return the loss in the episodes of a kind that is compared with DCTCP; negative values are better.

    Logarithms are averaged over episodes first, since one episode has few flows of some sizes. Of Jain's
    index the worst episode counts.
    """
    mean = _means(compared)
    total = sum(weight * mean[name] for name, weight in WEIGHTS.items() if name in mean)
    for name, value in mean.items():
        if name.startswith(_SLOWDOWN):
            total += WORSE_SLOWDOWN_WEIGHT * max(value - SPARED_SLOWDOWN, 0.0)
    total += LOST_GOODPUT_WEIGHT * max(-mean["goodput_bps"] - SPARED_GOODPUT[kind], 0.0)
    total -= GOODPUT_WEIGHT * min(max(mean["goodput_bps"], -1.0), 1.0)
    return total + LINKS_FAIRNESS_WEIGHT * max(one.get("unfair", 0.0) for one in compared)


def compare_on_network(metrics: Metrics, baseline: Metrics, rival: Metrics) -> dict[str, float]:
    """Return the logarithms of the power over the rival's, and of each slowdown over the baseline's."""
    return {**_slowdowns(metrics, baseline), "power": _log_power(metrics) - _log_power(rival)}


def _slowdowns(metrics: Metrics, baseline: Metrics) -> dict[str, float]:
    """Return the logarithm of each slowdown over the baseline's, where both have it."""
    return {
        name: math.log(value / baseline[name])
        for name, value in metrics.items()
        if name.startswith(_SLOWDOWN) and name in baseline
    }


def _log_power(metrics: Metrics) -> float:
    return math.log(power(*parts_of_power(metrics)))


def loss_of_networks(compared: Sequence[Metrics]) -> float:
    """Return the loss on networks of the study."""
    mean = _means(compared)
    slower = sum(max(value, 0.0) for name, value in mean.items() if name.startswith(_SLOWDOWN))
    return SLOWER_WEIGHT * slower - mean["power"]


def _means(compared: Sequence[Metrics]) -> dict[str, float]:
    """Return the mean of each metric over the episodes that have it, in an order that no process changes."""
    names = {name for one in compared for name in one}
    return {name: float(np.mean([one[name] for one in compared if name in one])) for name in sorted(names)}


def loss_of_share(share: float) -> float:
    """Return the loss of a share, where 1 is fair and 2 everything."""
    doublings = abs(math.log2(max(share, 1e-9) / max(2.0 - share, 1e-9)))
    doublings = min(doublings, MOST_DOUBLINGS)
    always, beyond = SHARE_WEIGHTS
    return always * doublings + beyond * max(doublings - FAIR_DOUBLINGS, 0.0)


def loss_of_fairness(kind: str, jain_index: float) -> float:
    """Return the loss of Jain's index among the law's own flows."""
    return FAIRNESS_WEIGHTS[kind] * min(max(LEAST_FAIRNESS - jain_index, 0.0), MOST_UNFAIR)


@dataclass
class Judge:
    """Evaluator of laws in lessons, on all cores, with the results of DCTCP and of Swift for each.

    Attributes:
        n_threads: Number of threads.
        coexistence: Factor of the losses of lessons in which a law shares a link, with others or with itself.
    """

    n_threads: int = field(default_factory=numba.get_num_threads)
    coexistence: float = 1.0
    _baseline: Baseline = field(default_factory=lambda: Baseline(BASELINE))
    _on_networks: tuple[Baseline, Baseline] = field(
        default_factory=lambda: (Baseline(BASELINE, arrivals=True), Baseline(RIVAL, arrivals=True))
    )

    def losses(self, laws: Sequence[Transport], lessons: Sequence[Lesson]) -> NDArray[np.float64]:
        """Return the loss of every law, shape (n_laws,)."""
        known = [(one, lesson) for lesson in lessons for one in self._compared_with(lesson)]
        in_threads(lambda job: job[0].metrics(job[1].episode), known, self.n_threads)
        jobs = [(law, lesson) for law in laws for lesson in lessons]
        found = in_threads(lambda job: self._play(*job), jobs, self.n_threads)
        n = len(lessons)
        return np.array([self._total(lessons, found[first : first + n]) for first in range(0, len(found), n)])

    def _compared_with(self, lesson: Lesson) -> tuple[Baseline, ...]:
        if lesson.kind == NETWORKS:
            return self._on_networks
        return (self._baseline,) if lesson.kind in SPARED_GOODPUT else ()

    def _play(self, law: Transport, lesson: Lesson) -> dict[str, float]:
        known = [one.metrics(lesson.episode) for one in self._compared_with(lesson)]
        if lesson.kind == NETWORKS:
            return compare_on_network(lesson.episode.play_arrivals(law), *known)
        if known:
            return compare(lesson.episode.play(law), *known)
        other = get_transport(lesson.beside) if lesson.beside else law
        sharing = measure_sharing(lesson.episode.scenario, law, other, lesson.duration_s, lesson.episode.seed)
        if lesson.beside:
            return {"loss": loss_of_share(sharing.share)}
        return {"loss": loss_of_fairness(lesson.kind, sharing.jain_index)}

    def _total(self, lessons: Sequence[Lesson], found: Sequence[dict[str, float]]) -> float:
        by_kind: dict[str, list[dict[str, float]]] = {}
        for lesson, one in zip(lessons, found, strict=True):
            by_kind.setdefault(lesson.kind, []).append(one)
        total = 0.0
        for kind, several in by_kind.items():
            if kind == NETWORKS:
                total += NETWORKS_WEIGHT * loss_of_networks(several)
                continue
            weight = KIND_WEIGHTS.get(kind, NEIGHBOUR_WEIGHT)
            if kind in SPARED_GOODPUT:
                total += weight * loss_of_kind(kind, several)
            else:
                total += self.coexistence * weight * float(np.mean([one["loss"] for one in several]))
        return total
