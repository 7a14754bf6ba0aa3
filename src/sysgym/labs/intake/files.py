"""Files of submissions: where they are in a folder, and reading them without being led elsewhere.

A student may hand in a symbolic link to the solution, a pipe that never ends, or a name that is no text. Only
regular files in the folder itself count, and they are never opened through a link.
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from sysgym.errors import SysgymError
from sysgym.labs.intake.texts import printable_name
from sysgym.scenarios.files import own_file

SUFFIXES = (".py", ".ipynb")

LARGEST_BYTES = 5_000_000
"""Largest file of a submission; notebooks contain their pictures."""


class SubmissionError(SysgymError):
    """A submission that cannot be graded as it is; says what to change."""


def content_of(path: Path) -> bytes:
    """Return the content of a submission's file.

    Raises:
        SubmissionError: It is a link, a folder, a pipe or a device, is larger than :data:`LARGEST_BYTES`, or
            cannot be read.
    """
    name = printable_name(path.name)
    content = _beginning(path)
    if content is None:
        raise SubmissionError(
            f"{name}: cannot be read; hand in the file itself, not a link, a folder or a pipe"
        )
    if len(content) > LARGEST_BYTES:
        raise SubmissionError(f"{name}: larger than {LARGEST_BYTES / 1e6:g} MB; clear the notebook's outputs")
    return content


def digest(path: Path) -> str:
    """Return the digest of a submission's file, and of a policy beside it."""
    found = hashlib.sha256()
    for one in (path, policy_beside(path)):
        content = None if one is None else _beginning(one)
        found.update(b"none" if content is None else hashlib.sha256(content).digest())
    return found.hexdigest()


def policy_beside(path: Path) -> Path | None:
    """Return the trained policy of a submission, or None.

    It is ``NAME.zip`` for ``NAME.py``. A file ``policy.zip`` belongs to the only submission of its folder, or
    to ``labN.py``; among the submissions of several students it is nobody's.
    """
    own, shared = path.with_suffix(".zip"), path.with_name("policy.zip")
    if is_file(own):
        return own
    others = {one.stem for one in path.parent.iterdir() if one.suffix in SUFFIXES} - {path.stem}
    if is_file(shared) and (not others or re.fullmatch(r"lab\d+", path.stem)):
        return shared
    return None


def submissions_in(number: int, path: Path, *, of_class: bool = False) -> list[tuple[str, Path]]:
    """Return the submissions at a path, by printable name.

    A file is one. In a folder, every Python file, notebook, and folder with such a file is one; a folder of a
    single student, with ``labN.py`` or ``labN.ipynb``, is one too. Of a file and a notebook of the same name
    the newer one counts. Links and the like are listed, so that somebody hears of them, but never read.

    Args:
        number: Number of the lab.
        path: File or folder.
        of_class: Whether a folder with other submissions beside ``labN.py`` is a class's, not a student's.

    Raises:
        SysgymError: There is none.
    """
    if path.is_file():
        return [(printable_name(path.stem), path)]
    found: dict[str, Path] = {}
    for one in sorted(path.iterdir()) if path.is_dir() else ():
        name, inside = _submission_at(one, number)
        if inside is None:
            continue
        newest = _newest((found[name], inside)) if name in found else inside
        found[name] = newest or inside
    own = _newest(path / f"lab{number}{suffix}" for suffix in SUFFIXES)
    if own is not None and not (of_class and len(found) > 1):
        return [(printable_name(path.resolve().name), own)]
    if not found:
        raise SysgymError(
            f"{path}: no submission; expected lab{number}.py or lab{number}.ipynb, or a folder of such files"
        )
    return _with_printable_names(found)


def is_file(path: Path) -> bool:
    """Return whether a path is a regular file itself, not a link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _submission_at(path: Path, number: int) -> tuple[str, Path | None]:
    """Return the name and the file of an entry in a class's folder; the file may turn out to be none."""
    if path.is_symlink() or path.resolve() != path.parent.resolve() / path.name:  # junctions of Windows
        return path.stem, path if path.suffix in SUFFIXES or path.is_dir() else None
    if not path.is_dir():
        return path.stem, path if path.suffix in SUFFIXES else None
    try:
        inside = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES)
    except OSError:  # a folder that nobody may read
        return path.name, path
    own = [one for one in inside if one.stem == f"lab{number}"]
    return path.name, _newest(own) or _newest(inside) or next(iter(inside), None)


def _with_printable_names(found: dict[str, Path]) -> list[tuple[str, Path]]:
    named: dict[str, Path] = {}
    for name, path in sorted(found.items()):
        shown, count = printable_name(name), 1
        while shown in named:
            count += 1
            shown = f"{printable_name(name)} ({count})"
        named[shown] = path
    return sorted(named.items())


def _newest(paths: Iterable[Path]) -> Path | None:
    there = [path for path in paths if is_file(path)]
    return max(there, key=lambda path: path.lstat().st_mtime_ns, default=None)


def _beginning(path: Path) -> bytes | None:
    """Return a file up to one byte more than allowed; None if it is a link, no file, or unreadable."""
    try:
        if path.is_symlink():  # Windows has no O_NOFOLLOW
            return None
        with open(path, "rb", opener=own_file) as file:
            return file.read(LARGEST_BYTES + 1)
    except OSError:
        return None
