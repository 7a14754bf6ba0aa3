"""Score Swift with delays that fit the rate, to see what of a law's lead over it is a matter of units.

    python scripts/laws/swift_by_rate.py results/beyond-classics-wide --law adaptive_swift

Swift's two delays are constants in nanoseconds (``per_hop_ns`` and ``flow_scaling_range_ns``). A rule of
one line divides both by the rate over 10 Gb/s, where the rate is higher. The faster scenarios of a results
folder are played again with it, on the same seeds; of the others the rows stand. Prints the mean scores
(see ``scripts/laws/power_scores.py``) of each training of tuned Swift so scaled, and of the law, and their
difference with an interval over scenarios drawn anew.

The same rule with htsim's constants, whole, halved and quartered, is played on all scenarios. A last table
has its score and that of the law in each, and in brackets the median slowdown of flows of 1 MB and more
against DCTCP's: short queues are no merit by themselves.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.congestion.episodes import Episode
from sysgym.agents.learned.congestion.tuned_swift.search import LAW as TUNED_SWIFT
from sysgym.bench.leaderboard.power import log_power, log_powers, scores_of, values_of
from sysgym.bench.results.rows import Row, read_rows
from sysgym.bench.statistics import estimate, mean
from sysgym.bench.tables import interval_text, markdown_table
from sysgym.cli.parallel import in_parallel
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.transports.swift import CONSTANTS, swift_transport
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError
from sysgym.studies.random_networks.study import FULL_DELAYS_BPS, with_delays

Array = NDArray[np.float64]

TUNED = "tuned_swift"
DCTCP = "dctcp"
METRICS = "goodput_bps", "queue_p99_bytes", "fct_slowdown_p99"
LARGE = "fct_slowdown_p50_large"
SHARES_OF_DELAYS = 1.0, 0.5, 0.25


class Cell(NamedTuple):
    """What a law has in a scenario.

    Attributes:
        score: Mean score.
        large: Median slowdown of large flows over DCTCP's, less 1; None if there are none.
    """

    score: float
    large: float | None

    def __str__(self) -> str:
        """Return both as they are printed."""
        return f"{self.score:.2f} ({'–' if self.large is None else f'{self.large:+.0%}'})"


class Ground(NamedTuple):
    """Episodes of a scenario, and what its rows say of them.

    Attributes:
        episodes: One for each seed of the rows.
        best: Powers of the best classic in these episodes, log2.
    """

    episodes: Sequence[Episode]
    best: Array

    def play(self, law: Transport) -> list[Mapping[str, float]]:
        """Return the metrics of a law in each episode."""
        name = self.episodes[0].scenario.name
        return in_parallel(lambda episode: episode.play(law), self.episodes, name)

    def score(self, played: Sequence[Mapping[str, float]]) -> float:
        """Return the mean score of a law by its metrics in each episode."""
        powers = [log_power(*(one[name] for name in METRICS if name in one)) for one in played]
        return float((np.array(powers) - self.best).mean())


def main() -> None:
    """Play, score and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="results with rows of tuned_swift and its trainings")
    parser.add_argument("--law", default="adaptive_swift")
    given = parser.parse_args()
    try:
        compare(given.folder, given.law)
    except SysgymError as error:
        sys.exit(f"error: {error}")


def compare(folder: Path, own: str) -> None:
    """Score both laws and print the scores.

    Raises:
        SysgymError: If the folder has no rows of one of the two, or no trainings of tuned Swift.
    """
    paths = sorted((folder / "training").glob(f"{TUNED}*/final.json"))
    trainings = [TUNED_SWIFT.form.read(path).parameters for path in paths]
    rows: dict[str, list[Row]] = defaultdict(list)
    by_rule: dict[str, list[Cell]] = {}
    for row in read_rows(folder):
        rows[row.scenario].append(row)
    law, tuned, scaled = [], [], []
    for scenario, of_scenario in rows.items():
        scores, best = scores_of(of_scenario)
        if not trainings or not {own, TUNED} <= set(scores):
            raise SysgymError(
                f"{folder}: {scenario}: expected rows of {own} and {TUNED}, and trainings of {TUNED};"
                f" there are {len(trainings)} trainings, and rows of {', '.join(scores)}"
            )
        law.append(scores[own].mean())
        tuned.append(scores[TUNED].mean())
        loaded = load_scenario(scenario, expect=CongestionScenario)
        seeds, factor = sorted({row.seed for row in of_scenario}), rate_factor(loaded)
        episodes = [Episode(loaded, of_scenario[0].split, seed) for seed in seeds]
        ground = Ground(episodes, log_powers(of_scenario)[best])
        if factor < 1.0:
            by_rate = [TUNED_SWIFT.form.transport(with_delays(one, factor)) for one in trainings]
            scaled.append(np.array([ground.score(ground.play(one)) for one in by_rate]))
        else:
            scaled.append(scores[TUNED].mean(axis=1))
        by_rule[scenario] = rule_cells(of_scenario, own, factor, ground)
    each = np.mean(scaled, axis=0)
    print(f"{own} {np.mean(law):.2f}, {TUNED} {np.mean(tuned):.2f}, over {len(law)} scenarios")
    print(f"{TUNED} with delays by rate, each training: {', '.join(f'{score:.2f}' for score in each)}")
    for name, theirs in ((TUNED, tuned), (f"{TUNED} by rate", [one.mean() for one in scaled])):
        less = estimate(np.array([law]) - np.array([theirs]), statistic=mean)
        print(f"{own} less {name}: {interval_text(less, 2)} over scenarios drawn anew")
    anew = estimate(np.array([law]), statistic=mean)
    without_best = np.mean(sorted(law)[:-1])
    print(
        f"{own}: {interval_text(anew, 2)} over scenarios drawn anew, {without_best:.2f} without the best one"
    )
    print(rule_table(own, by_rule))


def rule_table(own: str, cells: Mapping[str, Sequence[Cell]]) -> str:
    """Return the scores of the law and of the rule in each scenario, in Markdown."""
    header = [
        "scenario",
        f">{own}",
        *(f">swift by rate, delays times {share:g}" for share in SHARES_OF_DELAYS),
    ]
    body = [[f"`{scenario}`", *map(str, row)] for scenario, row in cells.items()]
    means = np.mean([[cell.score for cell in row] for row in cells.values()], axis=0)
    return markdown_table(header, [*body, ["mean", *(f"{score:.2f}" for score in means)]])


def rate_factor(scenario: CongestionScenario) -> float:
    """Return what the rule multiplies delays by."""
    return min(FULL_DELAYS_BPS / float(build_topology(scenario.topology).link_rate_bps.max()), 1.0)


def rule_cells(rows: list[Row], own: str, factor: float, ground: Ground) -> list[Cell]:
    """Return what the law has in a scenario, and each form of the rule with htsim's constants."""
    large = values_of(rows, LARGE)
    cells = [Cell(float(scores_of(rows)[0][own].mean()), _change(large.get(own), large.get(DCTCP)))]
    htsim = [constant.value for constant in CONSTANTS]
    for share in SHARES_OF_DELAYS:
        played = ground.play(swift_transport(with_delays(htsim, share * factor)))
        theirs = np.array([one[LARGE] for one in played]) if DCTCP in large else None
        cells.append(Cell(ground.score(played), _change(theirs, large.get(DCTCP))))
    return cells


def _change(slowdowns: Array | None, base: Array | None) -> float | None:
    """Return the geometric mean of slowdowns over others on the same seeds, less 1."""
    if slowdowns is None or base is None:
        return None
    return float(np.expm1(np.log(slowdowns / base).mean()))


if __name__ == "__main__":
    main()
