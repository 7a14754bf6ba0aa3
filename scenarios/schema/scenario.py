"""Scenario fields common to all families: identity, splits, the resolved form and seeded variation.

The schema of a family is a subclass of :class:`Scenario`, named by the family's declaration.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import Field, ValidationError, ValidationInfo, model_validator

from sysgym.scenarios.errors import MOST_PROBLEMS, Problem, ScenarioError
from sysgym.scenarios.interrupts import interrupts_deferred
from sysgym.scenarios.names import ENV_ID, FILE_NAME
from sysgym.scenarios.overrides import apply_overrides, plain, stop_varying
from sysgym.scenarios.reading import check_shape
from sysgym.scenarios.schema.problems import KeyPath, dotted_key, problems_from, validated
from sysgym.scenarios.schema.splits import SPLIT_NAMES, Splits
from sysgym.scenarios.schema.tables import FromList, Prose, Table, raise_if_any
from sysgym.scenarios.texts import LINE

_IDENTITY = ("schema", "name", "family", "env_id")
"""Keys that cannot be overridden."""

MOST_COMBINATIONS_CHECKED = 256
"""Up to this many combinations of varied values are checked on loading; beyond it, each value alone is."""

_WITHOUT_VARY = {"check_vary": False}
"""Validation context for drawn scenarios, whose possible values have been checked already."""

_found_valid: set[tuple[type, str]] = set()
"""Class and digest of scenarios whose varied values are valid: the same are loaded again and again."""

_MOST_FOUND_VALID = 4096


class Scenario(Table):
    """Identity and splits, common to all families.

    Subclasses add the tables of their world and narrow ``family``.
    """

    VARIABLE_TABLES: ClassVar[tuple[str, ...]] = ()
    """Tables whose keys a split may vary."""

    FIXED_KEYS: ClassVar[tuple[str, ...]] = ()
    """Keys in those tables that no split may vary, because the shape of the spaces depends on them."""

    schema_version: Annotated[int, Field(ge=1, le=1)] = Field(
        alias="schema", description="version of this file format: 1"
    )
    name: str = Field(
        pattern=FILE_NAME,
        description="name of the scenario: the file's name without .toml; lower case, digits, hyphens",
    )
    family: str = Field(description="family of problems; determines the keys of the file")
    env_id: str = Field(
        pattern=ENV_ID,
        description="Gymnasium id of the environment of the scenario",
    )
    title: str = Field(min_length=1, max_length=100, pattern=LINE, description="one line for lists and plots")
    description: Prose = Field(min_length=1, description="purpose of the scenario, in a few sentences")
    references: Annotated[tuple[Prose, ...], FromList] = Field(
        default=(), description="papers, RFCs and programs from which the numbers are taken"
    )
    splits: Splits = Field(description="seeds and variation of train, validation and test")

    def resolved(self) -> dict[str, Any]:
        """Return all values, defaults included (but see ``GrownTable``), as JSON-compatible data."""
        return self._dumped()

    def sha256(self) -> str:
        """Return the hex digest of all values, the same in every process and on every machine."""
        data = self._dumped({"digest": True})
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def _dumped(self, context: Mapping[str, Any] | None = None) -> dict[str, Any]:
        with interrupts_deferred():  # pydantic makes its own error of an exception in a serializer
            return self.model_dump(mode="json", by_alias=True, context=context)

    def with_overrides(self, overrides: Mapping[str, Any]) -> Self:
        """Return a copy with some values replaced, checked like a file.

        A key that is overridden no longer varies: the given value holds in every episode.

        Args:
            overrides: Values by dotted key, such as ``{"workload.load": 0.6}``.

        Raises:
            ScenarioError: If a key does not exist or a value is invalid.
        """
        return overridden(type(self), self.resolved(), f"<{self.name}>", overrides)

    def draw(self, split: str, episode_seed: int) -> Self:
        """Return the scenario of one episode, with seeded draws from the split's ``vary`` and ``ranges``.

        The draw for a key depends only on the key and the seed, so adding a key does not change the others.

        Args:
            split: ``train``, ``validation`` or ``test``.
            episode_seed: Seed of the episode, not negative.

        Raises:
            UnknownName: If there is no such split.
            ScenarioError: If the drawn values conflict. This can only happen with more than
                :data:`MOST_COMBINATIONS_CHECKED` combinations; fewer are all checked on loading.
        """
        vary, ranges = self.splits[split].vary, self.splits[split].ranges
        if not vary and not ranges:
            return self
        chosen: dict[str, Any] = {
            key: values[_draw_index(key, episode_seed, len(values))] for key, values in vary.items()
        }
        chosen |= {key: ends.at(_draw_share(key, episode_seed)) for key, ends in ranges.items()}
        data = self.resolved()
        apply_overrides(data, chosen)
        return validated(type(self), data, f"<{self.name}>", overrides=chosen, context=_WITHOUT_VARY)

    @model_validator(mode="after")
    def _check_splits(self, info: ValidationInfo) -> Self:
        checked = info.context is None or info.context.get("check_vary", True)
        if not checked or not any(self.splits[name].varied for name in SPLIT_NAMES):
            return self
        valid = type(self), self.sha256()
        if valid not in _found_valid:
            trials = _Trials(type(self), self.resolved())
            raise_if_any([problem for name in SPLIT_NAMES for problem in self._check_varied(name, trials)])
            if len(_found_valid) >= _MOST_FOUND_VALID:
                _found_valid.clear()
            _found_valid.add(valid)
        return self

    def _check_varied(self, split_name: str, trials: _Trials) -> Iterator[Problem]:
        split = self.splits[split_name]
        vary = split.varied
        places = {key: ("splits", split_name, "ranges" if key in split.ranges else "vary") for key in vary}
        allowed = [
            key
            for key in vary
            if key.partition(".")[0] in self.VARIABLE_TABLES and "." in key and key not in self.FIXED_KEYS
        ]
        for key in vary.keys() - allowed:
            yield Problem(
                dotted_key((*places[key], key)),
                list(vary[key]),
                f"a key of {', '.join(f'[{table}]' for table in self.VARIABLE_TABLES)}"
                f" other than {', '.join(self.FIXED_KEYS)}",
                "spaces and time steps are the same in every episode: make a scenario file of its own",
            )
        alone = [{key: value} for key in allowed for value in vary[key]]
        # Values that are invalid by themselves would be so in many combinations: report them once.
        found = [problem for choice in alone for problem in trials.problems(choice, places)]
        if not found and allowed:
            together = _combinations({key: vary[key] for key in allowed})
            found = [problem for choice in together for problem in trials.problems(choice, places)]
        yield from (
            problem for index, problem in enumerate(found[:MOST_PROBLEMS]) if problem not in found[:index]
        )


class _Trials:
    """Validation of a scenario with other values; splits often draw from the same ones.

    Args:
        model: Class of the scenario.
        data: Its resolved form.
    """

    def __init__(self, model: type[Scenario], data: Mapping[str, Any]) -> None:
        self._model = model
        self._text = json.dumps(data)  # parsed for each trial, in a third of the time of another dump
        self._found: dict[str, Sequence[Problem]] = {}

    def problems(self, choice: Mapping[str, Any], places: Mapping[str, KeyPath]) -> Iterator[Problem]:
        """Yield the problems with values by dotted key, at the places where these keys vary."""
        text = json.dumps(choice)
        if text not in self._found:
            self._found[text] = self._validate(choice)
        for problem in self._found[text]:
            # A value can be invalid in combination with others; then any varied key may be the cause.
            key = problem.key if problem.key in choice else next(iter(choice))
            expected = problem.expected if key == problem.key else f"{problem.key}: {problem.expected}"
            got = choice[key] if len(choice) == 1 else dict(choice)
            yield Problem(dotted_key((*places[key], key)), got, expected, problem.advice)

    def _validate(self, choice: Mapping[str, Any]) -> Sequence[Problem]:
        data = json.loads(self._text)
        apply_overrides(data, choice)
        try:
            self._model.model_validate(data, context=_WITHOUT_VARY)
        except ValidationError as error:
            return problems_from(error, self._model, data)
        return ()


ScenarioT = TypeVar("ScenarioT", bound=Scenario)


def overridden(
    model: type[ScenarioT],
    data: dict[str, Any],
    path: str,
    overrides: Mapping[str, Any],
    lines: Mapping[KeyPath, int] | None = None,
) -> ScenarioT:
    """Return the scenario in ``data`` with some values replaced.

    Args:
        model: Schema of the family.
        data: Tables of a file; changed in place.
        path: Name of the file in messages.
        overrides: Values by dotted key.
        lines: Lines of the file by key path.

    Raises:
        ScenarioError: If the file is invalid, a key does not exist or a value is invalid.
    """
    keys: Any = overrides  # callers may not check types
    if not isinstance(keys, Mapping) or not all(isinstance(key, str) for key in keys):
        expected = 'a table of dotted keys and values, such as {"workload.load": 0.6}'
        raise ScenarioError(path, "overrides", overrides, expected)
    overrides = {key: plain(value) for key, value in overrides.items()}
    problems = [
        Problem(
            key,
            value,
            f"a key that can be overridden: not {', '.join(_IDENTITY[:-1])} or {_IDENTITY[-1]}",
            "create the other environment by its id" if key == "env_id" else "identity stays with the file",
            origin="overrides",
        )
        for key, value in overrides.items()
        if key in _IDENTITY
    ]
    stop_varying(data, overrides)
    problems += apply_overrides(data, overrides)
    if problems:
        raise ScenarioError(path, problems=problems)
    check_shape(data, path, origin="overrides" if overrides else "")
    return validated(model, data, path, overrides=overrides, lines=lines)


def _combinations(vary: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    if math.prod(len(values) for values in vary.values()) <= MOST_COMBINATIONS_CHECKED:
        for values in itertools.product(*vary.values()):
            yield dict(zip(vary, values, strict=True))


def _draw_index(key: str, episode_seed: int, n_values: int) -> int:
    return _draw(key, episode_seed) % n_values


def _draw_share(key: str, episode_seed: int) -> float:
    return (_draw(key, episode_seed) >> 11) * 2.0**-53


def _draw(key: str, episode_seed: int) -> int:
    # A hash instead of a generator: equal on every version of NumPy, and independent between keys.
    digest = hashlib.sha256(f"vary {key} {episode_seed}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
