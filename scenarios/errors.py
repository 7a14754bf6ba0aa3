"""Exceptions of sysgym; all derive from :class:`SysgymError`.

The module is in the lowest layer and re-exported as ``sysgym.errors``. It imports nothing heavy. Every
exception can be pickled, because benchmark workers pass their exceptions to the parent process.
"""

from __future__ import annotations

import difflib
import enum
import errno
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

__all__ = [
    "MOST_PROBLEMS",
    "NOTHING",
    "BackendError",
    "BackendUnavailable",
    "MissingExtra",
    "Nothing",
    "Problem",
    "ResultMismatch",
    "ScenarioError",
    "StorageError",
    "SysgymError",
    "TransportError",
    "UnknownName",
    "closest_name",
    "closest_names",
]

MOST_PROBLEMS = 50
"""Largest number of problems listed in an error; a file may have thousands."""

_LONGEST_VALUE_SHOWN = 120
_LONGEST_NAME_SHOWN = 200
_MOST_SUGGESTIONS = 5
_MOST_NAMES_LISTED = 12
_NEARLY_AS_CLOSE = 0.1


_LISTED_BY = {
    "scenario": "sysgym list scenarios",
    "suite": "sysgym list suites",
    "transport": "sysgym list transports",
    "agent": "sysgym list agents",
    "policy": "sysgym list policies",
    "environment": "sysgym list envs",
    "contender": "sysgym list agents",
    "environment, scenario, suite, transport, agent or policy": "sysgym list",
}
"""Commands that list all names, by kind of name."""

_STORAGE_ADVICE = {
    errno.ENOSPC: "free some space, then run the same command again",
    errno.EDQUOT: "free some space, then run the same command again",
    errno.EROFS: "choose a folder that can be written to",
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
    errno.ENOTDIR: "a part of the path is a file",
    errno.EIO: "the disk fails; look at it before you go on",
}


class Nothing(enum.Enum):
    """Type of :data:`NOTHING`; an enum so that copies and pickles stay the same object."""

    NOTHING = "nothing"

    def __repr__(self) -> str:
        """Return the word shown in messages."""
        return "nothing"


