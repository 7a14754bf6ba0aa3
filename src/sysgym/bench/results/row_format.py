"""Format of result rows: the type and range of every field.

Rows come from strangers too. A name in a row becomes a part of file names and pages, a path is opened, a
number is drawn: each is checked where the row is read, and a run checks what it writes in the same way.
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
from sysgym.scenarios.schema.common import LARGEST_SEED
from sysgym.scenarios.schema.problems import problems_from

MOST_STEPS = 2**53
LONGEST_PATH = 4096

Name = Annotated[str, StringConstraints(pattern=NAME, max_length=LONGEST_NAME)]
FileName = Annotated[str, StringConstraints(pattern=FILE_NAME, max_length=LONGEST_NAME)]
PlayerName = Annotated[str, StringConstraints(pattern=PLAYER_NAME, max_length=LONGEST_NAME)]
AgentName = Annotated[str, StringConstraints(pattern=AGENT_NAME, max_length=LONGEST_NAME)]
OptionalName = Annotated[str, StringConstraints(pattern=f"{NAME}|^$", max_length=LONGEST_NAME)]
Version = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.+~=@,#!-]+$", max_length=200)]
"""Of a package, a platform or a way to measure."""
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]+$", max_length=64)]
PathText = Annotated[
    str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", min_length=1, max_length=LONGEST_PATH)
]
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$", max_length=20_000)]
"""Free, but for control characters."""
Count = Annotated[int, Field(ge=0, le=MOST_STEPS)]
Amount = Annotated[float, Field(ge=0.0)]

ModelT = TypeVar("ModelT", bound=BaseModel)


class Strict(BaseModel):
    """A table whose values are of the very type, finite, and whose keys are all known."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, populate_by_name=False)


class ContenderFields(Strict):
    """Who played."""

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
    """What it took, and how that was measured."""

    energy_kwh: Amount
    co2e_operational_g: Amount
    co2e_embodied_g: Amount
    method: Version
    ci_g_per_kwh: Amount
    pue: Annotated[float, Field(ge=1.0)]


class ScenarioFields(BaseModel):
    """What is read of a resolved scenario without making its world."""

    model_config = ConfigDict(strict=True, extra="allow")

    name: FileName
    family: Name
    env_id: Annotated[str, StringConstraints(pattern=ENV_ID, max_length=LONGEST_NAME)]
    title: Text
    description: Text


class RowFields(Strict):
    """One line of ``results.jsonl``, less its format and its digest."""

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
        data: The row as JSON has it, less format and digest.

    Raises:
        ValueError: A field is missing, unknown, of another type or out of range, or the row is beyond the
            limits of :mod:`sysgym.scenarios.reading`.
    """
    try:
        check_shape(data, "a row")  # before pydantic, which would make the most of it
    except ScenarioError as error:
        (problem,) = error.problems
        raise ValueError(
            f"{problem.key[:LONGEST_NAME]} is {problem.got}; expected {problem.expected}"
        ) from None
    fields = checked(RowFields, data)
    if fields.scenario_resolved.name != fields.scenario:
        raise ValueError(f"scenario_resolved is of {fields.scenario_resolved.name}, scenario of another")


def checked(model: type[ModelT], data: Any) -> ModelT:
    """Return data as a model.

    Args:
        model: The schema.
        data: From JSON or TOML.

    Raises:
        ValueError: The data do not fit; says in one sentence where, what is there and what was expected.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = problems_from(error, model, data)[0]
        got = repr(first.got)
        shown = got if len(got) <= LONGEST_NAME else got[:LONGEST_NAME] + "..."
        raise ValueError(f"{first.key or 'the whole'} is {shown}; expected {first.expected}") from None


def digest_of(data: Mapping[str, Any]) -> str:
    """Return the hex digest of a row: of its JSON with sorted keys and no spaces, less the digest itself."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
