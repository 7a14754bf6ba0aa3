"""Scenario fields common to all families: identity, splits, the resolved form and seeded variation.

The schema of a family is a subclass of :class:`Scenario`, named by the family's declaration.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from sysgym.scenarios.errors import MOST_PROBLEMS, Problem, ScenarioError, SysgymError, UnknownName
from sysgym.scenarios.interrupts import interrupts_deferred
from sysgym.scenarios.names import ENV_ID, FILE_NAME
from sysgym.scenarios.overrides import apply_overrides, stop_varying
from sysgym.scenarios.reading import check_shape
from sysgym.scenarios.schema.problems import (
    BY_TYPE,
    PROBLEMS_TYPE,
    KeyPath,
    dotted_key,
    problems_from,
    validated,
)
from sysgym.scenarios.texts import LINE, PROSE

_IDENTITY = ("schema", "name", "family")

SPLIT_NAMES = ("train", "validation", "test")

LARGEST_SEED = 2**31 - 1
"""Largest episode seed; a signed 32-bit integer, which every generator and file format supports."""

MOST_COMBINATIONS_CHECKED = 256
"""Up to this many combinations of varied values are checked on loading; beyond it, each value alone is."""

MOST_VARIED_VALUES = 500
"""Largest number of varied values in all splits; checking each on loading takes milliseconds."""

_WITHOUT_VARY = {"check_vary": False}
"""Validation context for drawn scenarios, whose possible values have been checked already."""

_found_valid: set[tuple[type, str]] = set()
"""Class and digest of scenarios whose varied values are valid: the same are loaded again and again."""

_MOST_FOUND_VALID = 4096

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
        _raise_if_any(tuple(self.cross_checks()))
        return self


class Reward(Table):
    """Reward of the environment by name, with weights for its terms."""

    name: str = Field(default="default", min_length=1, description="name of the reward")
    weights: dict[str, float] = Field(
        default_factory=dict, description="term -> weight; absent terms keep the reward's own weights"
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


class Split(Table):
    """Seeds of one split, and what varies from episode to episode within it."""

    seeds: Annotated[
        tuple[
            Annotated[int, Field(ge=0, le=LARGEST_SEED)],
            Annotated[int, Field(ge=0, le=LARGEST_SEED)],
        ],
        FromList,
        Field(description="first and last episode seed of the split, both included"),
    ]
    vary: dict[str, Annotated[tuple[ScalarValue, ...], FromList, Field(min_length=1)]] = Field(
        default_factory=dict,
        description="dotted key -> list of values; each episode draws one of them with its seed",
    )
    ranges: dict[str, Range] = Field(
        default_factory=dict,
        description=(
            "dotted key -> { low, high, scale }; each episode draws a number between them with its seed;"
            ' scale "linear" (default) or "log": uniform in the logarithm'
        ),
    )

    @property
    def varied(self) -> dict[str, tuple[Any, ...]]:
        """Return the values that episodes draw from, by dotted key; for a range, its two ends."""
        return {**self.vary, **{key: (ends.low, ends.high) for key, ends in self.ranges.items()}}

    @property
    def first_seed(self) -> int:
        """First seed of the split."""
        return self.seeds[0]

    @property
    def n_seeds(self) -> int:
        """Number of seeds of the split."""
        return self.seeds[1] - self.seeds[0] + 1

    def __contains__(self, seed: object) -> bool:
        """Return whether ``seed`` belongs to this split."""
        return isinstance(seed, int) and self.seeds[0] <= seed <= self.seeds[1]

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the range of seeds is not empty, and that nothing is drawn twice."""
        if self.seeds[0] > self.seeds[1]:
            yield Problem("seeds", list(self.seeds), "[first, last] with first <= last")
        for key in self.vary.keys() & self.ranges.keys():
            yield Problem(dotted_key(("ranges", key)), key, "a key that vary does not have already")


