"""Grader of lab 4, incast and tails."""

from __future__ import annotations

import math

import numpy as np

from sysgym.labs.graders.answers import number, same_numbers, shown
from sysgym.labs.grades import Outcome, Part, Seeds
from sysgym.labs.incast import Incast, play_rounds
from sysgym.labs.sources import SubmissionError
from sysgym.labs.submissions import Submission

LONGEST_SLOWDOWN = 1.2
"""Maximum mean slowdown; that of the largest windows that fit is about 1.1."""

LARGEST_WINDOWS = (3, 4, 6)
"""Largest windows that fit. The value 2 is not used because a window that is one smaller, a single packet,
would lose round trips. With consecutive values, such as 3, 4 and 5, the constant 4 would be good enough."""

ROUNDS = 8
"""Number of requests in one measurement.

Buffers have room for the largest windows and 0.5 to 0.9 of a packet more for every server. Over 160 draws,
the mean slowdown of the largest windows was 1.04 to 1.18, and that of windows one packet larger 1.18 to 2.82,
below the limit in one draw. Over 60 draws, that of windows one packet smaller was 1.03 to 1.11.
"""


def prepare() -> None:
    """Compile the code that the parts need."""
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
    slowdowns, small = [], ""
    numbers_of_servers = (int(rng.integers(16, 25)), int(rng.integers(26, 37)), int(rng.integers(38, 49)))
    for servers, fits in zip(numbers_of_servers, rng.permutation(LARGEST_WINDOWS), strict=True):
        buffer_packets = round((servers - 1) * (fits + rng.uniform(0.5, 0.9)))
        call = f"first_window_packets({servers}, {buffer_packets})"
        window = number(submission.call("first_window_packets", servers, buffer_packets), call)
        if window != int(window) or not 1 <= window <= 1000:
            return Outcome(
                0.0, f"{call}: expected a whole number of packets from 1 to 1000, found {window:g}"
            )
        if (servers - 1) * (window + 2) <= buffer_packets:
            small = f"; {call} = {window:g} is small: windows of {window + 2:g} fit too"
        incast = Incast(servers, buffer_packets, int(window))
        seed = int(rng.integers(1000))
        slowdowns.append(play_rounds(incast, "dctcp", seed=seed, rounds=ROUNDS).slowdown)
    mean = float(np.mean(slowdowns))
    message = (
        f"mean slowdown {mean:.2f} on three hidden incasts (expected at most {LONGEST_SLOWDOWN:g}):"
        f" {', '.join(f'{one:.2f}' for one in slowdowns)}{small}"
    )
    fast = mean <= LONGEST_SLOWDOWN
    return Outcome(0.5 * fast + 0.5 * (fast and not small), message)


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
        "first window",
        35,
        ("first_window_packets",),
        _window,
        "the largest window whose queue (part 2) fits the buffer; it depends on both arguments",
    ),
)
