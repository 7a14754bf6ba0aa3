"""Plans of a pipeline: which layers a stage has, which microbatches a rank has, what is recomputed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np

from sysgym.emulator.pipelines.job import (
    HALF_BYTES,
    STATE_BYTES,
    FloatArray,
    IntArray,
    Pipeline,
    Truth,
    gather_s,
)
from sysgym.emulator.training.operations import (
    ALL_GATHER,
    BACKWARD,
    FORWARD,
    REDUCE_SCATTER,
    TRANSFERS,
)
from sysgym.emulator.training.replay import Replayed, replay, step_times_s

Kind = Literal["later", "earlier", "recompute", "exchange", "sort"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Local changes. Of a stage: its last layer goes to the next stage, its first one to the stage before, its
activations are recomputed or kept. Of a data-parallel rank: one of its microbatches changes places with one
of the least loaded rank, those two that leave their loads most alike; its longest microbatches come first."""

OF_STAGES: tuple[Kind, ...] = ("later", "earlier", "recompute")
OF_RANKS: tuple[Kind, ...] = ("exchange", "sort")


class Plan(NamedTuple):
    """A plan.

    Attributes:
        ends: Number of the layer after each stage's last one.
        microbatches: Microbatch in each place, one rank after another.
        recompute: Whether each stage recomputes its activations.
    """

    ends: tuple[int, ...]
    microbatches: tuple[int, ...]
    recompute: tuple[bool, ...]