class Splits(Table):
    """Three disjoint splits of the seeds."""

    train: Split = Field(description="episodes that agents learn from")
    validation: Split = Field(description="episodes that choose between trained agents")
    test: Split = Field(description="episodes that results are reported on")

    def __getitem__(self, name: str) -> Split:
        """Return the split of this name; raises UnknownName."""
        if name not in SPLIT_NAMES:
            raise UnknownName("split", name, SPLIT_NAMES)
        split = getattr(self, name)
        assert isinstance(split, Split)
        return split

    def having(self, seed: int) -> str | None:
        """Return the name of the split that has a seed; None if it is outside every split."""
        return next((name for name in SPLIT_NAMES if seed in self[name]), None)

    def choose(self, split: str | None, seed: int | None) -> tuple[str, int]:
        """Return split and seed of an episode with defaults filled in.

        Args:
            split: Name of a split; None: the one that has the seed, or ``test``.
            seed: Episode seed; None: the first one of the split.

        Raises:
            UnknownName: There is no such split.
            SysgymError: The seed is not in the split, or in none, so that the episode would be mislabelled.
        """
        if seed is None:
            split = split or "test"
            return split, self[split].first_seed
        having = self.having(seed)
        if split is None and having is None:
            ranges = ", ".join(f"{name} {self._ends(name)}" for name in SPLIT_NAMES)
            raise SysgymError(
                f"seed {seed} is outside every split of the scenario: {ranges}. Choose a seed of one, or use"
                ' any seed in Python: env.reset(options={"episode_seed": ...})'
            )
        chosen = split or having
        assert chosen is not None
        if seed not in self[chosen]:
            is_of = f"is in the split {having}" if having else "is outside every split"
            raise SysgymError(f"seed {seed} {is_of}; {chosen} has the seeds {self._ends(chosen)}")
        return chosen, seed

    def _ends(self, name: str) -> str:
        first, last = self[name].seeds
        return f"{first} to {last}"

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the splits are disjoint, and that the varied values are few enough to be checked."""
        varied = {name: sum(map(len, self[name].varied.values())) for name in SPLIT_NAMES}
        if sum(varied.values()) > MOST_VARIED_VALUES:
            most = max(varied, key=varied.__getitem__)
            yield Problem(
                f"{most}.vary",
                f"{varied[most]} values",
                f"at most {MOST_VARIED_VALUES} values in the lists of all splits",
                'draw from a range instead: ranges = { "KEY" = { low = ..., high = ... } }',
            )
        for one, other in itertools.combinations(SPLIT_NAMES, 2):
            a, b = self[one].seeds, self[other].seeds
            if a[0] <= b[1] and b[0] <= a[1]:
                yield Problem(
                    f"{other}.seeds",
                    list(b),
                    f"seeds outside those of the split {one}, {list(a)}",
                    f"choose a range that shares no seed with {one}: held-out episodes must be unseen",
                )


class Scenario(Table):
    """Identity and splits, common to all families.

    Subclasses add the tables of their world and narrow ``family``.
    """

    VARIABLE_TABLES: ClassVar[tuple[str, ...]] = ()
    """Tables whose keys a split may vary."""

    FIXED_KEYS: ClassVar[tuple[str, ...]] = ()
    """Keys in those tables that no split may vary, because the shape of the spaces depends on them."""

    schema_version: Annotated[int, Field(ge=1, le=1)] = Field(
        alias="schema", description="version of this file format; 1"
    )
    name: str = Field(
        pattern=FILE_NAME,
        description="name of the scenario: the file's name without .toml; lower case, digits, hyphens",
    )
    family: str = Field(description="family of problems; decides which keys the file has")
    env_id: str = Field(
        pattern=ENV_ID,
        description="Gymnasium id of the environment that plays it",
    )
    title: str = Field(min_length=1, max_length=100, pattern=LINE, description="one line for lists and plots")
    description: Prose = Field(min_length=1, description="what the scenario is for, in a few sentences")
    references: Annotated[tuple[Prose, ...], FromList] = Field(
        default=(), description="papers, RFCs and programs that the numbers come from"
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
            _raise_if_any([problem for name in SPLIT_NAMES for problem in self._check_varied(name, trials)])
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
    if not isinstance(overrides, Mapping):
        expected = 'a table of dotted keys and values, such as {"workload.load": 0.6}'
        raise ScenarioError(path, "overrides", overrides, expected)
    problems = [
        Problem(
            key, value, "a key that can be overridden", "identity stays with the file", origin="overrides"
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


def _raise_if_any(problems: Sequence[Problem]) -> None:
    if problems:
        # Pydantic accepts one error per validator; its context carries all problems, each with its key.
        text = "; ".join(f"{problem.key}: expected {problem.expected}" for problem in problems)
        raise PydanticCustomError(PROBLEMS_TYPE, "{text}", {"text": text, "problems": problems})


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
