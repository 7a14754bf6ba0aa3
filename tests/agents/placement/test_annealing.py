"""Annealing: moves reach every placement, the budget is kept, small optima are found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sysgym.agents.placement.annealing import Annealing, Schedule, swaps
from sysgym.emulator.accelerators.matrices import check_matrix, enumerate_matrices

SYSTEMS = [
    ((4, 16), (4, 16)),
    ((8, 4, 8), (32, 8)),
    ((8, 8, 8), (8, 8, 8)),
    ((2, 3, 4), (6, 4)),
    ((2, 6), (3, 4)),
]


def test_the_swaps_of_a_placement_by_hand() -> None:
    # 4 nodes of 16, axes of 4 and 16: the first axis has 1 x 4 and may give a 2 for one of the second's.
    assert list(swaps(((1, 4), (4, 4)))) == [((2, 2), (2, 8))]
    assert set(swaps(((2, 2), (2, 8)))) == {((1, 4), (4, 4)), ((4, 1), (1, 16))}
    assert list(swaps(((1, 3), (2, 2)))) == []


@pytest.mark.parametrize(("cardinalities", "axes"), SYSTEMS)
def test_swaps_reach_every_placement(cardinalities: tuple[int, ...], axes: tuple[int, ...]) -> None:
    everything = enumerate_matrices(cardinalities, axes)
    seen, edge = {everything[0]}, [everything[0]]
    while edge:
        near = set(swaps(edge.pop())) - seen
        for matrix in near:
            check_matrix(matrix, cardinalities, axes)
        seen |= near
        edge += near
    assert seen == set(everything)


def on_a_line(schedule: Schedule, seed: int) -> Annealing[int]:
    """A line of 0 to 40 with a hill before the optimum, which a descent would stop at."""
    times = [math.exp(abs(place - 30) / 10 + (0.4 if place in (19, 20, 21) else 0.0)) for place in range(41)]

    def neighbour(place: int, rng: np.random.Generator) -> int:
        return int(np.clip(place + rng.choice([-2, -1, 1, 2]), 0, 40))

    return Annealing(5, times.__getitem__, neighbour, schedule, np.random.default_rng(seed))


def test_it_gets_over_hills_and_repeats_itself() -> None:
    found = [on_a_line(Schedule(), seed).run() for seed in range(20)]
    assert found.count(30) >= 19
    assert found == [on_a_line(Schedule(), seed).run() for seed in range(20)]
    frozen = Schedule(hottest=1e-6, coldest=1e-6)
    assert [on_a_line(frozen, seed).run() for seed in range(3)] == [18, 18, 18], "a descent does not"


def test_the_budget_holds_and_known_states_are_free() -> None:
    search = on_a_line(Schedule(evaluations=7), 0)
    search.run()
    assert search.evaluations == 7
    search = on_a_line(Schedule(evaluations=1000, moves=4000, coldest=0.5), 0)
    search.run()
    assert search.evaluations <= 41
    assert search.best == 30


def test_a_state_without_neighbours_is_the_answer() -> None:
    search = Annealing(3, lambda state: 0.0, lambda state, rng: state, Schedule(), np.random.default_rng(0))
    assert search.run() == 3
    assert search.evaluations == 1
