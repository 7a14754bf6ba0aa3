"""Memory of the simulator: no byte of a record is without a field, so that equal worlds have equal bytes."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from sysgym.emulator.packets.memory import flow_record, message_records, records
from sysgym.emulator.packets.memory.numba_records import aligned_dtype

TYPES = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in (flow_record, message_records, records)
    for name, value in vars(module).items()
    if isinstance(value, np.dtype) and value.names
}


@pytest.mark.parametrize("name", TYPES)
def test_every_byte_of_a_record_belongs_to_a_field(name: str) -> None:
    dtype = TYPES[name]
    assert sum(dtype[field].itemsize for field in dtype.names or ()) == dtype.itemsize


def test_there_are_records_to_look_at() -> None:
    assert {"flow_record.FLOW", "records.PACKET", "message_records.MESSAGE"} <= TYPES.keys()


def test_fields_stay_where_a_compiler_would_put_them() -> None:
    fields = [("flag", np.uint8), ("time", np.int64), ("state", np.float64, (3,)), ("last", np.int32)]
    aligned, plain = aligned_dtype(fields), np.dtype(fields, align=True)
    assert aligned.fields is not None
    assert plain.fields is not None
    assert (aligned.itemsize, aligned.alignment) == (plain.itemsize, plain.alignment)
    for name in ("flag", "time", "state", "last"):
        assert aligned.fields[name][1] == plain.fields[name][1]
    assert aligned.names == ("flag", "unused_1", "time", "state", "last", "unused_5")


def test_a_copy_in_used_memory_has_the_same_bytes() -> None:
    original = np.zeros(512, aligned_dtype([("a", np.int64), ("b", np.int32)]))
    used = np.full(512 * 16, 255, np.uint8).view(original.dtype)
    used[...] = original
    assert used.tobytes() == original.tobytes() == copy.deepcopy(original).tobytes()
