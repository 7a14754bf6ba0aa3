"""Grader of lab 6, simulator and kernel; it uses the recorded runs and randomly drawn values."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.labs.graders.answers import same_numbers, shown
from sysgym.labs.grades import Outcome, Part, Seeds
from sysgym.labs.recorded import KERNEL, SIMULATOR, laws, values
from sysgym.labs.sandbox.process import Refused
from sysgym.labs.sources import SubmissionError
from sysgym.labs.submissions import Submission

LEAST_DIFFERENCE, LEAST_ERRORS = 0.05, 2.0


def difference(simulator: NDArray[np.float64], kernel: NDArray[np.float64]) -> list[float]:
    """Return the difference of means and its standard error, both relative to the kernel's mean."""
    mean = float(np.mean(kernel))
    variance = np.var(simulator, ddof=1) / len(simulator) + np.var(kernel, ddof=1) / len(kernel)
    return [float(np.mean(simulator) - mean) / mean, math.sqrt(variance) / mean]


def differing_laws() -> list[str]:
    """Return the laws whose mean queue differs between the backends in the recorded runs."""
    found = []
    for law in laws():
        queues = [values(law, backend, "queue_mean_bytes") for backend in (SIMULATOR, KERNEL)]
        relative, error = difference(*queues)
        if abs(relative) > LEAST_DIFFERENCE and abs(relative) > LEAST_ERRORS * error:
            found.append(law)
    return found


def _goodput(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("goodput")
    cases = [
        (float(rng.uniform(1e7, 1e11)), int(rng.integers(500, 9000)), int(rng.integers(40, 80)))
        for _ in range(5)
    ]
    return same_numbers(
        submission, "goodput_bps", cases, lambda rate, packet, header: rate * (packet - header) / packet, 1e-4
    )


def _difference(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("difference")
    cases: list[Any] = [
        (rng.normal(10.0, 2.0, int(rng.integers(5, 20))), rng.normal(11.0, 1.0, int(rng.integers(5, 20))))
        for _ in range(3)
    ]
    cases += [[values(law, backend, "queue_mean_bytes") for backend in (SIMULATOR, KERNEL)] for law in laws()]
    return same_numbers(submission, "difference", cases, difference, 1e-6)


def _names(submission: Submission, seeds: Seeds) -> Outcome:
    truth = differing_laws()
    try:
        found = submission.constant("DIFFERENT_QUEUES")
    except Refused as refused:
        raise SubmissionError(
            f"DIFFERENT_QUEUES is computed ({submission.explained(str(refused))}): type the names that you"
            f' found, such as ["{laws()[0]}", "{laws()[-1]}"]'
        ) from None
    if not isinstance(found, list) or not all(one in laws() for one in found):
        raise SubmissionError(
            f"DIFFERENT_QUEUES: expected a list of {', '.join(laws())}, found {shown(found)}"
        )
    wrong = sorted(set(found) ^ set(truth))
    if wrong:
        return Outcome(0.0, f"{len(wrong)} of {len(laws())} laws are listed wrongly, or are missing")
    return Outcome(1.0, "as in the recorded runs")


def _pairs(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("pairs")
    names = ["bbr", "cubic", "dctcp", "hpcc", "reno", "swift"]
    for _ in range(5):
        simulator = {name: float(value) for name, value in zip(names, rng.random(len(names)), strict=True)}
        kernel = {name: value + float(rng.normal(0.0, 0.3)) for name, value in simulator.items()}
        truth = [
            [a, b]
            for a, b in combinations(names, 2)
            if (simulator[a] - simulator[b]) * (kernel[a] - kernel[b]) < 0.0
        ]
        found = submission.call("reversed_pairs", simulator, kernel)
        if not isinstance(found, list) or not all(isinstance(one, list) and len(one) == 2 for one in found):
            raise SubmissionError(f"reversed_pairs: expected a list of pairs of names, found {shown(found)}")
        if sorted(map(str, found)) != sorted(map(str, truth)):
            return Outcome(0.0, f"reversed_pairs: expected {truth}, found {shown(found)}")
    return Outcome(1.0, "right for five drawn rankings")


PARTS = (
    Part("goodput", 15, ("goodput_bps",), _goodput, "payload over packet, times the rate"),
    Part("difference", 30, ("difference",), _difference, "np.var(..., ddof=1) / len(...) of both, added"),
    Part(
        "laws that differ",
        25,
        ("DIFFERENT_QUEUES",),
        _names,
        "print difference() for each law: more than 5 %, and more than 2 standard errors",
    ),
    Part(
        "reversed pairs",
        30,
        ("reversed_pairs",),
        _pairs,
        "a product of differences is negative if the order differs",
    ),
)
