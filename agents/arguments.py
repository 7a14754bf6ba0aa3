"""Checks of the arguments of agents' constructors, which contenders and suites set.

:func:`check_types` compares arguments with the annotations of a constructor, before it is called; a
constructor checks ranges itself, with :func:`in_range`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import numpy as np

from sysgym.scenarios.errors import SysgymError

Number = TypeVar("Number", int, float)

_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "a text",
    NoneType: "None",
}
"""Annotations that are checked, and their names in messages."""


def check_types(agent: str, factory: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raise SysgymError unless arguments have the types that a constructor declares for them.

    Only parameters that are annotated with a builtin type, or a union of these, are checked.

    Args:
        agent: Name of the agent.
        factory: Class of the agent, or function that makes it.
        arguments: Arguments by name.
    """
    try:
        declared = inspect.signature(factory, eval_str=True).parameters
    except Exception:  # a user's annotations may name types that exist for type checkers only
        return
    for name, value in arguments.items():
        if name not in declared or value is declared[name].default:
            continue
        kinds = _kinds(declared[name].annotation)
        if kinds and not any(_is(value, kind) for kind in kinds):
            expected = " or ".join(_KINDS[kind] for kind in kinds)
            raise SysgymError(f"{agent}: {name}: expected {expected}, got {value!r}")


def in_range(
    agent: str,
    name: str,
    value: Number,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> Number:
    """Return the value of an argument if it is within its bounds.

    If a bound is an ``int``, the value has to be a whole number. A bound of None is not checked.

    Args:
        agent: Name of the agent.
        name: Name of the argument.
        value: Its value.
        least: Smallest allowed value.
        most: Largest allowed value.
        above: Bound that the value has to exceed.
        below: Bound that the value has to stay below.

    Raises:
        SysgymError: If the value is out of range, not finite, or not a whole number where one is required.
    """
    bounds = {"at least": least, "above": above, "at most": most, "below": below}
    kind = int if any(isinstance(bound, int) for bound in bounds.values()) else float
    words = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None)
    if least is not None and most is not None:
        words = f"{least:g} to {most:g}"
    fits = _is(value, kind)
    if fits and (
        (least is None or value >= least)
        and (most is None or value <= most)
        and (above is None or value > above)
        and (below is None or value < below)
    ):
        return value
    if not words or (kind is int and not fits):
        words = _KINDS[kind]
    raise SysgymError(f"{agent}: {name}: expected {words}, got {value!r}")


def _kinds(annotation: Any) -> tuple[type, ...]:
    """Return the builtin types that an annotation allows; empty if it contains any other type."""
    is_union = get_origin(annotation) in (Union, UnionType)
    kinds = get_args(annotation) if is_union else (annotation,)
    return kinds if all(isinstance(kind, type) and kind in _KINDS for kind in kinds) else ()


def _is(value: Any, kind: type) -> bool:
    """Return whether a value is valid for a builtin type; integers are valid floats, booleans are not."""
    if isinstance(value, bool | np.bool_):
        return kind is bool
    if kind is int or kind is float:
        return isinstance(value, Integral if kind is int else Real) and _is_finite(value)
    return isinstance(value, kind)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False
