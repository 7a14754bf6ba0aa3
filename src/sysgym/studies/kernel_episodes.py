"""Episodes on the kernel, kept in a file so that an interrupted study continues where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from sysgym.bench.contenders import Contender
from sysgym.bench.results.lines import LineFile
from sysgym.bench.results.row_format import Strict, Text
from sysgym.emulator.linux.kernel.bpf_objects import SOURCES
from sysgym.errors import SysgymError
from sysgym.scenarios import CongestionScenario

FILE = "kernel.jsonl"


class _Line(Strict):
    """One line of the file."""

    key: Text
    metrics: dict[Text, float]


class KernelEpisodes:
    """Metrics of episodes on the kernel, by scenario, contender and seed.

    The kernel's episodes take as long as they last, and their timing is not repeatable, so they are played
    once. They count as long as the kernel's programs of this package are the same.

    Args:
        folder: Results folder; the file is ``kernel.jsonl`` in it.

    Raises:
        SysgymError: A line of the file is invalid.
        StorageError: The file cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        self._metrics: dict[str, dict[str, float]] = {}
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                read = _Line.model_validate_json(line)
            except ValidationError as error:
                raise SysgymError(
                    f"{path}, line {number}: not an episode of the kernel; delete the file"
                ) from error
            self._metrics[read.key] = dict(read.metrics)
        self._file = LineFile(path, len(whole))

    def get(self, scenario: CongestionScenario, contender: Contender, seed: int) -> dict[str, float] | None:
        """Return the metrics of an episode; None if it was not played."""
        return self._metrics.get(_key(scenario, contender, seed))

    def add(
        self, scenario: CongestionScenario, contender: Contender, seed: int, metrics: Mapping[str, float]
    ) -> None:
        """Keep the metrics of an episode.

        Raises:
            StorageError: The file cannot be written.
        """
        key = _key(scenario, contender, seed)
        self._metrics[key] = dict(metrics)
        self._file.append(json.dumps({"key": key, "metrics": dict(metrics)}).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _key(scenario: CongestionScenario, contender: Contender, seed: int) -> str:
    identity = (scenario.sha256(), contender.identity, seed, programs_sha256())
    return hashlib.sha256(repr(identity).encode()).hexdigest()


def programs_sha256() -> str:
    """Return the digest of the sources of the kernel's programs."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.glob("*.[ch]")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
