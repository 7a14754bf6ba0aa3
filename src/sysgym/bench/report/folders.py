"""Checks of the records of runs and trainings in a results folder or an entry before they are shown."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from sysgym.bench.report.data.curves import LARGEST_BYTES as LARGEST_CURVE_BYTES
from sysgym.bench.report.data.curves import PROGRESS
from sysgym.bench.results.records import (
    EnergyPoints,
    FinishedFields,
    StartedFields,
    ValidationFields,
    read_record,
    read_run,
)
from sysgym.bench.run.milestones import VALIDATION
from sysgym.bench.run.training import FINISHED, STARTED, TRAINING_FOLDER
from sysgym.bench.run.training_energy import ENERGY
from sysgym.errors import SysgymError
from sysgym.scenarios.files import read_limited
from sysgym.scenarios.names import LONGEST_NAME, NAME

_OF_TRAININGS: Mapping[str, type[BaseModel]] = {
    STARTED: StartedFields,
    FINISHED: FinishedFields,
    ENERGY: EnergyPoints,
    VALIDATION: ValidationFields,
}


def check_records(folder: Path) -> None:
    """Check the records that a report shows: ``run.json``, and the records and curves of trainings.

    Args:
        folder: Results folder or entry.

    Raises:
        SysgymError: If a record is invalid. The message names the file and the error.
    """
    read_run(folder)
    for training in sorted((folder / TRAINING_FOLDER).glob("*/")):
        if len(training.name) > LONGEST_NAME or not re.fullmatch(NAME, training.name):
            raise SysgymError(
                f"{folder / TRAINING_FOLDER}: {training.name[:LONGEST_NAME]!r} is no name of a training; "
                "delete the folder"
            )
        for name, model in _OF_TRAININGS.items():
            if (training / name).is_file():
                read_record(model, training / name)
        if (training / PROGRESS).is_file():
            _check_curve(training / PROGRESS)


def _check_curve(path: Path) -> None:
    try:
        text = read_limited(path, LARGEST_CURVE_BYTES).decode("utf-8-sig")
        for _ in csv.reader(text.splitlines()):
            pass
    except (UnicodeDecodeError, csv.Error) as error:
        raise SysgymError(f"{path}: expected a training curve: {error}") from error
