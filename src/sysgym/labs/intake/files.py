"""Files of submissions: search in folders, and choice if there are several files.

A student may hand in a symbolic link to the solution, a pipe that never ends, or a name that is not valid
text. Only regular files in the folder itself are used, and they are never opened through a link.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from sysgym.errors import SysgymError
from sysgym.labs.intake.content import beginning_of, is_file
from sysgym.labs.intake.notebooks import code_lines, code_lines_of
from sysgym.labs.intake.texts import printable_name

SUFFIXES = (".py", ".ipynb")

STARTERS = Path(__file__).parents[1] / "starters"

NOT_HANDED_IN = (".csv", ".json")
"""Suffixes of tables of grades, which may lie in the folder of a class."""


def digest(path: Path) -> str:
    """Return the digest of a submission's file, and of a policy beside it."""
    found = hashlib.sha256()
    for one in (path, policy_beside(path)):
        content = None if one is None else beginning_of(one)
        found.update(b"none" if content is None else hashlib.sha256(content).digest())
    return found.hexdigest()


def policy_beside(path: Path) -> Path | None:
    """Return the trained policy of a submission, or None.

    The policy of ``NAME.py`` is ``NAME.zip``. A file ``policy.zip`` belongs to the only submission of its
    folder, or to ``labN.py``; it is ignored among the submissions of several students.
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

    A file is a single submission, and so is the folder of a student, with ``labN.py`` or ``labN.ipynb``. In
    other folders, every Python file, every notebook and every folder with such a file is a submission. If
    there are a Python file and a notebook of the same name, the one that differs from the starter is used; if
    both differ, the newer one; if they are equally old, the Python file. In the folder of a class, all other
    entries are listed as well, so that they can be reported: links, archives, and folders without a
    submission at their top level. They are never read.

    Args:
        number: Number of the lab.
        path: File or folder.
        of_class: Whether a folder with several submissions and ``labN.py`` belongs to a class, not a student.

    Raises:
        SysgymError: There is no submission.
    """
    if path.is_file():
        return [(printable_name(path.stem), path)]
    found: dict[str, Path] = {}
    others: dict[str, Path] = {}
    for one in sorted(path.iterdir()) if path.is_dir() else ():
        name, inside = _submission_at(one, number)
        if inside is not None:
            chosen = _chosen((found[name], inside), number) if name in found else inside
            found[name] = chosen or inside
        elif _handed_in(one):
            others[name] = one
    own = _chosen((path / f"lab{number}{suffix}" for suffix in SUFFIXES), number)
    if own is not None and not (of_class and len(found) > 1):
        return [(printable_name(path.resolve().name), own)]
    if not found:
        raise SysgymError(
            f"{path}: no submission; expected lab{number}.py or lab{number}.ipynb, or a folder of such files"
        )
    return _with_printable_names(others | found if of_class else found)


def rival_of(path: Path, number: int) -> Path | None:
    """Return another changed file of the same name, which could be the submission as well, or None."""
    for suffix in set(SUFFIXES) - {path.suffix}:
        other = path.with_suffix(suffix)
        if path.suffix in SUFFIXES and is_file(other) and all(_changed((path, other), number)):
            return other
    return None


def _handed_in(path: Path) -> bool:
    """Return whether an entry of a class's folder without a submission is probably intended as one."""
    return not path.name.startswith((".", "__")) and path.suffix not in NOT_HANDED_IN


def _submission_at(path: Path, number: int) -> tuple[str, Path | None]:
    """Return the name of an entry in a class's folder, and its file or None; the file may be a link."""
    if path.is_symlink() or path.resolve() != path.parent.resolve() / path.name:  # junctions of Windows
        return path.stem, path if path.suffix in SUFFIXES or path.is_dir() else None
    if not path.is_dir():
        return path.stem, path if path.suffix in SUFFIXES else None
    try:
        inside = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES)
    except OSError:  # an unreadable folder
        return path.name, path
    own = [one for one in inside if one.stem == f"lab{number}"]
    return path.name, _chosen(own, number) or _chosen(inside, number) or next(iter(inside), None)


def _with_printable_names(found: dict[str, Path]) -> list[tuple[str, Path]]:
    named: dict[str, Path] = {}
    for name, path in sorted(found.items()):
        shown, count = printable_name(name), 1
        while shown in named:
            count += 1
            shown = f"{printable_name(name)} ({count})"
        named[shown] = path
    return sorted(named.items())


def _chosen(paths: Iterable[Path], number: int) -> Path | None:
    """Return the file to use, or None: changed files precede unchanged, newer older, Python notebooks."""
    there = [path for path in paths if is_file(path)]
    if len(there) < 2:
        return next(iter(there), None)
    changed = dict(zip(there, _changed(there, number), strict=True))
    return max(there, key=lambda path: (changed[path], path.lstat().st_mtime_ns, path.suffix == ".py"))


def _changed(paths: Iterable[Path], number: int) -> list[bool]:
    """Return for each file whether its code differs from the starter's."""
    (starter,) = STARTERS.glob(f"{number}-*.py.txt")
    lines = code_lines_of(starter.read_text(encoding="utf-8"))
    return [code_lines(path) != lines for path in paths]
