"""Tables that have gained keys since results were published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import SerializationInfo, SerializerFunctionWrapHandler, model_serializer

from sysgym.scenarios.schema.tables import Table


class GrownTable(Table):
    """Table with keys that came later.

    A digest leaves out a later key where it has the value that stands for the earlier behaviour, so that the
    digests of scenarios that do not use it, by which rows and checkpoints know them, stay the same. The
    resolved form leaves it out too, unless the default has changed since: then only the value itself tells
    what holds.

    Attributes:
        LATER: Later key -> the value that stands for the behaviour from before.
    """

    LATER: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def changed_defaults(cls) -> dict[str, Any]:
        """Return the earlier values of the later keys whose default is another one today."""
        return {key: before for key, before in cls.LATER.items() if cls.model_fields[key].default != before}

    @model_serializer(mode="wrap")
    def _as_before(self, to_data: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        data: dict[str, Any] = to_data(self)
        for_digest = info.context is not None and info.context.get("digest", False)
        kept = () if for_digest else self.changed_defaults()
        for key, before in self.LATER.items():
            if key in data and key not in kept and data[key] == before:
                del data[key]
        return data


def as_written(model: type[Table], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a resolved form with the values that held when it was written.

    A table without all the keys from before is not from a resolved form; today's defaults complete it.

    Args:
        model: Model of the scenario.
        data: A resolved form, perhaps from before a later key.
    """
    completed = dict(data)
    for name, field in model.model_fields.items():
        table, value = field.annotation, data.get(name)
        if (
            isinstance(table, type)
            and issubclass(table, GrownTable)
            and isinstance(value, Mapping)
            and table.model_fields.keys() - table.LATER.keys() <= value.keys()
        ):
            completed[name] = {**table.changed_defaults(), **value}
    return completed
