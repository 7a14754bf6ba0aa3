"""Code that came with rows: found, compared with the rows and named, before any of it is imported."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sysgym.bench.contenders import LARGEST_PLUGIN_BYTES, PluginFile, file_sha256
from sysgym.bench.results.rows import Row
from sysgym.errors import ResultMismatch, SysgymError
from sysgym.scenarios.files import read_limited

MEANING = "they are Python programs, which may do on this machine whatever you may"
"""What trusting files means, in words."""


@contextmanager
def code_of(
    rows: Iterable[Row], folder: Path, given: Sequence[str], *, trust: bool
) -> Iterator[list[PluginFile]]:
    """Find the files of code that rows need; importing them is left to others.

    A file that the user gives is found by its digest, whatever its name. Any other lies in the folder of the
    rows, and is asked for trust. It is then copied to where nobody else writes, and imported from there: what
    lies beside it, such as the compiled forms that numba and Python would take in its place, stays behind.

    Args:
        rows: What is to be played again.
        folder: Where they lie.
        given: The user's files.
        trust: Whether code of the folder may run.

    Yields:
        What a worker has to import.

    Raises:
        ResultMismatch: A file is not what the rows were made with.
        SysgymError: A file is missing or lies elsewhere, or the folder's code is not trusted.
    """
    files = [PluginFile(path, file_sha256(Path(path).expanduser())) for path in given]
    named = {digest: path for row in rows for path, digest in row.contender.plugins}
    inside = {
        digest: file_inside(folder, path, digest)
        for digest, path in named.items()
        if digest not in {file.sha256 for file in files}
    }
    if inside and not trust:
        names = ", ".join(str(path.relative_to(folder.resolve())) for path in inside.values())
        raise SysgymError(
            f"{folder}: its rows need {names}, which come with it: {MEANING}; read them, then give --trust,"
            " or your own copies with --plugin"
        )
    with TemporaryDirectory(prefix="sysgym-plugins-") as private:
        yield [*files, *(_copied(path, digest, Path(private)) for digest, path in inside.items())]


def file_inside(folder: Path, name: str, digest: str) -> Path:
    """Return the file of the folder that a row names, by its place or, as entries have it, by its name.

    Args:
        folder: Where the rows lie.
        name: As the row has it.
        digest: As the row has it.

    Raises:
        ResultMismatch: The file of that name is another.
        SysgymError: The folder has none.
    """
    top = folder.resolve()
    places = [(top / name).resolve(), (top / Path(name).name).resolve()]
    found = [place for place in places if place.is_relative_to(top) and place.is_file()]
    if not found:
        raise SysgymError(
            f"{name}: rows need this file, and {folder} has none of that name; add --plugin FILE"
        )
    if not any(file_sha256(place) == digest for place in found):
        raise ResultMismatch(f"{found[0]}: is not the file that the rows were made with")
    return next(place for place in found if file_sha256(place) == digest)


def _copied(path: Path, digest: str, private: Path) -> PluginFile:
    content = read_limited(path, LARGEST_PLUGIN_BYTES)
    if hashlib.sha256(content).hexdigest() != digest:
        raise ResultMismatch(f"{path}: changed while it was read")
    (private / digest).mkdir()
    copy = private / digest / path.name
    copy.write_bytes(content)
    return PluginFile(str(copy), digest)
