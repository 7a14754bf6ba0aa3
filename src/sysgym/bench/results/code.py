"""Code files that rows need: found, checked against the digests in the rows, and listed before import."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sysgym.bench.contenders import Contender, file_sha256
from sysgym.bench.plugins import LARGEST_PLUGIN_BYTES, PluginFile
from sysgym.errors import ResultMismatch, SysgymError
from sysgym.scenarios.files import read_limited

MEANING = "they are Python programs, which can do anything on this machine that you can"
"""Explanation of trust in messages."""


@contextmanager
def code_of(
    contenders: Iterable[Contender], folder: Path, given: Sequence[str], *, trust: bool
) -> Iterator[list[PluginFile]]:
    """Find the code files that rows need, without importing them.

    The user's own files are found by digest, regardless of their names. All other files must be in the folder
    of the rows and require the user's trust. They are copied to a private folder and imported from there, so
    that neighbouring files, such as bytecode that Python or numba would load instead, have no effect.

    Args:
        contenders: Contenders of the rows to replay.
        folder: Folder of the rows.
        given: The user's own files.
        trust: Whether code of the folder may run.

    Yields:
        Files that a worker has to import.

    Raises:
        ResultMismatch: If a file differs from the one that the rows were made with.
        SysgymError: If a file is missing or outside the folder, or the folder's code is not trusted.
    """
    files = [PluginFile(path, file_sha256(Path(path).expanduser())) for path in given]
    named = {digest: path for one in contenders for path, digest in one.plugins}
    inside = {
        digest: file_inside(folder, path, digest)
        for digest, path in named.items()
        if digest not in {file.sha256 for file in files}
    }
    if inside and not trust:
        names = ", ".join(str(path.relative_to(folder.resolve())) for path in inside.values())
        raise SysgymError(
            f"{folder}: its rows need files of this folder, {names}: {MEANING}; read them, then use --trust,"
            " or give your own copies with --plugin"
        )
    with TemporaryDirectory(prefix="sysgym-plugins-") as private:
        yield [*files, *(_copied(path, digest, Path(private)) for digest, path in inside.items())]


def file_inside(folder: Path, name: str, digest: str) -> Path:
    """Return the file in a folder that a row names by its path or, in entries, by its file name.

    Args:
        folder: Folder of the rows.
        name: Path in the row.
        digest: Digest in the row.

    Raises:
        ResultMismatch: If the file of that name has another digest.
        SysgymError: If the folder has no such file.
    """
    top = folder.resolve()
    places = [(top / name).resolve(), (top / Path(name).name).resolve()]
    found = [place for place in places if place.is_relative_to(top) and place.is_file()]
    if not found:
        raise SysgymError(
            f"{name}: rows need this file, and {folder} has no file of that name; add --plugin FILE"
        )
    if not any(file_sha256(place) == digest for place in found):
        raise ResultMismatch(f"{found[0]}: differs from the file that the rows were made with")
    return next(place for place in found if file_sha256(place) == digest)


def _copied(path: Path, digest: str, private: Path) -> PluginFile:
    content = read_limited(path, LARGEST_PLUGIN_BYTES)
    if hashlib.sha256(content).hexdigest() != digest:
        raise ResultMismatch(f"{path}: changed while it was read")
    (private / digest).mkdir()
    copy = private / digest / path.name
    copy.write_bytes(content)
    return PluginFile(str(copy), digest)
