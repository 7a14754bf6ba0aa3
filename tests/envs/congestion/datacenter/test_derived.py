"""Sums of compiled code, and intervals of many networks beside those of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sysgym.envs.congestion.datacenter.derived import pairwise_sum
from sysgym.envs.congestion.datacenter.measurement import Interval, Reading


@pytest.mark.parametrize("n", [*range(20), 64, 127, 128, 129, 136, 255, 256, 257, 1000, 5003])
def test_sums_are_those_of_numpy_to_the_last_bit(n: int) -> None:
    rng = np.random.default_rng(n)
    values = rng.random(n) * 10.0 ** rng.integers(-3, 9, n)
    assert pairwise_sum(values) == values.sum()


def _drawn(like: Any, rng: np.random.Generator) -> Any:
    return type(like)(*(rng.integers(0, 10**6, len(row)).astype(float) for row in like))


def _together(readings: list[Reading]) -> Reading:
    ports, hosts = (
        type(getattr(readings[0], part))(
            *map(np.array, zip(*(getattr(one, part) for one in readings), strict=True))
        )
        for part in ("ports", "hosts")
    )
    return Reading(np.array([one.now_s for one in readings]), ports, hosts)


def test_many_networks_have_the_values_of_each(make_interval: Any) -> None:
    alone: list[Interval] = []
    for seed in range(3):
        rng, empty = np.random.default_rng(seed), make_interval(duration_s=1e-3 * seed)
        ends = (
            replace(
                empty.before, ports=_drawn(empty.before.ports, rng), hosts=_drawn(empty.before.hosts, rng)
            ),
            replace(empty.after, ports=_drawn(empty.after.ports, rng), hosts=_drawn(empty.after.hosts, rng)),
        )
        ideal_bytes = rng.random(4) * (seed > 0)
        alone.append(Interval(empty.fabric, *ends, rng.random(4), ideal_bytes))
    many = Interval(
        alone[0].fabric,
        _together([one.before for one in alone]),
        _together([one.after for one in alone]),
        np.array([one.action for one in alone]),
        np.array([one.ideal_bytes for one in alone]),
    )
    for number, one in enumerate(alone):
        for part in ("ports", "hosts", "totals"):
            for name, value in getattr(one.derived, part)._asdict().items():
                of_many = getattr(getattr(many.derived, part), name)[number]
                np.testing.assert_array_equal(of_many, value, err_msg=name)
