"""Training curves, from the ``progress.csv`` that each training leaves in its folder."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sysgym.bench.statistics import FloatArray
from sysgym.bench.training import STARTED, TRAINING_FOLDER

PROGRESS = "progress.csv"
STEPS = "total_steps"
RETURN = "episode_return_mean"


@dataclass(frozen=True)
class Curve:
    """How a training went.

    Attributes:
        name: Of the training.
        agent: Learning algorithm.
        steps: Environment steps, shape (n,).
        mean_return: Mean return of the latest episodes at those, shape (n,).
    """

    name: str
    agent: str
    steps: FloatArray
    mean_return: FloatArray


def read_curves(folder: Path) -> list[Curve]:
    """Return the curves of a results folder, by name; trainings without a readable one are left out."""
    found = []
    for path in sorted((folder / TRAINING_FOLDER).glob(f"*/{PROGRESS}")):
        if not path.parent.name.startswith("aside-") and (curve := _read(path)) is not None:
            found.append(curve)
    return found


def _read(path: Path) -> Curve | None:
    try:
        agent = str(json.loads((path.parent / STARTED).read_bytes())["agent"])
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
    except (OSError, ValueError, KeyError):
        return None
    points = [(_number(line.get(STEPS)), _number(line.get(RETURN))) for line in lines]
    points = [point for point in points if all(map(math.isfinite, point))]
    if len(points) < 2:
        return None
    steps, returns = np.array(sorted(dict(points).items())).T
    return Curve(path.parent.name, agent, steps, returns)


def _number(text: str | None) -> float:
    try:
        return float(text) if text else math.nan
    except ValueError:
        return math.nan
