"""Operations of a generated job: what every rank computes and sends in a step, and what waits for what."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sysgym.emulator.training.collective_costs import CollectiveCosts
from sysgym.emulator.training.generated.job import BACKWARD_FACTOR, HALF_BYTES, STATE_BYTES, ParallelJob
from sysgym.emulator.training.generated.layered_graph import REDUCE_OF, TRANSFERS_OF, layered_graph
from sysgym.emulator.training.generated.passes import passes
from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import (
    BACKWARD,
    BACKWARD_RECV,
    BACKWARD_SEND,
    FORWARD,
    FORWARD_RECV,
    FORWARD_SEND,
    GRADIENTS,
    OPTIMIZER,
    FloatArray,
    Operations,
    Parts,
)


@dataclass(frozen=True, eq=False)
class Structure:
    """The operations of a step of a job.

    Attributes:
        job: The job.
        operations: The n operations, with their parts.
        graph: Their dependencies.
        work_s: Time of each computation with a microbatch of mean length on a rank that is not slow, 0 for
            communications, float64 [n].
    """

    job: ParallelJob
    operations: Operations
    graph: Graph
    work_s: FloatArray

    def lengths(self, of_microbatches: FloatArray) -> FloatArray:
        """Return the length of each operation's microbatch; 1 for operations of no single one, [n].

        Args:
            of_microbatches: Lengths, float64 [n_data_ranks, n_microbatches].
        """
        parts = self.operations.parts
        assert parts is not None
        found = of_microbatches[self.operations.data_rank, np.maximum(parts.microbatch, 0)]
        return np.where(parts.microbatch < 0, 1.0, found)

    def nominal_s(self) -> FloatArray:
        """Return the time of each operation if nothing else runs, by the cost model, float64 [n]."""
        job, operations = self.job, self.operations
        parts = operations.parts
        assert parts is not None
        costs = CollectiveCosts(job.hierarchy, job.n_ranks)
        found = self.work_s.copy()
        for one in np.flatnonzero(~operations.computes).tolist():
            kind, size_bytes = str(operations.kind[one]), float(parts.size_bytes[one])
            rank = int(operations.rank[one])
            if kind == GRADIENTS:
                found[one] = costs.collective_time_s(
                    "all_reduce", job.data_ranks, job.tensor_ranks, size_bytes
                )
            elif kind in REDUCE_OF.values():
                found[one] = costs.collective_time_s("all_reduce", job.tensor_ranks, 1, size_bytes)
            else:
                found[one] = costs.transfer_time_s(rank, self._peer(kind, rank), size_bytes)
        return found

    def _peer(self, kind: str, rank: int) -> int:
        """Return the rank to which a rank sends, or from which it receives."""
        a_stage = self.job.data_ranks * self.job.tensor_ranks
        later = kind in (FORWARD_SEND, BACKWARD_RECV)
        return (rank + (a_stage if later else -a_stage)) % self.job.n_ranks


class _Row(NamedTuple):
    """An operation of each rank of a stage, and its place in the order of the rank's operations."""

    kind: str
    microbatch: int
    chunk: int
    layer: int
    size_bytes: float
    work_s: float
    place: float


@lru_cache(maxsize=8)
def structure_of(job: ParallelJob) -> Structure:
    """Return the operations of a job's step, and what waits for what."""
    columns: list[tuple[float, ...]] = []
    kinds: list[str] = []
    for stage in range(job.stages):
        rows, numbers = _rows_of_stage(job, stage), Counter[str]()
        index = []
        for row in rows:
            index.append(numbers[row.kind])
            numbers[row.kind] += 1
        for data_rank in range(job.data_ranks):
            for tensor_rank in range(job.tensor_ranks):
                rank = job.rank(stage, data_rank, tensor_rank)
                kinds += [row.kind for row in rows]
                columns += [
                    (rank, stage, data_rank, tensor_rank, number, *row[1:])
                    for number, row in zip(index, rows, strict=True)
                ]
    table = np.array(columns, np.float64).T
    rank_, stage_, data_rank_, tensor_rank_, index_, microbatch, chunk, layer = table[:8].astype(np.int64)
    size_bytes, work_s, place = table[8:]
    operations = Operations(
        rank_,
        stage_,
        data_rank_,
        np.array(kinds),
        index_,
        parts=Parts(tensor_rank_, microbatch, chunk, layer, size_bytes),
    )
    return Structure(job, operations, layered_graph(operations, place), work_s)


