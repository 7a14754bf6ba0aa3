"""Grader of lab 2, DCTCP and its threshold."""

from __future__ import annotations

import numpy as np

from sysgym.labs.graders.answers import number, same_numbers
from sysgym.labs.grades import Outcome, Part, Seeds
from sysgym.labs.links import PACKET_BYTES, Link, play
from sysgym.labs.submissions import Submission

LEAST_USED, LONGEST_QUEUE = 0.996, 0.185
"""Minimum use of every link, and maximum mean queue over the links, in bandwidth-delay products (BDP).

Over 24 draws of the links, 16 flows used at least 99.8 % with K = BDP / 4, at most 99.5 % with BDP / 5 and at
most 98.5 % with the bound of BDP / 7. Eight flows used 100.0 % with BDP / 4 and at most 99.5 % with BDP / 7.
The mean queue with BDP / 4 on all links is 0.22, that of the solution 0.16.
"""

SHORTEST_S = 1e-4
LONGEST_S = {2: 3e-4, 4: 3e-4, 8: 1.1e-4, 16: 1.3e-4}
"""Longest round trip by number of flows. The bound on K fails for many flows with small windows."""


def prepare() -> None:
    """Compile the code that the parts need."""
    play(Link(1e9, 1e-4, 1e5, 1e4), "dctcp", duration_s=1e-3)


def _sender(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("sender")

    def truth(cwnd: float, alpha: float, marked: float, gain: float) -> list[float]:
        alpha = (1.0 - gain) * alpha + gain * marked
        return [cwnd * (1.0 - alpha / 2.0) if marked > 0.0 else cwnd + 1.0, alpha]

    cases = [(float(rng.uniform(2, 200)), float(rng.random()), float(rng.random()), 1 / 16) for _ in range(4)]
    cases.append((float(rng.uniform(2, 200)), float(rng.random()), 0.0, 1 / 8))
    return same_numbers(submission, "after_one_window", cases, truth, tolerance=1e-6)


def _bound(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("bound")
    cases = [(float(rng.uniform(1e9, 1e11)), float(rng.uniform(1e-5, 1e-3))) for _ in range(5)]
    return same_numbers(submission, "least_k_bytes", cases, lambda rate, rtt: rate * rtt / 56.0)


def _peak(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("peak")
    off = []
    for flows in (2, 12, 24):
        k_packets = int(rng.integers(60, 120))
        link = Link(10e9, float(rng.uniform(1e-4, 1.5e-4)), 1e6, k_packets * PACKET_BYTES, flows)
        result = play(link, "dctcp", seed=int(rng.integers(1000)))
        measured = result.queue_max_bytes / PACKET_BYTES
        call = f"largest_queue_packets({k_packets}, {flows})"
        found = number(submission.call("largest_queue_packets", k_packets, flows), call)
        off.append(abs(found - measured))
        if off[-1] > 4.0:
            return Outcome(0.0, f"{call}: the simulator measured {measured:.1f} packets, found {found:.1f}")
    return Outcome(1.0, f"within {max(off):.1f} packets of the simulator on three hidden links")


def _choice(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("choice")
    used, queues = [], []
    for flows, longest_s in LONGEST_S.items():
        link = Link(10e9, float(rng.uniform(SHORTEST_S, longest_s)), 0.0, flows=flows)
        link = link.with_buffer(20.0 * link.bdp_bytes)
        call = f"choose_k_bytes({link.rate_bps:.3g}, {link.rtt_s:.3g}, {flows})"
        k_bytes = number(submission.call("choose_k_bytes", link.rate_bps, link.rtt_s, flows), call)
        if not 0.0 < k_bytes <= link.buffer_bytes:
            return Outcome(
                0.0, f"{call}: expected more than 0 and at most the buffer, found {k_bytes:.3g} bytes"
            )
        result = play(link.with_marks(k_bytes), "dctcp", seed=int(rng.integers(1000)))
        used.append(result.used)
        queues.append(result.queue_bytes / link.bdp_bytes)
    worst, mean = min(used), float(np.mean(queues))
    message = (
        f"on four hidden links the least use is {100 * worst:.2f} % (expected at least"
        f" {100 * LEAST_USED:g}), the mean queue {mean:.3f} BDP (expected at most {LONGEST_QUEUE:g})"
    )
    return Outcome(
        0.5 * (worst >= LEAST_USED) + 0.5 * (mean <= LONGEST_QUEUE and worst > 0.8),
        message,
    )


PARTS = (
    Part(
        "sender",
        20,
        ("after_one_window",),
        _sender,
        "alpha first, then cwnd with the new alpha; no mark: + 1",
    ),
    Part("bound", 15, ("least_k_bytes",), _bound, "a seventh of rate times round trip, in bytes"),
    Part(
        "largest queue",
        25,
        ("largest_queue_packets",),
        _peak,
        "each of the flows adds one packet per round trip",
    ),
    Part(
        "choice of K",
        40,
        ("choose_k_bytes",),
        _choice,
        "print use and queue for 2, 4, 8 and 16 flows at K = BDP / 7, and raise K only where use is lost",
    ),
)
