"""Files that are written whole or not at all, and files of strangers, which are read within limits.

Every layer writes through this module, so that a full disk, a folder that may not be written to or a power
cut costs what was being written and nothing that was there before.
"""

from __future__ import annotations

import errno
import json
import math
import os
import secrets
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from sysgym.scenarios.errors import StorageError, SysgymError

LARGEST_JSON_BYTES = 64_000_000
"""A larger JSON file is refused unread."""

MOST_DIGITS = 20
"""Of an integer in JSON; more than 64 bits hold are no count, seed or size of anything."""

DEEPEST = 64
"""Levels of brackets in JSON."""


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
    """Return what the system said as an error of ours; None where it is not about files and folders.

    For what a library reads or writes; what we write says more: see :func:`storing`.

    Args:
        error: What was raised.
    """
    if error.errno not in _OF_STORAGE:
        return None
    said = StorageError(error.filename or "a file that cannot be read or written", error)
    return SysgymError(f"{said.path}: {said.reason}")


@contextmanager
def storing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what the system says about writing a file or folder into a sentence.

    Args:
        path: What is being written.

    Raises:
        StorageError: The system refused.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(path, error) from error


def make_folder(path: Path) -> None:
    """Make a folder, with those around it, unless it is there.

    Raises:
        StorageError: It cannot be made.
    """
    with storing(path):
        path.mkdir(parents=True, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Flush a folder to the disk: only then does a new or renamed file in it outlive a power cut.

    Raises:
        OSError: The disk failed.
    """
    if os.name == "nt":  # folders cannot be opened there, and names are written with the file
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems have no such thing
            raise
    finally:
        os.close(handle)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old or the new content, never a part.

    Args:
        path: The file.
        content: All of it.

    Raises:
        StorageError: It cannot be written; a reader sees the old content or, if only its name could not be
            flushed to the disk, the new.
    """
    with replacing(path) as file:
        write_all(file.fileno(), content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file whose content takes the place of another's when all is written: :func:`write_atomically`.

    The content goes into a new file beside it, which is flushed to the disk and renamed; then the folder is
    flushed too. A process that is killed on the way leaves at most that other file, ``.NAME.RANDOM.tmp``.

    Args:
        path: The file that is replaced.

    Raises:
        StorageError: As there.
    """
    temporary = _temporary_beside(path)
    with storing(path):
        try:
            # Nobody can have put a link there: the name is not to be guessed, and the file has to be new.
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
    """Find out whether a file could be written as :func:`replacing` does; what is there stays as it is.

    Raises:
        StorageError: It could not.
    """
    temporary = _temporary_beside(path)
    with storing(path):
        temporary.open("xb").close()
        temporary.unlink()


def _temporary_beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def own_file(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file to write to in a folder that may be a stranger's; the ``opener`` of :func:`open`.

    Args:
        path: The file.
        flags: As of :func:`os.open`.

    Returns:
        Its descriptor.

    Raises:
        OSError: It cannot be opened; or is a symbolic link, which could lead anywhere, or no file at all.
    """
    try:
        return _open_regular(path, flags | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "a symbolic link, which is not written through", path) from error
        raise


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read from; never waits for a pipe, and never reads a device.

    Raises:
        OSError: It cannot be opened, or is no file.
    """
    return open(path, "rb", opener=_open_regular)


def _open_regular(path: str | os.PathLike[str], flags: int) -> int:
    # Without O_NONBLOCK, opening a pipe waits until somebody is at its other end.
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "a folder, a pipe or a device; expected a file", path)
    return handle


def write_all(file: int, content: bytes) -> None:
    """Write to an open file until all is written: a full disk takes a part and refuses the rest.

    Args:
        file: Descriptor.
        content: What to write.

    Raises:
        OSError: The system refused the rest.
    """
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def parse_json(content: bytes | str) -> Any:
    """Return what a JSON text says, stricter than :func:`json.loads`.

    Args:
        content: The text; as bytes in UTF-8.

    Raises:
        ValueError: It is not JSON; or holds NaN, a number that is not finite, an integer of more than
            :data:`MOST_DIGITS` digits, a key twice in one object, or more than :data:`DEEPEST` levels.
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
    """Return what a JSON file says.

    Args:
        path: The file.

    Raises:
        SysgymError: It cannot be read, or is none within the limits of :func:`parse_json`.
    """
    content = read_limited(path, LARGEST_JSON_BYTES)
    try:
        return parse_json(content)
    except ValueError as error:
        raise SysgymError(f"{path}: {error}") from error


def read_limited(path: Path, most_bytes: int) -> bytes:
    """Return the content of a regular file.

    Args:
        path: The file.
        most_bytes: A larger one is refused.

    Raises:
        SysgymError: It cannot be read, is larger, or is a pipe or a device.
    """
    try:
        with open_regular(path) as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise SysgymError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > most_bytes:
        raise SysgymError(f"{path}: larger than {most_bytes / 1e6:g} MB, the most that is read of its kind")
    return content


_TOO_DEEP = f"brackets are nested more than {DEEPEST} deep"


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is not a number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:MOST_DIGITS]} is more than a number can be")
    return value


def _integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits; expected at most {MOST_DIGITS}")
    return int(text)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f'the key "{twice[:40]}" stands twice in one object')
    return found
