"""Step times and plans: closed forms, an event simulation by hand, exact fusion."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.tuning.job import Profile, Truth, as_thought, draw_job
from sysgym.emulator.tuning.plans import (
    KINDS,
    MIB,
    allowed,
    bucket_time_s,
    by_need,
    capped,
    changed,
    fused,
    in_order,
    pytorch_default,
)
from sysgym.emulator.tuning.timing import Plan, step_of
from sysgym.scenarios import load_scenario
from sysgym.scenarios.schema.tuning import TuningJob, TuningScenario


def job(
    gradient_bytes: list[float], backward_s: list[float] | None = None, latency_s: float = 0.0
) -> Profile:
    """Return a job on two workers with a gigabyte a second: a byte takes a nanosecond."""
    sizes = np.array(gradient_bytes)
    backward = np.ones(len(sizes)) if backward_s is None else np.array(backward_s)
    return Profile(backward, backward / 2.0, sizes, 2, 1e9, latency_s)


def truth(**changes: Any) -> Truth:
    base = Truth(float(np.inf), 0.0, 0.0, np.ones(1), np.zeros(1), 1.0)
    return base._replace(**changes)


def drawn(seed: int, n_layers: int = 6) -> Profile:
    rng = np.random.default_rng(seed)
    backward = rng.exponential(1.0, n_layers)
    return job(list(1e9 * rng.exponential(1.0, n_layers)), list(backward), float(rng.random() / 4.0))


plans = st.tuples(st.integers(0, 2**31), st.lists(st.booleans(), min_size=5, max_size=5))


def plan_of(seed: int, cuts: list[bool]) -> Plan:
    ends = (*(place + 1 for place, cut in enumerate(cuts) if cut), len(cuts) + 1)
    order = np.random.default_rng(seed).permutation(len(ends))
    return Plan(ends, tuple(order.tolist()))


def test_one_bucket_is_sent_after_the_backward_pass() -> None:
    profile = job([1e9, 2e9, 1e9], latency_s=0.25)
    step = step_of(in_order((3,)), profile, as_thought(profile))
    # 3 s backward, then 4 GB and two latencies, then 1.5 s forward.
    assert step.time_s == pytest.approx(3.0 + 4.5 + 1.5)
    assert step.ready_s.tolist() == step.start_s.tolist() == [3.0]
    assert step.end_s[0] == pytest.approx(7.5)
    assert step.stall_s[0] == pytest.approx(4.5)
    assert step.wanted_s[0] == pytest.approx(3.0)


def test_buckets_of_one_layer_overlap_by_hand() -> None:
    """Layers 0, 1, 2 are ready at 1, 2, 3 s and take 2, 1, 1 s on the channel."""
    profile = job([2e9, 1e9, 1e9])
    step = step_of(in_order((1, 2, 3)), profile, as_thought(profile))
    np.testing.assert_allclose(step.start_s, [1.0, 3.0, 4.0])
    np.testing.assert_allclose(step.end_s, [3.0, 4.0, 5.0])
    # Forward: layer 2 waits until 5, then 0.5 s for each.
    assert step.time_s == pytest.approx(6.5)
    first = step_of(by_need(in_order((1, 2, 3))), profile, as_thought(profile))
    np.testing.assert_allclose(
        first.start_s, [1.0, 4.0, 3.0]
    )  # at 3 s the last layer goes before the middle one
    # Layer 2 arrives at 4, its forward pass ends at 4.5; layer 1 arrives at 5.
    assert first.time_s == pytest.approx(6.0)
    np.testing.assert_allclose(first.stall_s, [0.0, 0.5, 1.0])


def test_chunks_can_be_overtaken() -> None:
    """Layer 0 of 3 GB is overtaken at 3 s, after two of its chunks of 1 GB."""
    profile = job([3e9, 0.0, 1e9])
    plan = by_need(in_order((1, 3)))
    whole = step_of(plan, profile, truth())
    np.testing.assert_allclose(whole.end_s, [4.0, 5.0])
    cut = step_of(plan, profile, truth(chunk_bytes=1e9))
    np.testing.assert_allclose(cut.end_s, [5.0, 4.0])
    assert cut.time_s < whole.time_s


def test_each_part_of_the_truth_by_hand() -> None:
    profile = job([1e9, 1e9])
    plan = in_order((1, 2))
    assert step_of(plan, profile, truth()).time_s == pytest.approx(4.0)
    # The second layer's backward pass takes a launch longer, and the first forward pass as well.
    launched = step_of(plan, profile, truth(launch_s=0.1))
    assert launched.ready_s.tolist() == pytest.approx([1.0, 2.1])
    assert launched.time_s == pytest.approx(2.1 + 1.0 + 0.6 + 0.5)
    # Others take half of the bandwidth all the time.
    assert step_of(plan, profile, truth(background=np.array([0.5, 0.5]))).time_s == pytest.approx(
        1 + 2 + 2 + 1
    )
    # The second backward pass runs while the first bucket is sent: in 1 s it does 1 / 1.5 of its work.
    slowed = step_of(plan, profile, truth(overlap_slowdown=0.5))
    assert slowed.ready_s[1] == pytest.approx(1.0 + 1.0 + (1.0 - 1.0 / 1.5))
    jittered = step_of(plan, profile, truth(jitter=np.array([2.0, 1.0])))
    np.testing.assert_allclose(jittered.end_s, [3.0, 4.0])


@settings(max_examples=60, deadline=None)
@given(plans)
def test_computing_and_transfers_are_conserved(drawn_plan: tuple[int, list[bool]]) -> None:
    profile, plan = drawn(drawn_plan[0]), plan_of(*drawn_plan)
    step = step_of(plan, profile, as_thought(profile))
    starts = (0, *plan.ends[:-1])
    took_s = [
        bucket_time_s(profile, profile.gradient_bytes[a:b].sum())
        for a, b in zip(starts, plan.ends, strict=True)
    ]
    np.testing.assert_allclose(step.end_s - step.start_s, took_s, rtol=1e-9)
    assert np.all(step.start_s >= step.ready_s - 1e-12)
    at = np.argsort(step.start_s)
    assert np.all(step.start_s[at][1:] >= step.end_s[at][:-1] - 1e-9)  # one channel
    assert step.time_s == pytest.approx(profile.compute_s + step.stall_s.sum())
    np.testing.assert_allclose(step.ready_s, np.cumsum(profile.backward_s)[np.array(plan.ends) - 1])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31))
def test_fusion_is_exact(seed: int) -> None:
    """No other buckets, sent as they become ready, arrive earlier."""
    profile = drawn(seed)
    thought = as_thought(profile)
    arrivals = []
    for cuts in itertools.product((False, True), repeat=5):
        ends = (*(place + 1 for place, cut in enumerate(cuts) if cut), 6)
        arrivals.append(step_of(in_order(ends), profile, thought).end_s.max())
    assert step_of(fused(profile), profile, thought).end_s.max() == pytest.approx(min(arrivals))


@settings(max_examples=60, deadline=None)
@given(plans, st.integers(2, 6))
def test_changes_keep_a_plan_whole(drawn_plan: tuple[int, list[bool]], most: int) -> None:
    profile, plan = drawn(drawn_plan[0]), plan_of(*drawn_plan)
    for bucket, of_bucket in enumerate(allowed(plan, most)):
        for kind, may in zip(KINDS, of_bucket, strict=True):
            if not may:
                continue
            other = changed(plan, profile, bucket, kind)
            assert sorted(other.order) == list(range(len(other.ends)))
            assert other.ends[-1] == 6
            assert list(other.ends) == sorted(set(other.ends))
            assert len(other.ends) - len(plan.ends) == {"merge": -1, "split": 1, "earlier": 0}[kind]
            assert other != plan
            if kind == "earlier":
                assert other.order[bucket] == plan.order[bucket] - 1


def test_buckets_are_closed_once_they_have_their_size() -> None:
    profile = job([10e6, 10e6, 30e6, 1e6, 1e6])
    assert capped(profile, 25e6).ends == (3, 5)
    assert capped(profile, 20e6).ends == (2, 3, 5)
    assert capped(profile, 25e6, 5e6).ends == (1, 3, 5)
    assert capped(profile, 32e6, 20e6).ends == (2, 5)  # the last layer closes the last bucket
    assert capped(profile, 1.0).ends == (1, 2, 3, 4, 5)
    assert capped(profile, 1e9) == in_order((5,))


def test_the_default_is_pytorchs() -> None:
    """25 MiB, and 1 MiB for the first bucket: bytes, not megabytes, decide."""
    sizes = [0.5 * MIB, 0.5 * MIB, 24.9 * MIB, 0.1 * MIB, 25e6, 2.0 * MIB, 3.0 * MIB]
    assert pytorch_default(job(sizes)).ends == (2, 4, 6, 7)
    n_buckets = {"bert_large": 25, "decoder": 49}  # by torch 2.13's function
    for model, expected in n_buckets.items():
        scenario = load_scenario("tuning-unseen", overrides={"job.model": model}, expect=TuningScenario)
        assert len(pytorch_default(draw_job(scenario, 0)[0]).ends) == expected


@pytest.mark.parametrize("model", get_args(TuningJob.model_fields["model"].annotation))
@pytest.mark.parametrize("caps_bytes", [(MIB, 25.0 * MIB), (25.0 * MIB,), (MIB,), (7e6,), (1e12,)])
def test_buckets_are_those_of_pytorch(model: str, caps_bytes: tuple[float, ...]) -> None:
    torch = pytest.importorskip("torch")
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("torch is built without distributed")
    scenario = load_scenario("tuning-buckets", overrides={"job.model": model}, expect=TuningScenario)
    profile, _ = draw_job(scenario, 0)
    gradients = [torch.empty(int(size / 4), device="meta") for size in profile.gradient_bytes]
    buckets, _ = distributed._compute_bucket_assignment_by_size(
        gradients, [int(cap) for cap in caps_bytes], [False] * len(gradients)
    )
    plan = in_order(tuple(sorted(max(bucket) + 1 for bucket in buckets)))
    first, last = caps_bytes[0], caps_bytes[-1]
    assert capped(profile, last, first) == plan
    if len(caps_bytes) == 2:
        assert pytorch_default(profile) == plan
    else:
        assert capped(profile, last) == plan


def test_a_job_is_drawn_by_its_seed() -> None:
    scenario = load_scenario("tuning-unseen", expect=TuningScenario)
    profile, real = draw_job(scenario, 5)
    again, _ = draw_job(scenario, 5)
    other, _ = draw_job(scenario, 6)
    np.testing.assert_array_equal(profile.forward_s, again.forward_s)
    assert not np.array_equal(profile.forward_s, other.forward_s)
    np.testing.assert_allclose(profile.backward_s, 2.0 * profile.forward_s)
    assert set(real.background.tolist()) == {0.0, 0.4}
