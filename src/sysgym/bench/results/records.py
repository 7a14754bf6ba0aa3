"""Schemas of the records of runs and trainings that are stored with the rows.

Like rows, records may come from untrusted sources; see :mod:`sysgym.bench.results.row_format`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, RootModel

from sysgym.bench.results.row_format import (
    AgentName,
    Amount,
    Count,
    Digest,
    EnergyFields,
    FileName,
    ModelT,
    Name,
    PathText,
    PlayerName,
    Text,
    Version,
    checked,
)
from sysgym.errors import SysgymError
from sysgym.scenarios.files import read_json
from sysgym.scenarios.schema.tables import FromList

RUN = "run.json"


class _Known(BaseModel):
    """Table whose known keys are checked strictly; unknown keys are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class MetricFields(_Known):
    """Column of the report."""

    name: Name
    label: Text
    direction: Literal["higher", "lower"]


class ScenarioWords(_Known):
    """Texts about a scenario in the report."""

    title: Text
    description: Text


class MatrixFields(_Known):
    """Generalisation matrix."""

    agent: AgentName
    scenarios: list[FileName]
    floor: PlayerName
    bound: PlayerName
    score: Name
    split: Name
    fits: list[Annotated[tuple[FileName, FileName], FromList]]
    rules: list[PlayerName] = []


class SuiteFields(_Known):
    """Suite as it was run."""

    name: FileName | None = None
    title: Text = ""
    description: Text = ""
    metrics: list[MetricFields] = []
    contenders: list[PlayerName] = []
    scenarios: dict[FileName, ScenarioWords] = {}
    matrix: MatrixFields | None = None


class MachineFields(_Known):
    """Machine of a run."""

    platform: Text = ""
    processor: Text = ""
    cpus: Count = 0
    memory_bytes: Count | None = None


class FailureFields(_Known):
    """Failed job."""

    job: Text
    reason: Text


class SittingFields(_Known):
    """Session of the benchmark.

    A session that is still running or was killed lacks the fields that are written at its end.

    Attributes:
        cells: Number of episodes of the suite, written at the beginning.
    """

    command: Text
    began: Text
    machine: MachineFields = MachineFields()
    versions: dict[Name, Version] = {}
    cells: Count | None = None
    wall_s: Amount | None = None
    played: Count | None = None
    failed: Count | None = None
    failures: list[FailureFields] = []
    missing: Count | None = None


class RunFields(_Known):
    """Content of ``run.json``."""

    suite: SuiteFields = SuiteFields()
    sittings: list[SittingFields] = []


class StartedFields(_Known):
    """Content of ``started.json``: identity of a training."""

    agent: AgentName | None = None
    total_steps: Count


class FinishedFields(_Known):
    """Fields of ``finished.json`` that a report reads: energy of a training."""

    energy: EnergyFields | None = None


class TrainedFields(FinishedFields):
    """Fields of ``finished.json`` that a run reads: also the checkpoint and the wall time."""

    checkpoint: PathText
    sha256: Digest
    wall_s: Amount


class EnergyPoints(RootModel[list[Annotated[tuple[Count, EnergyFields], FromList]]]):
    """Content of ``energy.json``: energy by number of steps."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class ValidationFields(_Known):
    """Content of ``validation.json``: mean returns on the validation split."""

    identity: dict[str, Any] = {}
    heuristics: dict[PlayerName, float]
    checkpoints: list[Annotated[tuple[Count, float], FromList]]


class TunedFields(_Known):
    """Content of a tuning's file: mean score of every point of the grid."""

    identity: dict[str, Any]
    constants: list[Name]
    scores: list[float]


def read_record(model: type[ModelT], path: Path) -> Any:
    """Check a JSON file against a schema and return its content without conversion.

    Args:
        model: Schema that the content must satisfy.
        path: The file.

    Raises:
        SysgymError: If the file cannot be read, or does not satisfy the schema.
    """
    data = read_json(path)
    try:
        checked(model, data)
    except ValueError as error:
        raise SysgymError(f"{path}: {error}; correct or delete the file") from error
    return data


def read_run(folder: Path) -> dict[str, Any]:
    """Return ``run.json`` of a results folder: ``suite`` and ``sittings``, both empty without the file.

    Raises:
        SysgymError: If the file cannot be read, or does not satisfy its schema.
    """
    path = folder / RUN
    found: dict[str, Any] = read_record(RunFields, path) if path.is_file() else {}
    return {"suite": {}, "sittings": [], **found}
