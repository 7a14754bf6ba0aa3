"""Make build/lens/sysgym, the package for type checkers: links to the files of src/sysgym and to the folders.

The four top-level folders become subpackages through setuptools' package-dir mapping, which an editable
install implements with an import hook. Static tools cannot run the hook and use this tree instead.
"""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("agents", "emulator", "envs", "scenarios")


def make_lens(lens: Path) -> None:
    """Fill `lens` with links to the face's files and to the four folders, replacing what was there."""
    shutil.rmtree(lens, ignore_errors=True)
    lens.mkdir(parents=True)
    face = [path for path in (ROOT / "src" / "sysgym").iterdir() if path.name != "__pycache__"]
    for path in [*face, *(ROOT / folder for folder in FOLDERS)]:
        (lens / path.name).symlink_to(path)


if __name__ == "__main__":
    make_lens(ROOT / "build" / "lens" / "sysgym")
