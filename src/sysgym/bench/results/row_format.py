"""Format of result rows: the type and range of every field.

Rows may come from untrusted sources. Names in a row become parts of file names and pages, paths are opened,
and numbers are plotted. Every field is therefore checked when a row is read, and in the same way when it is
written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from sysgym.scenarios.errors import ScenarioError
from sysgym.scenarios.names import AGENT_NAME, ENV_ID, FILE_NAME, LONGEST_NAME, NAME, PLAYER_NAME
from sysgym.scenarios.reading import check_shape
from sysgym.scenarios.schema.problems import problems_from
from sysgym.scenarios.schema.splits import LARGEST_SEED

MOST_STEPS = 2**53
LONGEST_PATH = 4096

Name = Annotated[str, StringConstraints(pattern=NAME, max_length=LONGEST_NAME)]
FileName = Annotated[str, StringConstraints(pattern=FILE_NAME, max_length=LONGEST_NAME)]
PlayerName = Annotated[str, StringConstraints(pattern=PLAYER_NAME, max_length=LONGEST_NAME)]
AgentName = Annotated[str, StringConstraints(pattern=AGENT_NAME, max_length=LONGEST_NAME)]
OptionalName = Annotated[str, StringConstraints(pattern=f"{NAME}|^$", max_length=LONGEST_NAME)]
Version = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.+~=@,#!-]+$", max_length=200)]
"""Version of a package, or name of a platform or a method of measurement."""
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]+$", max_length=64)]
PathText = Annotated[
    str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", min_length=1, max_length=LONGEST_PATH)
]
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$", max_length=20_000)]
"""Text without control characters."""
Count = Annotated[int, Field(ge=0, le=MOST_STEPS)]
Amount = Annotated[float, Field(ge=0.0)]

ModelT = TypeVar("ModelT", bound=BaseModel)


class Strict(BaseModel):
    """Table with known keys only, strict types and finite numbers."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, populate_by_name=False)


class ContenderFields(Strict):
    """Contender of a row."""

    name: PlayerName
    transport: OptionalName
    agent: AgentName
    learned: bool = False
    privileged: bool = False
    checkpoint: PathText | None = None
    checkpoint_sha256: Digest | None = None
    plugins: dict[PathText, Digest] = {}
    parameters: dict[Name, bool | int | float | Text] = {}


class EnergyFields(Strict):
    """Energy of an episode or a training, and the method of measurement."""

    energy_kwh: Amount
    co2e_operational_g: Amount
    co2e_embodied_g: Amount
    method: Version
    ci_g_per_kwh: Amount
    pue: Annotated[float, Field(ge=1.0)]


class ScenarioFields(BaseModel):
    """Fields of a resolved scenario that are read without building the scenario."""

    model_config = ConfigDict(strict=True, extra="allow")

    name: FileName
    family: Name
    env_id: Annotated[str, StringConstraints(pattern=ENV_ID, max_length=LONGEST_NAME)]
    title: Text
    description: Text


class RowFields(Strict):
    """One line of ``results.jsonl``, without its format and digest."""

    env_id: Annotated[str, StringConstraints(pattern=ENV_ID, max_length=LONGEST_NAME)]
    scenario: FileName
    scenario_sha256: Digest
    scenario_resolved: ScenarioFields
    split: Literal["train", "validation", "test"]
    contender: ContenderFields
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)]
    total_reward: float = Field(alias="return")
    metrics: dict[Name, float]
    steps: Count
    wall_s: Amount
    versions: dict[Name, Version]
    decision_ms: Amount | None = None
    energy: EnergyFields | None = None


def check_row(data: Mapping[str, Any]) -> None:
    """Check the fields of a row.

    Args:
        data: JSON data of the row, without format and digest.

    Raises:
        ValueError: If a field is missing, unknown, of a wrong type or out of range, or the row exceeds the
            limits of :mod:`sysgym.scenarios.reading`.
    """
    try:
        check_shape(data, "a row")  # before pydantic, which would process data of any size
    except ScenarioError as error:
        (problem,) = error.problems
        raise ValueError(
            f"{problem.key[:LONGEST_NAME]} is {problem.got}; expected {problem.expected}"
        ) from None
    fields = checked(RowFields, data)
    if fields.scenario_resolved.name != fields.scenario:
        raise ValueError(f"scenario_resolved is of {fields.scenario_resolved.name}, scenario of another")


def checked(model: type[ModelT], data: Any) -> ModelT:
    """Validate data and return them as a model.

    Args:
        model: The schema.
        data: Data from JSON or TOML.

    Raises:
        ValueError: If the data do not satisfy the schema. The message states the key, the value found and the
            value expected.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = problems_from(error, model, data)[0]
        got = repr(first.got)
        shown = got if len(got) <= LONGEST_NAME else got[:LONGEST_NAME] + "..."
        raise ValueError(f"{first.key or 'the whole'} is {shown}; expected {first.expected}") from None


def digest_of(data: Mapping[str, Any]) -> str:
    """Return the hexadecimal SHA-256 digest of a row as JSON with sorted keys and no spaces.

    Args:
        data: JSON data of the row, without the digest itself.
    """
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
