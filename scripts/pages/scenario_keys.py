"""Write docs/scenario-keys.md: every key of every scenario family and of suites, from the schemas.

A test checks that the page is up to date; run this script after a change of the schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from sysgym.scenarios.families import families, scenario_model
from sysgym.scenarios.schema.suite import (
    ContenderSpec,
    MatrixSpec,
    MetricSpec,
    Suite,
    TaskSpec,
    TrainingSpec,
    TuningSpec,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scenario-keys.md"

HEAD = """# Keys of scenario and suite files

This page is a reference for authors of scenarios and suites. [Adding a scenario](adding-a-scenario.md) and
[adding a suite](adding-a-suite.md) explain the files. The keys of each family come
first, then those of [suites](#suites). Keys without a default are required, and unknown
keys are an error.
`python scripts/pages/scenario_keys.py` writes this page from the schemas.
"""

SUITE_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("Top level of a suite", Suite),
    ("`[[training]]`", TrainingSpec),
    ("`[[tasks]]`", TaskSpec),
    ("A contender of a task", ContenderSpec),
    ("`constants` of a task", TuningSpec),
    ("`[matrix]`", MatrixSpec),
    ("`[[metrics]]`", MetricSpec),
)
"""Heading and model of each table of a suite's file."""


def render() -> str:
    """Return the text of the page."""
    parts = [HEAD]
    for family in families():
        schema = scenario_model(family).model_json_schema(by_alias=True)
        parts.append(f"\n## Family `{family}`\n")
        for title, table in _tables(schema):
            parts += [
                f"\n### {title}\n\n",
                "| key | value | default | meaning |\n",
                "| --- | --- | --- | --- |\n",
            ]
            parts += [
                _row(key, spec, table) for key, spec in table["properties"].items() if _is_value(key, spec)
            ]
    parts.append("\n## Suites\n")
    for title, model in SUITE_TABLES:
        parts += [f"\n### {title}\n\n", "| key | required | meaning |\n", "| --- | --- | --- |\n"]
        parts += [
            f"| `{field.alias or name}` | {'yes' if field.is_required() else ''} | {field.description} |\n"
            for name, field in model.model_fields.items()
        ]
    return "".join(parts)


def _tables(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield heading and schema of the file's top level and of each table, one for each kind of a table."""
    definitions = schema["$defs"]
    yield "Top level", schema
    for key, spec in schema["properties"].items():
        inner_tables: dict[str, dict[str, Any]] = {}
        for name in _table_names(spec):
            if key == "splits":
                continue
            table = definitions[name]
            const = table["properties"].get("kind", {}).get("const")
            yield f"`[{key}]`" + (f" with `kind = {json.dumps(const)}`" if const else ""), table
            for inner, inner_spec in table["properties"].items():
                # What all kinds of a table have is shown once.
                for inner_name in _table_names(inner_spec):
                    inner_tables[f"`[{key}.{inner}]`"] = definitions[inner_name]
                for inner_name in _table_names(inner_spec.get("items", {})):
                    inner_tables[f"`[[{key}.{inner}]]`"] = definitions[inner_name]
        yield from inner_tables.items()
    yield "`[splits.train]`, `[splits.validation]`, `[splits.test]`", definitions["Split"]


def _table_names(spec: dict[str, Any]) -> list[str]:
    """Return the names of the tables that a key may hold: one, one of several, or one that may be absent."""
    choices = spec.get("oneOf") or spec.get("anyOf") or [spec]
    return [choice["$ref"].rpartition("/")[2] for choice in choices if "$ref" in choice]


def _is_value(key: str, spec: dict[str, Any]) -> bool:
    """Whether a key holds a value: a table has its own heading, and a kind is said in it."""
    return key != "kind" and not _table_names(spec)


def _row(key: str, spec: dict[str, Any], table: dict[str, Any]) -> str:
    if key in table.get("required", []):
        default = ""
    else:
        value = spec.get("default", {})
        default = "absent" if value is None else f"`{json.dumps(value)}`"
    return f"| `{key}` | {_value(spec)} | {default} | {spec.get('description', '')} |\n"


def _value(spec: dict[str, Any]) -> str:
    if "const" in spec:
        return f"`{json.dumps(spec['const'])}`"
    if "enum" in spec:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in spec["enum"])
    if "anyOf" in spec:  # A value or nothing.
        return _value(next(choice for choice in spec["anyOf"] if choice.get("type") != "null"))
    if spec["type"] == "array":
        return "list"
    words = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
    text = words.get(spec["type"], "table")
    low = spec.get("minimum", spec.get("exclusiveMinimum"))
    high = spec.get("maximum", spec.get("exclusiveMaximum"))
    if low is None or high is None or spec["type"] not in ("integer", "number"):
        return text
    if low == high:
        return f"`{low}`"
    opening, closing = "[" if "minimum" in spec else "(", "]" if "maximum" in spec else ")"
    return f"{text}, {opening}{_bound(low)}, {_bound(high)}{closing}"


def _bound(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


if __name__ == "__main__":
    PAGE.write_text(render())
