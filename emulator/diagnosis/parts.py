"""Parts of a training job that may be to blame: stages, kinds of operations, data-parallel ranks, ranks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sysgym.emulator.training.operations import BoolArray, Operations

STAGE, KIND, DATA_RANK, RANK = "stage", "kind", "data_rank", "rank"
PART_KINDS = (STAGE, KIND, DATA_RANK, RANK)
"""What parts there are, in the order in which they are listed. All but a data-parallel rank can be faulty."""


class Part(NamedTuple):
    """A part of a job.

    Attributes:
        what: One of :data:`PART_KINDS`.
        which: Its number or, of a kind of operation, its name.
    """

    what: str
    which: int | str

    def __str__(self) -> str:
        """Return the part in words."""
        words = {STAGE: "stage", KIND: "operations", DATA_RANK: "data-parallel rank", RANK: "rank"}
        return f"{words[self.what]} {self.which}"


def parts_of(operations: Operations) -> list[Part]:
    """Return all parts of a job."""
    columns = (operations.stage, operations.kind, operations.data_rank, operations.rank)
    return [
        Part(what, which)
        for what, column in zip(PART_KINDS, columns, strict=True)
        for which in np.unique(column).tolist()
    ]


def operations_of(operations: Operations, part: Part) -> BoolArray:
    """Return which operations belong to a part, bool [n]."""
    column = {
        STAGE: operations.stage,
        KIND: operations.kind,
        DATA_RANK: operations.data_rank,
        RANK: operations.rank,
    }[part.what]
    return np.asarray(column == part.which)
