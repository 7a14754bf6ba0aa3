"""Atomic writing of files, and reading of untrusted files within limits.

Every layer writes through this module, so a full disk, a read-only folder or a power failure loses only the
file being written, never earlier content.
"""

from __future__ import annotations

import errno
import gzip
import json
import math
import os
import secrets
import stat
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from sysgym.scenarios.errors import StorageError, SysgymError

LARGEST_JSON_BYTES = 64_000_000
"""Largest size of a JSON file that is read."""

LARGEST_UNPACKED_BYTES = 2**28
"""Largest content of a compressed file: a small file cannot fill the memory."""

GZIP = ".gz"
"""End of the names of compressed files."""

MOST_DIGITS = 20
"""Largest number of digits of an integer in JSON; counts, seeds and sizes fit into 64 bits."""

DEEPEST = 64
"""Largest nesting depth of JSON."""


_OF_STORAGE = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EIO,
        errno.EISDIR,
        errno.ENAMETOOLONG,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)


def storage_error(error: OSError) -> SysgymError | None:
    """Return an error of the operating system as a SysgymError; None if it does not concern files.

    This is for files that a library reads or writes; :func:`storing` gives more detail for our own writes.

    Args:
        error: Error of the operating system.
    """
    if error.errno not in _OF_STORAGE:
        return None
    said = StorageError(error.filename or "a file that cannot be read or written", error)
    return SysgymError(f"{said.path}: {said.reason}")


@contextmanager
def storing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors of the operating system during writing into StorageError.

    Args:
        path: File or folder that is being written.

    Raises:
        StorageError: If writing fails.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(path, error) from error


