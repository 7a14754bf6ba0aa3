"""Wire protocol of client, service and world processes: typed, versioned and of limited size.

A message is one ZeroMQ frame with one msgpack map::

    {"v": 1, "id": 7, "body": {"op": "step", ...}}         a request
    {"v": 1, "id": 7, "body": {...}}                       its answer, or
    {"v": 1, "id": 7, "error": {"class": ..., ...}}        an error

``v`` is :data:`VERSION`. Later versions keep the map, ``v``, ``id`` and the shape of ``error``, so that two
versions can report that they differ. Nothing in a message is ever executed, unpickled or given to a shell:
arrays are raw numbers of a few types (:data:`DTYPES`), and everything else is validated by the models of
:mod:`sysgym.emulator.linux.service.messages`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, TypeAdapter, ValidationError

from sysgym.emulator.linux.service.messages import Message, words_of
from sysgym.scenarios.errors import BackendError, MissingExtra

try:
    import msgpack
except ImportError as missing:  # pragma: no cover  (the extra is installed where this is tested)
    raise MissingExtra("emulator", "the Linux backend") from missing

VERSION = 1
"""Version of the protocol; client and service need the same one."""

MAX_MESSAGE_BYTES = 4_000_000
"""Largest message. A schedule of 40,000 flows is 2 MB, the readings of a step 6 kB."""

NOBODYS_ID = 2**62
"""Id of a message that answers no request; receivers ignore it."""

DTYPES = tuple(np.dtype(name) for name in ("<f8", "<i8", "<i4", "?"))
"""Types of arrays that may be sent, in the order of their codes on the wire."""

_ARRAY = 1  # msgpack's extension type
_MAX_DIMENSIONS = 2
_HEAD = struct.Struct("<BB")


class ProtocolError(BackendError):
    """Raised when a message cannot be decoded; the error's message says why.

    Attributes:
        request_id: Id of the request, if it could be read; else 0.
    """

    def __init__(self, message: str, detail: str = "", request_id: int = 0) -> None:
        self.request_id = request_id
        super().__init__(message, detail)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the constructor's arguments."""
        return (type(self), (self.message, self.detail, self.request_id))


MessageT = TypeVar("MessageT", bound=Message)


def encode(request_id: int, body: Message) -> bytes:
    """Return the frame of a request or an answer.

    Raises:
        ProtocolError: If it is larger than :data:`MAX_MESSAGE_BYTES`, or has a value that cannot be encoded.
    """
    fields = {name: _plain(value) for name, value in body if value is not None}
    return _packed(request_id, {"body": fields})


def encode_error(request_id: int, error: Mapping[str, Any]) -> bytes:
    """Return the frame of an error; see :mod:`sysgym.emulator.linux.service.wire_errors`."""
    return _packed(request_id, {"error": dict(error)})


def decode(frame: bytes | memoryview) -> tuple[int, dict[str, Any]]:
    """Return the id and the content of a frame; the content is a map with ``body`` or ``error``.

    Raises:
        ProtocolError: If it is too large, not msgpack, of another version, or of another shape. No other
            error is raised, whatever the bytes are.
    """
    if len(frame) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a message of {len(frame)} bytes; the largest is {MAX_MESSAGE_BYTES}")
    try:
        content = msgpack.unpackb(frame, ext_hook=_array, strict_map_key=True, timestamp=0)
    except ProtocolError:
        raise
    except Exception as error:  # msgpack raises ValueError, its own errors, struct.error, OverflowError ...
        raise ProtocolError(f"a message that is no msgpack: {type(error).__name__} {error}"[:300]) from None
    if not isinstance(content, dict) or "v" not in content:
        raise ProtocolError("a message without a version")
    request_id = content.get("id")
    if not isinstance(request_id, int) or isinstance(request_id, bool) or not 0 <= request_id < 2**63:
        request_id = 0
    version = content["v"]
    if version != VERSION or isinstance(version, bool | float):
        raise ProtocolError(
            f"the other side speaks version {str(version)[:20]} of the protocol, this side version {VERSION}:"
            " client and service have to be of the same sysgym",
            request_id=request_id,
        )
    if not request_id or len(content) != 3 or not isinstance(content.get("body", content.get("error")), dict):
        raise ProtocolError("a message needs a number and a body", request_id=request_id)
    return request_id, content


def parse(adapter: TypeAdapter[Any], request_id: int, content: Mapping[str, Any]) -> Any:
    """Return the request in a decoded frame.

    Raises:
        ProtocolError: If the adapter does not know the request.
    """
    try:
        return adapter.validate_python(content.get("body"))
    except (ValidationError, RecursionError) as error:
        raise ProtocolError(f"a request that cannot be: {_words(error)}", request_id=request_id) from None


def parse_answer(kind: type[MessageT], content: Mapping[str, Any]) -> MessageT:
    """Return the answer in a decoded frame.

    Raises:
        ProtocolError: If the answer is of another kind.
    """
    try:
        return kind.model_validate(content.get("body"))
    except (ValidationError, RecursionError) as error:
        raise ProtocolError(f"an answer that cannot be: {_words(error)}") from None


def _words(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "too deeply nested"
    return words_of(error)


def _plain(value: Any) -> Any:
    """Convert models to maps; leave the rest to msgpack."""
    if isinstance(value, BaseModel):
        return {name: _plain(inner) for name, inner in value if inner is not None}
    return value


def _packed(request_id: int, content: dict[str, Any]) -> bytes:
    try:
        frame: bytes = msgpack.packb({"v": VERSION, "id": request_id, **content}, default=_extension)
    except (TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"a message that cannot travel: {error}") from None
    if len(frame) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a message of {len(frame)} bytes; the largest is {MAX_MESSAGE_BYTES}")
    return frame


def _extension(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype in DTYPES and value.ndim <= _MAX_DIMENSIONS:
        head = _HEAD.pack(DTYPES.index(value.dtype), value.ndim) + struct.pack(
            f"<{value.ndim}I", *value.shape
        )
        return msgpack.ExtType(_ARRAY, head + value.tobytes())
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} {value!r}"[:200])


def _array(code: int, data: bytes) -> NDArray[Any]:
    if code != _ARRAY:
        raise ProtocolError(f"an extension {code} of msgpack, which is none of this protocol's")
    if len(data) < _HEAD.size:
        raise ProtocolError("an array without a head")
    dtype_code, ndim = _HEAD.unpack_from(data)
    if dtype_code >= len(DTYPES) or ndim > _MAX_DIMENSIONS:
        raise ProtocolError(f"an array of type {dtype_code} with {ndim} dimensions")
    dtype, start = DTYPES[dtype_code], _HEAD.size + 4 * ndim
    if len(data) < start:
        raise ProtocolError("an array without a shape")
    shape = struct.unpack_from(f"<{ndim}I", data, _HEAD.size)
    if len(data) - start != math.prod(shape) * dtype.itemsize:
        raise ProtocolError(f"an array of shape {shape} with {len(data) - start} bytes")
    if dtype == np.bool_:  # a byte that is neither 0 nor 1 is not a valid NumPy bool
        truth: NDArray[np.bool_] = np.frombuffer(data, np.uint8, offset=start) != 0
        return truth.reshape(shape)
    # A copy: data in a message are read-only, and not aligned as compiled code needs them.
    array: NDArray[Any] = np.frombuffer(data, dtype, offset=start).reshape(shape).copy()
    return array
