"""Orders of passes, and the bubbles of schedules in closed form."""

from __future__ import annotations

import pytest

from sysgym.emulator.training.generated.effects import Effects
from sysgym.emulator.training.generated.job import ParallelJob
from sysgym.emulator.training.generated.passes import Pass, passes
from sysgym.emulator.training.generated.simulation import simulate_step
from sysgym.emulator.training.generated.structure import structure_of
from sysgym.emulator.training.operations import BACKWARD, FORWARD
from sysgym.emulator.training.replay import replay
from sysgym.scenarios.errors import UnknownName
from tests.emulator.training.generated.conftest import equal_layers

SCHEDULES = [("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("interleaved", 4)]


@pytest.mark.parametrize(("schedule", "n_chunks"), SCHEDULES)
@pytest.mark.parametrize("n_stages", [2, 4])
def test_every_microbatch_goes_through_every_part_once(schedule: str, n_chunks: int, n_stages: int) -> None:
    for stage in range(n_stages):
        order = passes(schedule, stage, n_stages, 8, n_chunks)
        expected = {(kind, i, c) for kind in (FORWARD, BACKWARD) for i in range(8) for c in range(n_chunks)}
        assert len(order) == len(expected)
        assert set(order) == expected
        place = {one: number for number, one in enumerate(order)}
        assert all(place[Pass(FORWARD, i, c)] < place[Pass(BACKWARD, i, c)] for _, i, c in expected)


def test_the_interleaved_order_is_that_of_megatron() -> None:
    """Two stages, two chunks, four microbatches; the first stage warms up with four passes."""
    first = [f"{kind[0]}{i}{c}" for kind, i, c in passes("interleaved", 0, 2, 4, 2)]
    assert first == [
        *("f00", "f10", "f01", "f11"),
        *("f20", "b01", "f30", "b11", "f21", "b00", "f31", "b10"),
        *("b21", "b31", "b20", "b30"),
    ]
    last = [f"{kind[0]}{i}{c}" for kind, i, c in passes("interleaved", 1, 2, 4, 2)]
    assert last[:6] == ["f00", "f10", "f01", "b01", "f11", "b11"]


@pytest.mark.parametrize(("schedule", "n_chunks"), SCHEDULES)
@pytest.mark.parametrize("n_stages", [2, 4])
def test_bubbles_are_those_of_the_closed_forms(schedule: str, n_chunks: int, n_stages: int) -> None:
    """With equal stages and no communication a step takes (m + (p - 1) / v)(t_f + t_b).

    Huang et al. (NeurIPS 2019) for GPipe; Narayanan et al. (SC 2021), section 2.2, for the others.
    """
    job = ParallelJob(
        data_ranks=1,
        tensor_ranks=1,
        stages=n_stages,
        schedule=schedule,
        virtual_stages=n_chunks,
        microbatches=8,
        layers=equal_layers(16),
        flops_per_s=1.0,
        latency_factor=0.0,
    )
    a_stage_s = 3.0 * 16 / n_stages
    expected_s = (8 + (n_stages - 1) / n_chunks) * a_stage_s
    assert simulate_step(job, Effects(), 0, 0).end_s.max() == pytest.approx(expected_s, rel=1e-12)
    structure = structure_of(job)
    assert replay(structure.graph, structure.work_s).step_s == pytest.approx(expected_s, rel=1e-12)


def test_an_unknown_schedule_is_an_error() -> None:
    with pytest.raises(UnknownName, match="interleaved"):
        passes("interleave", 0, 2, 4, 2)
