"""Pipelines: published sizes, memory and times by hand, changes, exact division of layers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.pipelines.balancing import balanced_ranks, balanced_stages
from sysgym.emulator.pipelines.drawing import draw_job
from sysgym.emulator.pipelines.generated import layers_of
from sysgym.emulator.pipelines.job import Layers, Pipeline, Truth, as_thought, spans_of
from sysgym.emulator.pipelines.plans import (
    KINDS,
    Plan,
    changed,
    changes,
    durations_s,
    first_plan,
    fits,
    loads,
    memory_bytes,
    stage_times_s,
    step_time_s,
)
from sysgym.emulator.training.operations import BACKWARD, FORWARD
from sysgym.scenarios import load_scenario
from sysgym.scenarios.schema.pipelines import PipelineScenario


def scenario_of(**overrides: Any) -> PipelineScenario:
    return load_scenario("pipeline-gpt", expect=PipelineScenario, overrides=overrides)


def job(seed: int = 0, /, **overrides: Any) -> tuple[Pipeline, Truth]:
    return draw_job(scenario_of(**overrides), seed)


@pytest.mark.parametrize(
    ("blocks", "hidden", "billions"),
    [(24, 2048, 1.3), (32, 4096, 6.7), (40, 5120, 13.0)],
)
def test_models_have_the_published_sizes(blocks: int, hidden: int, billions: float) -> None:
    """GPT-3's table 2.1; embedding and head are two matrices here."""
    layers = layers_of(scenario_of(**{"job.blocks": blocks, "job.hidden": hidden}))
    assert len(layers.parameters) == blocks + 2
    assert layers.parameters[:-1].sum() / 1e9 == pytest.approx(billions, rel=0.03)


def test_operations_are_six_for_each_parameter_and_token() -> None:
    """The usual estimate, and some more for attention."""
    scenario = scenario_of()
    layers = layers_of(scenario)
    flops = 3.0 * layers.forward_s[1:-1].sum() * scenario.machine.flops_per_s
    assert flops / (6.0 * 2048 * layers.parameters[1:-1].sum()) == pytest.approx(
        1.0 + 2048 / (6 * 2048), rel=0.01
    )


def test_memory_by_hand() -> None:
    pipeline, _ = job(**{"job.stages": 2, "job.blocks": 2, "job.microbatches": 4})
    layers = pipeline.layers
    plan = Plan((2, 4), tuple(range(16)), (False, True))
    states = 16.0 * np.array([layers.parameters[:2].sum(), layers.parameters[2:].sum()])
    block = 2048 * 2048 * (34.0 + 5.0 * 2048 / 128)
    assert layers.activation_bytes[1] == block
    # The first of two stages has two microbatches in flight, the last one recomputes its only one.
    kept = 2 * (layers.activation_bytes[0] + block)
    recomputed = layers.input_bytes[2:].sum() + layers.activation_bytes[2:].max()
    np.testing.assert_allclose(memory_bytes(pipeline, plan), states + np.array([kept, recomputed]))
    gpipe, _ = job(**{"job.stages": 2, "job.blocks": 2, "job.microbatches": 4, "job.schedule": "gpipe"})
    np.testing.assert_allclose(memory_bytes(gpipe, plan)[0], states[0] + 2 * kept)


def test_equal_microbatches_take_the_closed_form_of_1f1b() -> None:
    """With free transfers: one pass through all stages, and the rest at the pace of the slowest."""
    pipeline, _ = job(**{"job.length_log_sd": 0.0, "machine.bandwidth_bps": 1e14, "machine.latency_s": 0.0})
    plan = Plan((7, 13, 19, 26), tuple(range(32)), (False,) * 4)
    forward_s, backward_s = stage_times_s(pipeline, plan, as_thought(pipeline))
    both = forward_s + backward_s
    step_s = step_time_s(pipeline, plan, as_thought(pipeline))
    assert step_s == pytest.approx(both.sum() + 7 * both.max(), rel=0.05)
    assert step_s >= 8 * both.max()


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_one_microbatch_waits_for_all_transfers(schedule: str, stages: int) -> None:
    """It goes through the stages forwards and backwards, and is sent between each two of them."""
    bandwidth_bps = 1e6
    pipeline, _ = job(
        **{"job.stages": stages, "job.data_ranks": 1, "job.microbatches": 1, "job.schedule": schedule,
           "machine.bandwidth_bps": bandwidth_bps, "machine.latency_s": 0.5}
    )  # fmt: skip
    plan, thought = first_plan(pipeline), as_thought(pipeline)
    transfer_s = 0.5 + 8.0 * 2.0 * 2048 * 2048 / bandwidth_bps
    passes_s = np.sum(stage_times_s(pipeline, plan, thought))
    expected_s = passes_s + 2 * (stages - 1) * transfer_s
    assert step_time_s(pipeline, plan, thought) == pytest.approx(expected_s, rel=1e-12)


def test_slower_links_make_a_step_longer() -> None:
    """Without data parallelism, only transfers between stages use them."""
    times_s = []
    for bandwidth_bps in (400e9, 40e9, 4e9):
        pipeline, truth = job(**{"job.data_ranks": 1, "machine.bandwidth_bps": bandwidth_bps})
        times_s.append(step_time_s(pipeline, first_plan(pipeline), truth))
    assert times_s == sorted(set(times_s))
    assert times_s[2] > 1.1 * times_s[0]


