"""Turn pydantic's findings into :class:`Problem` blocks that name key, value, what was expected and what to do."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from sysgym.scenarios.errors import NOTHING, Problem, closest_name

PROBLEMS_TYPE = "sysgym_problems"
"""Type of the pydantic error whose context carries finished problems."""

_TYPE_WORDS = {
    "bool": "true or false",
    "dict": "a table",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "a table",
    "model_attributes": "a table",
    "string": "a text in quotes",
    "tuple": "a list",
}


def problems_from(
    error: ValidationError,
    model: type[BaseModel],
    data: Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    lines: Mapping[tuple[str | int, ...], int] | None = None,
) -> tuple[Problem, ...]:
    """Return what pydantic found, one problem each.

    Args:
        error: Pydantic's findings.
        model: The schema that ``data`` was checked against.
        data: Nested tables.
        overrides: Dotted keys that did not come from the file.
        lines: Key path -> line of the file.
    """
    problems: list[Problem] = []
    for finding in error.errors(include_url=False):
        where = _Place(model, data, finding["loc"])
        if finding["type"] == PROBLEMS_TYPE:
            for problem in finding["ctx"]["problems"]:
                key = ".".join(part for part in (where.dotted, problem.key) if part)
                problems.append(
                    Problem(key, problem.got, problem.expected, problem.advice, problem.line, problem.origin)
                )
        else:
            problems.append(_translate(finding, where))
    # One wrong value in a union is found once for each member.
    unique = {(problem.key, problem.expected): problem for problem in problems}
    placed = [_with_origin(problem, overrides, lines or {}) for problem in unique.values()]
    return tuple(sorted(placed, key=lambda problem: (problem.line is None, problem.line or 0)))


class _Place:
    """Where a finding is: its key path without pydantic's union tags, and the table around it."""

    def __init__(self, model: type[BaseModel], data: Any, loc: tuple[int | str, ...]) -> None:
        path: list[str | int] = []
        table: type[BaseModel] | None = model
        self.table: type[BaseModel] | None = None
        self.annotation: Any = model
        for part in loc:
            members = _tables_in(self.annotation)
            if isinstance(part, str) and isinstance(data, Mapping) and data.get("kind") == part and len(members) > 1:
                table = next((member for member in members if _tag_of(member) == part), None)
                self.annotation = table
                continue
            if not (isinstance(data, Mapping | list | tuple) or part == (loc[-1] if loc else None)):
                break
            if isinstance(data, Mapping) and part not in data and part != loc[-1]:
                continue
            table = members[0] if len(members) == 1 else None
            path.append(part)
            self.table = table
            self.annotation = _annotation_of(table, part) if table is not None else _item_of(self.annotation)
            data = _item(data, part)
        self.path = tuple(path)

    @property
    def dotted(self) -> str:
        return dotted_key(self.path)


