"""Paths in scenario files: a relative one is relative to the folder of the file that has it.

Those of ``--set`` and of other overrides come later and stay relative to the current folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel

from sysgym.scenarios.schema.problems import tables_for

IS_PATH = "path of a file or folder"
"""Mark of keys whose values are paths, in the annotation of the schema."""

PathText = Annotated[str, IS_PATH]


def make_absolute(data: dict[str, Any], model: type[BaseModel], folder: Path) -> None:
    """Make relative paths in the tables of a scenario file absolute, in place.

    Args:
        data: Tables of the file.
        model: Schema of the family.
        folder: Folder of the file. A path that exists relative to the current folder only is left as it is.
    """
    for name, field in model.model_fields.items():
        written = data.get(name)
        if not isinstance(written, dict):
            continue
        for table in tables_for(field.annotation, written):
            for key in written.keys() & table.model_fields.keys():
                if IS_PATH in table.model_fields[key].metadata:
                    written[key] = _absolute(written[key], folder)


def _absolute(value: Any, folder: Path) -> Any:
    """Return a path, or a list of paths; those of a home folder or of an environment variable as they are."""
    if isinstance(value, list):
        return [_absolute(one, folder) for one in value]
    if not isinstance(value, str) or not value or value[0] in "~$" or os.path.isabs(value):
        return value
    there = os.path.abspath(folder / value)
    return there if os.path.exists(there) or not os.path.exists(value) else value
