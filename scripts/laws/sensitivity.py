"""Play laws with constants drawn at random, to see what each constant does.

    python scripts/laws/sensitivity.py adaptive_swift
    python scripts/laws/sensitivity.py LAW.json --laws 200 --spread 0.3 --constants growth decrease pace

Every law has the constants of a checkpoint, or the first ones of a law. Some are multiplied by 2 to the power
of a number from a normal distribution, and cut at their bounds. All laws play the same episodes, two seeds of
each: the networks of beyond-classics-wide in the train split, links shared with other laws, a fast link with
jitter, and crowds of its own flows near the threshold of marks.

Prints by how many % each constant changes things when it is doubled, by linear regression of logarithms over
the laws, with the standard error: power (docs/beyond-classics.md), the median slowdown of flows of 1 MB and
more, shares of two flows beside two of other laws (0.01 if they are less), and goodput with jitter. The last
column has the crowds with Jain's index below 0.9, for the half of the laws with the smaller constant and for
that with the larger. Errors are those of a mean over laws; the choice of episodes adds to them. Without
``--constants``, those are drawn that searches set.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.congestion.episodes import Episode
from sysgym.agents.learned.congestion.law_search.laws import SEARCHED_LAWS, law_named
from sysgym.agents.learned.congestion.law_search.lessons import fewer_steps
from sysgym.bench.leaderboard.power import log_power
from sysgym.bench.tables import markdown_table
from sysgym.cli.parallel import in_parallel
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.emulator.packets.transports.constants import Constant
from sysgym.envs.congestion.sharing import measure_sharing
from sysgym.scenarios import CongestionScenario, load_scenario, load_suite
from sysgym.scenarios.errors import SysgymError, UnknownName

Array: TypeAlias = NDArray[np.float64]
Measure: TypeAlias = Callable[[Transport], dict[str, float]]
"""An episode of a law, and what it adds to columns of the table."""

SUITE = "beyond-classics-wide"
NETWORK = "dumbbell-10g"
SEEDS = 1, 2
NEIGHBOURS = "dctcp", "cubic", "bbr", "swift"
SHARED_S = 0.3
JITTER: Mapping[str, Any] = {"topology.link_rate_bps": 100e9, "topology.link_jitter_s": 1e-6}
JITTER_S = 0.02
CROWD_FLOWS, CROWD_DELAYS_S, CROWD_MARKS_BYTES = (64, 80), (1e-6, 5e-6), (85_000, 100_000, 115_000)
CROWD_S = 0.1
LEAST_FAIRNESS = 0.9
LEAST_SHARE = 0.01
"""Share below which shares count as equal."""
POWER, LARGE, IN_JITTER, CROWDS = "power", "large flows' median", "goodput with jitter", "crowds"


def main() -> None:
    """Draw laws, play them, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("law", help=f"checkpoint, or {', '.join(SEARCHED_LAWS)}")
    parser.add_argument("--laws", type=int, default=120, help="number of laws")
    parser.add_argument("--spread", type=float, default=0.5, help="standard deviation, doublings")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw")
    parser.add_argument("--constants", nargs="+", metavar="NAME", help="constants that are drawn")
    given = parser.parse_args()
    if not 0.0 < given.spread < math.inf:
        parser.error("--spread: expected a number above 0")
    if given.seed < 0:
        parser.error("--seed: expected 0 or more")
    try:
        searched, law = law_named(given.law)
        constants, values = searched.constants, np.array(law.parameters)
        names = given.constants or [constant.name for constant in constants if constant.searched]
        names = list(dict.fromkeys(names))
        if given.laws < len(names) + 2:
            raise SysgymError(f"--laws {given.laws}: expected at least {len(names) + 2}")
        rng = np.random.default_rng(given.seed)
        played = draw_values(
            constants, values, names, rng.normal(0.0, given.spread, (given.laws, len(names)))
        )
        chosen = [place for place, constant in enumerate(constants) if constant.name in names]
        doublings = np.log2(played[:, chosen] / values[chosen])
        found = play([searched.form.transport(one.tolist()) for one in played])
        print(table([constants[place].name for place in chosen], doublings, found))
    except SysgymError as error:
        sys.exit(f"error: {error}")


def draw_values(
    constants: Sequence[Constant], values: Array, names: Sequence[str], doublings: Array
) -> Array:
    """Return the constants of all laws, shape (n_laws, n_constants), within their bounds.

    Args:
        constants: Constants of the law.
        values: Their values.
        names: Those that are changed.
        doublings: Logarithms of what they are multiplied by, shape (n_laws, n_names).

    Raises:
        UnknownName: If there is no such constant.
    """
    known = [constant.name for constant in constants]
    if unknown := [name for name in names if name not in known]:
        raise UnknownName("constant", unknown[0], known)
    changed = np.tile(values, (len(doublings), 1))
    changed[:, [known.index(name) for name in names]] *= np.exp2(doublings)
    least, most = (np.array([getattr(one, end) for one in constants]) for end in ("least", "most"))
    return np.clip(changed, least, most)


