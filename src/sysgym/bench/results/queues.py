"""Queue lengths over time, stored with the rows for the report's pictures and never compared."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.bench.results.rows import Row
from sysgym.errors import SysgymError
from sysgym.scenarios.files import parse_json, read_limited, write_atomically

FOLDER = "queues"
METRIC = "queue_max_bytes"
"""Metric that is stored: the largest queue of a switch port in each interval."""

MOST_POINTS = 300
"""Maximum number of points; in longer episodes, a point is the maximum over several intervals."""

MOST_BYTES = 2**20
"""Maximum size of a file that is read; ten times the size of a file with the maximum number of points."""

FloatArray = NDArray[np.float64]


class QueueSeries(NamedTuple):
    """Queue of an episode over time.

    Attributes:
        time_s: Ends of the intervals, s, shape (n,).
        queue_bytes: Largest queue in each interval, bytes, shape (n,).
    """

    time_s: FloatArray
    queue_bytes: FloatArray


class QueueWatch:
    """Recorder of the queue after every step; a callback of :func:`sysgym.bench.run.episodes.play`."""

    def __init__(self) -> None:
        self._points: list[tuple[float, float]] = []

    def __call__(self, step: int, info: dict[str, Any]) -> None:
        """Record a step.

        Args:
            step: Number of the step.
            info: The environment's info.
        """
        queue_bytes = info.get("metrics", {}).get(METRIC)
        if queue_bytes is not None and "time_s" in info:
            self._points.append((float(info["time_s"]), float(queue_bytes)))

    def write(self, folder: Path, row: Row) -> None:
        """Store the series of a row, unless it has fewer than two points, as in environments without queues.

        Args:
            folder: Results folder.
            row: Row of the episode.
        """
        if len(self._points) < 2:
            return
        # All parts but the last are equally long, so that the curve has one resolution.
        length = math.ceil(len(self._points) / MOST_POINTS)
        parts = np.split(np.array(self._points), range(length, len(self._points), length))
        data = {
            "time_s": [float(part[-1, 0]) for part in parts],
            "queue_bytes": [float(part[:, 1].max()) for part in parts],
        }
        # A missing picture must not fail the episode; writing the row reports a failing disk.
        with contextlib.suppress(OSError):
            path = path_of(folder, row)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(data, separators=(",", ":")).encode())


def path_of(folder: Path, row: Row) -> Path:
    """Return the path of a row's series.

    Args:
        folder: Results folder.
        row: Row of the episode.
    """
    key = json.dumps(row.key, default=str, sort_keys=True).encode()
    return folder / FOLDER / f"{hashlib.sha256(key).hexdigest()[:32]}.json"


def read(folder: Path, row: Row) -> QueueSeries | None:
    """Return the series of a row; None if it is missing or invalid.

    Args:
        folder: Results folder.
        row: Row of the episode.
    """
    path = path_of(folder, row)
    try:
        data = parse_json(read_limited(path, MOST_BYTES))
        time_s, queue_bytes = (np.array(data[name], dtype=np.float64) for name in QueueSeries._fields)
    except (SysgymError, ValueError, KeyError, TypeError):
        return None
    usable = time_s.ndim == 1 and time_s.shape == queue_bytes.shape and len(time_s) > 1
    if not usable or not all(math.isfinite(one) and 0.0 <= one < 1e15 for one in (*time_s, *queue_bytes)):
        return None
    return QueueSeries(time_s, queue_bytes)
