"""Long links: packets in flight are delayed after the ports and not in the ports' counters."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.linux import expressible
from sysgym.emulator.linux.expressible import kernel_has_netem
from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.emulator.linux.kernel.delay_lines import DelayLines
from sysgym.emulator.linux.kernel.fabric import Fabric
from sysgym.emulator.packets.topology import build_topology
from sysgym.errors import BackendUnavailable, ScenarioError
from sysgym.scenarios import CongestionScenario, load_scenario

from .conftest import SLOW_DUMBBELL, MakeWorld, NamespaceWatch, wait_until
from .test_fabric import echo_works
from .test_world import DELIVERED, PAYLOAD_SHARE, RATE_BPS, core, hosts_of, ports_of, rates_bps, run

pytestmark = pytest.mark.linux

LONG: dict[str, Any] = {**SLOW_DUMBBELL, "topology.link_delay_s": 5e-3}
ONE_LONG: dict[str, Any] = {
    **SLOW_DUMBBELL,
    "topology.overrides": [{"link": "west<->east", "delay_s": 0.02}],
}


@pytest.fixture
def netem() -> None:
    """Skips where the kernel truly has no netem."""
    if not kernel_has_netem():
        pytest.skip("this kernel has no netem (CONFIG_NET_SCH_NETEM)")


def long_scenario(overrides: dict[str, Any]) -> CongestionScenario:
    scenario = load_scenario("iroko-dumbbell-1g", overrides=overrides)
    assert isinstance(scenario, CongestionScenario)
    return scenario


def test_long_cables_hand_on_all_packets(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything about them but the delay, so that it can be tried on every kernel."""
    monkeypatch.setattr(DelayLines, "empty", lambda self: None)
    scenario = long_scenario(LONG)
    topology, watch = build_topology(scenario.topology), NamespaceWatch()
    fabric = Fabric(topology, scenario.transport, programs=programs)
    try:
        assert fabric._delay_lines is not None
        watch.add(fabric._delay_lines.node.pid)
        hosts = range(topology.n_hosts)
        assert [(a, b) for a in hosts for b in hosts if a != b and not echo_works(fabric, a, b)] == []
        assert [interface.group for interface in fabric.interfaces] == list(range(1, topology.n_links + 1))
    finally:
        programs.sockets.close()
        fabric.close()
    assert wait_until(lambda: not watch.alive())


def test_only_long_cables_are_made_of_two(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DelayLines, "empty", lambda self: None)
    scenario = long_scenario(ONE_LONG)
    fabric = Fabric(build_topology(scenario.topology), scenario.transport, programs=programs)
    try:
        assert fabric._delay_lines is not None
        assert len(fabric._delay_lines._middles) == 1
        assert echo_works(fabric, 0, 3)
    finally:
        programs.sockets.close()
        fabric.close()


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        (LONG, {"topology.link_delay_s"}),
        (ONE_LONG, {"topology.overrides[0].delay_s"}),
        ({**ONE_LONG, **LONG}, {"topology.link_delay_s", "topology.overrides[0].delay_s"}),
    ],
)
def test_without_netem_delays_are_named(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, overrides: Any, keys: set[str]
) -> None:
    monkeypatch.setattr(expressible, "kernel_has_netem", lambda: False)
    with pytest.raises(ScenarioError, match="CONFIG_NET_SCH_NETEM") as raised:
        make_world(overrides=overrides)
    assert {problem.key for problem in raised.value.problems} == keys


def test_a_kernel_that_lacks_netem_after_all_says_so(programs: Programs) -> None:
    if kernel_has_netem():
        pytest.skip("this kernel has netem")
    scenario = long_scenario(LONG)
    with pytest.raises(BackendUnavailable, match="netem"):
        Fabric(build_topology(scenario.topology), scenario.transport, programs=programs)
    programs.sockets.close()


@pytest.mark.usefixtures("netem")
def test_echo_takes_twice_the_delays(programs: Programs) -> None:
    scenario = long_scenario(LONG)
    fabric = Fabric(build_topology(scenario.topology), scenario.transport, programs=programs)
    try:
        took_s = []
        for _ in range(5):
            begun = time.perf_counter()
            assert echo_works(fabric, 0, 2)
            took_s.append(time.perf_counter() - begun)
    finally:
        programs.sockets.close()
        fabric.close()
    assert 0.03 <= min(took_s) < 0.034  # three cables, both ways


@pytest.mark.usefixtures("netem")
@pytest.mark.parametrize("transport", ["cubic", "dctcp"])
def test_long_paths_are_filled_and_their_queues_hold_no_more_for_it(
    make_world: MakeWorld, transport: str
) -> None:
    world = make_world(transport=transport, overrides={**LONG, "queue.buffer_bytes": 100_000})
    world.reset(1)
    run(world, 1.5)
    goodput_bps = rates_bps(world, 1.5, DELIVERED).sum()
    ports, hosts = ports_of(world), hosts_of(world)
    assert 0.85 * RATE_BPS * PAYLOAD_SHARE < goodput_bps < 1.02 * RATE_BPS * PAYLOAD_SHARE
    assert ports.queue_max_bytes[core(world)] <= 100_000 + 1500
    assert (hosts.rtt_sum_s / np.maximum(hosts.rtt_samples, 1))[:2] == pytest.approx([0.05, 0.05], abs=0.022)
    lost_bytes = 1500 * (hosts.retransmitted_packets.sum() - ports.dropped_packets.sum())
    assert abs(lost_bytes) <= 0.01 * ports.sent_bytes[core(world)]  # cables lose nothing


@pytest.mark.usefixtures("netem")
def test_reset_empties_the_cables(make_world: MakeWorld) -> None:
    world = make_world(transport="cubic", overrides=ONE_LONG)
    world.reset(1)
    run(world, 0.3)
    world.reset(2)
    time.sleep(0.05)
    to_east = [int(link) for link in world.topology.links_named("east->h2")]
    assert ports_of(world).sent_bytes[to_east] == pytest.approx(0, abs=500)  # no data of the last episode
