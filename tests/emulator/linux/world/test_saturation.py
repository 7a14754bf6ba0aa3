"""The warning about saturated processors: present and absent when it should be."""

from __future__ import annotations

import numpy as np
import pytest

from sysgym.emulator.linux.kernel import saturation
from sysgym.emulator.linux.kernel.saturation import CpuTime, SaturationWatch, cpu_time
from sysgym.emulator.packets.topology import build_topology
from sysgym.scenarios import CongestionScenario, load_scenario


@pytest.mark.parametrize(
    ("idle_ticks", "carried_share", "queue_bytes", "warns"),
    [
        (0, 0.5, 0.0, True),
        (10, 0.5, 0.0, False),  # there was time left
        (0, 0.95, 0.0, False),  # a link is full
        (0, 0.5, 50_000.0, False),  # a queue stands
    ],
)
def test_warns_only_when_nothing_else_limits(
    monkeypatch: pytest.MonkeyPatch, idle_ticks: int, carried_share: float, queue_bytes: float, warns: bool
) -> None:
    scenario = load_scenario("iroko-dumbbell-1g")
    assert isinstance(scenario, CongestionScenario)
    topology = build_topology(scenario.topology)
    times = iter([CpuTime(0, 0), CpuTime(idle_ticks, 100), CpuTime(idle_ticks, 200)])
    monkeypatch.setattr(saturation, "cpu_time", lambda processor: next(times))
    watch = SaturationWatch(topology, 1500)
    ports = np.zeros((11, topology.n_links))
    assert watch.look(0, ports.copy) == []
    ports[1] = queue_bytes
    ports[3] = carried_share * topology.link_rate_bps / 8
    assert watch.look(100_000_000, ports.copy) == []  # too soon
    said = watch.look(1_000_000_000, ports.copy)
    assert len(said) == warns
    if warns:
        assert "500 Mb/s" in said[0]
        assert watch.look(2_000_000_000, ports.copy) == []


@pytest.mark.parametrize(("idle_ticks", "warns"), [(1, True), (20, False)])
def test_warns_when_the_processor_of_the_packets_has_no_time(
    monkeypatch: pytest.MonkeyPatch, idle_ticks: int, warns: bool
) -> None:
    topology = build_topology(load_scenario("iroko-dumbbell-1g", expect=CongestionScenario).topology)
    ticks = round(saturation._TICKS_PER_S)
    # The other processor is idle, and only few of the ticks of this one are counted at all.
    times = iter([CpuTime(0, 0), CpuTime(ticks, ticks + idle_ticks, packets_idle=ticks * idle_ticks // 100)])
    monkeypatch.setattr(saturation, "cpu_time", lambda processor: next(times))
    watch = SaturationWatch(topology, 1500, packet_processor=1)
    ports = np.zeros((11, topology.n_links))
    assert watch.look(0, ports.copy) == []
    assert len(watch.look(1_000_000_000, ports.copy)) == warns


def test_cap_counts_as_the_link_that_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = load_scenario("iroko-dumbbell-1g")
    assert isinstance(scenario, CongestionScenario)
    topology = build_topology(scenario.topology)
    times = iter([CpuTime(0, 0), CpuTime(0, 100)])
    monkeypatch.setattr(saturation, "cpu_time", lambda processor: next(times))
    watch = SaturationWatch(topology, 1500)
    watch.set_cap(0, 1e8)
    ports = np.zeros((11, topology.n_links))
    watch.look(0, ports.copy)
    ports[3, 0] = 1e8 / 8
    assert watch.look(1_000_000_000, ports.copy) == []


def test_time_of_the_processors_grows() -> None:
    before = cpu_time()
    sum(range(10_000_000))
    after = cpu_time(packet_processor=0)
    assert after.packets_idle <= after.idle
    assert after.total > before.total
    assert 0 <= after.idle - before.idle <= after.total - before.total
