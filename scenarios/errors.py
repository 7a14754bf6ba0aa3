"""Errors of sysgym: one tree, so that ``except SysgymError`` catches all that the package raises on purpose.

The tree lives in the lowest layer and is re-exported as ``sysgym.errors``. Nothing heavy is imported here,
and every error survives pickling, because benchmark workers hand their errors to the parent process.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

__all__ = [
    "NOTHING",
    "BackendError",
    "BackendUnavailable",
    "MissingExtra",
    "Nothing",
    "Problem",
    "ResultMismatch",
    "ScenarioError",
    "SysgymError",
    "TransportError",
    "UnknownName",
    "closest_name",
]

_LONGEST_VALUE_SHOWN = 120


class Nothing(enum.Enum):
    """Type of :data:`NOTHING`; an enum so that copies and pickles stay the same object."""

    NOTHING = "nothing"

    def __repr__(self) -> str:
        """Return the word that a message shows."""
        return "nothing"


NOTHING = Nothing.NOTHING
"""What was found where a key is missing."""


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like ``name``, or None where none is close.

    Args:
        name: What the user wrote.
        known: The names that exist.
    """
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.6)
    return by_lower_case[close[0]] if close else None


class SysgymError(Exception):
    """Root of all errors that sysgym raises on purpose."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong in a scenario or suite.

    Attributes:
        key: Dotted key, ``workload.load``; empty for the file as a whole.
        got: What was found there; :data:`NOTHING` where the key is missing.
        expected: What would have been right, in words.
        advice: What to do about it; may be empty.
        line: Line of the file, counted from 1; None where it is not known.
        origin: ``"overrides"`` where the value came from the caller and not from the file.
    """

    key: str
    got: Any
    expected: str
    advice: str = ""
    line: int | None = None
    origin: str = ""

    def describe(self) -> str:
        """Return a readable block of two to four lines."""
        where = self.key or "the file"
        if self.origin:
            where += f" (from {self.origin})"
        elif self.line is not None:
            where += f" (line {self.line})"
        lines = [where, f"  got       {_show(self.got)}", f"  expected  {self.expected}"]
        if self.advice:
            lines.append(f"  to do     {self.advice}")
        return "\n".join(lines)


