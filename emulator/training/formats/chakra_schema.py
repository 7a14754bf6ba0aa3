"""Messages of Chakra's execution traces, as far as they are read: a stream of them, each after its length.

The numbers are those of ``schema/protobuf/et_def.proto`` of mlcommons/chakra, release 1.0; fields that are
not declared are skipped. The files of a trace have one ``GlobalMetadata`` and then a ``Node`` for each node.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from sysgym.emulator.trace_errors import TraceError
from sysgym.scenarios.errors import MissingExtra

EXTRA = "chakra"
REMEDY = "see docs/training-jobs.md for the files that can be read"

NODE_TYPES = ("INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL")
"""Types of nodes by their number."""

COLLECTIVE_TYPES = (
    "all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all", "reduce_scatter",
    "reduce_scatter_block", "barrier",
)  # fmt: skip
"""Types of collectives by their number."""

_LONGEST_VARINT = 10
_ATTRIBUTE = "AttributeProto"
_FIELDS = {
    _ATTRIBUTE: (
        ("name", 1, "STRING"), ("double_val", 3, "DOUBLE"), ("float_val", 5, "FLOAT"),
        ("int32_val", 7, "INT32"), ("int64_val", 9, "INT64"), ("uint32_val", 11, "UINT32"),
        ("uint64_val", 13, "UINT64"), ("sint32_val", 15, "SINT32"), ("sint64_val", 17, "SINT64"),
        ("fixed32_val", 19, "FIXED32"), ("fixed64_val", 21, "FIXED64"), ("sfixed32_val", 23, "SFIXED32"),
        ("sfixed64_val", 25, "SFIXED64"), ("bool_val", 27, "BOOL"), ("string_val", 29, "STRING"),
    ),
    "GlobalMetadata": (("version", 1, "STRING"), ("attr", 2, "MESSAGE")),
    "Node": (
        ("id", 1, "UINT64"), ("name", 2, "STRING"), ("type", 3, "INT32"), ("ctrl_deps", 4, "UINT64"),
        ("data_deps", 5, "UINT64"), ("start_time_micros", 6, "UINT64"), ("duration_micros", 7, "UINT64"),
        ("attr", 10, "MESSAGE"),
    ),
}  # fmt: skip
_REPEATED = ("ctrl_deps", "data_deps", "attr")
_ONE_OF = "value"


def message(name: str) -> Any:
    """Return the class of a message: ``AttributeProto``, ``GlobalMetadata`` or ``Node``.

    Raises:
        MissingExtra: If protobuf is not installed.
    """
    return _messages()[name]


@functools.cache
def _messages() -> dict[str, Any]:
    """Return the classes of all messages."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise MissingExtra(EXTRA, "an execution trace of Chakra, .et") from error
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="chakra.proto", package="chakra", syntax="proto3")
    for name, fields in _FIELDS.items():
        made = file.message_type.add(name=name)
        if name == _ATTRIBUTE:
            made.oneof_decl.add(name=_ONE_OF)
        for field_name, number, kind in fields:
            one = made.field.add(
                name=field_name,
                number=number,
                type=getattr(field, f"TYPE_{kind}"),
                label=field.LABEL_REPEATED if field_name in _REPEATED else field.LABEL_OPTIONAL,
            )
            if field_name.endswith("_val"):
                one.oneof_index = 0
            if kind == "MESSAGE":
                one.type_name = f".chakra.{_ATTRIBUTE}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"chakra.{name}"))
        for name in _FIELDS
    }


def attributes(node: Any) -> dict[str, Any]:
    """Return the values of a node's attributes by their names, whatever their types."""
    return {
        attribute.name: getattr(attribute, kind)
        for attribute in node.attr
        if (kind := attribute.WhichOneof(_ONE_OF)) is not None
    }


def nodes_of(data: bytes, path: Path) -> list[Any]:
    """Return the nodes of a file.

    Args:
        data: Its content.
        path: The file, for messages.

    Raises:
        TraceError: If it is not a stream of messages, or ends too early.
        MissingExtra: If protobuf is not installed.
    """
    node_class, metadata_class = message("Node"), message("GlobalMetadata")
    from google.protobuf.message import DecodeError

    nodes: list[Any] = []
    place, first = 0, True
    while place < len(data):
        length, place = _varint(data, place, path)
        if place + length > len(data):
            raise TraceError(path, "ends inside a message", "a whole execution trace", REMEDY)
        text = data[place : place + length]
        place += length
        try:
            # The first message describes the file.
            made = (metadata_class if first else node_class).FromString(text)
        except DecodeError as error:
            raise TraceError(path, f"damaged: {error}", "an execution trace of Chakra", REMEDY) from error
        if not first:
            nodes.append(made)
        first = False
    return nodes


def _varint(data: bytes, place: int, path: Path) -> tuple[int, int]:
    """Return the number at a place, and the place after it."""
    value = 0
    for index, byte in enumerate(data[place : place + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, place + index + 1
    raise TraceError(
        path, "no length of a message where one should be", "an execution trace of Chakra", REMEDY
    )
