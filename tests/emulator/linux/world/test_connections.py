"""Persistent connections of the kernel: a flow continues the one that became idle last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.linux.traffic import runner
from sysgym.emulator.packets.counters.statistics import FlowTable
from sysgym.emulator.packets.workloads.schedule import FlowSchedule, make_schedule

from .conftest import SLOW_DUMBBELL

MakeWorld = Callable[..., Any]

pytestmark = [pytest.mark.linux, pytest.mark.xdist_group("linux")]

SIZE_BYTES = 292_000
STARTS_NS = (0, 400_000_000)


def two_answers() -> FlowSchedule:
    """Make two flows of one host to another, with a pause between them."""
    return make_schedule(
        np.random.default_rng(0), [0, 0], [2, 2], size_bytes=SIZE_BYTES, start_ns=list(STARTS_NS)
    )


def play(world: Any, schedule: FlowSchedule, rest_s: float) -> tuple[list[int], Any]:
    """Play an episode; returns the ports that the flows send from, and the second flow's first window."""
    world.reset(1, schedule)
    world.advance(0.05)
    ports = [world._traffic.source_port(0)]
    world.advance(STARTS_NS[1] * 1e-9 - 0.05 + 0.02)
    world.readings()
    ports.append(world._traffic.source_port(1))
    window = world._records.info["snd_cwnd"][1]
    world.advance(rest_s)
    return ports, window


@pytest.mark.parametrize(
    ("rule", "port_stays", "window"),
    [("per_flow", False, (1, 60)), ("decay", True, (1, 60)), ("keep", True, (60, 1000))],
)
def test_a_flow_continues_the_connection_before_it(
    make_world: MakeWorld, rule: str, port_stays: bool, window: tuple[int, int]
) -> None:
    persistent = {"transport.connections": "persistent", "transport.idle_window": rule}
    overrides = {
        **SLOW_DUMBBELL,
        "topology.link_rate_bps": 1e8,
        "topology.core_rate_bps": 2e7,
        "queue.buffer_bytes": 600_000,
        "transport.min_rto_s": 0.02,
    }
    world = make_world(transport="reno", overrides=overrides | (persistent if rule != "per_flow" else {}))
    (first, second), seen = play(world, two_answers(), 0.5)
    assert (first == second) == port_stays
    assert window[0] <= seen < window[1]
    table = FlowTable(**world.flows())
    assert np.isfinite(table.finish_s).all()
    assert table.delivered_bytes.tolist() == [SIZE_BYTES, SIZE_BYTES]
    assert table.acked_packets == pytest.approx([200, 200], abs=2)
    assert np.all(table.rtt_mean_s > 0.0)


def test_flows_beyond_the_first_connections_open_their_own(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "FIRST_CONNECTIONS", 1)
    schedule = make_schedule(
        np.random.default_rng(0),
        [0, 0, 1, 1],
        [2, 2, 3, 3],
        size_bytes=29_200,
        start_ns=[0, 0, 0, 200_000_000],
    )
    world = make_world(transport="reno", overrides={**SLOW_DUMBBELL, "transport.connections": "persistent"})
    world.reset(1, schedule)
    world.advance(0.5)
    assert np.isfinite(FlowTable(**world.flows()).finish_s).all()