NOTHING = Nothing.NOTHING
"""Value found in place of a missing key."""


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to ``name``, or None if none is close.

    Args:
        name: Name that the user wrote.
        known: Existing names.
    """
    return next(iter(closest_names(name, known, 1)), None)


def closest_names(name: str, known: Iterable[str], most: int) -> list[str]:
    """Return the known names most similar to ``name``, the closest first, then others nearly as close.

    If none is similar, names of several words with these initials: ``lr`` stands for ``learning_rate``.

    Args:
        name: Name that the user wrote.
        known: Existing names.
        most: Largest number of names.
    """
    if len(name) > _LONGEST_NAME_SHOWN:  # the comparison takes quadratic time
        return []
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=most, cutoff=0.6)
    if not close and len(name) > 1:
        words = {one: re.split("[_-]", one) for one in by_lower_case}
        initials = [one for one in words if name.lower() == "".join(word[:1] for word in words[one])]
        return [by_lower_case[one] for one in initials[:most]]
    likeness = [difflib.SequenceMatcher(None, lower, name.lower()).ratio() for lower in close]
    return [
        by_lower_case[lower]
        for lower, ratio in zip(close, likeness, strict=True)
        if ratio >= likeness[0] - _NEARLY_AS_CLOSE
    ]


class SysgymError(Exception):
    """Base class of all exceptions that sysgym raises on purpose."""


@dataclass(frozen=True)
class Problem:
    """Problem in a scenario or suite.

    Attributes:
        key: Dotted key, ``workload.load``; empty for the file as a whole.
        got: Value found there; :data:`NOTHING` if the key is missing.
        expected: Description of a valid value.
        advice: Advice for the user; may be empty.
        line: Line of the file, counted from 1; None if unknown.
        origin: ``"overrides"`` if the value came from the caller and not from the file.
    """

    key: str
    got: Any
    expected: str
    advice: str = ""
    line: int | None = None
    origin: str = ""

    def describe(self) -> str:
        """Return a description of two to four lines."""
        where = _shortened(self.key, _LONGEST_NAME_SHOWN) or "the file"
        if self.origin:
            where += f" (from {self.origin})"
        elif self.line is not None:
            where += f" (line {self.line})"
        lines = [where, f"  got       {_show(self.got)}", f"  expected  {self.expected}"]
        if self.advice:
            lines.append(f"  to do     {self.advice}")
        return "\n".join(lines)


class ScenarioError(SysgymError):
    """Raised when a scenario or suite is invalid; names the file, the key, its value and a valid value.

    Raise it with ``problems`` for several problems, or with ``key``, ``got`` and ``expected`` for one.

    Attributes:
        path: The file, or a word in angle brackets if there is none.
        problems: The problems, at most :data:`MOST_PROBLEMS`, in the order of the file as far as it is known.
        n_unlisted: Number of further problems.
        key: Dotted key of the first problem.
        got: Value of the first problem.
        expected: Description of a valid value for the first problem.
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
        n_unlisted: int = 0,
    ) -> None:
        self.path = fspath(path)
        self.problems = tuple(problems[:MOST_PROBLEMS]) or (Problem(key, got, expected, advice),)
        self.n_unlisted = n_unlisted + max(len(problems) - MOST_PROBLEMS, 0)
        first = self.problems[0]
        self.key, self.got, self.expected = first.key, first.got, first.expected
        count = len(self.problems) + self.n_unlisted
        head = f"{_shortened(self.path, _LONGEST_NAME_SHOWN)}: "
        head += "one problem" if count == 1 else f"{count} problems"
        head += f", the first {len(self.problems)} of them" if self.n_unlisted else ""
        blocks = [_indent(problem.describe()) for problem in self.problems]
        super().__init__("\n".join([head, *blocks]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path and problems."""
        return (_scenario_error, (self.path, self.problems, self.n_unlisted))


class BackendUnavailable(SysgymError):
    """Raised when a backend cannot run on this machine; names the missing part and how to install it.

    Attributes:
        backend: Name of the backend, such as ``linux``.
        missing: The missing part.
        remedy: Exact command that installs it, or another remedy.
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
    """Raised when a running backend fails: it died, timed out or sent an invalid answer.

    Attributes:
        detail: Last output of the backend, such as the tail of its standard error; may be empty.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        self.message, self.detail = message, detail
        super().__init__(f"{message}\n{detail}" if detail else message)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the constructor's arguments."""
        return (type(self), (self.message, self.detail))


class StorageError(SysgymError):
    """Raised when a file or folder cannot be written: the disk is full or fails, or permission is denied.

    Attributes:
        path: The file or folder.
        reason: Message of the operating system.
    """

    def __init__(self, path: str | PathLike[str], error: OSError | str) -> None:
        self.path = fspath(path)
        self.reason = error if isinstance(error, str) else (error.strerror or str(error))
        advice = "" if isinstance(error, str) else _STORAGE_ADVICE.get(error.errno or 0, "")
        if advice:
            self.reason += f"; {advice}"
        super().__init__(f"{self.path}: cannot be written: {self.reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path and reason."""
        return (type(self), (self.path, self.reason))


class ResultMismatch(SysgymError):
    """Raised when a replayed result differs from the recorded one."""


class TransportError(SysgymError):
    """Raised when a transport fails during a simulation: it raised, or wrote an invalid window or rate.

    The simulation has stopped at this point; a reset starts anew.

    Attributes:
        transport: Name of the transport.
        flow: Number of the flow for which it failed; ``ends`` has the flow's two hosts.
        callback: The callback that failed, with its file and line.
        time_s: Simulated time, s.
        got: Description of the value written or the exception raised.
        expected: Description of a valid value.
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
            "  to do     fix the callback; reset() begins a new episode, which may use another transport"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the constructor's arguments."""
        words = {name: value for name, value in self.__dict__.items() if name != "transport"}
        return (_transport_error, (self.transport, words))


class MissingExtra(SysgymError, ImportError):
    """Raised when an optional feature is used without its extra; names the extra and how to install it.

    Attributes:
        extra: Name of the extra, such as ``train``.
        feature: Feature that needs it.
    """

    def __init__(self, extra: str, feature: str) -> None:
        self.extra, self.feature = extra, feature
        super().__init__(f'{feature} needs the extra "{extra}": pip install "sysgym[{extra}]"')

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the constructor's arguments."""
        return (type(self), (self.extra, self.feature))


class UnknownName(SysgymError, KeyError):
    """Raised when a name is not registered; suggests close names, and lists all names if they are few.

    ``hint`` ends the message; ``listing`` replaces the list of names in it.

    Attributes:
        kind: Kind of the name, such as ``scenario``.
        name: The name that was not found.
        known: Existing names, sorted.
        suggestion: The closest existing name, or None.
        suggestions: The closest existing names, the closest first; may be empty.
    """

    def __init__(
        self, kind: str, name: str, known: Iterable[str] = (), *, hint: str = "", listing: str = ""
    ) -> None:
        self.kind, self.name, self.known, self.hint = kind, name, tuple(sorted(known)), hint
        self.listing = listing
        self.suggestions = tuple(closest_names(name, self.known, _MOST_SUGGESTIONS))
        self.suggestion = next(iter(self.suggestions), None)
        message = f'no {kind} is named "{_shortened(name, _LONGEST_NAME_SHOWN)}"'
        if self.suggestions:
            *others, last = (f'"{suggestion}"' for suggestion in self.suggestions)
            message += f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
        stop = "." if hint[:1].isupper() else ""  # a hint is a sentence, or goes on with this one
        self.message = f"{message} ({self._what_there_is()}){stop} {hint}".rstrip()
        super().__init__(self.message)

    def _what_there_is(self) -> str:
        if self.listing:
            return self.listing
        if not self.known:
            return "there is none"
        if len(self.known) <= _MOST_NAMES_LISTED:
            return f"there is: {', '.join(self.known)}"
        command = _LISTED_BY.get(self.kind.partition(" of the family ")[0])
        if command is not None:
            return f"{command} lists all {len(self.known)}"
        return f"there are {len(self.known)}, such as {', '.join(self.known[:_MOST_SUGGESTIONS])}"

    def __str__(self) -> str:
        """Return the message itself, since KeyError would show its repr."""
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the constructor's arguments."""
        return (_unknown_name, (self.kind, self.name, self.known, self.hint, self.listing))


def _scenario_error(path: str, problems: tuple[Problem, ...], n_unlisted: int) -> ScenarioError:
    return ScenarioError(path, problems=problems, n_unlisted=n_unlisted)


def _unknown_name(kind: str, name: str, known: tuple[str, ...], hint: str, listing: str) -> UnknownName:
    return UnknownName(kind, name, known, hint=hint, listing=listing)


def _transport_error(transport: str, words: dict[str, Any]) -> TransportError:
    return TransportError(transport, **words)


def _show(value: Any) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # endless nesting; a number of thousands of digits
        text = f"a {type(value).__name__} that is too large to show"
    return _shortened(text, _LONGEST_VALUE_SHOWN)


def _shortened(text: str, longest: int) -> str:
    """Return a text for a message: shortened, and without control characters."""
    text = text if len(text) <= longest else text[: longest - 3] + "..."
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def _indent(block: str) -> str:
    return "\n".join(f"  {line}" for line in block.splitlines())
