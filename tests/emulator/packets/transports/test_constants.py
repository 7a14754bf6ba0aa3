"""Constants of transports: values of their own, bounds, and what an episode makes of them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Constant, Transport, get_transport
from sysgym.emulator.packets.transports.swift import CONSTANTS
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError, UnknownName

LAW = Transport("mine", "", constants=(Constant("gain", 0.5, 0.1, 2.0), Constant("offset", -3.0)))


def test_values_are_the_declared_ones_unless_set() -> None:
    assert LAW.parameters == (0.5, -3.0)
    assert LAW.with_constants({}) is LAW
    other = LAW.with_constants({"offset": 7})
    assert other.parameters == (0.5, 7.0)
    assert other.with_constants({"gain": 1.5}).parameters == (1.5, 7.0)
    assert LAW.parameters == (0.5, -3.0)


def test_what_is_no_constant_or_out_of_bounds_is_refused() -> None:
    with pytest.raises(UnknownName, match='no constant of mine is named "gian"; did you mean "gain"'):
        LAW.with_constants({"gian": 1.0})
    for value in (0.0, 3.0, math.nan, math.inf):
        with pytest.raises(SysgymError, match=r"mine: gain is .*, expected 0.1 to 2"):
            LAW.with_constants({"gain": value})
    for wrong in ("1", True, None):
        values: Any = {"gain": wrong}
        with pytest.raises(SysgymError, match=r"gain is .*, expected a number"):
            LAW.with_constants(values)
    with pytest.raises(UnknownName, match="Declare them: Transport"):
        get_transport("reno").with_constants({"gain": 1.0})
    with pytest.raises(SysgymError, match="expected 2 constants, got 1"):
        Transport("mine", "", constants=LAW.constants, parameters=(1.0,))
    with pytest.raises(SysgymError, match="two constants are named gain"):
        Transport("mine", "", constants=(LAW.constants[0], LAW.constants[0]))


def test_a_larger_target_makes_longer_queues() -> None:
    per_hop_ns = next(constant.value for constant in CONSTANTS if constant.name == "per_hop_ns")
    queues = []
    for factor in (1.0, 4.0):
        law = get_transport("swift").with_constants({"per_hop_ns": factor * per_hop_ns})
        network = PacketNetwork(load_scenario("dumbbell-10g", expect=CongestionScenario), transport=law)
        network.reset(seed=1)
        network.advance(0.05)
        queues.append(float(network.ports().queue_bytes.max()))
    assert queues[1] > 1.5 * queues[0]