def _rows_of_stage(job: ParallelJob, stage: int) -> list[_Row]:
    rows: list[_Row] = []
    parts = job.parts()
    order = passes(job.schedule, stage, job.stages, job.microbatches, job.virtual_stages)
    last = {(one.chunk): place for place, one in enumerate(order) if one.kind == BACKWARD}
    n_parameters = 0.0
    for place, (kind, microbatch, chunk) in enumerate(order):
        part = chunk * job.stages + stage
        layers = parts[part] if kind == FORWARD else parts[part][::-1]
        receive, send = TRANSFERS_OF[kind]
        # A forward pass receives what the layer before sends; a backward one the gradients of its outputs.
        border = (parts[part].start - 1, parts[part].stop - 1)
        came, goes = border if kind == FORWARD else border[::-1]
        if came >= 0 and came != len(job.layers) - 1:
            rows.append(_Row(receive, microbatch, chunk, came, _output_bytes(job, came), 0.0, place - 0.5))
        waiting_bytes = 0.0
        for step, layer in enumerate(layers):
            when = place + step / (len(layers) + 1)
            rows += _layer_rows(job, kind, microbatch, chunk, layer, when)
            if place != last[chunk]:
                continue
            parameters = job.layers[layer].parameters / _divisor(job, layer)
            n_parameters += parameters
            waiting_bytes += HALF_BYTES * parameters
            complete = waiting_bytes >= job.bucket_bytes or step == len(layers) - 1
            if complete and job.data_ranks > 1 and waiting_bytes > 0.0:
                rows.append(_Row(GRADIENTS, -1, chunk, layer, waiting_bytes, 0.0, when))
                waiting_bytes = 0.0
        if goes >= 0 and goes != len(job.layers) - 1:
            rows.append(_Row(send, microbatch, chunk, goes, _output_bytes(job, goes), 0.0, place + 0.99))
    work_s = STATE_BYTES * n_parameters / job.memory_bytes_per_s
    rows.append(_Row(OPTIMIZER, -1, 0, -1, 0.0, work_s, float(len(order))))
    return rows


def _layer_rows(
    job: ParallelJob, kind: str, microbatch: int, chunk: int, layer: int, when: float
) -> list[_Row]:
    """Return the computation of a layer, and the all-reduce behind it if its ranks divide it."""
    divisor = _divisor(job, layer)
    factor = BACKWARD_FACTOR if kind == BACKWARD else 1.0
    work_s = factor * job.batch * job.layers[layer].forward_flops / divisor / job.flops_per_s
    found = [_Row(kind, microbatch, chunk, layer, 0.0, work_s, when)]
    # A backward pass sums the gradients of the inputs, which the embedding, the first layer, does not have.
    reduced = layer if kind == FORWARD else layer - 1
    if divisor > 1 and reduced >= 0:
        size_bytes = _output_bytes(job, reduced)
        found.append(_Row(REDUCE_OF[kind], microbatch, chunk, layer, size_bytes, 0.0, when))
    return found


def _divisor(job: ParallelJob, layer: int) -> int:
    """Return over how many ranks tensor parallelism divides a layer."""
    return job.tensor_ranks if job.layers[layer].divisible else 1


def _output_bytes(job: ParallelJob, layer: int) -> float:
    """Return the bytes of a layer's outputs for a microbatch."""
    return HALF_BYTES * job.batch * job.layers[layer].outputs


SENDS, RECEIVES = (FORWARD_SEND, BACKWARD_SEND), (FORWARD_RECV, BACKWARD_RECV)
"""Kinds of sends, and of receives."""
