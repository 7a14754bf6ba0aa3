"""Grader of lab 1, bufferbloat."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysgym.labs.graders.answers import choice, number, same_numbers
from sysgym.labs.grades import Outcome, Part, Seeds
from sysgym.labs.links import Link, Played, play, watch
from sysgym.labs.sources import SubmissionError
from sysgym.labs.submissions import Submission

LAWS = ("reno", "cubic", "bbr")

USED_ALONE, USED_SHARED, LONGEST_DELAY = 0.98, 0.95, 0.25
"""Minimum use of a link by one flow and by nine flows, and maximum mean delay of nine flows, in round trips.

Over 12 draws, a buffer of BDP / sqrt(n) gave a use of at least 99.5 % for one flow, and of at least 96.4 %
with a delay of at most 0.21 for nine. A buffer of 0.6 BDP, which ignores the number of flows, gave at most
97.4 % for one flow and a delay of at least 0.33 for nine. A buffer of BDP / n gave at most 94.8 % for nine.
"""


def prepare() -> None:
    """Compile the code that the parts need."""
    link = Link(10e6, 0.03, 37_500.0)
    watch(link, "bbr", duration_s=0.1, samples=10)
    play(link, "reno", duration_s=0.1)


def _drawn(rng: np.random.Generator, flows: int) -> Link:
    return Link(float(rng.uniform(5e6, 30e6)), float(rng.uniform(0.02, 0.06)), 0.0, flows=flows)


def _bdp(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("bdp")
    cases = [(float(rng.uniform(1e6, 1e10)), float(rng.uniform(1e-4, 0.2))) for _ in range(5)]
    return same_numbers(submission, "bdp_bytes", cases, lambda rate_bps, rtt_s: rate_bps * rtt_s / 8.0)


def _delay(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("delay")
    cases = [(float(rng.uniform(1e4, 1e7)), float(rng.uniform(1e6, 1e10))) for _ in range(5)]
    return same_numbers(submission, "full_queue_delay_s", cases, lambda size, rate_bps: 8.0 * size / rate_bps)


def _summary(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("summary")

    def truth(queue_bytes: Any, rate_bps: float) -> list[float]:
        delays_s = 8.0 * queue_bytes[len(queue_bytes) // 3 :] / rate_bps
        return [float(delays_s.mean()), float(np.quantile(delays_s, 0.95))]

    cases = []
    for law in ("reno", "cubic"):
        link = _drawn(rng, 2)
        link = link.with_buffer(float(rng.uniform(1.0, 4.0)) * link.bdp_bytes)
        seen = watch(link, law, seed=int(rng.integers(1000)), duration_s=10.0, samples=600)
        cases.append((seen.queue_bytes, link.rate_bps))
    return same_numbers(submission, "queueing_delays_s", cases, truth, tolerance=0.02)


def _buffer(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("buffer")
    alone, _ = _with_chosen_buffer(submission, _drawn(rng, 1), int(rng.integers(1000)))
    nine, delay = _with_chosen_buffer(submission, _drawn(rng, 9), int(rng.integers(1000)))
    message = (
        f"one flow used {100 * alone.used:.1f} % of a hidden link (expected at least {100 * USED_ALONE:g});"
        f" nine used {100 * nine.used:.1f} % of another (at least {100 * USED_SHARED:g}) with a mean delay of"
        f" {delay:.2f} round trips (at most {LONGEST_DELAY:g})"
    )
    short = delay <= LONGEST_DELAY and nine.used >= USED_SHARED
    return Outcome(0.5 * (alone.used >= USED_ALONE) + 0.5 * short, message)


def _with_chosen_buffer(submission: Submission, link: Link, seed: int) -> tuple[Played, float]:
    """Return measurements with the submission's choice of a buffer, and the mean delay in round trips."""
    call = f"choose_buffer_bytes({link.bdp_bytes:.5g}, {link.flows})"
    size = number(submission.call("choose_buffer_bytes", link.bdp_bytes, link.flows), call)
    if not 0.0 < size <= 100.0 * link.bdp_bytes:
        raise SubmissionError(f"{call}: expected more than 0 and at most 100 BDP, found {size:.3g} bytes")
    result = play(link.with_buffer(size), "reno", seed=seed, duration_s=600 * link.rtt_s)
    return result, result.delay_s / link.rtt_s


def _laws(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("laws")
    link = _drawn(rng, 2)
    seed = int(rng.integers(1000))

    def results(factor: float) -> dict[str, Any]:
        size = factor * link.bdp_bytes
        return {
            law: play(link.with_buffer(size), law, seed=seed, duration_s=600 * link.rtt_s) for law in LAWS
        }

    large, small = results(10.0), results(0.25)
    truths = {
        "SHORTEST_QUEUE": min(LAWS, key=lambda law: large[law].queue_bytes),
        "MOST_DROPS": max(LAWS, key=lambda law: small[law].dropped),
    }
    wrong = []
    for name, truth in truths.items():
        try:
            found = choice(submission.constant(name), name, LAWS)
        except SubmissionError as error:
            wrong.append(str(error))
            continue
        if found != truth:
            wrong.append(f"{name} is {found!r}, but not on a hidden link")
    return Outcome(1.0 - len(wrong) / len(truths), "; ".join(wrong) or "both are right")


PARTS = (
    Part("bdp", 15, ("bdp_bytes",), _bdp, "rate times round trip is in bits; a byte has eight"),
    Part("full queue", 15, ("full_queue_delay_s",), _delay, "bytes times 8, divided by the rate"),
    Part(
        "summary",
        25,
        ("queueing_delays_s",),
        _summary,
        "leave out exactly the first third, queue_bytes[len(queue_bytes) // 3:], and return two numbers",
    ),
    Part(
        "buffer",
        30,
        ("choose_buffer_bytes",),
        _buffer,
        "plot use and delay over the buffer for 1, 4 and 9 flows: where does use stop growing?",
    ),
    Part(
        "laws", 15, ("SHORTEST_QUEUE", "MOST_DROPS"), _laws, "play all three laws in both buffers and print"
    ),
)
