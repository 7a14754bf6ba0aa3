"""Efficiency by message size."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.emulator.accelerators.cost.efficiency import SIMAI_2_NODES, SIMAI_128_NODES, EfficiencyCurve
from sysgym.scenarios.errors import ScenarioError


@pytest.mark.parametrize("curve", [SIMAI_2_NODES, SIMAI_128_NODES])
def test_efficiency_goes_through_its_points(curve: EfficiencyCurve) -> None:
    for size_bytes, share in zip(curve.size_bytes, curve.share, strict=True):
        assert curve.at(size_bytes) == pytest.approx(share)
    assert curve.at(0.0) == curve.at(1.0) == pytest.approx(curve.share[0])
    assert curve.at(1e15) == pytest.approx(curve.share[-1])
    for low, high in itertools.pairwise(curve.size_bytes):
        assert curve.at(low) < curve.at((low * high) ** 0.5) < curve.at(high)


@pytest.mark.parametrize("curve", [SIMAI_2_NODES, SIMAI_128_NODES])
@given(size_bytes=st.floats(1.0, 1e12), larger=st.floats(1.0, 100.0))
def test_larger_messages_take_longer(curve: EfficiencyCurve, size_bytes: float, larger: float) -> None:
    time = size_bytes / curve.at(size_bytes)
    assert size_bytes * larger / curve.at(size_bytes * larger) >= time * (1 - 1e-12)


@pytest.mark.parametrize(
    ("sizes", "shares", "message"),
    [
        ((), (), "at least one"),
        ((1e6,), (0.5, 0.6), "1 sizes, 2 shares"),
        ((1e6, 1e6), (0.5, 0.6), "ascending"),
        ((0.0, 1e6), (0.5, 0.6), "positive"),
        ((1e6, float("inf")), (0.5, 0.6), "finite"),
        ((1e6, 1e9), (0.0, 0.6), "more than 0"),
        ((1e6, 1e9), (0.5, 1.1), "at most 1"),
        ((1e6, 2e6), (0.1, 0.3), "grow no faster"),
    ],
)
def test_curves_that_make_no_sense(sizes: tuple[float, ...], shares: tuple[float, ...], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        EfficiencyCurve(sizes, shares)
