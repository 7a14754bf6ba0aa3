"""Predictions of changes by replay, where they are exact and where they are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sysgym.emulator.training.generated.changes import CHANGES, errors_of, predicted_durations_s
from sysgym.emulator.training.generated.effects import Effects
from sysgym.emulator.training.generated.job import ParallelJob
from sysgym.emulator.training.generated.simulation import generate
from sysgym.emulator.training.generated.structure import structure_of
from sysgym.emulator.training.pipeline import graph_of
from sysgym.emulator.training.timing import durations_s
from tests.emulator.training.generated.conftest import small_job

EXACT = 1e-9


def test_a_replay_is_exact_without_communication() -> None:
    """All changes are then known: nothing is shared, and computations are in proportion to lengths."""
    job = small_job(tensor_ranks=1, data_ranks=1, stages=4, length_log_sd=0.4, latency_factor=0.0)
    job = replace(job, layers=tuple(layer._replace(outputs=0.0) for layer in job.layers))
    found = errors_of(job, Effects(), 3, 2)
    assert set(found.replay) == set(CHANGES)
    assert found.same_step == pytest.approx(0.0, abs=EXACT)
    assert all(error == pytest.approx(0.0, abs=EXACT) for error in found.replay.values())
    assert all(error == pytest.approx(0.0, abs=EXACT) for error in found.cost_model.values())
    assert found.no_change["later steps"] == pytest.approx(0.0, abs=EXACT)
    # A slow rank of four makes the others wait.
    assert -0.2 < found.no_change["a rank 20 % slower"] < -0.05


def test_launch_gaps_are_learned_and_noise_is_not() -> None:
    job = small_job(microbatches=2)
    gaps = errors_of(job, Effects(launch_s=0.3), 0, 2)
    assert gaps.same_step > 0.05
    assert gaps.same_step_with_gaps < 0.001
    noisy = errors_of(job, Effects(jitter_log_sd=0.2), 0, 2)
    assert abs(noisy.replay["later steps"]) > 0.001
    assert noisy.replay["later steps"] == pytest.approx(noisy.no_change["later steps"], abs=0.01)


def test_a_replay_fails_where_links_are_shared_in_another_way_after_the_change() -> None:
    """Sixteen accelerators share an uplink: how much they send at once depends on the bandwidth."""
    job = ParallelJob(data_ranks=4, tensor_ranks=2, stages=4, microbatches=2, system="p2-a100")
    found = errors_of(job, Effects(), 0, 1)
    assert abs(found.replay["later steps"]) < EXACT
    assert abs(found.replay["bandwidth doubled"]) > 0.01
    assert abs(found.replay["bandwidth doubled"]) < found.no_change["bandwidth doubled"]


def test_operations_of_a_microbatch_move_with_it() -> None:
    job = small_job(length_log_sd=0.5, microbatches=4)
    changed = replace(job, arrangement="sorted")
    before, after = (generate(one, Effects(), 2, 1) for one in (job, changed))
    graph, operations = graph_of(before), structure_of(job).operations
    predicted = predicted_durations_s(job, changed, durations_s(before, graph), 2)
    computes = operations.computes
    assert predicted[:, computes] == pytest.approx(durations_s(after, graph)[:, computes])
    assert not np.allclose(predicted[:, computes], durations_s(before, graph)[:, computes])
