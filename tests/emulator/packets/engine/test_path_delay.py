"""What laws are told of the empty path: its round trip, or the least one that the connection has had."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.workloads.schedule import make_schedule
from tests.emulator.packets.simple_laws import ALONE

MakeNetwork = Callable[..., PacketNetwork]

LEAST_SEEN = {"transport__path_delay": "least_seen"}


def flows_of(network: PacketNetwork) -> np.ndarray:
    flows: np.ndarray = network.running.state.flows
    return flows


def test_it_is_known_unless_asked_otherwise(make_network: MakeNetwork) -> None:
    """Beside two senders that keep a queue, a third flow never sees the empty path."""
    paths_ns = {}
    for name, ends in (("known", {}), ("least_seen", LEAST_SEEN)):
        network = make_network("cubic", **ends)
        starts_ns = np.array([0, 0, 20_000_000])
        rng = np.random.default_rng(0)
        network.reset(0, make_schedule(rng, [0, 1, 2], [4, 5, 6], size_bytes=10**9, start_ns=starts_ns))
        empty_ns = int(flows_of(network)["base_rtt_ns"][2])
        network.advance(0.04)
        least_ns = flows_of(network)["min_rtt_ns"]
        paths_ns[name] = flows_of(network)["base_rtt_ns"].tolist()
        assert least_ns[2] > 1.5 * empty_ns
    assert paths_ns["known"] == [empty_ns] * 3
    assert paths_ns["least_seen"] == least_ns.tolist()


def test_a_lone_flow_sees_the_empty_path(make_network: MakeNetwork) -> None:
    network = make_network("dctcp", **ALONE, **LEAST_SEEN)
    empty_ns = int(flows_of(network)["base_rtt_ns"][0])
    network.advance(0.01)
    assert flows_of(network)["base_rtt_ns"][0] == pytest.approx(empty_ns, rel=0.05)


def test_a_handshake_counts(make_network: MakeNetwork) -> None:
    network = make_network("dctcp", transport__handshake=True, **ALONE, **LEAST_SEEN)
    empty_ns = int(flows_of(network)["base_rtt_ns"][0])
    network.advance(0.01)
    assert 0.5 * empty_ns < flows_of(network)["base_rtt_ns"][0] < empty_ns


def test_nobody_is_told_of_a_longer_cable(make_network: MakeNetwork) -> None:
    network = make_network("swift", **ALONE, **LEAST_SEEN)
    network.advance(0.01)
    before_ns = int(flows_of(network)["base_rtt_ns"][0])
    network.change({"topology.link_delay_s": 1e-4})
    network.advance(0.01)
    assert flows_of(network)["base_rtt_ns"][0] == before_ns
    network.change({"topology.link_delay_s": 1e-6})
    network.advance(0.01)
    assert flows_of(network)["base_rtt_ns"][0] < before_ns
