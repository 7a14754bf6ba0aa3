"""Operations of a training job: what they are, and when they ran in each step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

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

FORWARD_REDUCE, BACKWARD_REDUCE = "forward-tensor-all-reduce", "backward-tensor-all-reduce"
GRADIENTS = "grads-all-reduce"
LAYER_KINDS = (FORWARD_REDUCE, BACKWARD_REDUCE, GRADIENTS)
"""Further kinds in tables by layers: all-reduces of tensor parallelism, and of a bucket of gradients."""

TRANSFERS = (FORWARD_SEND, FORWARD_RECV, BACKWARD_SEND, BACKWARD_RECV)
"""Kinds of transfers between stages. A send and its receive meet; what follows each waits for its own end."""

COMPUTE = (FORWARD, BACKWARD, GARBAGE, OPTIMIZER)
"""Kinds that compute; the others communicate."""

COMPUTATION, COLLECTIVE = "computation", "collective communication"
TENSOR_COLLECTIVE = "tensor-parallel communication"
"""Streams of a rank of a pipeline, besides one for every kind of send and receive."""

STREAMS = (
    COMPUTATION, TENSOR_COLLECTIVE, FORWARD_RECV, FORWARD_SEND, BACKWARD_RECV, BACKWARD_SEND, COLLECTIVE,
)  # fmt: skip
"""Streams of a rank of a pipeline."""

LATE_START = "late start"
"""Kind of the time from a step's start to a rank's own, in traces of ranks that end their steps at different
times."""

BETWEEN = "between operators"
"""Kind of what a thread does between two operators that a profiler has recorded."""

THREAD = "thread"
"""Beginning of the names of streams that are threads of a processor."""


class Parts(NamedTuple):
    """What operations by layers say in addition. All arrays have one entry for each operation.

    Attributes:
        tensor_rank: Tensor-parallel rank, int64.
        microbatch: Microbatch, int64; -1 for operations of no single one.
        chunk: Which of the parts of the model that a rank has, in a pipeline with virtual stages, int64.
        layer: Layer of the model; of a bucket of gradients the lowest one, which is ready last; of sends and
            receives the layer whose outputs, or gradients of inputs, are sent. int64; -1 for none.
        size_bytes: Bytes that are reduced or sent, float64; 0 for computations.
    """

    tensor_rank: IntArray
    microbatch: IntArray
    chunk: IntArray
    layer: IntArray
    size_bytes: FloatArray


@dataclass(frozen=True)
class Operations:
    """Operations of one step. All arrays have one entry for each.

    ``computes``, ``stream`` and ``work`` describe operations that are not of a pipeline; without them they
    follow from the kinds, which are then of :data:`KINDS` or :data:`LAYER_KINDS`.

    Attributes:
        rank: Rank that runs it, int64.
        stage: Its pipeline stage, int64; 0 if there are no stages, or none are known.
        data_rank: Its data-parallel rank, int64; the rank itself if none is known.
        kind: One of :data:`KINDS`, or what the trace calls it.
        index: Number among the operations of its rank, stream and kind, from 0; in a pipeline, of
            computations and of sends and receives, this is the microbatch. int64.
        computes: Whether it computes, rather than communicates.
        stream: Name of what runs it, one at a time: a thread or a stream of its rank.
        work: Number of the work that it does, int64. Without stragglers, the same work takes the same time.
        parts: Microbatches and layers, if the operations are those of layers; None: a forward or backward
            computation is that of a whole stage.
    """

    rank: IntArray
    stage: IntArray
    data_rank: IntArray
    kind: NDArray[np.str_]
    index: IntArray
    computes: BoolArray = None  # type: ignore[assignment]
    stream: NDArray[np.str_] = None  # type: ignore[assignment]
    work: IntArray = None  # type: ignore[assignment]
    parts: Parts | None = None

    def __post_init__(self) -> None:
        """Complete the description of operations of a pipeline."""
        kinds, kind = np.unique(self.kind, return_inverse=True)
        work = kind
        if self.parts is not None:
            of_layers = np.stack([kind, self.parts.layer, self.parts.chunk])
            work = np.unique(of_layers, axis=1, return_inverse=True)[1].ravel()
        of_kinds = {
            "computes": np.isin(self.kind, COMPUTE),
            "stream": np.array([_stream(str(one)) for one in kinds])[kind],
            "work": work,
        }
        for name, values in of_kinds.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, values)

    def __len__(self) -> int:
        """Return the number of operations."""
        return len(self.rank)

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


def _stream(kind: str) -> str:
    """Return the stream of operations of a pipeline."""
    if kind in COMPUTE:
        return COMPUTATION
    if kind in (FORWARD_REDUCE, BACKWARD_REDUCE):
        return TENSOR_COLLECTIVE
    return kind if kind in STREAMS else COLLECTIVE


@dataclass(frozen=True)
class LeftOut:
    """What of a trace is not used.

    Attributes:
        malformed_rows: Rows with a missing, negative or infinite time, or an unknown kind.
        steps: Steps whose operations are not those of most steps.
        unmatched: Communications of a step whose partners are in no file.
    """

    malformed_rows: int = 0
    steps: tuple[int, ...] = ()
    unmatched: int = 0


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
