"""Recorded runs of lab 6: the same episodes on the simulator and on a Linux kernel."""

from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

FILE = "kernel.csv"
SIMULATOR, KERNEL = "packets", "linux"


def about() -> str:
    """Return a description of where and how the runs were recorded."""
    return _lines()[0].removeprefix("# ")


def laws() -> list[str]:
    """Return the names of the recorded laws, sorted."""
    return sorted({row["law"] for row in csv.DictReader(_lines()[1:])})


def values(law: str, backend: str, metric: str) -> NDArray[np.float64]:
    """Return a metric of all episodes of a law, by seed.

    Args:
        law: One of :func:`laws`.
        backend: ``packets`` (the simulator) or ``linux`` (the kernel).
        metric: ``goodput_bps``, ``queue_mean_bytes``, ``rtt_mean_s``, ``drop_fraction`` or ``jain_index``.
    """
    rows = [row for row in csv.DictReader(_lines()[1:]) if (row["law"], row["backend"]) == (law, backend)]
    return np.array([float(row[metric]) for row in sorted(rows, key=lambda row: int(row["seed"]))])


def _lines() -> list[str]:
    return (files("sysgym.labs") / FILE).read_text(encoding="utf-8").splitlines()
