"""Cases of diagnosis: parts, costs by hand, determinism, recorded traces, what-if answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.diagnosis.case import Case, draw_case, levelled
from sysgym.emulator.diagnosis.parts import DATA_RANK, KIND, RANK, STAGE, Part, operations_of, parts_of
from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.operations import (
    BACKWARD_RECV,
    BACKWARD_SEND,
    FORWARD,
    FORWARD_RECV,
    FORWARD_SEND,
)
from sysgym.emulator.training.pipeline import graph_of
from sysgym.emulator.training.replay import step_times_s
from sysgym.emulator.training.schedules import step_operations
from sysgym.emulator.training.synthetic import TRANSFER_S, synthetic_trace
from sysgym.emulator.training.timing import durations_s
from sysgym.scenarios import load_scenario
from sysgym.scenarios.errors import ScenarioError
from sysgym.scenarios.schema.diagnosis import N_KINDS, DiagnosisScenario
from tests.emulator.training.conftest import rows_of, write_csv

QUIET = {"job.noise_log_sd": 0.0, "job.length_log_sd": 0.0, "job.stage_log_sd": 0.0}


def drawn(seed: int = 0, **overrides: Any) -> Case:
    scenario = load_scenario("diagnosis-jobs", expect=DiagnosisScenario, overrides=overrides)
    return draw_case(scenario.draw("train", seed), seed)


def one_fault(what: str, **overrides: Any) -> Case:
    """Return the first case with a single fault in a stage, kind or rank."""
    settings = {**QUIET, "faults.most": 1, **overrides}
    cases = (drawn(seed, **settings) for seed in range(100))
    return next(case for case in cases if case.culprit.what == what)


def test_parts_are_all_stages_kinds_and_ranks() -> None:
    operations = step_operations(4, 2, 3)
    parts = parts_of(operations)
    assert [sum(part.what == what for part in parts) for what in (STAGE, KIND, DATA_RANK, RANK)] == [
        4,
        N_KINDS,
        2,
        8,
    ]
    of_rank = operations_of(operations, Part(RANK, 5))
    assert set(operations.stage[of_rank].tolist()) == {2}
    assert set(operations.data_rank[of_rank].tolist()) == {1}
    both = operations_of(operations, Part(STAGE, 2)) & operations_of(operations, Part(DATA_RANK, 1))
    np.testing.assert_array_equal(both, of_rank)
    assert operations.kind[operations_of(operations, Part(KIND, FORWARD))].tolist() == [FORWARD] * 4 * 2 * 3
    assert str(Part(DATA_RANK, 1)) == "data-parallel rank 1"


def test_without_a_fault_equal_stages_lose_nothing() -> None:
    case = one_fault(STAGE)
    graph, operations = case.what_if.graph, case.what_if.operations
    factor = case.faults[0].factor
    here = operations_of(operations, case.culprit) & operations.computes
    sound_s = np.where(here, case.what_if.durations / factor, case.what_if.durations)
    assert np.ptp(sound_s[:, operations.kind == FORWARD]) == pytest.approx(0.0, abs=1e-15)
    assert case.cost_s[0] == pytest.approx(case.what_if.step_s - float(step_times_s(graph, sound_s).mean()))


def test_one_slow_rank_costs_as_much_as_its_whole_stage() -> None:
    """All wait for the slowest: the others of the stage would only be slow too."""
    case = one_fault(STAGE)
    operations = case.what_if.operations
    stage = operations_of(operations, case.culprit) & operations.computes
    others = stage & (operations.data_rank != 0)
    factor = case.faults[0].factor
    alone_s = np.where(others, case.what_if.durations / factor, case.what_if.durations)
    step_s = float(step_times_s(case.what_if.graph, alone_s).mean())
    assert step_s == pytest.approx(case.what_if.step_s, rel=1e-9)


def test_delayed_operations_of_a_kind() -> None:
    case = one_fault(KIND, **{"faults.kind_share": 1.0, "faults.excess": 1.0})
    operations = case.what_if.operations
    here = operations_of(operations, case.culprit)
    delay_s = (case.faults[0].factor - 1.0) * 0.065
    kind_s = case.what_if.durations[:, here]
    assert np.ptp(kind_s) == pytest.approx(0.0, abs=1e-12)
    assert kind_s.min() >= delay_s


@pytest.mark.parametrize(("send", "receive"), [(FORWARD_SEND, FORWARD_RECV), (BACKWARD_SEND, BACKWARD_RECV)])
def test_data_that_are_sent_late_arrive_late(send: str, receive: str) -> None:
    """Without that, a slow send would cost nothing: nobody waits for the end of a send."""
    settings = {**QUIET, "faults.most": 1, "faults.excess": 1.0}
    case = next(
        case for case in (drawn(seed, **settings) for seed in range(300)) if case.culprit == Part(KIND, send)
    )
    operations, durations = case.what_if.operations, case.what_if.durations
    late = durations > 2 * TRANSFER_S
    assert set(operations.kind[late.any(axis=0) & ~operations.computes].tolist()) >= {send, receive}
    sent, received = (operations.kind == kind for kind in (send, receive))
    groups = case.what_if.graph.group_of
    of_sent, of_received = np.argsort(groups[sent]), np.argsort(groups[received])
    np.testing.assert_array_equal(durations[:, sent][:, of_sent], durations[:, received][:, of_received])
    assert 0.2 < late[:, sent].mean() < 0.4
    assert case.cost_s[0] >= 0.02 * case.what_if.step_s


def test_a_late_receive_does_not_delay_its_send() -> None:
    case = next(
        case
        for case in (drawn(seed, **{**QUIET, "faults.most": 1}) for seed in range(300))
        if case.culprit == Part(KIND, FORWARD_RECV)
    )
    sent = case.what_if.operations.kind == FORWARD_SEND
    np.testing.assert_allclose(case.what_if.durations[:, sent], TRANSFER_S)


@pytest.mark.parametrize(
    "settings",
    [{"faults.excess": 0.001}, {"faults.excess": 1e-9, "faults.least_loss": 1e-4}],
)
def test_faults_that_cost_too_little_are_an_error(settings: dict[str, float]) -> None:
    with pytest.raises(ScenarioError, match=r"faults\.least_loss[^$]*lower faults\.least_loss"):
        drawn(0, **{"faults.most": 1, "faults.excess_log_sd": 0.0, **settings})


def test_the_worst_fault_costs_something() -> None:
    """Even if none need cost anything: those of parts that nobody waits for are drawn again."""
    cases = [drawn(seed, **{"faults.least_loss": 0.0, "faults.most": 1}) for seed in range(60)]
    assert all(case.cost_s.max() > 0.0 for case in cases)
    assert all(case.score(case.culprit) == 1.0 for case in cases)


def test_the_score_is_the_cost_over_the_worst() -> None:
    case = drawn(2, **{"faults.least": 3})
    assert len({fault.part for fault in case.faults}) == len(case.faults) == 3
    assert case.score(case.culprit) == 1.0
    for fault, cost in zip(case.faults, case.cost_s, strict=True):
        assert case.score(fault.part) == pytest.approx(max(cost, 0.0) / case.cost_s.max())
    sound = next(part for part in case.parts if part not in [fault.part for fault in case.faults])
    assert case.score(sound) == 0.0


def test_what_if_names_a_lone_slow_rank() -> None:
    """Without noise its answer is all, or nearly all, of the lost time."""
    case = one_fault(RANK)
    shares = {part: case.share(part) for part in case.parts}
    assert shares[case.culprit] > 0.8
    ranks = [part for part in case.parts if part.what == RANK]
    assert max(ranks, key=lambda part: shares[part]) == case.culprit


@pytest.mark.parametrize("seed", range(10))
def test_every_case_has_a_fault_that_matters(seed: int) -> None:
    case = drawn(seed)
    assert case.cost_s.max() >= 0.02 * case.what_if.step_s
    assert case.what_if.slowdown > 1.0


def test_a_case_is_drawn_by_its_seed() -> None:
    one, same, other = drawn(4), drawn(4), drawn(5)
    np.testing.assert_array_equal(one.what_if.durations, same.what_if.durations)
    assert one.faults == same.faults != other.faults
    assert not np.array_equal(one.what_if.durations, other.what_if.durations)


def test_a_recorded_job_has_no_slow_rank_of_its_own() -> None:
    trace = synthetic_trace(3, n_stages=2, n_data_ranks=2, n_steps=8, slow_ranks={3: 2.0})
    operations = trace.operations
    durations = durations_s(trace, graph_of(trace))
    found = levelled(operations, durations)
    forward = [(operations.kind == FORWARD) & (operations.rank == rank) for rank in operations.ranks.tolist()]
    assert durations[:, forward[3]].mean() == pytest.approx(2.0 * durations[:, forward[0]].mean(), rel=0.05)
    means = [found[:, here].mean() for here in forward]
    assert means == pytest.approx([durations[:, operations.kind == FORWARD].mean()] * 4)
    # What varies stays: durations of a rank keep their ratios.
    ratio = found[:, forward[3]] / durations[:, forward[3]]
    assert np.ptp(ratio) == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_array_equal(found[:, ~operations.computes], durations[:, ~operations.computes])


def test_faults_in_the_steps_of_a_recorded_trace(tmp_path: Path) -> None:
    trace = synthetic_trace(1, n_stages=2, n_data_ranks=3, n_microbatches=4, n_steps=6)
    path = tmp_path / "job.csv"
    write_csv(path, rows_of(trace))
    case = drawn(1, **{"job.trace": str(path), "job.steps": 4})
    assert case.what_if.durations.shape == (4, len(trace.operations))
    assert sum(part.what == RANK for part in case.parts) == 6
    assert case.cost_s.max() >= 0.02 * case.what_if.step_s
    with pytest.raises(TraceError, match="no such file"):
        drawn(1, **{"job.trace": str(tmp_path / "none.csv")})
