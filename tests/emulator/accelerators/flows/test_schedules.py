"""Schedules of collectives: integers moved along the transfers give exact sums, in any allowed order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from sysgym.emulator.accelerators.flows.schedules import ALGORITHMS, default_chunks, make_schedule
from sysgym.emulator.accelerators.flows.tables import Schedule
from sysgym.emulator.accelerators.programs import Collective
from sysgym.scenarios.errors import SysgymError, UnknownName

FACTORS = [(2,), (3,), (4,), (7,), (8,), (2, 4), (4, 2), (3, 5), (6, 4), (2, 2, 4), (2, 3, 5), (1, 4)]


def _run_in_any_order(schedule: Schedule, held: NDArray[np.int64], rng: np.random.Generator) -> None:
    """Moves pieces [n_members, n_pieces] along the transfers, each as soon as any order allows."""
    left = np.diff(schedule.wait_first) + (schedule.follows >= 0)
    freed: list[list[int]] = [[] for _ in range(schedule.n_transfers)]
    for transfer in range(schedule.n_transfers):
        waits = schedule.wait_on[schedule.wait_first[transfer] : schedule.wait_first[transfer + 1]]
        for other in [*waits.tolist(), *[int(other) for other in schedule.follows[[transfer]] if other >= 0]]:
            freed[other].append(transfer)
    ready = [int(transfer) for transfer in np.flatnonzero(left == 0)]
    moved = 0
    while ready:
        transfer = ready.pop(int(rng.integers(len(ready))))
        moved += 1
        pieces = np.arange(schedule.begin[transfer], schedule.stop[transfer], schedule.step[transfer])
        assert len(pieces) == schedule.piece_count[transfer] > 0
        sent = held[schedule.src[transfer], pieces]
        if schedule.reduces[transfer]:
            held[schedule.dst[transfer], pieces] += sent
        else:
            held[schedule.dst[transfer], pieces] = sent
        for other in freed[transfer]:
            left[other] -= 1
            if left[other] == 0:
                ready.append(other)
    assert moved == schedule.n_transfers


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("collective", list(Collective))
def test_integers_end_where_the_collective_says(
    collective: Collective, algorithm: str, factors: tuple[int, ...], channels: int
) -> None:
    schedule = make_schedule(collective, algorithm, factors, channels=channels, chunks=3)
    n = math.prod(factors)
    rng = np.random.default_rng(n)
    for _ in range(2):
        start = rng.integers(1, 1000, (n, schedule.n_pieces))
        run_of = np.arange(schedule.n_pieces) * n // schedule.n_pieces
        held = start.copy()
        if collective is Collective.ALL_GATHER:
            held[run_of != np.arange(n)[:, None]] = -1
        _run_in_any_order(schedule, held, rng)
        total = start.sum(axis=0)
        if collective is Collective.ALL_REDUCE:
            assert (held == total).all()
        elif collective is Collective.REDUCE_SCATTER:
            own = run_of == np.arange(n)[:, None]
            assert (held[own] == total[np.nonzero(own)[1]]).all()
        elif collective is Collective.ALL_GATHER:
            assert (held == start[run_of, np.arange(schedule.n_pieces)]).all()
        elif collective is Collective.REDUCE:
            assert (held[0] == total).all()
        else:
            assert (held == start[0]).all()


@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling"])
@pytest.mark.parametrize("factors", FACTORS)
def test_no_member_sends_more_than_the_least_possible(algorithm: str, factors: tuple[int, ...]) -> None:
    n = math.prod(factors)
    for collective, phases in ((Collective.ALL_REDUCE, 2), (Collective.REDUCE_SCATTER, 1)):
        schedule = make_schedule(collective, algorithm, factors)
        for ends in (schedule.src, schedule.dst):
            pieces = np.bincount(ends, schedule.piece_count, n)
            np.testing.assert_array_equal(pieces / schedule.n_pieces, phases * (n - 1) / n)


def test_rounds_are_those_of_the_textbook() -> None:
    assert make_schedule(Collective.ALL_REDUCE, "ring", (8,)).n_rounds == 14
    assert make_schedule(Collective.ALL_GATHER, "ring", (8,)).n_rounds == 7
    assert make_schedule(Collective.ALL_REDUCE, "halving_doubling", (8,)).n_rounds == 6
    assert make_schedule(Collective.REDUCE_SCATTER, "halving_doubling", (2, 3)).n_rounds == 2


@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 16, 33, 64])
def test_no_member_of_two_trees_sends_the_vector_more_than_twice(n: int) -> None:
    schedule = make_schedule(Collective.ALL_REDUCE, "tree", (n,), chunks=1)
    for ends in (schedule.src, schedule.dst):
        assert np.bincount(ends, minlength=n).max() / schedule.n_pieces <= 2.0
    # Up the tree and down again, both no deeper than a binary tree is.
    assert schedule.n_rounds <= 2 * math.ceil(math.log2(n)) + 2


def test_trees_join_instances_by_one_member_each() -> None:
    schedule = make_schedule(Collective.ALL_REDUCE, "tree", (4, 8), chunks=1)
    crosses = schedule.src // 8 != schedule.dst // 8
    # 3 edges among 4 instances, both ways, in two trees.
    assert crosses.sum() == 2 * 2 * 3


def test_near_members_exchange_before_the_halves_have_to_go_far() -> None:
    schedule = make_schedule(Collective.ALL_REDUCE, "halving_doubling", (2, 8))
    crosses = schedule.src // 8 != schedule.dst // 8
    # Each of 8 members sends its eighth to the other instance once a phase, but for the half it keeps.
    assert schedule.piece_count[crosses & (schedule.src < 8)].sum() / schedule.n_pieces == 2 * 8 * (1 / 8) / 2


def test_a_group_of_one_has_nothing_to_send() -> None:
    for algorithm in ALGORITHMS:
        for collective in Collective:
            assert make_schedule(collective, algorithm, ()).n_transfers == 0


def test_longer_chains_have_more_chunks_as_long_as_it_can_be_simulated() -> None:
    assert default_chunks(8, chain=True) == 256
    assert default_chunks(64, chain=True) == 1024
    assert default_chunks(1024, chain=True) * 1024 <= 2**19
    assert default_chunks(8, chain=False) == 256
    assert default_chunks(4096, chain=False) == 32


def test_settings_that_do_not_exist_are_errors() -> None:
    with pytest.raises(UnknownName, match="halving_doubling"):
        make_schedule(Collective.ALL_REDUCE, "halving-doubling", (4,))
    for options in ({"channels": 3}, {"chunks": 0}):
        with pytest.raises(SysgymError, match="positive numbers"):
            make_schedule(Collective.ALL_REDUCE, "ring", (4,), **options)
    with pytest.raises(SysgymError, match="positive numbers"):
        make_schedule(Collective.ALL_REDUCE, "ring", (4, 0))
