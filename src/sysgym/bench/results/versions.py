"""Versions of the software and the machine that produced a row."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import sysgym.agents
import sysgym.emulator
import sysgym.envs
import sysgym.scenarios

_LAYERS = (sysgym.scenarios, sysgym.emulator, sysgym.envs, sysgym.agents)

MUST_MATCH = ("sysgym", "sources")
"""Versions that must be equal for a later run of the benchmark to keep a row."""


@cache
def sources_sha256() -> str:
    """Return a digest of the code that determines results: schema, simulator, environments and agents.

    The version number does not change with every change of the code during development. Scenario files are
    not included, since every row contains the digest of its scenario.
    """
    digest = hashlib.sha256()
    for layer in _LAYERS:
        folder = Path(next(iter(layer.__path__)))
        for path in sorted(folder.rglob("*")):
            if path.suffix in {".py", ".csv"}:
                digest.update(path.relative_to(folder).as_posix().encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def versions(*, learned: bool = False) -> dict[str, str]:
    """Return the software versions to store in a row.

    Args:
        learned: Whether a trained policy plays, which adds the training libraries.
    """
    packages = ["numpy", "numba", "gymnasium"]
    if learned:
        packages += ["torch", "stable-baselines3"]
    found = {"sysgym": sysgym.__version__, "sources": sources_sha256()[:16]}
    for package in packages:
        # A policy that is a plain network plays without the training libraries.
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found | {"python": platform.python_version(), "platform": _platform()}


def _platform() -> str:
    """Return the platform in the format of versions, since a custom kernel can have any name."""
    return re.sub(r"[^A-Za-z0-9_.+~=@,#!-]", "_", platform.platform())[:200]


def must_match(found: Mapping[str, str]) -> tuple[str | None, ...]:
    """Return the versions of a row that must equal those of another run."""
    return tuple(found.get(name) for name in MUST_MATCH)


def machine() -> dict[str, Any]:
    """Return a description of this machine without anything that identifies it or its user."""
    return {
        "platform": _platform(),
        "processor": _processor(),
        "cpus": os.cpu_count() or 1,
        "memory_bytes": _memory_bytes(),
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
