"""The finer truth: steps of a job with shared links, jitter, interference and other jobs' traffic.

Computations and transfers are flows of one max-min fair simulation. A transfer's path also crosses the link
that stands for the computing of its receiver, of which it takes a share in proportion to its rate: so
transfers slow computing down. Computing holds up no transfer that is as slow as its ring.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sysgym.emulator.accelerators.flows.engine import NOBODY
from sysgym.emulator.accelerators.flows.links import LinkGraph
from sysgym.emulator.accelerators.flows.simulation import Flows, Timeline, simulate
from sysgym.emulator.accelerators.flows.tables import Paths
from sysgym.emulator.training.generated.effects import Effects
from sysgym.emulator.training.generated.job import ParallelJob
from sysgym.emulator.training.generated.lowering import Lowered, lowered
from sysgym.emulator.training.generated.structure import structure_of
from sysgym.emulator.training.operations import FloatArray, IntArray, TrainingTrace
from sysgym.emulator.training.replay import replay
from sysgym.scenarios.errors import SysgymError

STREAM = 0x6E4A
"""Random stream of generated steps."""

_A_SECOND = 1e15
"""Bytes of a computation of a second; so many that a computation's fair rate is what transfers leave."""

_HORIZON = 2.0
"""Other jobs' traffic is drawn for this many times the step's time by the cost model."""

_LENGTHS, _NOISE = 0, 1


class StepRun(NamedTuple):
    """A simulated step.

    Attributes:
        start_s: Start of each operation, float64 [n].
        end_s: End, likewise.
        timeline: Times of all flows.
        flows: The flows.
    """

    start_s: FloatArray
    end_s: FloatArray
    timeline: Timeline
    flows: Flows


def generate(job: ParallelJob, effects: Effects, seed: int, n_steps: int, *, run: int = 0) -> TrainingTrace:
    """Return the trace of some steps, each simulated by itself from time 0.

    Args:
        job: The job.
        effects: What a replay does not know.
        seed: Seed; the lengths of the microbatches depend on nothing but this and the step.
        n_steps: Number of steps.
        run: Number of the run; jitter and others' traffic differ between runs.

    Raises:
        SysgymError: There is other jobs' traffic, but no network between nodes.
    """
    found = [simulate_step(job, effects, seed, step, run) for step in range(n_steps)]
    return TrainingTrace(
        f"{job.name}-{seed}",
        structure_of(job).operations,
        np.arange(n_steps),
        np.array([one.start_s for one in found]),
        np.array([one.end_s for one in found]),
    )


def lengths_of(job: ParallelJob, seed: int, step: int) -> FloatArray:
    """Return the length of each microbatch over the mean, [n_data_ranks, n_microbatches]."""
    drawn = drawn_lengths(job, seed, step)
    return np.asarray(drawn.ravel()[arrangement(job, drawn)])


def drawn_lengths(job: ParallelJob, seed: int, step: int) -> FloatArray:
    """Return the lengths as they are drawn, before they are arranged, likewise."""
    rng = np.random.default_rng([STREAM, seed, step, _LENGTHS])
    drawn = np.exp(rng.normal(0.0, job.length_log_sd, (job.data_ranks, job.microbatches)))
    return np.asarray(drawn / drawn.mean())


def arrangement(job: ParallelJob, drawn: FloatArray) -> IntArray:
    """Return the number, in ``drawn.ravel()``, of the microbatch in each place, int64 like ``drawn``."""
    numbers = np.arange(drawn.size)
    if job.arrangement == "drawn":
        return numbers.reshape(drawn.shape)
    order = np.argsort(-drawn.ravel(), kind="stable")
    return np.asarray(order.reshape(drawn.shape[::-1]).T, np.int64)


def simulate_step(job: ParallelJob, effects: Effects, seed: int, step: int, run: int = 0) -> StepRun:
    """Return one step; the arguments are those of :func:`generate`."""
    structure = structure_of(job)
    table = lowered(structure)
    operations = structure.operations
    n = len(operations)
    lengths = structure.lengths(lengths_of(job, seed, step))
    rng = np.random.default_rng([STREAM, seed, step, _NOISE, run])
    computing_s = structure.work_s * lengths * np.exp(rng.normal(0.0, effects.jitter_log_sd, n))
    for rank, factor in job.slow_ranks:
        computing_s[operations.rank == rank] *= factor
    paths, bandwidth = _with_computing(table, effects.interference)
    n_paths, first = table.paths.n_paths, table.first_transfer
    size_bytes = np.zeros(table.n_flows)
    latency_s = np.zeros(table.n_flows)
    path = np.zeros(table.n_flows, np.int32)
    size_bytes[:n] = _A_SECOND * computing_s
    latency_s[:n][operations.computes] = effects.launch_s
    path[:n] = n_paths + operations.rank
    size_bytes[first:] = table.transfer_bytes() * lengths[table.operation]
    latency_s[first:], path[first:] = table.latency_s, table.path
    flows = Flows(size_bytes, latency_s, path, paths, table.wait_first, table.wait_on, table.follows)
    if effects.background_share > 0.0:
        horizon_s = _HORIZON * replay(structure.graph, structure.nominal_s() * lengths).step_s
        flows = _with_others(flows, table.links, effects, horizon_s, rng)
    timeline = simulate(flows, bandwidth)
    ends = np.where(operations.computes, timeline.sent_s[:n], timeline.finish_s[table.end_of])
    return StepRun(timeline.start_s[:n], ends, timeline, flows)


