"""Files of others: whole contents, with limits on their size, and unpacked."""

from __future__ import annotations

import zlib
from pathlib import Path

from sysgym.emulator.trace_errors import TraceError
from sysgym.scenarios.files import LARGEST_UNPACKED_BYTES

MOST_BYTES = 2**30
"""Largest content of a file; compressed ones may unpack to less."""

_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31
_CHUNK_BYTES = 2**20


def content(path: Path, remedy: str, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a file, unpacked if it is in gzip's format.

    Args:
        path: The file.
        remedy: What to do if it cannot be used, for messages.
        most_bytes: Largest content. A compressed file also unpacks to at most :data:`LARGEST_UNPACKED_BYTES`,
            so that a small file cannot fill the memory.

    Raises:
        TraceError: If there is no such file, it is too large, or it is damaged.
    """
    if not path.is_file():
        raise TraceError(path, "no such file", "a file of a training job", "check the path")
    try:
        if path.stat().st_size > most_bytes:
            raise _too_large(path, most_bytes)
        packed = path.read_bytes()
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error}", "a readable file", remedy) from error
    return _unpacked(path, packed, remedy, most_bytes) if packed.startswith(_GZIP) else packed


def _unpacked(path: Path, packed: bytes, remedy: str, most_bytes: int) -> bytes:
    """Return the content of all members of a gzip file."""
    most_bytes = min(most_bytes, LARGEST_UNPACKED_BYTES)
    parts, size = [], 0
    while packed:
        member = zlib.decompressobj(_GZIP_WINDOW)
        while packed and not member.eof:
            try:
                part = member.decompress(packed, _CHUNK_BYTES)
            except zlib.error as error:
                raise TraceError(path, f"damaged: {error}", "a file in gzip's format", remedy) from error
            packed = member.unconsumed_tail or member.unused_data
            size += len(part)
            if size > most_bytes:
                raise _too_large(path, most_bytes)
            parts.append(part)
        if not member.eof:
            raise TraceError(path, "ends too early", "a whole file in gzip's format", remedy)
        packed = packed.lstrip(b"\0")
    return b"".join(parts)


def _too_large(path: Path, most_bytes: int) -> TraceError:
    return TraceError(
        path,
        f"more than {most_bytes / 2**20:.0f} MiB of content",
        "at most that many",
        "record fewer steps, or without shapes and stacks; unpack a compressed file, then more is read",
    )
