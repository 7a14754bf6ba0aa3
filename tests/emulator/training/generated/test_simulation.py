"""The finer truth: closed forms, bytes, contention, interference, other jobs, determinism."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sysgym.emulator.training.collective_costs import CollectiveCosts
from sysgym.emulator.training.generated.effects import Effects
from sysgym.emulator.training.generated.job import HALF_BYTES, ParallelJob
from sysgym.emulator.training.generated.lowering import lowered
from sysgym.emulator.training.generated.models import Layer
from sysgym.emulator.training.generated.simulation import generate, lengths_of, simulate_step
from sysgym.emulator.training.generated.structure import structure_of
from sysgym.emulator.training.operations import GRADIENTS, FloatArray
from sysgym.scenarios.errors import ScenarioError, SysgymError
from tests.emulator.training.generated.conftest import equal_layers, small_job

EVERYTHING = Effects(0.1, 1e-4, 0.3, 0.3, 0.5)


def one_bucket(n_ranks: int, size_bytes: float, system: str, **values: float) -> ParallelJob:
    """A job whose only communication is one all-reduce of gradients."""
    layers = (Layer(size_bytes / HALF_BYTES, 1.0, 0.0),)
    return ParallelJob(
        data_ranks=n_ranks,
        tensor_ranks=1,
        stages=1,
        microbatches=1,
        layers=layers,
        system=system,
        flops_per_s=1.0,
        **values,  # type: ignore[arg-type]
    )


def reducing_s(job: ParallelJob) -> FloatArray:
    """Time of each rank's all-reduce of gradients."""
    run, operations = simulate_step(job, Effects(), 0, 0), structure_of(job).operations
    here = operations.kind == GRADIENTS
    return np.asarray((run.end_s - run.start_s)[here])


@pytest.mark.parametrize("system", ["dgx-h100", "p2-a100", "dgx-1-v100", "tpu-v3"])
@pytest.mark.parametrize("size_bytes", [1e6, 1e9])
def test_one_ring_alone_takes_what_the_cost_model_says(system: str, size_bytes: float) -> None:
    """Without latency to 1e-9; with it a ring in chunks is no slower, and at most its latencies faster."""
    job = one_bucket(16, size_bytes, system, latency_factor=0.0)
    cost_s = CollectiveCosts(job.hierarchy, 16).collective_time_s("all_reduce", 16, 1, size_bytes)
    assert reducing_s(job).max() == pytest.approx(cost_s, rel=1e-9)
    late = replace(job, latency_factor=1.0)
    late_s = CollectiveCosts(late.hierarchy, 16).collective_time_s("all_reduce", 16, 1, size_bytes)
    assert cost_s < reducing_s(late).max() <= late_s * (1.0 + 1e-9)


def test_one_ring_in_a_node_takes_what_the_cost_model_says_with_its_latencies() -> None:
    job = one_bucket(8, 1e7, "dgx-h100")
    cost_s = CollectiveCosts(job.hierarchy, 8).collective_time_s("all_reduce", 8, 1, 1e7)
    assert reducing_s(job) == pytest.approx(np.full(8, cost_s), rel=1e-9)


def test_bytes_are_conserved() -> None:
    """A ring of n moves 2 (n - 1) times the vector, a send what is sent; all of it arrives."""
    job = small_job()
    table, parts = lowered(structure_of(job)), structure_of(job).operations.parts
    assert parts is not None
    forward_or_backward, layers, microbatches = 2, 8, 4
    outputs = HALF_BYTES * 1e8
    # Two ranks of a ring; the lowest layer has no gradients of inputs.
    reduces = 2 * job.data_ranks * microbatches * (forward_or_backward * layers - 1) * outputs
    sends = job.data_ranks * job.tensor_ranks * forward_or_backward * microbatches * outputs
    gradients = 2 * job.tensor_ranks * layers * HALF_BYTES * 1e8 / job.tensor_ranks
    assert table.transfer_bytes().sum() == pytest.approx(reduces + sends + gradients, rel=1e-12)
    run = simulate_step(job, EVERYTHING_IN_A_NODE, 0, 0)
    assert np.isfinite(run.timeline.finish_s).all()
    sent = run.flows.size_bytes[table.first_transfer :]
    assert sent.sum() == pytest.approx(reduces + sends + gradients, rel=1e-12)


EVERYTHING_IN_A_NODE = replace(EVERYTHING, background_share=0.0)


def test_rings_that_share_an_uplink_share_its_bandwidth() -> None:
    """Two data-parallel rings of other tensor-parallel ranks, one uplink a node: each has half of it."""
    job = small_job(stages=1, data_ranks=16, microbatches=1, system="p2-a100", latency_factor=0.0)
    costs = CollectiveCosts(job.hierarchy, job.n_ranks)
    size_bytes = HALF_BYTES * 8e8 / 2
    job = replace(job, bucket_bytes=size_bytes)
    both_s = reducing_s(job).max()
    # The cost model knows that all groups of an axis run at once.
    assert both_s == pytest.approx(costs.collective_time_s("all_reduce", 16, 2, size_bytes), rel=1e-9)
    alone = one_bucket(32, size_bytes, "p2-a100", latency_factor=0.0)
    alone_s = CollectiveCosts(alone.hierarchy, 32).collective_time_s("all_reduce", 32, 1, size_bytes)
    assert both_s == pytest.approx(2.0 * alone_s * (15 / 16) / (31 / 32), rel=1e-9)


