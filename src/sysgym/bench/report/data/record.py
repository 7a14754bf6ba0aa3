"""Records of the runs in a results folder (``run.json``), made safe to show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sysgym.bench.matrix import Matrix
from sysgym.bench.report.texts import printable, shown_name
from sysgym.bench.results.records import MachineFields, RunFields, read_run
from sysgym.scenarios.family import Metric


def read_record(folder: Path) -> RunFields:
    """Read ``run.json`` of a results folder.

    Args:
        folder: Results folder; if the file does not exist, the record is empty.

    Raises:
        SysgymError: If the file cannot be read, or is invalid.
    """
    return RunFields.model_validate(_shown(read_run(folder)))


def metrics_of(record: RunFields) -> list[Metric]:
    """Return the metrics that the suite chose as columns."""
    return [
        Metric(one.name, shown_name(one.label), one.direction == "higher") for one in record.suite.metrics
    ]


def matrix_of(record: RunFields) -> Matrix | None:
    """Return the generalisation matrix; None if the suite has no matrix."""
    return None if record.suite.matrix is None else Matrix.from_json(record.suite.matrix.model_dump())


def machine_text(machine: MachineFields) -> str:
    """Return the description of a machine in one line."""
    memory = f", {machine.memory_bytes / 2**30:.0f} GiB" if machine.memory_bytes else ""
    return f"{machine.processor or '?'}, {machine.cpus or '?'} CPUs{memory}, {machine.platform or '?'}"


def _shown(value: Any) -> Any:
    """Return JSON data with all texts, keys included, made printable."""
    if isinstance(value, dict):
        return {printable(key): _shown(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_shown(one) for one in value]
    return printable(value) if isinstance(value, str) else value