def make_folder(path: Path) -> None:
    """Create a folder and its parents, unless they exist.

    Raises:
        StorageError: If it cannot be made.
    """
    with storing(path):
        path.mkdir(parents=True, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Flush a folder to the disk, so that a new or renamed file in it survives a power failure.

    Raises:
        OSError: If the disk fails.
    """
    if os.name == "nt":  # Windows cannot open folders, and writes names with the file
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems do not support it
            raise
    finally:
        os.close(handle)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically: a reader sees the old or the new content, never a part.

    Args:
        path: File to write.
        content: Its entire content.

    Raises:
        StorageError: If it cannot be written; a reader then sees the old content or, if only its name could
            not be flushed to the disk, the new one.
    """
    with replacing(path) as file:
        write_all(file.fileno(), content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces another one when it is completely written; see :func:`write_atomically`.

    The content goes into a temporary file in the same folder, which is flushed to the disk and renamed; then
    the folder is flushed too. A process that is killed meanwhile leaves at most the temporary file,
    ``.NAME.RANDOM.tmp``.

    Args:
        path: File to replace.

    Raises:
        StorageError: As in :func:`write_atomically`.
    """
    temporary = _temporary_beside(path)
    with storing(path):
        try:
            # No attacker can have put a link there: the name is random, and the file must be new.
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)


def check_replaceable(path: Path) -> None:
    """Check that :func:`replacing` could write a file, without changing an existing one.

    Raises:
        StorageError: If it could not.
    """
    temporary = _temporary_beside(path)
    with storing(path):
        temporary.open("xb").close()
        temporary.unlink()


def _temporary_beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def own_file(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file for writing in an untrusted folder; an ``opener`` for :func:`open`.

    Args:
        path: File to open.
        flags: Flags of :func:`os.open`.

    Returns:
        Its descriptor.

    Raises:
        OSError: If it cannot be opened, is a symbolic link, or is not a regular file.
    """
    try:
        return _open_regular(path, flags | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "a symbolic link, which is not written through", path) from error
        raise


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading, without waiting for a pipe or reading a device.

    Raises:
        OSError: If it cannot be opened, or is not a regular file.
    """
    return open(path, "rb", opener=_open_regular)


def _open_regular(path: str | os.PathLike[str], flags: int) -> int:
    # Without O_NONBLOCK, opening a pipe blocks until its other end is opened.
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "a folder, a pipe or a device; expected a file", path)
    return handle


def write_all(file: int, content: bytes) -> None:
    """Write all content to an open file; a full disk may accept only a part of it at first.

    Args:
        file: Descriptor.
        content: Content to write.

    Raises:
        OSError: If a part cannot be written.
    """
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def parse_json(content: bytes | str) -> Any:
    """Return the value of a JSON text, with stricter rules than :func:`json.loads`.

    Args:
        content: The text; bytes are UTF-8.

    Raises:
        ValueError: If it is not JSON, or has NaN, a number that is not finite, an integer of more than
            :data:`MOST_DIGITS` digits, a repeated key in an object, or more than :data:`DEEPEST` levels.
    """
    try:
        found = json.loads(
            content,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=_without_repeats,
        )
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from error
    level = [found]
    for _ in range(DEEPEST):
        level = [item for value in level for item in _items(value)]
        if not level:
            return found
    raise ValueError(_TOO_DEEP)


def read_json(path: Path) -> Any:
    """Return the value of a JSON file.

    Args:
        path: File to read.

    Raises:
        SysgymError: If it cannot be read, or is not JSON within the limits of :func:`parse_json`.
    """
    content = read_limited(path, LARGEST_JSON_BYTES)
    try:
        return parse_json(content)
    except ValueError as error:
        raise SysgymError(f"{path}: {error}") from error


def read_limited(path: Path, most_bytes: int) -> bytes:
    """Return the content of a regular file.

    Args:
        path: File to read.
        most_bytes: Largest size.

    Raises:
        SysgymError: If it cannot be read, is larger, or is a pipe or a device.
    """
    try:
        with open_regular(path) as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise SysgymError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > most_bytes:
        raise _too_large(path, most_bytes)
    return content


def read_lines(
    path: Path, most_bytes: int, longest_bytes: int, *, may_be_cut: bool = False
) -> Iterator[bytes]:
    """Yield the lines of a regular file, newlines included, with one of them in memory at a time.

    A file whose name ends in ``.gz`` is unpacked.

    Args:
        path: File to read.
        most_bytes: Largest size. Compressed files also unpack to at most :data:`LARGEST_UNPACKED_BYTES`.
        longest_bytes: Largest length of a line.
        may_be_cut: Whether compressed data may end too early, as plain text may; the last line then has no
            newline, and may be empty.

    Raises:
        SysgymError: If the file cannot be read, is not what its name says, is a pipe or a device, or a limit
            is exceeded.
    """
    packed = path.suffix == GZIP
    most_bytes = min(most_bytes, LARGEST_UNPACKED_BYTES) if packed else most_bytes
    n_bytes = 0
    try:
        with open_regular(path) as raw:
            file: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=raw) if packed else raw
            for number in count(1):
                line = file.readline(longest_bytes + 1)
                n_bytes += len(line)
                if n_bytes > most_bytes:
                    raise _too_large(path, most_bytes, packed=packed)
                if len(line) > longest_bytes:
                    raise SysgymError(
                        f"{path}, line {number}: longer than {longest_bytes / 1e6:g} MB, the maximum length"
                        " of a line; the file was changed or damaged"
                    )
                if not line:
                    return
                if packed and not may_be_cut and not line.endswith(b"\n"):
                    raise SysgymError(
                        f"{path}, line {number}: ends in the middle of a line; create the file again"
                    )
                yield line
    except EOFError as error:
        if not may_be_cut:
            raise SysgymError(f"{path}: the compressed data end too early; copy the file again") from error
        yield b""
    except (gzip.BadGzipFile, zlib.error) as error:
        raise SysgymError(
            f"{path}: not compressed by gzip, or damaged: {error}; copy the file again, "
            "or rename it if it is plain text"
        ) from error
    except OSError as error:
        raise SysgymError(f"{path}: cannot be read: {error.strerror}") from error


def _too_large(path: Path, most_bytes: int, *, packed: bool = False) -> SysgymError:
    most = f"{most_bytes / 1e6:,.4g} MB"
    if packed:
        return SysgymError(
            f"{path}: larger than {most} when unpacked, the most that is read of compressed files; "
            "if you know who made it, unpack it"
        )
    return SysgymError(f"{path}: larger than {most}, the most that is read of its kind")


_TOO_DEEP = f"brackets are nested more than {DEEPEST} deep"


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is not a number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:MOST_DIGITS]} exceeds the largest number")
    return value


def _integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits; expected at most {MOST_DIGITS}")
    return int(text)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f'the key "{twice[:40]}" appears twice in one object')
    return found
