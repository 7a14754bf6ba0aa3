"""Small networks for the simulator's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport
from sysgym.scenarios import CongestionScenario, load_scenario

MakeNetwork = Callable[..., PacketNetwork]


@pytest.fixture
def make_network() -> MakeNetwork:
    """Makes a network from dumbbell-10g with some keys set otherwise."""

    def make(transport: str | Transport = "dctcp", seed: int = 1, **overrides: Any) -> PacketNetwork:
        dotted = {key.replace("__", "."): value for key, value in overrides.items()}
        network = PacketNetwork(
            load_scenario("dumbbell-10g", overrides=dotted, expect=CongestionScenario), transport=transport
        )
        network.reset(seed)
        return network

    return make
