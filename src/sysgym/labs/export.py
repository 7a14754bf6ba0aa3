"""Files of a lab for a student or an instructor.

python -m sysgym.labs.export    copy the labs' pages from docs/labs into this package, for README.md
"""

from __future__ import annotations

from pathlib import Path

import sysgym
from sysgym.errors import MissingExtra, SysgymError
from sysgym.labs.catalogue import LABS, Lab
from sysgym.labs.exercises import notebook_of, solution_of
from sysgym.scenarios.files import make_folder, storing


def masters() -> Path:
    """Return the folder of the masters, which only a clone of the repository has."""
    return Path(sysgym.__file__).resolve().parents[2] / "labs"


def pages() -> dict[Path, str]:
    """Return the students' part of each lab's page in docs/labs, by the file of this package that has it.

    The part ends before the section ``Afterwards``.
    """
    docs = masters().parent / "docs" / "labs"
    texts = {lab: (docs / f"{lab.file_stem}.md").read_text(encoding="utf-8") for lab in LABS}
    folder = Path(__file__).with_name("starters")
    return {
        folder / f"{lab.file_stem}.md.txt": text.partition("\n## Afterwards")[0]
        for lab, text in texts.items()
    }


def export(lab: Lab, folder: Path, *, solutions: bool = False) -> tuple[list[Path], str]:
    """Write a lab's Python file and its notebook, and its page as README.md beside a starter.

    Args:
        lab: The lab.
        folder: Folder of the files.
        solutions: Whether to write the solution instead of the starter.

    Returns:
        Paths of the files, and a note for the user or an empty text.

    Raises:
        SysgymError: A file exists already or cannot be written, or the masters are not available.
    """
    text = solution(lab) if solutions else lab.starter()
    stem = f"lab{lab.number}_solution" if solutions else f"lab{lab.number}"
    written, note = {folder / f"{stem}.py": text.encode()}, ""
    policy = masters() / f"{lab.file_stem}.zip"
    if solutions and policy.is_file():
        written[folder / "policy.zip"] = policy.read_bytes()
    try:
        written[folder / f"{stem}.ipynb"] = notebook_of(text).encode()
    except MissingExtra as missing:
        note = f"no notebook was written: {missing}"
    if not solutions:
        written[folder / "README.md"] = lab.page().encode()
    make_folder(folder)
    for path in written:
        if path.exists():
            raise SysgymError(f"{path}: exists already; choose another folder, or move the file")
    for path, content in written.items():
        with storing(path):
            path.write_bytes(content)
    return list(written), note


def solution(lab: Lab) -> str:
    """Return the solution of a lab.

    Raises:
        SysgymError: The masters are not available.
    """
    master = masters() / f"{lab.file_stem}.py"
    if not master.is_file():
        raise SysgymError(
            "solutions are not part of the installed package; install sysgym from a clone of the repository,"
            " for example with: make venv"
        )
    return solution_of(master.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
