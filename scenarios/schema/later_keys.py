"""Tables that have gained keys since results were published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import SerializerFunctionWrapHandler, model_serializer

from sysgym.scenarios.schema.common import Table


class GrownTable(Table):
    """Table with keys that came later.

    A later key is left out of the resolved form where it has the value that stands for the earlier behaviour.
    The digests of scenarios that do not use it, by which rows and checkpoints know them, stay the same.

    Attributes:
        LATER: Later key -> the value that stands for the behaviour from before.
    """

    LATER: ClassVar[Mapping[str, Any]] = {}

    @model_serializer(mode="wrap")
    def _as_before(self, to_data: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = to_data(self)
        for key, before in self.LATER.items():
            if key in data and data[key] == before:
                del data[key]
        return data
