"""Training curves, read from ``progress.csv`` in the folder of each training."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sysgym.bench.report.texts import shown_name
from sysgym.bench.results.records import StartedFields, read_record
from sysgym.bench.run.training import STARTED, TRAINING_FOLDER
from sysgym.bench.statistics import FloatArray
from sysgym.errors import SysgymError
from sysgym.scenarios.files import read_limited

PROGRESS = "progress.csv"
LARGEST_BYTES = 50_000_000
"""Maximum size of ``progress.csv``."""

STEPS = "total_steps"
RETURN = "episode_return_mean"


@dataclass(frozen=True)
class Curve:
    """Learning curve of a training.

    Attributes:
        name: Name of the training.
        agent: Learning algorithm.
        scenario_sha256: Digest of the training's scenario; empty if unknown.
        steps: Numbers of environment steps, shape (n,).
        mean_return: Mean return of the latest episodes at these steps, shape (n,).
    """

    name: str
    agent: str
    scenario_sha256: str
    steps: FloatArray
    mean_return: FloatArray

    def scenario(self, names: Mapping[str, str]) -> str:
        """Return the name of the training's scenario.

        Args:
            names: Digest of a scenario -> name; if the digest is missing, the name is derived from that of
                the training.
        """
        own = re.sub(r"-seed\d+$", "", self.name).removeprefix(f"{self.agent}-")
        return names.get(self.scenario_sha256, own)


def read_curves(folder: Path) -> list[Curve]:
    """Return the curves in a results folder, sorted by name; unreadable curves are omitted."""
    found = []
    for path in sorted((folder / TRAINING_FOLDER).glob(f"*/{PROGRESS}")):
        if not path.parent.name.startswith("aside-") and (curve := _read(path)) is not None:
            found.append(curve)
    return found


def _read(path: Path) -> Curve | None:
    try:
        started = read_record(StartedFields, path.parent / STARTED)
        agent, digest = shown_name(started["agent"]), str(started.get("scenario_sha256", ""))
        text = read_limited(path, LARGEST_BYTES).decode("utf-8-sig")
        lines = list(csv.DictReader(io.StringIO(text, newline="")))
    except (SysgymError, ValueError, KeyError, csv.Error):
        return None
    points = [(_number(line.get(STEPS)), _number(line.get(RETURN))) for line in lines]
    points = [point for point in points if all(map(math.isfinite, point))]
    if len(points) < 2:
        return None
    steps, returns = np.array(sorted(dict(points).items())).T
    return Curve(shown_name(path.parent.name), agent, digest, steps, returns)


def _number(text: str | None) -> float:
    try:
        return float(text) if text else math.nan
    except ValueError:
        return math.nan
