"""Splits of episode seeds, and what varies from episode to episode within them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from sysgym.scenarios.errors import Problem, SysgymError, UnknownName
from sysgym.scenarios.schema.problems import dotted_key
from sysgym.scenarios.schema.tables import FromList, Range, ScalarValue, Table

SPLIT_NAMES = ("train", "validation", "test")

LARGEST_SEED = 2**31 - 1
"""Largest episode seed; a signed 32-bit integer, which every generator and file format supports."""

MOST_VARIED_VALUES = 500
"""Largest number of varied values in all splits; checking each on loading takes milliseconds."""


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
