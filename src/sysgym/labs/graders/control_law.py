"""Grader of lab 3, congestion control laws; a law is parsed and compiled, never imported."""

from __future__ import annotations

import numpy as np

from sysgym.labs.grades import Outcome, Part, Seeds
from sysgym.labs.language.laws import CALLBACKS
from sysgym.labs.links import Link, Played, play
from sysgym.labs.submissions import Submission
from sysgym.labs.thresholds import threshold

TUNED = Link(rate_bps=100e6, rtt_s=0.01, buffer_bytes=500e3, mark_bytes=30e3, flows=2)
N_HIDDEN = 6


def prepare() -> None:
    """Compile the code that the parts need."""
    for law in ("reno", "dctcp", "bbr"):  # the plain loop, and the one for laws that pace
        play(TUNED, law, duration_s=0.02)


NO_USE, FULL_USE = 0.90, 0.98
"""Use of a link up to which it earns no points, and from which on it earns all points."""


def score(result: Played, link: Link) -> float:
    """Return the points of a law on a link: 50 for use, 30 for a short queue, 20 for equal shares.

    The points for use rise steeply. Otherwise, a law that always halves its window and leaves a tenth of the
    link idle would win by its short queue.
    """
    full = min(max((result.used - NO_USE) / (FULL_USE - NO_USE), 0.0), 1.0)
    short = max(1.0 - result.delay_s / link.rtt_s, 0.0)
    return 50.0 * full + 30.0 * short + 20.0 * result.fairness


def hidden_links(rng: np.random.Generator, count: int = N_HIDDEN) -> list[Link]:
    """Draw links with rates over three decades, each with 2 to 8 flows."""
    found = []
    for exponent in np.linspace(7.0, 10.0, count):
        rate_bps = float(10.0 ** min(exponent + rng.uniform(-0.2, 0.2), 10.0))
        bdp_packets = float(rng.uniform(30.0, 150.0))
        link = Link(rate_bps, bdp_packets * 12_000.0 / rate_bps, 0.0, flows=int(rng.integers(2, 9)))
        marks = float(rng.uniform(0.1, 0.5)) * link.bdp_bytes
        found.append(link.with_buffer(5.0 * link.bdp_bytes).with_marks(marks))
    return found


def share_of_points(points: float, reno: float, limit: float) -> float:
    """Return the share of a part's points: none up to Reno's score, all from the limit on."""
    if not limit > reno:  # not measured
        return 0.0
    return min(max((points - reno) / (limit - reno), 0.0), 1.0)


def _tuned(submission: Submission, seeds: Seeds) -> Outcome:
    law, seed = submission.law(), seeds.episodes("tuned", 1)[0]
    result = play(TUNED, law, seed=seed)
    points, wanted = score(result, TUNED), threshold("control-law-tuned")
    reno = score(play(TUNED, "reno", seed=seed), TUNED)
    message = (
        f"{points:.1f} points on the link that you know (full marks from {wanted.limit:.1f} on, none up to"
        f" Reno's {reno:.1f}): {100 * result.used:.1f} % used, delay {result.delay_s / TUNED.rtt_s:.2f} round"
        f" trips, fairness {result.fairness:.3f}"
    )
    return Outcome(share_of_points(points, reno, wanted.limit), message, {"control-law-tuned": points})


def _hidden(submission: Submission, seeds: Seeds) -> Outcome:
    law, rng = submission.law(), seeds.rng("hidden")
    links = hidden_links(rng, seeds.count(N_HIDDEN))
    link_seeds = [int(rng.integers(1000)) for _ in links]
    played = list(zip(links, link_seeds, strict=True))
    points = [score(play(link, law, seed=seed), link) for link, seed in played]
    reno = float(np.mean([score(play(link, "reno", seed=seed), link) for link, seed in played]))
    mean, wanted = float(np.mean(points)), threshold("control-law-unseen")
    worst = int(np.argmin(points))
    message = (
        f"{mean:.1f} points on {len(links)} unseen links (full marks from {wanted.limit:.1f} on, none up to"
        f" Reno's {reno:.1f}); the worst is {points[worst]:.1f}, with {links[worst].rate_bps / 1e6:.0f} Mb/s,"
        f" {1e3 * links[worst].rtt_s:.2g} ms,"
        f" {links[worst].flows} flows"
    )
    return Outcome(share_of_points(mean, reno, wanted.limit), message, {"control-law-unseen": mean})


def _contest(submission: Submission, seeds: Seeds) -> Outcome:
    law, rng = submission.law(), seeds.rng("contest")
    points = [
        score(play(link, law, seed=int(rng.integers(1000))), link)
        for link in hidden_links(rng, seeds.count(N_HIDDEN))
    ]
    mean = float(np.mean(points))
    return Outcome(1.0, f"finished with {mean:.2f} points", score=mean)


_MARKS = "react to event.marked, once per window, and reduce by less where few packets are marked (lab 2)"

PARTS = (
    Part("known link", 40, CALLBACKS, _tuned, _MARKS),
    Part("unseen links", 50, CALLBACKS, _hidden, f"{_MARKS}; numbers that fit one link do not fit others"),
    Part("contest", 10, CALLBACKS, _contest, "see what the other parts say"),
)
