"""Checks of the contents of folders for training runs."""

from __future__ import annotations

from pathlib import Path

from sysgym.scenarios.errors import SysgymError


def has_progress(folder: Path) -> bool:
    """Return whether a folder holds a checkpoint or the state of a search, from which training can resume."""
    return any(path.suffix in {".zip", ".npz"} for path in folder.rglob("*"))


def in_use(folder: Path, *, can_resume: bool = True) -> SysgymError:
    """Return the error for a folder with an earlier run, which training does not overwrite.

    Args:
        folder: The folder.
        can_resume: Whether the agent's training can be resumed.
    """
    advice = (
        "add --resume (in Python resume=True), or give another --out" if can_resume else "give another --out"
    )
    return SysgymError(f"{folder} holds a run already: {advice}")
