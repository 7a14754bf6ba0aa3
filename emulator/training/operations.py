"""Operations of a training job: what they are, and when they ran in each step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

FORWARD, BACKWARD = "forward-compute", "backward-compute"
FORWARD_SEND, FORWARD_RECV = "forward-send", "forward-recv"
BACKWARD_SEND, BACKWARD_RECV = "backward-send", "backward-recv"
ALL_GATHER, REDUCE_SCATTER = "params-all-gather", "grads-reduce-scatter"
GARBAGE, LAYERNORM, EMBEDDING = "gc", "layernorm-grads-all-reduce", "embedding-grads-all-reduce"
CLIP, OPTIMIZER = "optimizer-clip-main-grad", "optimizer"

KINDS = (
    ALL_GATHER, FORWARD_RECV, FORWARD, FORWARD_SEND, BACKWARD_RECV, BACKWARD, BACKWARD_SEND,
    GARBAGE, LAYERNORM, EMBEDDING, REDUCE_SCATTER, CLIP, OPTIMIZER,
)  # fmt: skip
"""Kinds of operations, in the names of the traces of ByteDance (Lin et al., OSDI 2025)."""

COMPUTE = (FORWARD, BACKWARD, GARBAGE, OPTIMIZER)
"""Kinds that compute; the others communicate."""


@dataclass(frozen=True)
class Operations:
    """Operations of one step. All arrays have one entry for each.

    Attributes:
        rank: Rank that runs it, int64.
        stage: Its pipeline stage, int64.
        data_rank: Its data-parallel rank, int64.
        kind: One of :data:`KINDS`.
        index: Number among the operations of its rank and kind, from 0; of computations and of sends and
            receives this is the microbatch. int64.
    """

    rank: IntArray
    stage: IntArray
    data_rank: IntArray
    kind: NDArray[np.str_]
    index: IntArray

    def __len__(self) -> int:
        """Return the number of operations."""
        return len(self.rank)

    @property
    def computes(self) -> BoolArray:
        """Whether each operation computes, rather than communicates."""
        return np.isin(self.kind, COMPUTE)

    @property
    def ranks(self) -> IntArray:
        """The ranks, in increasing order."""
        return np.unique(self.rank)

    def name(self, operation: int) -> str:
        """Return a name for messages and pictures, such as ``forward-compute 3 of rank 5``."""
        return f"{self.kind[operation]} {self.index[operation]} of rank {self.rank[operation]}"

    def number(self) -> dict[tuple[int, str, int], int]:
        """Return the number of the operation with a rank, kind and index."""
        keys = zip(self.rank.tolist(), self.kind.tolist(), self.index.tolist(), strict=True)
        return {key: operation for operation, key in enumerate(keys)}


@dataclass(frozen=True)
class LeftOut:
    """What of a trace is not used.

    Attributes:
        malformed_rows: Rows with a missing, negative or infinite time, or an unknown kind.
        steps: Steps whose operations are not those of most steps.
    """

    malformed_rows: int = 0
    steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class TrainingTrace:
    """Steps of a training job in which the same operations ran.

    Attributes:
        name: Name, such as the file's.
        operations: The n operations of a step.
        steps: Number of each step in the job, int64 [n_steps].
        start_s: Start of each operation since the step's start, float64 [n_steps, n].
        end_s: End, likewise.
        left_out: What was not used.
    """

    name: str
    operations: Operations
    steps: IntArray
    start_s: FloatArray
    end_s: FloatArray
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def step_s(self) -> FloatArray:
        """Time of each step: from its first start to its last end, float64 [n_steps]."""
        times: FloatArray = self.end_s.max(axis=1) - self.start_s.min(axis=1)
        return times

    def only(self, steps: slice | IntArray | BoolArray) -> TrainingTrace:
        """Return the trace with some of its steps, chosen by their places."""
        return replace(self, steps=self.steps[steps], start_s=self.start_s[steps], end_s=self.end_s[steps])
