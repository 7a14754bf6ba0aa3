"""Records beside the rows: how a run was made, what trainings did and took. The type of every field.

Like rows they come from strangers too; see :mod:`sysgym.bench.results.row_format`.
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
from sysgym.scenarios.schema.common import FromList

RUN = "run.json"


class _Known(BaseModel):
    """A table whose known keys are of the very type; others are not looked at."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class MetricFields(_Known):
    """A column of the report."""

    name: Name
    label: Text
    direction: Literal["higher", "lower"]


class ScenarioWords(_Known):
    """What the report says of a scenario."""

    title: Text
    description: Text


class MatrixFields(_Known):
    """Who was trained on what and plays what."""

    agent: AgentName
    scenarios: list[FileName]
    floor: PlayerName
    bound: PlayerName
    score: Name
    split: Name
    fits: list[Annotated[tuple[FileName, FileName], FromList]]


class SuiteFields(_Known):
    """What was to be played."""

    name: FileName | None = None
    title: Text = ""
    description: Text = ""
    metrics: list[MetricFields] = []
    contenders: list[PlayerName] = []
    scenarios: dict[FileName, ScenarioWords] = {}
    matrix: MatrixFields | None = None


class MachineFields(_Known):
    """Where it was played."""

    platform: Text = ""
    processor: Text = ""
    cpus: Count = 0
    memory_bytes: Count | None = None


class FailureFields(_Known):
    """A job that failed."""

    job: Text
    reason: Text


class SittingFields(_Known):
    """One run of the benchmark; one that was killed lacks what is known at its end."""

    command: Text
    began: Text
    machine: MachineFields = MachineFields()
    versions: dict[Name, Version] = {}
    wall_s: Amount | None = None
    played: Count | None = None
    failed: Count | None = None
    failures: list[FailureFields] = []
    missing: Count | None = None


class RunFields(_Known):
    """``run.json``."""

    suite: SuiteFields = SuiteFields()
    sittings: list[SittingFields] = []


class StartedFields(_Known):
    """``started.json``: what a training is of."""

    agent: AgentName | None = None
    total_steps: Count


class FinishedFields(_Known):
    """``finished.json`` as a report reads it: what a training took."""

    energy: EnergyFields | None = None


class TrainedFields(FinishedFields):
    """``finished.json`` as a run reads it: what the training left, too."""

    checkpoint: PathText
    sha256: Digest
    wall_s: Amount


class EnergyPoints(RootModel[list[Annotated[tuple[Count, EnergyFields], FromList]]]):
    """``energy.json``: steps, and what they took."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class ValidationFields(_Known):
    """``validation.json``: mean returns on the validation split."""

    identity: dict[str, Any] = {}
    heuristics: dict[PlayerName, float]
    checkpoints: list[Annotated[tuple[Count, float], FromList]]


def read_record(model: type[ModelT], path: Path) -> Any:
    """Return what a JSON file holds, as it stands there.

    Args:
        model: What it has to fit.
        path: The file.

    Raises:
        SysgymError: It cannot be read, or does not fit.
    """
    data = read_json(path)
    try:
        checked(model, data)
    except ValueError as error:
        raise SysgymError(f"{path}: {error}; mend it or delete the file") from error
    return data


def read_run(folder: Path) -> dict[str, Any]:
    """Return ``run.json`` of a results folder: ``suite`` and ``sittings``, both empty without the file.

    Raises:
        SysgymError: It cannot be read, or holds something else.
    """
    path = folder / RUN
    found: dict[str, Any] = read_record(RunFields, path) if path.is_file() else {}
    return {"suite": {}, "sittings": [], **found}