def play(laws: Sequence[Transport]) -> dict[str, Array]:
    """Return the logarithms of what was measured, and the crowds that do not share, each shape (n_laws,).

    Raises:
        SysgymError: If something could not be measured with every law.
    """
    measures = episodes()
    jobs = [(law, measure) for law in laws for measure in measures]
    found = in_parallel(lambda job: job[1](job[0]), jobs, "episodes")
    n = len(measures)
    of_laws = [found[first : first + n] for first in range(0, len(found), n)]
    if any(
        one.keys() != first.keys()
        for several in of_laws
        for one, first in zip(several, of_laws[0], strict=True)
    ):
        raise SysgymError("some flows end with some laws only; try a smaller --spread")
    columns = dict.fromkeys(column for one in found for column in one)
    return {
        column: np.array([np.mean([one[column] for one in several if column in one]) for several in of_laws])
        for column in columns
    }


def episodes() -> list[Measure]:
    """Return all episodes that a law plays."""
    dumbbell = load_scenario(NETWORK, expect=CongestionScenario)
    jitter = dumbbell.with_overrides(JITTER)
    crowds = [
        dumbbell.with_overrides(
            {
                "workload.flows_per_pair": n_flows // 4,
                "workload.start_jitter_s": 1e-3,
                "topology.link_delay_s": delay_s,
                "queue.ecn_threshold_bytes": marks_bytes,
            }
        )
        for n_flows in CROWD_FLOWS
        for delay_s in CROWD_DELAYS_S
        for marks_bytes in CROWD_MARKS_BYTES
    ]
    networks = [load_scenario(task.scenario, expect=CongestionScenario) for task in load_suite(SUITE).tasks]
    return [
        *(
            partial(_alone, network.with_overrides(fewer_steps(network)), seed)
            for network in networks
            for seed in SEEDS
        ),
        *(partial(_beside, dumbbell, other, seed) for other in NEIGHBOURS for seed in SEEDS),
        *(partial(_in_jitter, jitter, seed) for seed in SEEDS),
        *(partial(_crowd, crowd, seed) for crowd in crowds for seed in SEEDS),
    ]


def _alone(network: CongestionScenario, seed: int, law: Transport) -> dict[str, float]:
    metrics = Episode(network, "train", seed).play(law)
    slowdown = metrics.get("fct_slowdown_p99", 1.0)
    found = {POWER: float(log_power(metrics["goodput_bps"], metrics["queue_p99_bytes"], slowdown))}
    if (large := metrics.get("fct_slowdown_p50_large")) is not None:
        found[LARGE] = math.log2(large)
    return found


def _beside(network: CongestionScenario, other: str, seed: int, law: Transport) -> dict[str, float]:
    share = measure_sharing(network, law, get_transport(other), SHARED_S, seed).share
    return {f"beside {other}": math.log2(max(share, LEAST_SHARE))}


def _in_jitter(network: CongestionScenario, seed: int, law: Transport) -> dict[str, float]:
    return {IN_JITTER: math.log2(measure_sharing(network, law, law, JITTER_S, seed).goodput_bps)}


def _crowd(network: CongestionScenario, seed: int, law: Transport) -> dict[str, float]:
    return {CROWDS: float(measure_sharing(network, law, law, CROWD_S, seed).jain_index < LEAST_FAIRNESS)}


def table(names: Sequence[str], doublings: Array, found: Mapping[str, Array]) -> str:
    """Return what a doubling of each constant changes, in Markdown.

    Args:
        names: Constants that were drawn.
        doublings: Logarithms of what they were multiplied by, shape (n_laws, n_names).
        found: What was measured; see :func:`play`.
    """
    columns = [column for column in found if column != CROWDS]
    effects = {column: slopes(doublings, found[column]) for column in columns}
    rows = []
    for place, name in enumerate(names):
        cells = [percent(*(one[place] for one in effects[column])) for column in columns]
        larger = doublings[:, place] > np.median(doublings[:, place])
        halves = (mean_percent(found[CROWDS][half]) for half in (~larger, larger))
        rows.append([f"`{name}`", *cells, " / ".join(halves)])
    heads = [*columns, f"{CROWDS} that do not share, smaller / larger"]
    return markdown_table(["doubled", *(f">{head}, %" for head in heads)], rows)


def slopes(doublings: Array, measured: Array) -> tuple[Array, Array]:
    """Return what a doubling of each constant adds, by least squares, and its standard error."""
    terms = np.column_stack([np.ones(len(doublings)), doublings])
    slope = np.linalg.lstsq(terms, measured, rcond=None)[0].astype(np.float64)
    rest = measured - terms @ slope
    variance = rest @ rest / (len(rest) - len(slope))
    errors: Array = np.sqrt(variance * np.diag(np.linalg.inv(terms.T @ terms)))
    return slope[1:], errors[1:]


def percent(log2_change: float, error: float) -> str:
    """Return a change with its standard error, both given as logarithms, in %."""
    change = 100.0 * (2.0**log2_change - 1.0)
    return f"{change:+.1f} ± {100.0 * math.log(2.0) * error * 2.0**log2_change:.1f}"


def mean_percent(shares: Array) -> str:
    """Return the mean of some laws' shares with its standard error, in %."""
    return f"{100.0 * shares.mean():.1f} ± {100.0 * shares.std(ddof=1) / math.sqrt(len(shares)):.1f}"


if __name__ == "__main__":
    main()
