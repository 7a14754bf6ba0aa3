"""Print the means of metrics over test seeds for variants of a scenario, on the simulator, as a table.

    python scripts/hosts/variants.py linux-fattree-incast-shallow -c dctcp cubic --seeds 10 \
        -m timeouts round_completion_mean_s fct_slowdown_p99 \
        --variant transport.loss_detection=dupack transport.quick_acks=0 --variant

Each ``--variant`` is a row for each contender: keys that are set, none for the scenario as it is. Keys after
``--set`` hold for all rows. Tables of docs/packets.md and docs/hosts.md are made by this.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.progress import track

import sysgym
from sysgym.bench.contenders import parse_contender
from sysgym.bench.run.episodes import make_contender, play
from sysgym.bench.tables import markdown_table
from sysgym.scenarios import load_scenario, parse_overrides
from sysgym.scenarios.errors import UnknownName
from sysgym.scenarios.families import evaluation_of

REGISTERED = sysgym.__version__


def main() -> None:
    """Play all rows, and print the table."""
    given = parsed()
    known = evaluation_of("congestion").metric_meanings()
    for metric in given.metric:
        if metric not in known:
            raise SystemExit(str(UnknownName("metric", metric, known)))
    rows = []
    cases = [(text, variant) for text in given.contender for variant in given.variant or [[]]]
    for text, variant in track(cases, "rows", console=Console(stderr=True)):
        means = means_of(given.scenario, text, [*given.set, *variant], given.seeds, given.metric)
        rows.append([text, " ".join(variant), *(f"{mean:.3g}" for mean in means)])
    print(markdown_table(["law", "variant", *given.metric], rows))


def means_of(
    scenario: str, contender: str, settings: Sequence[str], n_seeds: int, metrics: Sequence[str]
) -> list[float]:
    """Return the means of metrics over the first test seeds."""
    loaded = load_scenario(scenario, overrides=parse_overrides(settings))
    env, agent = make_contender(loaded.resolved(), "test", parse_contender(contender), backend="packets")
    first = loaded.splits["test"].first_seed
    try:
        played = [play(env, agent, first + number).info["episode_metrics"] for number in range(n_seeds)]
    finally:
        env.close()
    return [float(np.mean([one.get(metric, np.nan) for one in played])) for metric in metrics]


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("-c", "--contender", nargs="+", required=True)
    parser.add_argument("-m", "--metric", nargs="+", required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument("--variant", nargs="*", action="append", metavar="KEY=VALUE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
