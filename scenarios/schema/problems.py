"""Conversion of pydantic's errors into problems with key, value, expected value and advice."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Discriminator, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from sysgym.scenarios.errors import MOST_PROBLEMS, NOTHING, Problem, ScenarioError, closest_name
from sysgym.scenarios.texts import LINE, PROSE

PROBLEMS_TYPE = "sysgym_problems"
"""Type of the pydantic error whose context carries complete problems."""

ModelT = TypeVar("ModelT", bound=BaseModel)
KeyPath = tuple[str | int, ...]

_TYPE_WORDS = {
    "bool": "true or false",
    "dict": "a table",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "a table",
    "string": "a text in quotes",
    "tuple": "a list",
}
_LIMIT_WORDS = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "multiple_of": "a multiple of {multiple_of}",
    "string_pattern_mismatch": "a text that matches {pattern}",
    "string_too_short": "a text of at least {min_length} characters",
    "string_too_long": "a text of at most {max_length} characters",
    "too_short": "at least {min_length} entries",
    "too_long": "at most {max_length} entries",
    "finite_number": "a finite number",
}

_DELETE, _LEAVE_OUT = "delete it", "leave it out"
"""Advice for an unknown key of a file, and for one that the caller gave."""

_PATTERN_WORDS = {
    LINE: "one line without control characters",
    PROSE: "a text without control characters",
}
"""Descriptions of patterns, for messages."""


def range_problems(table: BaseModel, name: str, suffix: str = "") -> Iterator[Problem]:
    """Yield a problem if the minimum of a range exceeds its maximum.

    Args:
        table: Table with the keys ``{name}_min{suffix}`` and ``{name}_max{suffix}``.
        name: Name of the quantity.
        suffix: Unit, such as ``_bytes``.
    """
    low, high = getattr(table, f"{name}_min{suffix}"), getattr(table, f"{name}_max{suffix}")
    if low > high:
        yield Problem(f"{name}_min{suffix}", low, f"at most {name}_max{suffix} = {high:g}")


def type_word(value: object) -> str | None:
    """Return the word for the type of a value in a file; None for dates and times.

    Args:
        value: Value from TOML or JSON, or a model.
    """
    if isinstance(value, bool):
        return "true or false"
    for kinds, word in (
        (int, "a whole number"),
        (float, "a number"),
        (str, "a text in quotes"),
        ((list, tuple), "a list"),
        ((Mapping, BaseModel), "a table"),
    ):
        if isinstance(value, kinds):
            return word
    return None


BY_TYPE = Discriminator(type_word)
"""Discriminator of unions by type; each member is tagged with its type's word for messages."""


def validated(
    model: type[ModelT],
    data: Mapping[str, Any],
    path: str,
    *,
    overrides: Iterable[str] = (),
    lines: Mapping[KeyPath, int] | None = None,
    context: Mapping[str, Any] | None = None,
) -> ModelT:
    """Return ``data`` as a model.

    Args:
        model: The schema.
        data: Nested tables.
        path: Name of the file in messages.
        overrides: Dotted keys whose values did not come from the file.
        lines: Lines of the file by key path.
        context: Context for the schema's validators.

    Raises:
        ScenarioError: If the data are invalid; lists all problems found by pydantic.
    """
    try:
        return model.model_validate(data, context=dict(context or {}))
    except ValidationError as error:
        by_key = {dotted_key(place): line for place, line in (lines or {}).items()}
        found = problems_from(error, model, data)
        problems = [_placed(problem, tuple(overrides), by_key) for problem in found]
        problems.sort(key=lambda problem: (problem.line is None, problem.line or 0))
        # Pydantic's own traceback would only repeat the same less readably.
        n_unlisted = max(error.error_count() - MOST_PROBLEMS, 0)
        raise ScenarioError(path, problems=problems, n_unlisted=n_unlisted) from None


def problems_from(error: ValidationError, model: type[BaseModel], data: Any) -> list[Problem]:
    """Return pydantic's errors as problems, the first :data:`MOST_PROBLEMS` of them.

    Args:
        error: Pydantic's error.
        model: The schema that ``data`` was checked against.
        data: Nested tables.
    """
    return [
        problem
        for finding in error.errors(include_url=False)[:MOST_PROBLEMS]
        for problem in _translate(finding, _Place(model, data, finding["loc"]))
    ]


