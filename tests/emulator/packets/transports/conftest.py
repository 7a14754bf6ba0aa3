"""Fixtures for tests of laws: the driver, and a network in steady state."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sysgym.emulator.packets.network import PacketNetwork

_spec = importlib.util.spec_from_file_location("transport_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

MakeNetwork = Callable[..., PacketNetwork]


@pytest.fixture
def drive() -> Callable[..., Any]:
    """Makes a driver of one flow's callbacks."""
    return _module.Driver  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Measured:
    """What a network did in a while.

    Attributes:
        goodput_bps: Of each flow, shape (n_flows,).
        queue_bytes: Time average of the port with the longest queue.
        rtt_s: Mean round trip of all flows.
        dropped_packets: At all ports.
    """

    goodput_bps: NDArray[np.float64]
    queue_bytes: float
    rtt_s: float
    dropped_packets: int

    @property
    def jain(self) -> float:
        """Jain's index of the flows' goodput: 1 if all are equal."""
        shares = self.goodput_bps
        return float(shares.sum() ** 2 / (len(shares) * (shares**2).sum()))


@pytest.fixture
def measure() -> Callable[..., Measured]:
    """Lets a network run on and says what it did."""

    def run_on(network: PacketNetwork, duration_s: float = 50e-3) -> Measured:
        flows, ports, hosts = network.flows(), network.ports(), network.hosts()
        network.advance(duration_s)
        rtt_s = network.hosts().rtt_sum_s.sum() - hosts.rtt_sum_s.sum()
        samples = network.hosts().rtt_samples.sum() - hosts.rtt_samples.sum()
        return Measured(
            goodput_bps=8 * (network.flows().delivered_bytes - flows.delivered_bytes) / duration_s,
            queue_bytes=float((network.ports().queue_byte_s - ports.queue_byte_s).max() / duration_s),
            rtt_s=float(rtt_s / samples),
            dropped_packets=int((network.ports().dropped_packets - ports.dropped_packets).sum()),
        )

    return run_on
