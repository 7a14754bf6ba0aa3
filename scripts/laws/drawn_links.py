"""Play congestion control laws on links drawn at random, among their own flows and beside other laws.

    python scripts/laws/drawn_links.py adaptive_swift dctcp --crowds 160
    python scripts/laws/drawn_links.py adaptive_swift --shared 60 --beside dctcp cubic bbr swift reno
    python scripts/laws/drawn_links.py mine=adaptive_swift@LAW.json --shared 60 --seed 9000
    python scripts/laws/drawn_links.py adaptive_swift dctcp --crowds 160 --path-delay least_seen

Crowds are 8 to 256 long-lived flows that begin one after the other at 0.5 to 100 Gb/s; shared links carry 2
to 24 flows at 0.1 to 40 Gb/s, half of them another law's. Delays, buffers, thresholds of marks and the number
of packets that receivers acknowledge at once are drawn, too. One law in one draw is one episode, of 80,000 to
300,000 packets of the line, of which the second half counts. Prints counts of draws; a share is goodput over
the mean of all flows. With ``--path-delay least_seen`` no flow is told of the empty path. Laws are named as
contenders of a benchmark are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sysgym.bench.tables import markdown_table
from sysgym.cli.parallel import in_parallel
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.envs.congestion.random_links import NETWORK, Link, draw_crowd, draw_shared_link
from sysgym.envs.congestion.sharing import Sharing, measure_sharing
from sysgym.scenarios.errors import SysgymError
from sysgym.studies.neighbours import transports_of

FULL = 0.6
"""Mean queue over the buffer from which a buffer counts as full."""

FAIR = 2.0 / 3.0, 4.0 / 3.0
"""Shares between which each of two laws has at least half of what the other has."""


def draw(
    make: Callable[[np.random.Generator], Link], number: int, seed: int, path_delay: str = "known"
) -> list[Link]:
    """Return links, each from a generator of its own, so that more draws leave the first ones as they are."""
    links = [make(np.random.default_rng([seed, index])) for index in range(number)]
    told = {"transport.path_delay": path_delay}
    return [link._replace(scenario=link.scenario.with_overrides(told)) for link in links]


def crowd_table(laws: Mapping[str, Transport], links: Sequence[Link]) -> str:
    """Return how often each law's own flows share, and how often they fill the buffer, in Markdown."""
    body = []
    for name, law in laws.items():
        found = list(zip(links, _play(law, law, links, name), strict=True))
        for packets in (1, 2):
            some = [one for one in found if one[0].scenario.transport.delayed_ack_packets == packets]
            jain = [shared.jain_index for _, shared in some]
            fair = [sum(index >= least for index in jain) for least in (0.98, 0.9)]
            full = sum(
                shared.queue_mean_bytes > FULL * link.scenario.queue.buffer_bytes for link, shared in some
            )
            least = f"{min(jain):.3f}" if jain else "–"
            body.append([name, str(packets), *map(str, [len(some), *fair, full]), least])
    header = ["law", "packets an ACK", ">crowds", ">Jain 0.98", ">Jain 0.9", ">buffer full", ">least Jain"]
    return markdown_table(header, body)


def shared_table(laws: Mapping[str, Transport], beside: Sequence[str], links: Sequence[Link]) -> str:
    """Return how often each law has a fair share beside others, in Markdown."""
    body = []
    for name, law in laws.items():
        for other in beside:
            found = _play(law, get_transport(other), links, f"{name} beside {other}")
            shares = np.array([one.share for one in found])
            fair = ((shares >= FAIR[0]) & (shares <= FAIR[1])).sum()
            counts = [fair, (shares < 0.2).sum(), (shares > 1.8).sum()]
            body.append([name, other, str(len(shares)), *map(str, counts), f"{np.median(shares):.2f}"])
    header = ["law", "beside", ">links", ">0.67 to 1.33", ">below 0.2", ">above 1.8", ">median share"]
    return markdown_table(header, body)


def _play(law: Transport, other: Transport, links: Sequence[Link], title: str) -> list[Sharing]:
    def measure(job: tuple[int, Link]) -> Sharing:
        seed, link = job
        return measure_sharing(link.scenario, law, other, link.duration_s, seed)

    return in_parallel(measure, enumerate(links), title)


def main() -> None:
    """Draw links, play every law on each, and print a table for crowds and one for shared links."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("laws", nargs="+", help="laws, as contenders: NAME, or NAME=AGENT@CHECKPOINT")
    parser.add_argument("--crowds", type=int, default=0, help="number of crowds")
    parser.add_argument("--shared", type=int, default=0, help="number of shared links")
    parser.add_argument("--beside", nargs="+", default=["dctcp", "cubic", "bbr", "swift", "reno"])
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--path-delay", choices=("known", "least_seen"), default="known")
    given = parser.parse_args()
    if min(given.crowds, given.shared, given.seed) < 0 or not given.crowds + given.shared:
        parser.error("expected --crowds N, --shared N or both, and no number below 0")
    try:
        laws = transports_of(given.laws, NETWORK)
        if given.crowds:
            links = draw(draw_crowd, given.crowds, given.seed, given.path_delay)
            print(crowd_table(laws, links), end="\n\n")
        if given.shared:
            links = draw(draw_shared_link, given.shared, given.seed, given.path_delay)
            print(shared_table(laws, given.beside, links))
    except SysgymError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
