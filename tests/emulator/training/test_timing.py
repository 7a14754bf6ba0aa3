"""Durations without waiting, gaps, and ideal durations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import FORWARD, FORWARD_RECV, TrainingTrace
from sysgym.emulator.training.pipeline import graph_of
from sysgym.emulator.training.replay import replay
from sysgym.emulator.training.schedules import schedule_graph
from sysgym.emulator.training.synthetic import TYPICAL_S, synthetic_trace
from sysgym.emulator.training.timing import durations_s, gaps_s, ideal_durations_s, learned_gaps_s


@pytest.fixture(scope="module")
def graph(trace: TrainingTrace) -> Graph:
    return schedule_graph(trace.operations, "1f1b")


def test_waiting_is_no_duration(trace: TrainingTrace, graph: Graph) -> None:
    found = durations_s(trace, graph)
    waits = trace.operations.kind == FORWARD_RECV
    assert (found[:, waits] < 8e-4).all()
    assert (trace.end_s - trace.start_s)[:, waits].max() > 0.05


def test_the_replay_of_a_replay_is_itself(trace: TrainingTrace, graph: Graph) -> None:
    found = replay(graph, durations_s(trace, graph)[2])
    np.testing.assert_allclose(found.start_s, trace.start_s[2], atol=1e-12)
    np.testing.assert_allclose(found.end_s, trace.end_s[2], atol=1e-12)


def test_with_all_gaps_a_replay_is_the_trace(trace: TrainingTrace) -> None:
    graph = schedule_graph(trace.operations, "1f1b")
    gaps = np.random.default_rng(0).random(len(trace.operations)) * 1e-3
    delayed = replay(graph, durations_s(trace, graph)[1], gaps)
    moved = replace(trace, steps=trace.steps[:1], start_s=delayed.start_s[None], end_s=delayed.end_s[None])
    np.testing.assert_allclose(gaps_s(moved, graph)[0], gaps, atol=1e-12)
    found = replay(graph_of(moved), durations_s(moved, graph)[0], gaps_s(moved, graph_of(moved))[0])
    np.testing.assert_allclose(found.end_s, delayed.end_s, atol=1e-12)


def test_clocks_that_are_far_off_do_not_make_durations_negative(trace: TrainingTrace, graph: Graph) -> None:
    late = trace.start_s.copy()
    receive = int(np.flatnonzero(trace.operations.kind == FORWARD_RECV)[0])
    late[:, receive] = trace.end_s[:, receive] + 5.0
    found = durations_s(replace(trace, start_s=late), graph)
    assert (found[:, receive] == 0.0).all()


def test_launch_gaps_are_those_that_repeat(trace: TrainingTrace, graph: Graph) -> None:
    one, other = (
        trace.operations.number()[rank, FORWARD, 0] for rank in (0, 1)
    )  # both wait for the all-gather alone
    start_s = trace.start_s.copy()
    start_s[:, one] += 0.016
    start_s[:, other] += np.linspace(0.0, 0.1, len(trace.steps))
    learned = learned_gaps_s(replace(trace, start_s=start_s), graph)
    assert learned[one] == pytest.approx(0.016)
    assert learned[other] == 0.0


def test_ideal_durations_are_means_of_computations_and_medians_of_communications() -> None:
    trace = synthetic_trace(3, noise=0.0, slow_ranks={7: 3.0}, n_steps=2)
    graph = schedule_graph(trace.operations, "1f1b")
    durations = durations_s(trace, graph)
    durations[0, trace.operations.kind == FORWARD_RECV] = 9.0
    durations[0, np.flatnonzero(trace.operations.kind == FORWARD_RECV)[0]] = 0.0
    ideal = ideal_durations_s(trace.operations, durations)
    forward = ideal[trace.operations.kind == FORWARD]
    assert forward == pytest.approx(TYPICAL_S[FORWARD] * (7 + 3) / 8)
    receive = durations[:, trace.operations.kind == FORWARD_RECV]
    assert ideal[trace.operations.kind == FORWARD_RECV] == pytest.approx(np.median(receive))


def test_the_work_tells_which_operations_should_take_the_same_time(
    trace: TrainingTrace, graph: Graph
) -> None:
    """Here every operation is compared with its own like on other data-parallel ranks, of the same stage."""
    operations = trace.operations
    keys = list(
        zip(operations.stage.tolist(), operations.kind.tolist(), operations.index.tolist(), strict=True)
    )
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    work = np.array([numbers[key] for key in keys])
    durations = np.arange(2.0 * len(operations)).reshape(2, -1)
    ideal = ideal_durations_s(replace(operations, work=work), durations)
    for one in range(len(operations)):
        same = durations[:, work == work[one]]
        assert ideal[one] == (same.mean() if operations.computes[one] else np.median(same))