def _with_computing(table: Lowered, interference: float) -> tuple[Paths, FloatArray]:
    """Return paths with the computing that transfers take, and with those of computations; bandwidths."""
    links, paths, n_ranks = table.links, table.paths, table.structure.job.n_ranks
    bandwidth = links.bandwidth_bytes_per_s
    first, link, share = paths
    if interference > 0.0 and paths.n_paths:
        alone = np.minimum.reduceat(bandwidth[link] / share, first[:-1])
        of_rings = np.full(table.ring.max() + 1, np.inf)
        np.minimum.at(of_rings, table.ring, alone)
        link = np.insert(link, first[1:], links.n_links + table.receiver)
        share = np.insert(share, first[1:], interference * _A_SECOND / of_rings[table.ring])
        first = first + np.arange(len(first))
    return (
        Paths(
            np.concatenate([first, first[-1] + np.arange(1, n_ranks + 1)]),
            np.concatenate([link, links.n_links + np.arange(n_ranks)]).astype(np.int32),
            np.concatenate([share, np.ones(n_ranks)]),
        ),
        np.concatenate([bandwidth, np.full(n_ranks, _A_SECOND)]),
    )


def _with_others(
    flows: Flows, links: LinkGraph, effects: Effects, horizon_s: float, rng: np.random.Generator
) -> Flows:
    """Return the flows with those of other jobs: on each uplink of a node, transfers and pauses in turns."""
    hierarchy = links.hierarchy
    nodes, inside = hierarchy.cardinalities[0], hierarchy.devices_inside(0)
    if hierarchy.n_levels == 1 or nodes == 1:
        raise SysgymError(
            f"background_share {effects.background_share:g}: other jobs' traffic is on the network between "
            f"nodes, and {hierarchy.n_devices} ranks are in one node; expected 0, or ranks on several nodes"
        )
    uplinks = hierarchy.levels[0].uplinks
    # The first device of each uplink, in every node.
    ports = np.arange(uplinks) * inside // uplinks
    source = (np.arange(nodes)[:, None] * inside + ports).ravel()
    node = source // inside
    other = (node + rng.integers(1, nodes, len(source))) % nodes
    target = other * inside + ports[rng.integers(0, uplinks, len(source))]
    whole = links.paths(source, target, np.stack([source, target], axis=1), np.arange(len(source)))
    # Only the links between nodes: other jobs have devices of their own.
    between = np.flatnonzero(whole.link < links.first_link[1])
    first = np.searchsorted(between, whole.first)
    alone = np.minimum.reduceat(
        links.bandwidth_bytes_per_s[whole.link[between]] / whole.share[between], first[:-1]
    )
    pause_s = effects.background_s * (1.0 / effects.background_share - 1.0)
    n_turns = int(np.ceil(horizon_s / (effects.background_s + pause_s))) + 1
    shape = (len(source), n_turns, 2)
    size_bytes, latency_s = np.zeros(shape), np.zeros(shape)
    latency_s[:, :, 0] = rng.exponential(pause_s, shape[:2])
    size_bytes[:, :, 1] = rng.exponential(effects.background_s, shape[:2]) * alone[:, None]
    number = flows.n_flows + np.arange(size_bytes.size).reshape(len(source), -1)
    waits = np.ones_like(number)
    waits[:, 0] = 0
    paths = flows.paths
    path = np.broadcast_to((paths.n_paths + np.arange(len(source)))[:, None, None], shape)
    return Flows(
        np.concatenate([flows.size_bytes, size_bytes.ravel()]),
        np.concatenate([flows.latency_s, latency_s.ravel()]),
        np.concatenate([flows.path, path.ravel()]).astype(np.int32),
        Paths(
            np.concatenate([paths.first, paths.first[-1] + first[1:]]),
            np.concatenate([paths.link, whole.link[between]]),
            np.concatenate([paths.share, whole.share[between]]),
        ),
        np.concatenate([flows.wait_first, flows.wait_first[-1] + np.cumsum(waits)]),
        np.concatenate([flows.wait_on, (number[:, :-1]).ravel()]).astype(np.int32),
        np.concatenate([flows.follows, np.full(number.size, NOBODY, np.int32)]),
    )
