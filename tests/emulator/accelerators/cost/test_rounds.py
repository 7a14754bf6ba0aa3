"""Rounds of a ring: the closed form against the recursion over rounds and members."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.accelerators.cost.rounds import chain_wait_s, ring_wait_s

FACTORS = st.lists(st.integers(1, 5), min_size=1, max_size=4).filter(lambda sizes: math.prod(sizes) > 1)
TIMES = st.lists(st.floats(0.0, 100.0), min_size=4, max_size=4)


def levels_of_hops(factors: list[int]) -> list[int]:
    """Return the outermost level on which each member differs from the next one around the ring."""
    n = math.prod(factors)
    digits = [np.unravel_index(member, tuple(factors)) for member in range(n)]
    return [
        next(i for i in range(len(factors)) if digits[one][i] != digits[(one + 1) % n][i]) for one in range(n)
    ]


@settings(max_examples=300, deadline=None)
@given(phases=st.sampled_from([1, 2]), factors=FACTORS, sends=TIMES, waits=TIMES)
def test_rings_against_all_rounds(
    phases: int, factors: list[int], sends: list[float], waits: list[float]
) -> None:
    hops, rounds = levels_of_hops(factors), phases * (math.prod(factors) - 1)
    send_s, wait_s = np.array(sends), np.array(waits)
    sent_s = arrived_s = np.zeros(len(hops))
    for _ in range(rounds):
        sent_s = np.maximum(sent_s, np.roll(arrived_s, 1)) + send_s[hops]
        arrived_s = sent_s + wait_s[hops]
    slowest_s = float(send_s[hops].max())
    factor = np.array(factors, np.int64)
    time_s = rounds * slowest_s + ring_wait_s(phases, factor, send_s, wait_s, 0, len(factors), slowest_s)
    assert time_s >= arrived_s.max() * (1 - 1e-9)
    if sum(size > 1 for size in factors) < 3:
        assert time_s == pytest.approx(arrived_s.max())
    else:
        assert time_s <= arrived_s.max() + wait_s[hops].max() + 1e-9


def test_equal_hops_wait_in_every_round() -> None:
    sizes, hops_s, waits_s = np.array([8]), np.array([5.0]), np.array([3.0])
    assert ring_wait_s(2, sizes, hops_s, waits_s, 0, 1, 5.0) == pytest.approx(14 * 3.0)


def test_a_chain_waits_once_for_each_hop() -> None:
    factor, latency_s = np.array([2, 4]), np.array([10.0, 1.0])
    assert chain_wait_s(factor, latency_s, 0, 2, False) == 10.0 + 6 * 1.0
    # The other way around, the hop that closes the circle replaces one inside.
    assert chain_wait_s(factor, latency_s, 0, 2, True) == 2 * 10.0 + 5 * 1.0
