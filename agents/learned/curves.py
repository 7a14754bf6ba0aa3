"""Learning curves in CSV files, whose first column is the progress of the run."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from sysgym.scenarios.files import write_atomically


def begin_curve(path: Path, columns: Sequence[str], last: int) -> None:
    """Begin a curve, or delete its lines after the state from which a run resumes.

    A process can be killed after a line is written and before its state is stored, or within a line. Such
    lines are deleted.

    Args:
        path: The file.
        columns: Names of the columns.
        last: Largest number in the first column for which the state was stored.

    Raises:
        StorageError: If the file cannot be written.
    """
    rows = []
    if path.is_file():
        with path.open(newline="") as file:
            whole = [row for row in csv.reader(file) if len(row) == len(columns) and row[0].isdigit()]
        rows = [row for row in whole if int(row[0]) <= last]
    lines = [",".join(row) for row in (columns, *rows)]
    write_atomically(path, ("\n".join(lines) + "\n").encode())