class ScenarioError(SysgymError):
    """Raised when a scenario or suite cannot be used; names file, key, what was found and what was expected.

    Raise it with ``problems`` for several findings, or with ``key``, ``got`` and ``expected`` for one.

    Attributes:
        path: The file, or a word in angle brackets where there is none.
        problems: All findings, in the order of the file as far as it is known.
        key: Dotted key of the first finding.
        got: Value of the first finding.
        expected: What the first finding should have been.
    """

    def __init__(
        self,
        path: str | PathLike[str] = "<scenario>",
        key: str = "",
        got: Any = NOTHING,
        expected: str = "",
        *,
        advice: str = "",
        problems: Sequence[Problem] = (),
    ) -> None:
        self.path = fspath(path)
        self.problems = tuple(problems) or (Problem(key, got, expected, advice),)
        first = self.problems[0]
        self.key, self.got, self.expected = first.key, first.got, first.expected
        count = len(self.problems)
        head = f"{self.path}: " + ("one problem" if count == 1 else f"{count} problems")
        blocks = [_indent(problem.describe()) for problem in self.problems]
        super().__init__("\n".join([head, *blocks]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path and problems."""
        return (_scenario_error, (self.path, self.problems))


class BackendUnavailable(SysgymError):
    """Raised when a backend cannot run on this machine; says what is missing and how to install it.

    Attributes:
        backend: Its name, such as ``linux``.
        missing: What is missing.
        remedy: The exact line that installs it, or what else helps.
    """

    def __init__(self, backend: str, missing: str, remedy: str = "") -> None:
        self.backend, self.missing, self.remedy = backend, missing, remedy
        super().__init__(
            f'the backend "{backend}" cannot run here: {missing}' + (f"\nto do: {remedy}" if remedy else "")
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the constructor's arguments."""
        return (type(self), (self.backend, self.missing, self.remedy))


class BackendError(SysgymError):
    """Raised when a backend that was running fails: it died, timed out or answered nonsense.

    Attributes:
        detail: What the backend said last, such as the tail of its standard error; may be empty.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        self.message, self.detail = message, detail
        super().__init__(f"{message}\n{detail}" if detail else message)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the constructor's arguments."""
        return (type(self), (self.message, self.detail))


class ResultMismatch(SysgymError):
    """Raised when a replayed result differs from the recorded one."""


class TransportError(SysgymError):
    """Raised when a transport fails while it simulates: it raised, or its window or rate is none.

    The world has stopped there; a reset begins anew.

    Attributes:
        transport: Its name.
        flow: Number of the flow that it failed for, and ``ends``, the hosts between which that goes.
        callback: The callback that failed, with its file and line.
        time_s: Simulated time.
        got: What it wrote or raised, in words.
        expected: What would have been right.
    """

    def __init__(
        self,
        transport: str,
        *,
        flow: int,
        ends: str,
        callback: str,
        time_s: float,
        got: str,
        expected: str,
    ) -> None:
        self.transport, self.flow, self.ends, self.callback = transport, flow, ends, callback
        self.time_s, self.got, self.expected = time_s, got, expected
        super().__init__(
            f'the transport "{transport}" failed at {time_s:.9f} s of simulated time: {callback}, for flow'
            f" {flow} ({ends})\n  got       {got}\n  expected  {expected}\n"
            "  to do     mend the callback; reset() begins a new episode, which may use another transport"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the constructor's arguments."""
        words = {name: value for name, value in self.__dict__.items() if name != "transport"}
        return (_transport_error, (self.transport, words))


class MissingExtra(SysgymError, ImportError):
    """Raised when an optional part is used without its extra; names the extra and the line that installs it.

    Attributes:
        extra: Name of the extra, such as ``train``.
        feature: What needs it.
    """

    def __init__(self, extra: str, feature: str) -> None:
        self.extra, self.feature = extra, feature
        super().__init__(f'{feature} needs the extra "{extra}": pip install "sysgym[{extra}]"')

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the constructor's arguments."""
        return (type(self), (self.extra, self.feature))


class UnknownName(SysgymError, KeyError):
    """Raised when a name is not registered; suggests the closest one and lists what there is.

    Attributes:
        kind: What was looked up, such as ``scenario``.
        name: The name that was not found.
        known: The names that exist, sorted.
        suggestion: The closest of them, or None.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str] = (), *, hint: str = "") -> None:
        self.kind, self.name, self.known, self.hint = kind, name, tuple(sorted(known)), hint
        self.suggestion = closest_name(name, self.known)
        message = f'no {kind} is named "{name}"'
        if self.suggestion is not None:
            message += f'; did you mean "{self.suggestion}"?'
        message += f" (there is: {', '.join(self.known)})" if self.known else " (there is none)"
        self.message = f"{message} {hint}".rstrip()
        super().__init__(self.message)

    def __str__(self) -> str:
        """Return the message itself: KeyError would show its repr."""
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the constructor's arguments."""
        return (_unknown_name, (self.kind, self.name, self.known, self.hint))


def _scenario_error(path: str, problems: tuple[Problem, ...]) -> ScenarioError:
    return ScenarioError(path, problems=problems)


def _unknown_name(kind: str, name: str, known: tuple[str, ...], hint: str) -> UnknownName:
    return UnknownName(kind, name, known, hint=hint)


def _transport_error(transport: str, words: dict[str, Any]) -> TransportError:
    return TransportError(transport, **words)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE_SHOWN else text[: _LONGEST_VALUE_SHOWN - 3] + "..."


def _indent(block: str) -> str:
    return "\n".join(f"  {line}" for line in block.splitlines())