def dotted_key(path: Sequence[str | int]) -> str:
    """Return ``tasks[0].seeds`` for ``("tasks", 0, "seeds")``; parts with a dot are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (f'"{part}"' if "." in part else part)
    return text


class _Place:
    """Location of an error: its key path, without the tags of unions, and the enclosing table.

    Attributes:
        model: Schema of the file.
        data: Nested tables of the file.
        path: Keys and indices from the top of the file.
        table: Schema of the table with the last key; None inside lists and free-form tables.
        annotation: Type of the value at the last key; None for an unknown key.
    """

    def __init__(self, model: type[BaseModel], data: Any, loc: tuple[int | str, ...]) -> None:
        self.model, self.data = model, data
        self.path: KeyPath = ()
        self.table: type[BaseModel] | None = None
        self.annotation: Any = model
        for part in loc:
            tables = _tables_in(self.annotation)
            tagged = [table for table in tables if _tag_of(table) == part]
            if isinstance(part, str) and (tagged or part in _members(self.annotation)):
                self.annotation = tagged[0] if tagged else _members(self.annotation).get(part)
                continue
            if part == "[key]":
                continue
            self.table = tables[0] if len(tables) == 1 else None
            self.annotation = _type_of_item(self.annotation, self.table, part)
            self.path = (*self.path, part)

    @property
    def dotted(self) -> str:
        return dotted_key(self.path)

    @property
    def field(self) -> FieldInfo | None:
        """Field of the last key, if it is a known key of a table."""
        return _field(self.table, self.path[-1]) if self.table is not None and self.path else None

    @property
    def meaning(self) -> str:
        """Description of the last key in the schema, in brackets."""
        field = self.field
        return f" ({field.description})" if field is not None and field.description else ""


def _translate(finding: ErrorDetails, place: _Place) -> list[Problem]:
    kind, got, context = finding["type"], finding["input"], finding.get("ctx", {})
    if isinstance(got, tuple):  # The file has a list.
        got = list(got)
    key, meaning = place.dotted, place.meaning
    if kind == PROBLEMS_TYPE:
        return [
            dataclasses.replace(problem, key=f"{key}.{problem.key}".strip("."))
            for problem in context["problems"]
        ]
    if kind == "extra_forbidden":
        return [_unknown_key(place, got)]
    if kind == "missing" and isinstance(place.path[-1], int):
        return [Problem(dotted_key(place.path[:-1]), got, f"at least {place.path[-1] + 1} entries")]
    if kind == "missing":
        wanted = _wanted(place.annotation)
        is_table = wanted == "a table" and "[" not in key
        advice = f"add a table [{key}]" if is_table else f"add the key {place.path[-1]}"
        return [Problem(key, NOTHING, wanted + meaning, advice)]
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        tags = [_tag_of(table) for table in _tables_in(place.annotation)]
        if context["discriminator"] != "'kind'":
            return [Problem(key, got, " or ".join(_members(place.annotation)) + meaning)]
        if kind == "union_tag_invalid":
            return [_choice(f"{key}.kind", str(context["tag"]), tags)]
        return [Problem(f"{key}.kind", NOTHING, _one_of(tags), "add the key kind")]
    if kind == "literal_error" and isinstance(got, str):
        return [_choice(key, got, _literals(place.annotation))]
    if kind == "literal_error":
        return [Problem(key, got, _wanted(place.annotation) + meaning)]
    if context.get("pattern") in _PATTERN_WORDS:
        return [Problem(key, got, _PATTERN_WORDS[context["pattern"]] + meaning)]
    if kind in _LIMIT_WORDS:
        shown = {name: f"{limit:g}" if isinstance(limit, float) else limit for name, limit in context.items()}
        return [Problem(key, got, _LIMIT_WORDS[kind].format_map(shown) + meaning)]
    base = kind.removesuffix("_type")
    if base in _TYPE_WORDS:
        return [Problem(key, got, _TYPE_WORDS[base] + meaning, _type_advice(base, got))]
    return [Problem(key, got, finding["msg"].removeprefix("Value error, ") + meaning)]


def _type_advice(wanted: str, got: Any) -> str:
    if wanted in ("int", "float") and isinstance(got, str):
        return "write the number without quotes"
    if wanted == "int" and isinstance(got, float):
        return "write it without decimal point or exponent; 1_000_000 is allowed"
    return ""


def _unknown_key(place: _Place, got: Any) -> Problem:
    known = [field.alias or name for name, field in place.table.model_fields.items()] if place.table else []
    suggestion = closest_name(str(place.path[-1]), known)
    table = dotted_key(place.path[:-1])
    if not table:
        suggestion = next(iter(_keys_that_end_in(place)), suggestion)
    return Problem(
        place.dotted,
        got,
        f"a key of {f'[{table}]' if table else 'the file'}: {', '.join(known)}",
        f'did you mean "{suggestion}"?' if suggestion else _DELETE,
    )


def _keys_that_end_in(place: _Place) -> Iterator[str]:
    """Yield the keys of tables, such as ``workload.load``, whose last part is a key outside all tables."""
    for name, field in place.model.model_fields.items():
        written = place.data.get(name) if isinstance(place.data, Mapping) else None
        kind = written.get("kind") if isinstance(written, Mapping) else None
        for table in _tables_in(field.annotation):
            if _field(table, place.path[-1]) is not None and _tag_of(table) in ("", kind):
                yield f"{name}.{place.path[-1]}"


def _choice(key: str, got: str, known: Sequence[str]) -> Problem:
    suggestion = closest_name(got, known)
    return Problem(key, got, _one_of(known), f'did you mean "{suggestion}"?' if suggestion else "")


def _one_of(known: Sequence[str]) -> str:
    quoted = [f'"{name}"' for name in known]
    return quoted[0] if len(quoted) == 1 else "one of " + ", ".join(quoted)


def _wanted(annotation: Any) -> str:
    """Return a description of the value that a missing key should have."""
    if literals := _literals(annotation):
        return _one_of(literals)
    if members := _members(annotation):
        return " or ".join(members)
    if _tables_in(annotation):
        return "a table"
    while typing.get_origin(annotation) in (Annotated, typing.Union, types.UnionType):
        annotation = typing.get_args(annotation)[0]
    origin = typing.get_origin(annotation) or annotation
    return {"str": _TYPE_WORDS["string"], **_TYPE_WORDS}.get(getattr(origin, "__name__", ""), "a value")


def _placed(problem: Problem, overrides: Sequence[str], by_key: Mapping[str, int]) -> Problem:
    if any(problem.key == key or _is_inside(problem.key, key) for key in overrides):
        advice = _LEAVE_OUT if problem.advice == _DELETE else problem.advice
        return dataclasses.replace(problem, origin="overrides", advice=advice)
    if any(_is_inside(key, problem.key) for key in overrides):
        # An override created or changed this table, so no line of the file is certain to be the cause.
        return problem
    # The longest enclosing key, because missing keys and keys of inline tables have no line.
    around = [key for key in by_key if key == problem.key or _is_inside(problem.key, key)]
    return dataclasses.replace(problem, line=by_key[max(around, key=len)]) if around else problem


def _is_inside(inner: str, outer: str) -> bool:
    return inner.startswith((f"{outer}.", f"{outer}["))


def _tables_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _tables_in(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [table for member in typing.get_args(annotation) for table in _tables_in(member)]
    return []


def _members(annotation: Any) -> dict[str, Any]:
    """Return the members of a union that is discriminated by type, by type word."""
    found: dict[str, Any] = {}
    for member in typing.get_args(annotation):
        if typing.get_origin(member) in (typing.Union, types.UnionType):
            found |= _members(member)
        elif typing.get_origin(member) is Annotated:
            words = [item.tag for item in typing.get_args(member)[1:] if isinstance(item, Tag)]
            found |= {words[0]: member} if words else _members(member)
    return found


def _literals(annotation: Any) -> list[str]:
    if typing.get_origin(annotation) is typing.Literal:
        return [str(value) for value in typing.get_args(annotation)]
    if typing.get_origin(annotation) in (Annotated, typing.Union, types.UnionType):
        return [value for member in typing.get_args(annotation) for value in _literals(member)]
    return []


def _tag_of(table: type[BaseModel]) -> str:
    field = table.model_fields.get("kind")
    return (_literals(field.annotation) or [""])[0] if field is not None else ""


def _field(table: type[BaseModel], key: str | int) -> FieldInfo | None:
    for name, field in table.model_fields.items():
        if key == (field.alias or name):
            return field
    return None


def _type_of_item(annotation: Any, table: type[BaseModel] | None, key: str | int) -> Any:
    if table is not None:
        field = _field(table, key)
        return None if field is None else field.annotation
    while typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    arguments = [argument for argument in typing.get_args(annotation) if argument is not Ellipsis]
    return arguments[-1] if arguments else None
