"""Times of steps: equal to the replay of the whole job, division and dealing, recorded steps."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.failslow.step_times import Plan, StepTimes
from sysgym.emulator.failslow.work import WAYS, draw_work
from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.operations import ALL_GATHER, REDUCE_SCATTER, TRANSFERS
from sysgym.emulator.training.replay import step_times_s
from sysgym.emulator.training.schedules import schedule_graph, step_operations
from sysgym.emulator.training.synthetic import synthetic_trace
from sysgym.scenarios import load_scenario
from sysgym.scenarios.errors import ScenarioError
from sysgym.scenarios.schema.failslow import FailSlowScenario
from tests.emulator.training.conftest import rows_of, write_csv

EQUAL = {"job.length_log_sd": 0.0, "job.jitter_log_sd": 0.0, "job.steps": 1}


def times_of(seed: int = 0, /, **overrides: Any) -> StepTimes:
    scenario = load_scenario("failslow-hybrid", expect=FailSlowScenario, overrides=overrides)
    return StepTimes(draw_work(scenario, seed))


def whole_job_s(times: StepTimes, factors: Any, link: float, plan: Plan) -> float:
    """Return the time of a step with as many microbatches on each replica, replayed in one graph."""
    work = times.work
    n_each = work.lengths.shape[1] // work.n_replicas
    operations = step_operations(work.n_stages, work.n_replicas, n_each)
    duration_s = np.zeros((len(work.lengths), len(operations)))
    starts = (0, *plan.ends[:-1])
    replica_of = times._deal(plan)
    for step in range(len(work.lengths)):
        order = np.argsort(-work.lengths[step], kind="stable")
        mine = np.array([order[replica_of[step][order] == one] for one in range(work.n_replicas)])
        which = mine[operations.data_rank, np.minimum(operations.index, n_each - 1)]
        for way, kind in enumerate(WAYS):
            layers_s = np.add.reduceat(work.layers_s[way], starts)
            here = operations.kind == kind
            duration_s[step, here] = (
                layers_s[operations.stage]
                * work.microbatches[step, way, 0][which]
                * factors[operations.data_rank, operations.stage]
            )[here]
        transfers = np.isin(operations.kind, TRANSFERS)
        duration_s[step, transfers] = work.transfer_s * work.lengths[step][which[transfers]]
        for kind, layers_s in ((ALL_GATHER, work.gather_s), (REDUCE_SCATTER, work.scatter_s)):
            here = operations.kind == kind
            of_stages_s = np.add.reduceat(layers_s, starts) + work.latency_s
            duration_s[step, here] = link * of_stages_s[operations.stage[here]]
    return float(step_times_s(schedule_graph(operations, "1f1b"), duration_s).mean())


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 4), st.integers(1, 4), st.integers(1, 6))
def test_replicas_alone_are_the_whole_job(seed: int, replicas: int, stages: int, microbatches: int) -> None:
    times = times_of(
        seed,
        **{**EQUAL, "job.jitter_log_sd": 0.3, "job.steps": 2, "job.replicas": replicas, "job.stages": stages,
           "job.microbatches": microbatches, "job.blocks": 6},
    )  # fmt: skip
    factors = 1.0 + np.random.default_rng(seed).exponential(0.5, (replicas, stages))
    for link in (1.0, 4.0):
        found_s = times.step_s(factors, link, times.first)
        assert found_s == pytest.approx(whole_job_s(times, factors, link, times.first), rel=1e-12)


def test_equal_stages_are_the_closed_form() -> None:
    """With equal microbatches a replica takes microbatches + stages - 1 times of its slowest stage."""
    times = times_of(
        **{**EQUAL, "job.vocabulary": 2, "machine.bandwidth_bps": 1e14, "machine.latency_s": 0.0}
    )
    stage_s = times.work.layers_s.sum() / 4
    assert times.first.ends == (9, 17, 25, 34)
    assert times.healthy_s == pytest.approx(19 * stage_s, rel=0.01)
    slow = times.healthy.copy()
    slow[3] = 2.0
    assert times.step_s(slow, 1.0, times.first) == pytest.approx(2.0 * times.healthy_s, rel=0.01)
    assert times.expected_s(slow, 1.0, times.first) == pytest.approx(2.0 * times.healthy_s, rel=0.01)


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_one_microbatch_waits_for_all_transfers(stages: int) -> None:
    """It goes through the stages forwards and backwards, and is sent between each two of them."""
    times = times_of(
        **{**EQUAL, "job.stages": stages, "job.microbatches": 1, "machine.bandwidth_bps": 1e9,
           "machine.latency_s": 0.0}
    )  # fmt: skip
    work = times.work._replace(gather_s=np.zeros(34), scatter_s=np.zeros(34), transfer_s=5.0)
    passes_s = work.layers_s.sum()
    assert StepTimes(work).healthy_s == pytest.approx(passes_s + 2 * (stages - 1) * 5.0, rel=1e-12)


def test_slower_links_make_a_step_longer() -> None:
    work = times_of().work
    times_s = [StepTimes(work._replace(transfer_s=transfer_s)).healthy_s for transfer_s in (0.0, 0.01, 0.1)]
    assert times_s == sorted(set(times_s))
    # At least the first microbatch waits for its transfers to the last stage, and the last one back.
    assert times_s[2] > times_s[0] + 0.4


def test_the_closed_form_is_near_the_replay() -> None:
    """It regards neither the schedule's forwarding nor transfers; it is what agents expect."""
    for seed in range(5):
        times = times_of(seed)
        factors = 1.0 + np.random.default_rng(seed).exponential(0.1, times.healthy.shape)
        for factors_ in (times.healthy, factors):
            for link in (1.0, 3.0):
                ratio = times.expected_s(factors_, link, times.first) / times.step_s(
                    factors_, link, times.first
                )
                assert 0.9 < ratio < 1.1
    # On a link that is ten times as slow, the exchange takes ten times as long.
    share = times.exchange_share(times.first)
    slow_s = times.step_s(times.healthy, 10.0, times.first)
    assert slow_s / times.healthy_s == pytest.approx(1.0 + 9.0 * share, rel=0.01)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 4), st.integers(0, 5))
