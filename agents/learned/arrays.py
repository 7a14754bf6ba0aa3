"""Arrays, numbers and strings in npz files. Reading a file runs no code and uses bounded memory.

A tree consists of nested dicts and lists of numbers, strings, None and arrays. It is stored as an npz archive
with an additional member ``tree``: the tree as JSON, in which arrays are referred to by name.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sysgym.scenarios.files import LARGEST_UNPACKED_BYTES

LARGEST_TREE_BYTES = 4_000_000
"""Limit of the JSON form of a tree, without arrays."""

_TREE = "tree"
_ARRAY = "__array__"
_KINDS = "biufUS"
"""Kinds of NumPy dtypes that need no pickle: booleans, numbers and strings."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_member(archive: zipfile.ZipFile, name: str, most_bytes: int | None = None) -> bytes:
    """Return a member of an untrusted archive.

    Args:
        archive: Archive that has passed :func:`check_members`.
        name: Name of the member.
        most_bytes: Largest unpacked size; None: only the limit of the whole archive applies.

    Raises:
        ValueError: If the unpacked size exceeds the limit, or the compression method is not supported.
        zipfile.BadZipFile: If the member does not match its entry in the archive.
        KeyError: If there is no such member.
    """
    info = archive.getinfo(name)
    if info.compress_type not in _METHODS:
        raise ValueError(f"{name}: compressed by a method that is not supported")
    if most_bytes is not None and info.file_size > most_bytes:
        raise ValueError(
            f"{name}: would unpack to {info.file_size / 1e6:,.0f} MB, "
            f"at most {most_bytes / 1e6:,.0f} MB are read"
        )
    with archive.open(info) as file:
        # ZipFile.read would unpack everything before it detects a wrong size in the archive.
        return file.read(info.file_size + 1)


def check_members(archive: zipfile.ZipFile, n_bytes: int) -> None:
    """Check the declared sizes of the members of an untrusted archive.

    Args:
        archive: The archive.
        n_bytes: Size of the archive. Stored members cannot exceed it, unless they overlap.

    Raises:
        ValueError: If compressed members exceed :data:`LARGEST_UNPACKED_BYTES` in total, stored members
            exceed the file, or two members have the same name.
    """
    members = archive.infolist()
    if len({info.filename for info in members}) < len(members):
        raise ValueError("two of its members have the same name")
    stored, packed = 0, 0
    for info in members:
        if info.compress_type == zipfile.ZIP_STORED:
            stored += info.file_size
        else:
            packed += info.file_size
    if packed > LARGEST_UNPACKED_BYTES:
        raise ValueError(
            f"its members would unpack to {packed / 1e6:,.0f} MB, at most "
            f"{LARGEST_UNPACKED_BYTES / 1e6:,.0f} MB are read"
        )
    if stored > n_bytes:
        raise ValueError("its members overlap")


def read_arrays(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of an npz file.

    Raises:
        ValueError: If an array holds Python objects or does not match its header, or for the reasons given
            in :func:`check_members`.
        zipfile.BadZipFile: If the file is not an archive.
    """
    with zipfile.ZipFile(BytesIO(data)) as archive:
        check_members(archive, len(data))
        return {
            name.removesuffix(".npy"): _array(name, read_member(archive, name)) for name in archive.namelist()
        }


def write_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return arrays as an npz file."""
    file = BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def write_tree(tree: Any) -> bytes:
    """Return a tree as an npz file.

    Raises:
        TypeError: If the tree holds anything but dicts, lists, numbers, strings, None and arrays.
    """
    arrays: dict[str, NDArray[Any]] = {}

    def described(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            name = f"array_{len(arrays)}"
            arrays[name] = value
            return {_ARRAY: name}
        if isinstance(value, Mapping):
            return {str(key): described(one) for key, one in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return [described(one) for one in value]
        if isinstance(value, np.generic):
            return value.item()
        if value is None or isinstance(value, str | int | float):
            return value
        raise TypeError(f"{type(value).__name__}: cannot be stored in a file of arrays")

    text = json.dumps(described(tree)).encode()
    return write_arrays({**arrays, _TREE: np.frombuffer(text, np.uint8)})


def read_tree(data: bytes) -> Any:
    """Return the tree of an npz file.

    Raises:
        ValueError: If the file is not a tree, its JSON form is larger than :data:`LARGEST_TREE_BYTES`, or for
            the reasons given in :func:`read_arrays`.
        KeyError: If an array is missing.
        RecursionError: If the tree is nested too deeply.
        zipfile.BadZipFile: If the file is not an archive.
    """
    arrays = read_arrays(data)
    text = arrays[_TREE].tobytes()
    if len(text) > LARGEST_TREE_BYTES:
        raise ValueError(f"its tree is larger than {LARGEST_TREE_BYTES / 1e6:g} MB")

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            if value.keys() == {_ARRAY}:
                return arrays[value[_ARRAY]]
            return {key: filled(one) for key, one in value.items()}
        return [filled(one) for one in value] if isinstance(value, list) else value

    return filled(json.loads(text))


def _array(name: str, data: bytes) -> NDArray[Any]:
    file = BytesIO(data)
    version = npy.read_magic(file)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran_order, dtype = read_header(file)
    if dtype.kind not in _KINDS:
        raise ValueError(f"{name}: holds Python objects, which only pickle could read")
    begin = file.tell()
    if math.prod(shape) * dtype.itemsize != len(data) - begin:
        raise ValueError(f"{name}: the shape {shape} does not fit its {len(data) - begin} bytes")
    flat = np.frombuffer(data, dtype, math.prod(shape), begin)
    array = flat.reshape(shape[::-1]).T if fortran_order else flat.reshape(shape)
    return array.copy(order="K")
