"""Closed forms: known values, and what holds for every number of ranks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.scenarios.errors import SysgymError, UnknownName

from .closed_forms import (
    CLOSED_FORMS,
    Nodes,
    ceil_log2,
    closed_form,
    collective_time_s,
    hierarchical_time_s,
    leaders_time_s,
    list_algorithms,
)
from .lower_bounds import collective_bound_s

ALGORITHMS = ("ring", "recursive_doubling", "halving_doubling", "binomial", "double_tree")

# Microseconds with 5 us and 25 GB/s.
ALL_REDUCE_US = [
    (8, 1e3, (70.07, 15.12, 30.07, 30.24, 30.08)),
    (8, 1e6, (140, 135, 100, 270, 110)),
    (8, 1e9, (70_070, 120_015, 70_030, 240_030, 80_030)),
    (64, 1e3, (630.08, 30.24, 60.08, 60.48, 60.08)),
    (64, 1e6, (708.75, 270, 138.75, 540, 140)),
    (64, 1e9, (79_380, 240_030, 78_810, 480_060, 80_060)),
]


@pytest.mark.parametrize(("n", "size_bytes", "expected_us"), ALL_REDUCE_US)
def test_all_reduce(n: int, size_bytes: float, expected_us: tuple[float, ...]) -> None:
    for algorithm, expected in zip(ALGORITHMS, expected_us, strict=True):
        time_s = collective_time_s("AR", algorithm, n, size_bytes, 25e9, 5e-6)
        assert time_s * 1e6 == pytest.approx(expected, abs=0.005)


def test_other_collectives_among_eight_ranks() -> None:
    # 1 us of latency, 1 GB/s, 8 MB: a rank's own eighth takes 1 ms.
    expected_ms = {
        ("RS", "ring"): 7.007,
        ("RS", "halving_doubling"): 7.003,
        ("AG", "ring"): 7.007,
        ("AG", "halving_doubling"): 7.003,
        ("R", "binomial"): 24.003,
        ("R", "pipelined_chain"): 8.007,
        ("B", "binomial"): 24.003,
        ("B", "pipelined_chain"): 8.007,
        ("B", "van_de_geijn"): 14.010,
        ("A2A", "pairwise"): 7.007,
    }
    assert set(expected_ms) == {key for key in CLOSED_FORMS if key[0] != "AR"}
    for (collective, algorithm), expected in expected_ms.items():
        time_s = collective_time_s(collective, algorithm, 8, 8e6, 1e9, 1e-6)
        assert time_s * 1e3 == pytest.approx(expected, rel=1e-12)


def test_hierarchical_and_leaders() -> None:
    links = {
        "inner_bytes_per_s": 100e9,
        "outer_bytes_per_s": 10e9,
        "inner_latency_s": 1e-6,
        "outer_latency_s": 10e-6,
    }
    two_of_four, two_of_one = Nodes(4, 2, **links), Nodes(1, 2, **links)
    # 4 GB: 2 * 3/4 * 4 GB inside, 2 * 1/2 of a quarter of 4 GB outside; 6 and 2 rounds.
    assert hierarchical_time_s(two_of_four, 4e9) == pytest.approx(0.060 + 0.100 + 26e-6)
    # Twice 4 GB inside, 2 * 1/2 of 4 GB outside; 6 and 2 rounds.
    assert leaders_time_s(two_of_four, 4e9) == pytest.approx(0.080 + 0.400 + 26e-6)
    assert hierarchical_time_s(two_of_one, 4e9) == leaders_time_s(two_of_one, 4e9)


@pytest.mark.parametrize("key", CLOSED_FORMS)
@given(exponent=st.integers(0, 10), size_bytes=st.floats(0, 1e12), latency_s=st.floats(0, 1e-3))
def test_never_under_the_bound(
    key: tuple[str, str], exponent: int, size_bytes: float, latency_s: float
) -> None:
    n = 2**exponent
    time_s = collective_time_s(*key, n, size_bytes, 25e9, latency_s)
    assert time_s >= collective_bound_s(key[0], n, size_bytes, 25e9, latency_s) * (1 - 1e-12)


@pytest.mark.parametrize("collective", ["RS", "AG"])
@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling"])
@pytest.mark.parametrize("n", [1, 2, 16])
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(collective: str, algorithm: str, n: int) -> None:
    half = collective_time_s(collective, algorithm, n, 1e9, 25e9, 5e-6)
    assert collective_time_s("AR", algorithm, n, 1e9, 25e9, 5e-6) == pytest.approx(2 * half)


@pytest.mark.parametrize("key", CLOSED_FORMS)
def test_one_rank_does_nothing(key: tuple[str, str]) -> None:
    assert collective_time_s(*key, 1, 1e9, 25e9, 5e-6) == 0.0


@given(n=st.integers(1, 10_000))
def test_rounds(n: int) -> None:
    assert 2 ** ceil_log2(n) >= n > 2 ** (ceil_log2(n) - 1) - (n == 1)
    assert ceil_log2(n) == math.ceil(math.log2(n))


def test_sizes_of_nothing_and_of_a_terabyte() -> None:
    assert collective_time_s("AR", "ring", 8, 0.0, 25e9, 5e-6) == pytest.approx(70e-6)
    assert collective_time_s("AR", "ring", 8, 1e12, 25e9, 5e-6) == pytest.approx(70.00007)


def test_what_does_not_exist_is_named() -> None:
    assert list_algorithms("AG") == ["halving_doubling", "ring"]
    with pytest.raises(UnknownName, match='did you mean "ring"'):
        closed_form("AR", "rings")
    with pytest.raises(UnknownName, match='no collective is named "ALLREDUCE"'):
        list_algorithms("ALLREDUCE")
    with pytest.raises(UnknownName, match="algorithm for the collective RS"):
        closed_form("RS", "double_tree")
    for algorithm in ("halving_doubling", "recursive_doubling"):
        with pytest.raises(
            SysgymError, match=f"{algorithm} is defined for a power of two of ranks, not for 12"
        ):
            collective_time_s("AR", algorithm, 12, 1e9, 25e9, 5e-6)
    with pytest.raises(SysgymError, match="among 0 ranks"):
        collective_time_s("AR", "ring", 0, 1e9, 25e9, 5e-6)