def test_the_division_of_layers_is_exact(seed: int, stages: int, more: int) -> None:
    blocks = max(stages + more - 2, 1)
    times = times_of(**{"job.blocks": blocks, "job.stages": stages, "job.vocabulary": 200_000, **EQUAL})
    factors = 1.0 + np.random.default_rng(seed).exponential(1.0, (8, stages))
    layers_s = times.work.layers_s.sum(axis=0)

    def slowest_s(ends: tuple[int, ...]) -> float:
        return float((factors.max(axis=0) * np.add.reduceat(layers_s, (0, *ends[:-1]))).max())

    n = len(layers_s)
    divisions = [(*inner, n) for inner in itertools.combinations(range(1, n), stages - 1)]
    found = times.divided(factors)
    assert found in divisions
    assert slowest_s(found) <= min(map(slowest_s, divisions)) * (1.0 + 1e-6)


def test_microbatches_are_dealt_by_the_pace() -> None:
    times = times_of(**EQUAL)
    _, counts = times.loads(times.first)
    assert counts.tolist() == [[16.0] * 8]
    slow = times.healthy.copy()
    slow[2, 1] = 2.0
    plan = times.first._replace(pace=times.paced(slow, times.first.ends))
    assert max(plan.pace) > 1.5
    _, counts = times.loads(plan)
    assert counts.sum() == 128
    assert counts[0, 2] == counts.min() < 11
    assert times.healthy_s < times.step_s(slow, 1.0, plan) < 0.8 * times.step_s(slow, 1.0, times.first)
    # Even a replica that is hopelessly slow keeps a microbatch, so that it takes part.
    _, counts = times.loads(times.first._replace(pace=(1e6, *(1.0,) * 7)))
    assert counts[0, 0] == 1.0


def test_moved_layers_help_a_slow_stage() -> None:
    times = times_of()
    slow = times.healthy.copy()
    slow[:, 2] = 1.5
    moved = times.first._replace(ends=times.divided(slow))
    n_first, n_moved = (np.diff((0, *plan.ends)) for plan in (times.first, moved))
    assert n_moved[2] < n_first[2]
    assert times.step_s(slow, 1.0, moved) < 0.9 * times.step_s(slow, 1.0, times.first)


def trace_file(folder: Path, **settings_: Any) -> str:
    trace = synthetic_trace(1, n_stages=2, n_data_ranks=3, n_microbatches=4, n_steps=5, **settings_)
    return str(write_csv(folder / "trace.csv", rows_of(trace)))


def test_recorded_steps_take_the_time_of_the_trace(tmp_path: Path) -> None:
    path = trace_file(tmp_path, noise=0.002)
    times = times_of(**{"job.trace": path, "job.steps": 5})
    assert (times.work.n_replicas, times.work.n_stages) == (3, 2)
    assert times.first.ends == (1, 2)
    trace = synthetic_trace(1, n_stages=2, n_data_ranks=3, n_microbatches=4, n_steps=5, noise=0.002)
    assert times.healthy_s == pytest.approx(trace.step_s.mean(), rel=0.02)
    slow = times.healthy.copy()
    slow[1, 0] = 3.0
    assert times.step_s(slow, 1.0, times.first) > 2.0 * times.healthy_s
    assert times.divided(slow) == (1, 2)


def test_which_steps_are_recorded_depends_on_the_seed(tmp_path: Path) -> None:
    path = trace_file(tmp_path)
    found = {times_of(seed, **{"job.trace": path, "job.steps": 1}).healthy_s for seed in range(8)}
    assert 1 < len(found) <= 5
    assert times_of(3, **{"job.trace": path}).healthy_s == times_of(3, **{"job.trace": path}).healthy_s


def test_traces_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    alone = rows_of(synthetic_trace(1, n_stages=2, n_data_ranks=1, n_microbatches=4, n_steps=2))
    with pytest.raises(TraceError, match="two replicas or more"):
        times_of(**{"job.trace": str(write_csv(tmp_path / "alone.csv", alone))})
    with pytest.raises(TraceError):
        times_of(**{"job.trace": str(tmp_path / "missing.csv")})
    with pytest.raises(ScenarioError, match="at least 6"):
        times_of(**{"job.blocks": 5, "job.stages": 8})


def test_it_can_be_pickled() -> None:
    times = times_of(3)
    copy = pickle.loads(pickle.dumps(times))
    slow = times.healthy * 1.3
    assert copy.step_s(slow, 2.0, copy.first) == times.step_s(slow, 2.0, times.first)
