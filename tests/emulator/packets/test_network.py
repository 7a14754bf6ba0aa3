"""The Python interface of the simulator: copies, invalid input, growth of its memory."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.errors import SysgymError
from sysgym.scenarios import CongestionScenario, load_scenario

MakeNetwork = Callable[..., PacketNetwork]


def incast() -> PacketNetwork:
    network = PacketNetwork(load_scenario("incast-32", expect=CongestionScenario), transport="cubic")
    network.reset(3)
    network.advance(4e-3)
    return network


def fingerprint(network: PacketNetwork) -> bytes:
    network.advance(10e-3)
    return network._state.flows.tobytes() + network._state.links.tobytes()


def test_a_copy_goes_on_by_itself_as_the_original_would() -> None:
    network = incast()
    twin = copy.deepcopy(network)
    expected = fingerprint(twin)
    assert fingerprint(network) == expected
    del twin
    network.advance(1e-3)


def test_a_pickle_goes_on_in_another_process(tmp_path: Path) -> None:
    network = incast()
    (tmp_path / "network.pickle").write_bytes(pickle.dumps(network))
    code = (
        "import hashlib, pickle, sys\n"
        "network = pickle.load(open(sys.argv[1], 'rb'))\n"
        "network.advance(10e-3)\n"
        "print(network.packet_hops, network.flows().delivered_bytes.sum())\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "network.pickle")],
        check=True,
        capture_output=True,
        text=True,
    )
    network.advance(10e-3)
    assert printed.stdout.split() == [str(network.packet_hops), str(network.flows().delivered_bytes.sum())]


@pytest.mark.parametrize("caps", [np.ones(3), np.zeros(33), np.full(33, -1.0), np.full(33, np.nan)])
def test_caps_that_are_none_are_refused(caps: np.ndarray) -> None:
    with pytest.raises(SysgymError, match="33 positive rates"):
        incast().set_host_rate_caps(caps)


def test_time_ends_where_the_clock_does() -> None:
    with pytest.raises(SysgymError, match="simulated time ends"):
        incast().advance(10_000.0)


def test_the_packet_pool_grows_and_loses_nothing() -> None:
    scenario = load_scenario(
        "dumbbell-10g",
        overrides={"queue.buffer_bytes": 20_000_000, "workload.flows_per_pair": 4},
        expect=CongestionScenario,
    )
    network = PacketNetwork(scenario, transport="cubic")
    network.reset(1)
    before = len(network._state.packets)
    network.advance(20e-3)
    assert len(network._state.packets) > before
    state = network._state
    in_flight = state.hosts["sent_packets"].sum() - state.hosts["acked_packets"].sum()
    in_flight -= state.links["dropped_packets"].sum()
    assert in_flight + state.world["free_packets"][0] == len(state.packets)


def test_a_reset_forgets_everything() -> None:
    network = incast()
    network.set_host_rate_caps(np.full(33, 1e6))
    network.reset(3)
    network.advance(4e-3)
    assert fingerprint(network) == fingerprint(incast())


@pytest.mark.parametrize("transport", ["cubic", "paced"])
def test_a_cap_that_stays_what_it_was_changes_nothing(make_network: MakeNetwork, transport: str) -> None:
    alone, capped = (make_network(transport=transport) for _ in range(2))
    caps_bps = np.full(alone.n_hosts, 3e9)
    for network in (alone, capped):
        network.reset(3)
        network.set_host_rate_caps(caps_bps)
    for _ in range(20):
        capped.set_host_rate_caps(caps_bps)
        capped.advance(250e-6)
        alone.advance(250e-6)
    assert np.array_equal(capped.hosts().delivered_bytes, alone.hosts().delivered_bytes)
    assert capped.packet_hops == alone.packet_hops
