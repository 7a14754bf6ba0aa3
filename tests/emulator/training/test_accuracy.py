"""Errors of replays, and the timeline of a step."""

from __future__ import annotations

import json

import pytest

from sysgym.emulator.training.accuracy import step_errors
from sysgym.emulator.training.operations import TrainingTrace
from sysgym.emulator.training.pipeline import graph_of
from sysgym.emulator.training.replay import replay
from sysgym.emulator.training.schedules import schedule_graph
from sysgym.emulator.training.synthetic import synthetic_trace
from sysgym.emulator.training.timeline import timeline
from sysgym.emulator.training.timing import durations_s


def test_a_replay_of_its_own_model_is_exact(trace: TrainingTrace) -> None:
    errors = {one.name: one for one in step_errors(trace, schedule_graph(trace.operations, "1f1b"))}
    assert errors["durations of the step"].largest < 1e-9
    assert errors["durations and gaps of the step"].largest < 1e-9
    assert errors["no replay: mean of earlier steps"].steps == "last 3 steps"
    assert 0.0 < errors["no replay: mean of earlier steps"].mean < 0.05


def test_mean_durations_are_too_short_where_durations_vary() -> None:
    """The mean of the largest of several random durations is more than the largest mean."""
    trace = synthetic_trace(2, noise=0.5, n_data_ranks=8, n_steps=20)
    errors = {one.name: one for one in step_errors(trace, schedule_graph(trace.operations, "1f1b"))}
    assert errors["mean durations of earlier steps"].bias < -0.1


def test_a_trace_of_one_step_has_no_prediction(trace: TrainingTrace) -> None:
    one = trace.only(slice(0, 1))
    assert [error.steps for error in step_errors(one, graph_of(one))] == ["all steps"] * 2


def test_a_timeline_has_every_operation_twice(trace: TrainingTrace) -> None:
    graph = graph_of(trace)
    replayed = replay(graph, durations_s(trace, graph)[0])
    events = json.loads(timeline(trace, 0, replayed))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == 2 * len(trace.operations)
    assert sum(span["args"]["critical"] for span in spans) == replayed.critical.sum()
    last_us = max(span["ts"] + span["dur"] for span in spans)
    assert last_us == pytest.approx(1e6 * max(replayed.step_s, trace.step_s[0]))
    processes = [event["args"]["name"] for event in events if event.get("name") == "process_name"]
    assert processes[:2] == ["rank 0, traced", "rank 0, replayed"]
