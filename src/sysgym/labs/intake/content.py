"""Reading of submissions' files, which are never opened through a link."""

from __future__ import annotations

import stat
from pathlib import Path

from sysgym.errors import SysgymError
from sysgym.labs.intake.texts import printable_name
from sysgym.scenarios.files import own_file

LARGEST_BYTES = 5_000_000
"""Largest file of a submission; notebooks contain their pictures."""


class SubmissionError(SysgymError):
    """Error in a submission that cannot be graded as it is; the message states what to change."""


class LawError(SubmissionError):
    """Error in a congestion control law that violates the language or cannot be compiled, and has not run."""


def content_of(path: Path) -> bytes:
    """Return the content of a submission's file.

    Raises:
        SubmissionError: The file is a link, a folder, a pipe or a device, is larger than
            :data:`LARGEST_BYTES`, or cannot be read.
    """
    name = printable_name(path.name)
    content = beginning_of(path)
    if content is None and is_folder(path):
        raise SubmissionError(f"{name}: no .py or .ipynb at the top of this folder; hand it in there")
    if content is None:
        raise SubmissionError(
            f"{name}: cannot be read; hand in the file itself, not a link, a folder or a pipe"
        )
    if len(content) > LARGEST_BYTES:
        raise SubmissionError(f"{name}: larger than {LARGEST_BYTES / 1e6:g} MB; clear the notebook's outputs")
    return content


def is_file(path: Path) -> bool:
    """Return whether a path is a regular file and not a link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder that can be listed and not a link to one."""
    try:
        if not stat.S_ISDIR(path.lstat().st_mode):
            return False
        next(path.iterdir(), None)
    except OSError:
        return False
    return True


def beginning_of(path: Path) -> bytes | None:
    """Return a file's content up to one byte more than allowed; None for links and unreadable files."""
    try:
        if path.is_symlink():  # Windows has no O_NOFOLLOW
            return None
        with open(path, "rb", opener=own_file) as file:
            return file.read(LARGEST_BYTES + 1)
    except OSError:
        return None
