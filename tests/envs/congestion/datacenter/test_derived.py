"""Sums of compiled code, and intervals of many networks beside those of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sysgym.envs.congestion.datacenter.derived import pairwise_sum
from sysgym.envs.congestion.datacenter.measurement import Fabric, Interval, Reading
from sysgym.scenarios import CongestionScenario, load_scenario


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


def test_the_room_of_a_port_counts_overrides_classes_and_links_into_its_switch() -> None:
    def rooms(**overrides: Any) -> dict[str, float]:
        changes = {key.replace("__", "."): value for key, value in overrides.items()}
        fabric = Fabric.of(load_scenario("dumbbell-10g", overrides=changes, expect=CongestionScenario))
        return dict(zip(fabric.port_names, fabric.port_buffer_bytes.tolist(), strict=True))

    usual = rooms(queue__buffer_bytes=300_000)
    assert set(usual.values()) == {300_000.0}
    own = rooms(
        queue__buffer_bytes=300_000, topology__overrides=[{"link": "west->east", "buffer_bytes": 90_000}]
    )
    assert own == usual | {"west->east": 90_000.0}
    assert set(rooms(queue__buffer_bytes=300_000, queue__classes=2).values()) == {600_000.0}
    lossless = rooms(queue__buffer_bytes=300_000, queue__pfc_pause_bytes=100_000)
    assert set(lossless.values()) == {5 * 300_000.0}, "four hosts and the other switch send to each switch"