def first_plan(pipeline: Pipeline) -> Plan:
    """Return equal numbers of layers, microbatches in their order, and what memory makes necessary."""
    job = pipeline.scenario.job
    n_layers = len(pipeline.layers.parameters)
    ends = tuple((np.arange(1, job.stages + 1) * n_layers // job.stages).tolist())
    return with_least_recomputation(
        pipeline, Plan(ends, tuple(range(len(pipeline.lengths))), (False,) * job.stages)
    )


def with_least_recomputation(pipeline: Pipeline, plan: Plan) -> Plan:
    """Return a plan in which those stages recompute whose activations do not fit otherwise."""
    needed_bytes = memory_bytes(pipeline, plan._replace(recompute=(False,) * len(plan.ends)))
    most = pipeline.scenario.machine.memory_bytes
    return plan._replace(recompute=tuple((needed_bytes > most).tolist()))


def memory_bytes(pipeline: Pipeline, plan: Plan) -> FloatArray:
    """Return the memory of each stage's workers with microbatches of mean length, shape (n_stages,)."""
    stages = np.arange(len(plan.ends))
    found = span_bytes(pipeline, stages, np.array((0, *plan.ends[:-1])), np.array(plan.ends))
    return np.asarray(found[np.array(plan.recompute, np.int64), stages])


def span_bytes(
    pipeline: Pipeline, stage: int | IntArray, starts: IntArray, ends: int | IntArray
) -> FloatArray:
    """Return the memory of a stage with the layers from each start to an end, float64 [2, n_starts].

    First, all activations are kept; second, they are recomputed, which keeps the inputs of the layers and the
    activations of one layer at a time. In 1F1B, a stage has the activations of as many microbatches as there
    are stages from it on.

    Args:
        pipeline: The job.
        stage: The stage, or that of each span.
        starts: First layers.
        ends: Number of the layer after the last one, or that of each span.
    """
    job, spans = pipeline.scenario.job, pipeline.spans
    in_flight: int | IntArray = job.microbatches
    if job.schedule == "1f1b":
        in_flight = np.minimum(in_flight, job.stages - stage)
    kept = np.array(
        [
            in_flight * spans.activation_bytes[ends, starts],
            in_flight * spans.input_bytes[ends, starts] + spans.largest_bytes[ends, starts],
        ]
    )
    return np.asarray(STATE_BYTES * spans.parameters[ends, starts] + kept)


def fits(pipeline: Pipeline, plan: Plan) -> bool:
    """Return whether all stages fit into memory."""
    return bool((memory_bytes(pipeline, plan) <= pipeline.scenario.machine.memory_bytes).all())


def stage_times_s(pipeline: Pipeline, plan: Plan, truth: Truth) -> tuple[FloatArray, FloatArray]:
    """Return the times of each stage's forward and backward pass with a microbatch of mean length."""
    starts = (0, *plan.ends[:-1])
    forward_s, backward_s = (
        np.add.reduceat(column * truth.layers, starts)
        for column in (pipeline.layers.forward_s, pipeline.layers.backward_s)
    )
    return forward_s, backward_s + forward_s * np.array(plan.recompute)


def durations_s(pipeline: Pipeline, plan: Plan, truth: Truth) -> FloatArray:
    """Return the duration of every operation in each measured step, float64 [n_steps, n_operations]."""
    job, operations = pipeline.scenario.job, pipeline.operations
    microbatches = np.array(plan.microbatches)
    found = _communication_s(pipeline, plan) if pipeline.fixed_s is None else pipeline.fixed_s.copy()
    of_stages = stage_times_s(pipeline, plan, truth)
    for way, (kind, of_stage) in enumerate(zip((FORWARD, BACKWARD), of_stages, strict=True)):
        here = operations.kind == kind
        stage = operations.stage[here]
        which = microbatches[operations.data_rank[here] * job.microbatches + operations.index[here]]
        found[here] = of_stage[stage] * pipeline.lengths[which]
        if truth.passes is not None:
            found[here] *= truth.passes[way, stage, which]
    return found * truth.operations


def _communication_s(pipeline: Pipeline, plan: Plan) -> FloatArray:
    """Return the durations of communications, 0 of computations, float64 [n_operations]."""
    job, machine, operations = pipeline.scenario.job, pipeline.scenario.machine, pipeline.operations
    found = np.zeros(len(operations))
    # A receive takes the time of its send: it ends when the data are there.
    sent_bytes = HALF_BYTES * job.sequence * job.sequences * job.hidden
    transfers = np.isin(operations.kind, TRANSFERS)
    lengths = pipeline.lengths[list(plan.microbatches)].reshape(job.data_ranks, job.microbatches)
    found[transfers] = machine.latency_s + 8.0 * sent_bytes / machine.bandwidth_bps
    found[transfers] *= lengths[operations.data_rank[transfers], operations.index[transfers]]
    starts = np.array((0, *plan.ends[:-1]))
    gathers_s = [
        gather_s(job, pipeline, one) for one in np.add.reduceat(pipeline.layers.parameters, starts).tolist()
    ]
    for kind in (ALL_GATHER, REDUCE_SCATTER):
        here = operations.kind == kind
        found[here] = np.array(gathers_s)[operations.stage[here]]
    return found


def step_time_s(pipeline: Pipeline, plan: Plan, truth: Truth) -> float:
    """Return the mean time of a step."""
    return float(step_times_s(pipeline.graph, durations_s(pipeline, plan, truth)).mean())


def replayed(pipeline: Pipeline, plan: Plan, truth: Truth) -> Replayed:
    """Return the times of the first step."""
    return replay(pipeline.graph, durations_s(pipeline, plan, truth)[0])


def loads(pipeline: Pipeline, plan: Plan) -> FloatArray:
    """Return the sum of the lengths of each data-parallel rank's microbatches, shape (n_data_ranks,)."""
    job = pipeline.scenario.job
    lengths = pipeline.lengths[list(plan.microbatches)]
    return np.asarray(lengths.reshape(job.data_ranks, job.microbatches).sum(axis=1))


def changed(pipeline: Pipeline, plan: Plan, kind: Kind, which: int) -> Plan | None:
    """Return the plan after a change, or None if it does not change or does not fit into memory.

    Args:
        pipeline: The job.
        plan: The plan.
        kind: One of :data:`KINDS`.
        which: The stage or the data-parallel rank.
    """
    if kind in OF_STAGES:
        other = _of_stage(pipeline, plan, kind, which)
        return other if other is not None and fits(pipeline, other) else None
    other = _of_rank(pipeline, plan, kind, which)
    return other if other != plan else None


def changes(pipeline: Pipeline, plan: Plan) -> Iterator[tuple[Kind, int, Plan]]:
    """Yield all changes that a plan allows, and the plans after them."""
    job = pipeline.scenario.job
    for kinds, n in ((OF_STAGES, job.stages), (OF_RANKS, job.data_ranks)):
        for kind in kinds:
            for which in range(n):
                other = changed(pipeline, plan, kind, which)
                if other is not None:
                    yield kind, which, other


def _of_stage(pipeline: Pipeline, plan: Plan, kind: Kind, stage: int) -> Plan | None:
    start = plan.ends[stage - 1] if stage else 0
    if kind == "recompute":
        if not pipeline.layers.activation_bytes[start : plan.ends[stage]].any():
            return None
        flags = list(plan.recompute)
        flags[stage] = not flags[stage]
        return plan._replace(recompute=tuple(flags))
    ends = list(plan.ends)
    n_layers = ends[stage] - start
    border = stage if kind == "later" else stage - 1
    if n_layers == 1 or not 0 <= border < len(ends) - 1:
        return None
    ends[border] += -1 if kind == "later" else 1
    return plan._replace(ends=tuple(ends))


def _of_rank(pipeline: Pipeline, plan: Plan, kind: Kind, rank: int) -> Plan:
    n = pipeline.scenario.job.microbatches
    places = np.array(plan.microbatches)
    lengths = pipeline.lengths[places]
    own = np.arange(rank * n, (rank + 1) * n)
    if kind == "sort":
        places[own] = places[own][np.argsort(-lengths[own], kind="stable")]
    else:
        of_ranks = loads(pipeline, plan)
        least = int(of_ranks.argmin())
        others = np.arange(least * n, (least + 1) * n)
        moved = lengths[own][:, None] - lengths[others]
        apart = np.abs(of_ranks[rank] - of_ranks[least] - 2.0 * moved)
        here, there = np.unravel_index(apart.argmin(), apart.shape)
        if apart.min() < of_ranks[rank] - of_ranks[least]:
            places[[own[here], others[there]]] = places[[others[there], own[here]]]
    return plan._replace(microbatches=tuple(places.tolist()))
