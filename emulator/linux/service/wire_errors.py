"""Encoding of errors: an error of a world is raised in the client as the same class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sysgym.emulator.linux.service.protocol import ProtocolError
from sysgym.scenarios.errors import (
    NOTHING,
    BackendError,
    BackendUnavailable,
    MissingExtra,
    Problem,
    ScenarioError,
    SysgymError,
    UnknownName,
)

MAX_TEXT = 20_000
"""Longest text of an error that is sent; the tail of a log fits."""


def to_wire(error: BaseException) -> dict[str, Any]:
    """Return a map of plain values that describes an error."""
    for kind, fields in _FIELDS.items():
        if type(error) is kind:
            return {"class": kind.__name__, **{name: _plain(getattr(error, name)) for name in fields}}
    if isinstance(error, ScenarioError):
        return {
            "class": "ScenarioError",
            "path": error.path,
            "problems": [_problem(p) for p in error.problems],
        }
    if isinstance(error, SysgymError):
        return {"class": "SysgymError", "message": _plain(str(error))}
    words = f"the world failed: {type(error).__name__}: {error}"
    return {"class": "BackendError", "message": _plain(words), "detail": ""}


def from_wire(content: Mapping[str, Any]) -> SysgymError:
    """Return the error that a map describes; a BackendError if the map is invalid."""
    try:
        rest = {name: value for name, value in content.items() if name != "class"}
        return _MAKERS[content["class"]](rest)
    except (KeyError, TypeError, ValueError, AttributeError):
        return BackendError("the other side reports an error that this one does not know", str(content)[:500])


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "key": problem.key,
        "got": None if problem.got is NOTHING else _plain(problem.got),
        "missing": problem.got is NOTHING,
        "expected": problem.expected,
        "advice": problem.advice,
        "line": problem.line,
        "origin": problem.origin,
    }


def _scenario_error(rest: dict[str, Any]) -> ScenarioError:
    problems = []
    for found in rest["problems"]:
        fields = dict(found)
        if fields.pop("missing"):
            fields["got"] = NOTHING
        problems.append(Problem(**fields))
    return ScenarioError(rest["path"], problems=problems)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else value[: MAX_TEXT // 2] + " ... " + value[-MAX_TEXT // 2 :]
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and abs(value) < 2**63:
        return value
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value[:200]]
    return repr(value)[:500]


# Attributes that a class's constructor takes, from which the error is made again.
_FIELDS: dict[type[SysgymError], tuple[str, ...]] = {
    BackendUnavailable: ("backend", "missing", "remedy"),
    BackendError: ("message", "detail"),
    ProtocolError: ("message", "detail"),
    MissingExtra: ("extra", "feature"),
    UnknownName: ("kind", "name", "known", "hint", "listing"),
}
_MAKERS: dict[str, Callable[[dict[str, Any]], SysgymError]] = {
    "BackendUnavailable": lambda rest: BackendUnavailable(**rest),
    "BackendError": lambda rest: BackendError(**rest),
    "ProtocolError": lambda rest: ProtocolError(**rest),
    "MissingExtra": lambda rest: MissingExtra(**rest),
    "UnknownName": lambda rest: UnknownName(**rest),
    "ScenarioError": _scenario_error,
    "SysgymError": lambda rest: SysgymError(rest["message"]),
}
