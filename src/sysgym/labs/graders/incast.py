"""Grader of lab 4."""

from __future__ import annotations

import math

import numpy as np

from sysgym.labs.graders.answers import number, same_numbers, shown
from sysgym.labs.grades import Outcome, Part, Seeds
from sysgym.labs.incast import Incast, play_rounds
from sysgym.labs.sources import SubmissionError
from sysgym.labs.submissions import Submission
from sysgym.labs.thresholds import threshold


def prepare() -> None:
    """Compile what the parts need."""
    play_rounds(Incast(4, 50, 4), "dctcp", rounds=1)


def _rare(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("rare")
    cases = [(int(rng.integers(2, 500)), float(rng.uniform(1e-4, 0.05))) for _ in range(5)]
    return same_numbers(
        submission, "chance_of_a_slow_page", cases, lambda servers, chance: 1.0 - (1.0 - chance) ** servers
    )


def _queue(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("queue")
    off = []
    for servers in (int(rng.integers(4, 8)), int(rng.integers(20, 40))):
        window = int(rng.integers(4, 13))
        incast = Incast(servers, 2000, window, answer_packets=window)
        measured = play_rounds(incast, "dctcp", seed=int(rng.integers(1000)), rounds=5).queue_max_packets
        call = f"queue_after_first_windows({servers}, {window})"
        found = number(submission.call("queue_after_first_windows", servers, window), call)
        off.append(abs(found - measured))
        if off[-1] > 3.0:
            return Outcome(0.0, f"{call}: the simulator measured {measured:.1f} packets, found {found:.1f}")
    return Outcome(1.0, f"within {max(off):.1f} packets of the simulator on two hidden incasts")


def _tails(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("tails")
    for missing in (False, True):
        count = int(rng.integers(4, 9))
        request = np.repeat(np.arange(count), 6)
        start_s = 0.01 * request + rng.uniform(0.0, 1e-4, len(request))
        finish_s = start_s + rng.exponential(1e-3, len(request))
        if missing:
            finish_s[rng.choice(len(request), 2, replace=False)] = np.nan
        order = rng.permutation(len(request))
        start_s, finish_s, request = start_s[order], finish_s[order], request[order]
        found = submission.call("request_times_s", start_s, finish_s, request)
        truth = [
            float(np.where(np.isnan(finish_s[mine]), np.inf, finish_s[mine]).max() - start_s[mine].min())
            for mine in (request == index for index in range(count))
        ]
        if not isinstance(found, list) or len(found) != count:
            raise SubmissionError(f"request_times_s: expected a list of {count} times, found {shown(found)}")
        for index, (right, one) in enumerate(zip(truth, found, strict=True)):
            same = isinstance(one, int | float) and math.isclose(one, right, rel_tol=1e-6)
            if not same:
                return Outcome(
                    0.0,
                    f"request {index}: expected {right:.6g} s, found {shown(one)} (inf: one is missing)",
                )
    return Outcome(1.0, "right, with and without answers that are missing")


def _window(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("window")
    slowdowns = []
    for servers in (int(rng.integers(16, 25)), int(rng.integers(26, 37)), int(rng.integers(38, 49))):
        buffer_packets = int(servers * rng.uniform(2.6, 6.0))
        call = f"first_window_packets({servers}, {buffer_packets})"
        window = number(submission.call("first_window_packets", servers, buffer_packets), call)
        if window != int(window) or not 1 <= window <= 1000:
            return Outcome(
                0.0, f"{call}: expected a whole number of packets from 1 to 1000, found {window:g}"
            )
        incast = Incast(servers, buffer_packets, int(window))
        slowdowns.append(play_rounds(incast, "dctcp", seed=int(rng.integers(1000))).slowdown)
    limit, mean = threshold("incast-slowdown"), float(np.mean(slowdowns))
    message = (
        f"mean slowdown {mean:.2f} on three hidden incasts (expected at most {limit.limit:.2f}):"
        f" {', '.join(f'{one:.2f}' for one in slowdowns)}"
    )
    return Outcome(float(limit.met(mean)), message, {"incast-slowdown": mean})


PARTS = (
    Part("rare is common", 20, ("chance_of_a_slow_page",), _rare, "one minus the chance that none is slow"),
    Part(
        "queue",
        20,
        ("queue_after_first_windows",),
        _queue,
        "while the windows arrive, one of the n packets leaves",
    ),
    Part(
        "tails",
        25,
        ("request_times_s",),
        _tails,
        "np.unique gives the requests; a nan makes the request infinite",
    ),
    Part(
        "first window", 35, ("first_window_packets",), _window, "the queue after the first windows must fit"
    ),
)
