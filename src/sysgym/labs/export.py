"""Files of a lab for a student or an instructor."""

from __future__ import annotations

from pathlib import Path

import sysgym
from sysgym.errors import MissingExtra, SysgymError
from sysgym.labs.catalogue import Lab
from sysgym.labs.exercises import notebook_of, solution_of
from sysgym.scenarios.files import make_folder, storing


def masters() -> Path:
    """Return the folder of the masters, which only a clone of the repository has."""
    return Path(sysgym.__file__).resolve().parents[2] / "labs"


def export(lab: Lab, folder: Path, *, solutions: bool = False) -> tuple[list[Path], str]:
    """Write a lab's Python file and its notebook.

    Args:
        lab: The lab.
        folder: Folder of the files.
        solutions: Whether to write the solution instead of the starter.

    Returns:
        Paths of the files, and a note for the user or an empty text.

    Raises:
        SysgymError: A file exists already or cannot be written, or there are no masters here.
    """
    text = solution(lab) if solutions else lab.starter()
    stem = f"lab{lab.number}_solution" if solutions else f"lab{lab.number}"
    files, note = {folder / f"{stem}.py": text.encode()}, ""
    policy = masters() / f"{lab.file_stem}.zip"
    if solutions and policy.is_file():
        files[folder / "policy.zip"] = policy.read_bytes()
    try:
        files[folder / f"{stem}.ipynb"] = notebook_of(text).encode()
    except MissingExtra as missing:
        note = f"no notebook was written: {missing}"
    make_folder(folder)
    for path in files:
        if path.exists():
            raise SysgymError(f"{path}: exists already; choose another folder, or move the file")
    for path, content in files.items():
        with storing(path):
            path.write_bytes(content)
    return list(files), note


def solution(lab: Lab) -> str:
    """Return the solution of a lab.

    Raises:
        SysgymError: The masters are not here.
    """
    master = masters() / f"{lab.file_stem}.py"
    if not master.is_file():
        raise SysgymError(
            f"solutions are not part of the installed package: {master} is not there;"
            " run this command from a clone of the repository"
        )
    return solution_of(master.read_text(encoding="utf-8"))
