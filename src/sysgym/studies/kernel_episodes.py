"""Metrics of episodes on the kernel, stored in a file so that an interrupted study can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from sysgym.bench.contenders import Contender
from sysgym.bench.results.row_format import Name
from sysgym.emulator.linux.kernel.bpf_objects import SOURCES
from sysgym.scenarios import CongestionScenario
from sysgym.studies.kept_rows import KeptRow, open_kept

FILE = "kernel.jsonl"


class _Line(KeptRow):
    """One line of the file."""

    metrics: dict[Name, float]


class KernelEpisodes:
    """Metrics of episodes on the kernel, by scenario, contender and seed.

    Episodes on the kernel run in real time and their timing is not repeatable, so each is run only once.
    Stored metrics are valid as long as the package's programs for the kernel are unchanged.

    Args:
        folder: Results folder; the file is ``kernel.jsonl`` in it.

    Raises:
        SysgymError: A line of the file is invalid, or another process writes to the folder.
        StorageError: The file cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._programs = programs_sha256()
        self._open = ExitStack()
        rows, self._file = self._open.enter_context(
            open_kept(folder / FILE, _Line, "an episode of the kernel")
        )
        self._metrics: dict[str, dict[str, float]] = {row["key"]: row["metrics"] for row in rows}

    def get(self, scenario: CongestionScenario, contender: Contender, seed: int) -> dict[str, float] | None:
        """Return the metrics of an episode; None if it has not been run."""
        return self._metrics.get(self._key(scenario, contender, seed))

    def add(
        self, scenario: CongestionScenario, contender: Contender, seed: int, metrics: Mapping[str, float]
    ) -> None:
        """Store the metrics of an episode.

        Raises:
            StorageError: The file cannot be written.
        """
        key = self._key(scenario, contender, seed)
        self._metrics[key] = dict(metrics)
        self._file.append(json.dumps({"key": key, "metrics": dict(metrics)}).encode() + b"\n")

    def close(self) -> None:
        """Close the file and release the lock of the folder."""
        self._open.close()

    def _key(self, scenario: CongestionScenario, contender: Contender, seed: int) -> str:
        identity = (scenario.sha256(), contender.identity, seed, self._programs)
        return hashlib.sha256(repr(identity).encode()).hexdigest()


def programs_sha256() -> str:
    """Return the SHA-256 digest of the sources of the package's programs for the kernel."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*.[ch]")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
