"""Properties of every law: fair shares of equal flows, completed incasts, determinism."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import get_transport, list_transports

MakeNetwork = Callable[..., PacketNetwork]
Measure = Callable[..., Any]

LAWS = [
    name
    for name in list_transports()
    if name not in ("paced", "paced_flow") and get_transport(name).needs_classes == 1
]
"""Those that run on any switch."""

LEAST_JAIN = {"reno": 0.8, "cubic": 0.8, "newvegas": 0.6, "timely": 0.9, "hpcc": 0.9}
"""Those that have no fair resting point, or reach it only slowly."""

ROUGH_ON_SLOW_LINES = ("timely", "hpcc")
"""A bandwidth-delay product of a few packets: gradients and windows of single packets are mostly noise."""

INCAST: dict[str, Any] = {
    "topology": {"kind": "single_switch", "hosts": 33, "link_rate_bps": 10e9, "link_delay_s": 1e-6},
    "workload": {"kind": "incast", "senders": 32, "request_bytes": 64_000, "period_s": 40e-3},
}
"""A round keeps the receiver's link busy for 1.68 ms."""

FINGERPRINT = """
import hashlib, sys
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.scenarios import load_scenario
network = PacketNetwork(load_scenario("dumbbell-10g"), transport=sys.argv[1])
network.reset(7)
network.advance(10e-3)
print(hashlib.sha256(network._state.flows.tobytes() + network._state.links.tobytes()).hexdigest())
"""


@pytest.mark.parametrize("transport", LAWS)
def test_equal_flows_get_equal_shares_of_a_full_link(
    make_network: MakeNetwork, measure: Measure, transport: str
) -> None:
    network = make_network(transport, topology__hosts_per_side=8)
    network.advance(300e-3)
    measured = measure(network, 100e-3)
    assert measured.jain > LEAST_JAIN.get(transport, 0.97)
    assert measured.goodput_bps.sum() > 0.85 * 10e9 * 1460 / 1500


@pytest.mark.parametrize("lossless", [False, True])
@pytest.mark.parametrize("transport", LAWS)
def test_an_incast_ends_within_its_period(make_network: MakeNetwork, transport: str, lossless: bool) -> None:
    flow_control = {"queue__pfc_pause_bytes": 200_000} if lossless else {}
    network = make_network(transport, **INCAST, queue__buffer_bytes=400_000, **flow_control)
    network.advance(79e-3)
    flows = network.flows()
    begun = flows.started
    assert begun.sum() == 2 * 32
    assert np.array_equal(flows.delivered_bytes[begun], flows.size_bytes[begun])
    slowest_s = np.max((flows.finish_s - flows.start_s)[begun])
    assert slowest_s > 1.6e-3
    if lossless:
        assert network.ports().dropped_packets.sum() == 0
        assert flows.timeouts.sum() == 0
        assert slowest_s < 4e-3


@pytest.mark.parametrize("transport", LAWS)
def test_a_fat_tree_of_short_flows_is_served(make_network: MakeNetwork, transport: str) -> None:
    network = make_network(
        transport, topology={"kind": "fat_tree", "k": 4, "link_rate_bps": 1e9, "link_delay_s": 1e-6},
        workload={"kind": "poisson", "load": 0.4, "flow_sizes": "fixed", "fixed_bytes": 50_000},
        control__episode_steps=80,
    )  # fmt: skip
    network.advance(0.3)
    flows = network.flows()
    assert flows.started.sum() > 100
    assert np.isfinite(flows.finish_s).mean() > 0.99
    slowdown = (flows.finish_s - flows.start_s) / flows.ideal_fct_s
    assert np.nanmin(slowdown) > 0.999
    assert np.nanmedian(slowdown) < 4.0


@pytest.mark.parametrize("transport", LAWS)
def test_slow_lines_are_used_too(make_network: MakeNetwork, measure: Measure, transport: str) -> None:
    network = make_network(
        transport, topology__link_rate_bps=100e6, topology__link_delay_s=100e-6, queue__buffer_bytes=150_000
    )
    network.advance(4.0)
    measured = measure(network, 4.0)
    assert measured.goodput_bps.sum() > 0.55 * 100e6 * 1460 / 1500
    if transport not in ROUGH_ON_SLOW_LINES:
        assert measured.goodput_bps.min() > 0.5 * measured.goodput_bps.mean()


@pytest.mark.parametrize("transport", ["bbr", "dcqcn"])
def test_another_process_gets_the_same_bytes(make_network: MakeNetwork, transport: str) -> None:
    network = make_network(transport, seed=7)
    network.advance(10e-3)
    digest = hashlib.sha256(network._state.flows.tobytes() + network._state.links.tobytes()).hexdigest()
    other = subprocess.run(
        [sys.executable, "-c", FINGERPRINT, transport], capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == digest


@pytest.mark.parametrize("transport", LAWS)
def test_same_seed_same_bytes_other_seed_other_bytes(make_network: MakeNetwork, transport: str) -> None:
    def fingerprint(seed: int) -> bytes:
        network = make_network(transport, seed)
        network.advance(10e-3)
        return network._state.flows.tobytes()

    assert fingerprint(4) == fingerprint(4)
    assert fingerprint(4) != fingerprint(5)
