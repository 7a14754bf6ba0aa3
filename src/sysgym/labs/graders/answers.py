"""Checks of the form and the values of answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sysgym.labs.grades import Outcome
from sysgym.labs.sources import SubmissionError
from sysgym.labs.submissions import Submission


def number(value: Any, what: str) -> float:
    """Check that an answer is a finite number, and return it.

    Raises:
        SubmissionError: The answer is not a finite number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
        raise SubmissionError(f"{what}: expected a finite number, found {shown(value)}")
    return float(value)


def numbers(value: Any, what: str, count: int | None = None) -> list[float]:
    """Check that an answer is a list of finite numbers, and return it.

    Raises:
        SubmissionError: The answer is not such a list, or has another length.
    """
    if not isinstance(value, list) or count not in (None, len(value)):
        length = "" if count is None else f" of {count} numbers"
        raise SubmissionError(f"{what}: expected a list{length}, found {shown(value)}")
    return [number(one, f"{what}[{index}]") for index, one in enumerate(value)]


def choice(value: Any, what: str, choices: Sequence[str]) -> str:
    """Check that an answer is one of several texts, and return it in lower case.

    Raises:
        SubmissionError: The answer is none of the texts.
    """
    if not isinstance(value, str) or value.lower() not in choices:
        raise SubmissionError(f"{what}: expected one of {', '.join(choices)}, found {shown(value)}")
    return value.lower()


def shown(value: Any) -> str:
    """Return an answer for a message, in at most 80 characters."""
    text = "None (a return is missing?)" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def same_numbers(
    submission: Submission,
    name: str,
    cases: Iterable[Sequence[Any]],
    truth: Callable[..., float | Sequence[float]],
    tolerance: float = 0.01,
) -> Outcome:
    """Compare a function of the submission with a reference function on several arguments.

    Args:
        submission: The submission.
        name: Name of the function.
        cases: Arguments of each call.
        truth: Reference function; it returns a number or a list of numbers.
        tolerance: Maximum relative difference.
    """
    count = 0
    for case in cases:
        expected = truth(*case)
        found = submission.call(name, *case)
        call = f"{name}({', '.join(_argument(one) for one in case)})"
        if isinstance(expected, float | int):
            wanted, got = [float(expected)], [number(found, call)]
        else:
            wanted = [float(one) for one in expected]
            got = numbers(found, call, len(wanted))
        for right, one in zip(wanted, got, strict=True):
            if not math.isclose(right, one, rel_tol=tolerance, abs_tol=1e-9):
                return Outcome(
                    0.0, f"{call}: expected {right:.6g} (within {100 * tolerance:g} %), found {one:.6g}"
                )
        count += 1
    return Outcome(1.0, f"{name} is right in {count} of {count} cases")


def _argument(value: Any) -> str:
    if hasattr(value, "shape"):
        return f"array of {value.size}"
    if isinstance(value, list | dict):
        return f"{type(value).__name__} of {len(value)}"
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
