"""Jobs of recorded traces: the recorded step is met, times go with microbatches, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.pipelines.balancing import balanced_ranks, balanced_stages
from sysgym.emulator.pipelines.drawing import draw_job
from sysgym.emulator.pipelines.job import Pipeline, Truth, as_thought
from sysgym.emulator.pipelines.plans import changes, durations_s, first_plan, step_time_s
from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.operations import TrainingTrace
from sysgym.emulator.training.pipeline import graph_of
from sysgym.emulator.training.rebalancing import Microbatches, longest_first
from sysgym.emulator.training.replay import step_times_s
from sysgym.emulator.training.synthetic import synthetic_trace
from sysgym.emulator.training.timing import durations_s as recorded_s
from sysgym.scenarios import load_scenario
from sysgym.scenarios.schema.pipelines import PipelineScenario
from tests.emulator.training.conftest import rows_of, write_csv

N_STEPS = 5


@pytest.fixture
def trace() -> TrainingTrace:
    return synthetic_trace(1, n_stages=2, n_data_ranks=3, n_microbatches=4, n_steps=N_STEPS)


@pytest.fixture
def path(trace: TrainingTrace, tmp_path: Path) -> Path:
    file = tmp_path / "trace.csv"
    write_csv(file, rows_of(trace))
    return file


def job(path: Path, seed: int, /, **overrides: Any) -> tuple[Pipeline, Truth]:
    given = {"job.trace": str(path), **overrides}
    return draw_job(load_scenario("pipeline-gpt", expect=PipelineScenario, overrides=given), seed)


@pytest.mark.parametrize("seed", [2, 2 + 7 * N_STEPS])
def test_the_first_plan_has_the_recorded_durations(trace: TrainingTrace, path: Path, seed: int) -> None:
    pipeline, truth = job(path, seed)
    graph = graph_of(trace)
    durations = np.maximum(recorded_s(trace, graph), 0.0)[2]
    found = durations_s(pipeline, first_plan(pipeline), truth)
    assert found.shape == (1, len(trace.operations))
    # The file has microseconds, and communications of no duration take a nanosecond.
    np.testing.assert_allclose(found[0], durations, atol=1e-5)
    assert step_time_s(pipeline, first_plan(pipeline), truth) == pytest.approx(
        float(step_times_s(graph, durations[None])[0]), rel=1e-4
    )


def test_times_move_as_in_what_if_analysis(trace: TrainingTrace, path: Path) -> None:
    pipeline, truth = job(path, 3)
    plan = balanced_ranks(pipeline, first_plan(pipeline))
    microbatches = Microbatches(trace.operations, np.maximum(recorded_s(trace, graph_of(trace)), 0.0)[[3]])
    source = longest_first(microbatches.lengths_s[0])
    assert plan.microbatches == tuple(source.ravel().tolist())
    moved = microbatches.moved(source[None])[0]
    np.testing.assert_allclose(durations_s(pipeline, plan, truth)[0], moved, atol=1e-5)


def test_the_profile_has_mean_times_of_stages(path: Path) -> None:
    pipeline, truth = job(path, 0)
    plan, thought = first_plan(pipeline), as_thought(pipeline)
    by_profile, by_truth = (durations_s(pipeline, plan, one)[0] for one in (thought, truth))
    assert not np.allclose(by_profile, by_truth)
    assert step_time_s(pipeline, plan, thought) == pytest.approx(step_time_s(pipeline, plan, truth), rel=0.3)


def test_only_microbatches_move(path: Path) -> None:
    pipeline, _ = job(path, 0)
    plan = first_plan(pipeline)
    assert balanced_stages(pipeline, plan) == plan
    assert {kind for kind, _, _ in changes(pipeline, plan)} <= {"exchange", "sort"}


def test_errors_say_what_to_do(path: Path, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"control\.most_rows to 6 or more"):
        job(path, 0, **{"control.most_rows": 5, "job.stages": 2, "job.data_ranks": 1})
    with pytest.raises(TraceError, match=r"none\.csv"):
        job(tmp_path / "none.csv", 0)
