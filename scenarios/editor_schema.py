"""JSON schemas of scenario and suite files, for editors that complete and check TOML.

    python -m sysgym.scenarios.editor_schema FAMILY > FAMILY.schema.json

In editors with Taplo (Even Better TOML), a scenario whose first line is ``#:schema FAMILY.schema.json`` then
has completion. Editors check types and ranges; constraints between keys are checked on loading.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from sysgym.scenarios.errors import UnknownName
from sysgym.scenarios.families import families, scenario_model
from sysgym.scenarios.schema.suite import Suite

SUITE = "suite"


def json_schema(kind: str) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a kind of file.

    Args:
        kind: Name of a family of scenarios, or ``suite``.

    Raises:
        UnknownName: If there is no such kind.
    """
    if kind != SUITE and kind not in families():
        raise UnknownName("kind of file", kind, [*families(), SUITE])
    model = Suite if kind == SUITE else scenario_model(kind)
    schema = _any_of(model.model_json_schema(by_alias=True))
    assert isinstance(schema, dict)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _any_of(schema: Any) -> Any:
    """Return the schema with ``anyOf`` for unions: ``oneOf`` would reject integers, which are numbers too."""
    if isinstance(schema, dict):
        return {"anyOf" if key == "oneOf" else key: _any_of(value) for key, value in schema.items()}
    return [_any_of(value) for value in schema] if isinstance(schema, list) else schema


if __name__ == "__main__":
    print(json.dumps(json_schema(*sys.argv[1:2] or [SUITE]), indent=2))