def test_a_transfer_takes_its_share_of_computing() -> None:
    """While a ring runs for T at full rate, a computation beside it loses the share I of T, on each rank."""
    layers = (Layer(0.0, 1.0, 0.0), Layer(5e10, 1.0, 0.0))
    job = replace(one_bucket(8, 1.0, "dgx-h100", latency_factor=0.0), layers=layers)
    quiet, beside = (simulate_step(job, Effects(interference=one), 0, 0) for one in (0.0, 0.2))
    operations = structure_of(job).operations
    ring_s = reducing_s(job)
    parts = operations.parts
    assert parts is not None
    backward = (operations.kind == "backward-compute") & (parts.layer == 0)
    later_s = (beside.end_s - quiet.end_s)[backward]
    assert ring_s.max() < 2.0
    assert later_s == pytest.approx(0.2 * ring_s, rel=1e-6)
    reduced = operations.kind == GRADIENTS
    assert beside.end_s[reduced] == pytest.approx(quiet.end_s[reduced], rel=1e-9)


def test_a_computation_has_its_factors_and_its_launch() -> None:
    job = small_job(length_log_sd=0.3, slow_ranks=((3, 1.5),), tensor_ranks=1, data_ranks=4)
    plain = replace(job, slow_ranks=())
    structure = structure_of(job)
    run, before = (simulate_step(one, Effects(launch_s=0.1), 0, 0) for one in (job, plain))
    computes, operations = structure.operations.computes, structure.operations
    expected = structure.work_s * structure.lengths(lengths_of(job, 0, 0))
    assert (before.end_s - before.start_s)[computes] == pytest.approx(expected[computes])
    slow = expected * np.where(operations.rank == 3, 1.5, 1.0)
    assert (run.end_s - run.start_s)[computes] == pytest.approx(slow[computes])
    chain = np.flatnonzero(computes & (operations.rank == 0))
    chain = chain[np.argsort(run.start_s[chain])]
    assert (run.start_s[chain[1:]] - run.end_s[chain[:-1]]).min() == pytest.approx(0.1)


def test_other_jobs_make_steps_longer_and_need_a_network() -> None:
    job = small_job(system="p2-v100", stages=4, layers=equal_layers(8, outputs=2e9, parameters=2e9))
    quiet = simulate_step(job, Effects(), 0, 0).end_s.max()
    effects = [Effects(background_share=share, background_s=0.5) for share in (0.2, 0.8)]
    busy = [simulate_step(job, one, 0, 0).end_s.max() for one in effects]
    assert quiet < busy[0] < busy[1]
    with pytest.raises(SysgymError, match=r"background_share 0\.5: .* 8 ranks are in one node"):
        simulate_step(small_job(), Effects(background_share=0.5), 0, 0)


def test_the_same_seed_gives_the_same_steps() -> None:
    job = small_job(system="p2-v100", stages=4, length_log_sd=0.2)
    first, again, other = (generate(job, EVERYTHING, seed, 2) for seed in (5, 5, 6))
    assert np.array_equal(first.end_s, again.end_s)
    assert np.array_equal(first.start_s, again.start_s)
    assert not np.allclose(first.end_s, other.end_s)
    assert first.step_s[0] != first.step_s[1]
    # Another run has other noise and the same microbatches.
    assert generate(job, EVERYTHING, 5, 2, run=1).step_s != pytest.approx(first.step_s, rel=1e-9)
    quiet, other_run = (generate(job, Effects(), 5, 2, run=run).end_s for run in (0, 1))
    assert np.array_equal(quiet, other_run)


def test_sorted_microbatches_are_the_same_ones_with_like_lengths_at_once() -> None:
    job = small_job(length_log_sd=0.5, data_ranks=4, tensor_ranks=1)
    drawn, ordered = (lengths_of(one, 3, 1) for one in (job, replace(job, arrangement="sorted")))
    assert np.array_equal(np.sort(drawn.ravel()), np.sort(ordered.ravel()))
    assert (ordered[:, :-1].min(axis=0) >= ordered[:, 1:].max(axis=0)).all()


@pytest.mark.parametrize(
    "values",
    [{"jitter_log_sd": -0.1}, {"interference": 0.4}, {"background_share": 1.0}, {"background_s": 0.0}],
)
def test_effects_out_of_range_are_errors(values: dict[str, float]) -> None:
    with pytest.raises(ScenarioError, match=next(iter(values))):
        Effects(**values)