def test_recomputation_adds_a_forward_pass() -> None:
    pipeline, truth = job()
    plan = first_plan(pipeline)
    other = plan._replace(recompute=(True, False, False, False))
    for one, factor in ((plan, 2.0), (other, 3.0)):
        forward_s, backward_s = stage_times_s(pipeline, one, truth)
        assert backward_s[0] == pytest.approx(factor * forward_s[0])
        assert backward_s[1] == pytest.approx(2.0 * forward_s[1])
    assert step_time_s(pipeline, other, truth) > step_time_s(pipeline, plan, truth)


def test_lengths_go_with_their_microbatches() -> None:
    pipeline, _ = job()
    plan = first_plan(pipeline)
    thought = as_thought(pipeline)
    operations = pipeline.operations
    found = durations_s(pipeline, plan, thought)[0]
    number = operations.number()
    forward_s, _ = stage_times_s(pipeline, plan, thought)
    # Rank 2 * 4 + 1 is data-parallel rank 1 of stage 2; its microbatch 3 is the eleventh of all.
    assert found[number[9, FORWARD, 3]] == pytest.approx(forward_s[2] * pipeline.lengths[8 + 3])
    assert pipeline.lengths.mean() == pytest.approx(1.0)
    total = found[np.isin(operations.kind, (FORWARD, BACKWARD))].sum()
    assert total == pytest.approx(3.0 * pipeline.layers.forward_s.sum() * 32)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31))
def test_changes_keep_a_plan_whole_and_in_memory(seed: int) -> None:
    pipeline, _ = job(seed, **{"machine.memory_bytes": 17e9})
    rng = np.random.default_rng(seed)
    plan = first_plan(pipeline)
    for _ in range(10):
        near = list(changes(pipeline, plan))
        for kind, _, other in near:
            assert kind in KINDS
            assert other != plan
            assert fits(pipeline, other)
            assert other.ends[-1] == 26
            assert list(other.ends) == sorted(set(other.ends))
            assert sorted(other.microbatches) == list(range(32))
            if kind == "exchange":
                assert loads(pipeline, other).min() >= loads(pipeline, plan).min()
        plan = near[int(rng.integers(len(near)))][2]


def test_changes_by_hand() -> None:
    pipeline, _ = job()
    plan = Plan((6, 13, 19, 26), tuple(range(32)), (False,) * 4)
    assert changed(pipeline, plan, "later", 0) == plan._replace(ends=(5, 13, 19, 26))
    assert changed(pipeline, plan, "earlier", 3) == plan._replace(ends=(6, 13, 20, 26))
    assert changed(pipeline, plan, "later", 3) is None
    assert changed(pipeline, plan, "earlier", 0) is None
    assert changed(pipeline, Plan((1, 13, 19, 26), plan.microbatches, plan.recompute), "later", 0) is None
    least = int(loads(pipeline, plan).argmin())
    assert changed(pipeline, plan, "exchange", least) is None
    ordered = changed(pipeline, plan, "sort", 0)
    assert ordered is not None
    assert np.all(np.diff(pipeline.lengths[list(ordered.microbatches[:8])]) <= 0.0)
    assert changed(pipeline, ordered, "sort", 0) is None


@pytest.mark.parametrize("memory_bytes_", [80e9, 6.1e9])
def test_the_division_of_layers_is_exact(memory_bytes_: float) -> None:
    pipeline, _ = job(**{"job.blocks": 8, "job.stages": 3, "machine.memory_bytes": memory_bytes_})
    plan = first_plan(pipeline)
    found = balanced_stages(pipeline, plan)
    assert fits(pipeline, found)

    def slowest(one: Plan) -> float:
        return float(np.sum(stage_times_s(pipeline, one, as_thought(pipeline)), axis=0).max())

    possible = []
    for cuts in itertools.combinations(range(1, 10), 2):
        for flags in itertools.product((False, True), repeat=3):
            other = plan._replace(ends=(*cuts, 10), recompute=flags)
            if fits(pipeline, other):
                possible.append(slowest(other))
    assert slowest(found) == pytest.approx(min(possible))
    assert len(possible) < 36 * 8 or memory_bytes_ == 80e9


def test_balanced_ranks_have_nearly_equal_loads() -> None:
    pipeline, _ = job(3)
    plan = first_plan(pipeline)
    balanced = balanced_ranks(pipeline, plan)
    assert np.ptp(loads(pipeline, balanced)) < 0.2 * np.ptp(loads(pipeline, plan))
    assert step_time_s(pipeline, balanced, as_thought(pipeline)) < step_time_s(
        pipeline, plan, as_thought(pipeline)
    )


def test_a_job_is_drawn_by_its_seed() -> None:
    one, truth = job(5)
    same, again = job(5)
    other, _ = job(6)
    np.testing.assert_array_equal(one.lengths, same.lengths)
    np.testing.assert_array_equal(truth.operations, again.operations)
    assert not np.array_equal(one.lengths, other.lengths)


def test_sums_of_spans_are_those_of_their_layers_to_the_last_bit() -> None:
    rng = np.random.default_rng(1)
    layers = Layers(*rng.uniform(0.1, 1e9, (5, 12)))
    spans = spans_of(layers)
    for end in range(1, 13):
        for start in range(end):
            for column, found in (
                (layers.parameters, spans.parameters),
                (layers.activation_bytes, spans.activation_bytes),
                (layers.input_bytes, spans.input_bytes),
            ):
                assert found[end, start] == np.cumsum(column[start:end][::-1])[-1]
            assert spans.largest_bytes[end, start] == layers.activation_bytes[start:end].max()
    assert not spans.parameters[3, 3:].any(), "no layers have no parameters"