def dotted_key(path: Sequence[str | int]) -> str:
    """Return ``tasks[0].seeds`` for ``("tasks", 0, "seeds")``; parts that hold a dot are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (f'"{part}"' if "." in part else part)
    return text


def _translate(finding: Any, where: _Place) -> Problem:
    kind, got, context = finding["type"], finding["input"], finding.get("ctx", {})
    key = where.dotted
    meaning = _description(where)
    if kind == "extra_forbidden":
        return _unknown_key(where, got)
    if kind == "missing":
        return Problem(key, NOTHING, f"{_wanted(where)}{meaning}", f"add the key {where.path[-1]}")
    if kind == "union_tag_not_found":
        return Problem(f"{key}.kind", NOTHING, f"one of {context_tags(where)}", 'say which: kind = "..."')
    if kind == "union_tag_invalid":
        tag = str(context.get("tag"))
        return _choice(f"{key}.kind", tag, [_tag_of(member) for member in _tables_in(where.annotation)])
    if kind == "literal_error" and isinstance(got, str):
        return _choice(key, got, [str(value) for value in _literals(where.annotation)])
    if kind == "string_pattern_mismatch":
        return Problem(key, got, f"a text that matches {context['pattern']}{meaning}")
    for name, words in (
        ("greater_than_equal", "at least {ge}"),
        ("greater_than", "more than {gt}"),
        ("less_than_equal", "at most {le}"),
        ("less_than", "less than {lt}"),
        ("multiple_of", "a multiple of {multiple_of}"),
    ):
        if kind == name:
            numbers = {k: f"{v:g}" if isinstance(v, float) else v for k, v in context.items()}
            return Problem(key, got, words.format(**numbers) + meaning)
    base = kind.removesuffix("_type").removesuffix("_parsing")
    if base in _TYPE_WORDS:
        advice = ""
        if isinstance(got, str) and base in ("int", "float"):
            advice = "write the number without quotes"
        elif isinstance(got, float) and base == "int":
            advice = "write it without a decimal point or exponent; 1_000_000 is allowed"
        return Problem(key, got, _TYPE_WORDS[base] + meaning, advice)
    return Problem(key, got, f"{finding['msg']}{meaning}")


def _unknown_key(where: _Place, got: Any) -> Problem:
    known = _keys(where.table) if where.table is not None else []
    name = str(where.path[-1])
    table = dotted_key(where.path[:-1])
    suggestion = closest_name(name, known)
    return Problem(
        where.dotted,
        got,
        f"one of the keys of {f'[{table}]' if table else 'the file'}: {', '.join(known)}",
        f'did you mean "{suggestion}"?' if suggestion else "delete it",
    )


def _choice(key: str, got: str, known: Sequence[str]) -> Problem:
    suggestion = closest_name(got, known)
    quoted = ", ".join(f'"{name}"' for name in known)
    return Problem(key, got, f"one of {quoted}", f'did you mean "{suggestion}"?' if suggestion else "")


def context_tags(where: _Place) -> str:
    """Return the kinds that a discriminated table can have, quoted."""
    return ", ".join(f'"{_tag_of(member)}"' for member in _tables_in(where.annotation))


def _with_origin(
    problem: Problem, overrides: Sequence[str], lines: Mapping[tuple[str | int, ...], int]
) -> Problem:
    if any(problem.key == name or problem.key.startswith((f"{name}.", f"{name}[")) for name in overrides):
        return Problem(problem.key, problem.got, problem.expected, problem.advice, None, "overrides")
    return Problem(
        problem.key, problem.got, problem.expected, problem.advice, _line_of(problem.key, lines), problem.origin
    )


def _line_of(key: str, lines: Mapping[tuple[str | int, ...], int]) -> int | None:
    by_dotted = {dotted_key(path): line for path, line in lines.items()}
    while key:
        if key in by_dotted:
            return by_dotted[key]
        # The nearest table around it: a missing key has no line of its own.
        cut = max(key.rfind("."), key.rfind("[")) if not key.endswith('"') else key.rfind('."')
        key = key[: max(cut, 0)]
    return None


def _tables_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _tables_in(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [table for member in typing.get_args(annotation) for table in _tables_in(member)]
    return []


def _literals(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    return [value for member in typing.get_args(annotation) for value in _literals(member)]


def _tag_of(table: type[BaseModel]) -> str:
    field = table.model_fields.get("kind")
    values = _literals(field.annotation) if field is not None else []
    return str(values[0]) if values else ""


def _keys(table: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in table.model_fields.items()]


def _annotation_of(table: type[BaseModel], part: str | int) -> Any:
    for name, field in table.model_fields.items():
        if part in (name, field.alias):
            return field.annotation
    return None


def _item_of(annotation: Any) -> Any:
    if typing.get_origin(annotation) is typing.Annotated:
        return _item_of(typing.get_args(annotation)[0])
    arguments = [argument for argument in typing.get_args(annotation) if argument is not Ellipsis]
    return arguments[-1] if arguments else None


def _item(data: Any, part: str | int) -> Any:
    if isinstance(data, Mapping):
        return data.get(part)
    if isinstance(data, list | tuple) and isinstance(part, int) and part < len(data):
        return data[part]
    return None


def _description(where: _Place) -> str:
    if where.table is None:
        return ""
    for name, field in where.table.model_fields.items():
        if where.path[-1] in (name, field.alias) and field.description:
            return f" ({field.description})"
    return ""


def _wanted(where: _Place) -> str:
    annotation = where.annotation
    literals = _literals(annotation)
    if literals:
        return "one of " + ", ".join(f'"{value}"' for value in literals)
    if _tables_in(annotation):
        return "a table"
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    name = getattr(annotation, "__name__", "")
    return {"str": "a text in quotes"}.get(name, _TYPE_WORDS.get(name, "a value"))
