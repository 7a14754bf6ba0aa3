"""Recorded trainings of lab 5: returns of policies with different training seeds on two core links."""

from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

FILE = "trainings.csv"
RECIPES = ("home", "varied")


def returns(recipe: str, core_mbps: int) -> NDArray[np.float64]:
    """Return the mean return of each training on a core link, by training seed.

    Args:
        recipe: ``home`` (trained at 10 Mb/s only) or ``varied`` (trained on 3, 5, 7 and 10 Mb/s).
        core_mbps: Rate of the core link in the evaluation, Mb/s: 10 or 6.
    """
    text = (files("sysgym.labs") / FILE).read_text(encoding="utf-8")
    wanted = (recipe, str(core_mbps))
    rows = [
        row for row in csv.DictReader(text.splitlines()[1:]) if (row["recipe"], row["core_mbps"]) == wanted
    ]
    return np.array([float(row["return"]) for row in sorted(rows, key=lambda row: int(row["training"]))])
