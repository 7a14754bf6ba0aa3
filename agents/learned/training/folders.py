"""Folders of training runs: what a folder may hold already."""

from __future__ import annotations

from pathlib import Path

from sysgym.scenarios.errors import SysgymError


def has_progress(folder: Path) -> bool:
    """Return whether a folder has a checkpoint or the state of a search, with which training can go on."""
    return any(path.suffix in {".zip", ".npz"} for path in folder.rglob("*"))


def in_use(folder: Path, *, can_resume: bool = True) -> SysgymError:
    """Return the error for a folder with an earlier run, which training does not overwrite.

    Args:
        folder: The folder.
        can_resume: Whether the agent's training can go on with that run.
    """
    advice = (
        "add --resume (in Python resume=True), or give another --out" if can_resume else "give another --out"
    )
    return SysgymError(f"{folder} holds a run already: {advice}")
