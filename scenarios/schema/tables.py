"""Tables of scenario files, and the types of values that they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.problems import BY_TYPE, PROBLEMS_TYPE
from sysgym.scenarios.texts import PROSE

Prose = Annotated[str, Field(pattern=PROSE)]

ScalarMembers = (
    Annotated[bool, Tag("true or false")]
    | Annotated[int, Tag("a whole number")]
    | Annotated[float, Tag("a number")]
    | Annotated[str, Tag("a text in quotes")]
)
ScalarValue = Annotated[ScalarMembers, BY_TYPE]
"""Value other than a list or a table."""


def _list_to_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


FromList = BeforeValidator(_list_to_tuple)
"""Validator with which a strict tuple field accepts the lists of TOML and JSON."""


class Table(BaseModel):
    """Table of a scenario file; unknown keys, wrong types and later changes are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def cross_checks(self) -> Iterator[Problem]:
        """Yield the conflicts between values of this table, with keys relative to it."""
        yield from ()

    @model_validator(mode="after")
    def _run_cross_checks(self) -> Self:
        raise_if_any(tuple(self.cross_checks()))
        return self


class Reward(Table):
    """Reward of the environment by name, with weights for its terms."""

    name: str = Field(default="default", min_length=1, description="name of the reward")
    weights: dict[str, float] = Field(
        default_factory=dict, description="term -> weight; absent terms keep their default weights"
    )


class Range(Table):
    """Numbers of which each episode draws one."""

    low: int | float = Field(description="least value")
    high: int | float = Field(description="largest value; whole numbers are drawn where both ends are whole")
    scale: Literal["linear", "log"] = Field(
        default="linear", description="uniform in the value itself, or in its logarithm"
    )

    def at(self, share: float) -> int | float:
        """Return the value that lies this share of the way from low to high, 0 to 1."""
        if self.scale == "log":
            value = self.low * (self.high / self.low) ** share
        else:
            value = self.low + (self.high - self.low) * share
        value = min(max(value, self.low), self.high)
        return round(value) if isinstance(self.low, int) and isinstance(self.high, int) else float(value)

    def cross_checks(self) -> Iterator[Problem]:
        """Check the order of the ends, and that logarithmic ranges are positive."""
        if self.high < self.low:
            yield Problem("high", self.high, f"at least low = {self.low}")
        if self.scale == "log" and self.low <= 0:
            yield Problem("low", self.low, 'a positive number, because scale = "log"')


def raise_if_any(problems: Sequence[Problem]) -> None:
    """Raise pydantic's error with all problems, if there are any."""
    if problems:
        # Pydantic accepts one error per validator; its context carries all problems, each with its key.
        text = "; ".join(f"{problem.key}: expected {problem.expected}" for problem in problems)
        raise PydanticCustomError(PROBLEMS_TYPE, "{text}", {"text": text, "problems": problems})
