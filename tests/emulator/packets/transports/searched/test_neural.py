"""The learned law: DCTCP with an output of zero, and corrections by other outputs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport, parameter
from sysgym.emulator.packets.transports.searched import neural as law
from sysgym.emulator.packets.transports.searched import rounds
from sysgym.emulator.packets.transports.searched.neural import N_PARAMETERS, neural_transport
from sysgym.scenarios.errors import SysgymError, TransportError
from tests.emulator.packets.transports.driver import Driver

MakeNetwork = Callable[..., PacketNetwork]


def saying(**values: float) -> Transport:
    """A network whose outputs are constants: the biases behind tanh."""
    weights = np.zeros(N_PARAMETERS)
    for name, value in values.items():
        weights[law.OUTPUT_BIAS + law.OUTPUTS.index(name)] = value
    return neural_transport(weights)


def one_round(driver: Driver, *, marked: bool = False) -> float:
    """ACKs until a round ends; returns the window before the last of them."""
    end = driver.flow.state[rounds.ROUND_END]
    before = float(driver.flow.state[rounds.WINDOW])
    while driver.flow.state[rounds.ROUND_END] == end:
        before = float(driver.flow.state[rounds.WINDOW])
        driver.ack(marked=marked)
    return before


def settled(transport: Transport, cwnd: float = 40.0) -> Driver:
    """A flow out of slow start, at the beginning of a round."""
    driver = Driver(transport, cwnd=cwnd)
    driver.flow.ssthresh = 1.0
    one_round(driver)
    return driver


def test_with_weights_of_zero_it_reduces_as_dctcp() -> None:
    driver = settled(saying())
    driver.flow.state[rounds.ALPHA] = 0.5
    before = one_round(driver, marked=True)
    alpha = 0.5 + (1.0 - 0.5) / 16.0
    assert driver.flow.state[rounds.ALPHA] == pytest.approx(alpha)
    assert driver.flow.state[rounds.WINDOW] == pytest.approx(before * (1.0 - alpha / 2.0))


def test_with_weights_of_zero_it_grows_by_a_packet_a_round() -> None:
    driver = settled(saying())
    before = driver.flow.state[rounds.WINDOW]
    one_round(driver)
    assert driver.flow.state[rounds.WINDOW] - before == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("said", [-1.0, 0.5])
def test_the_window_is_corrected_once_a_round(said: float) -> None:
    driver = settled(saying(window=said, growth=-10.0))
    before = one_round(driver)
    ratio = driver.flow.state[rounds.WINDOW] / before
    assert math.log2(ratio) == pytest.approx(math.tanh(said), abs=0.02)


def test_growth_and_pace_are_what_the_network_says() -> None:
    driver = settled(saying(growth=0.5, pace=0.5))
    assert driver.flow.state[law.GROWTH] == pytest.approx(2.0 ** (2.0 * math.tanh(0.5)))
    assert driver.flow.state[law.PACE] == pytest.approx(2.0 * 2.0 ** math.tanh(0.5))
    bits = 8 * driver.flow.packet_bytes * driver.flow.cwnd
    expected_bps = driver.flow.state[law.PACE] * bits / (driver.flow.srtt_ns * 1e-9)
    assert driver.flow.pacing_rate_bps == pytest.approx(expected_bps)


def test_the_first_window_is_a_parameter() -> None:
    weights = np.zeros(N_PARAMETERS)
    weights[law.FIRST_WINDOW] = -2.0
    assert Driver(neural_transport(weights), cwnd=10.0).flow.cwnd == pytest.approx(2.5)
    weights[law.FIRST_WINDOW] = 5.0  # never more than the scenario allows
    assert Driver(neural_transport(weights), cwnd=10.0).flow.cwnd == 10.0


def test_windows_below_a_packet_are_paced() -> None:
    driver = settled(saying(window=-10.0, growth=-10.0), cwnd=2.0)
    for _ in range(4):
        one_round(driver)
    assert driver.flow.state[rounds.WINDOW] < 0.6  # halved each round, a quarter of a packet more
    assert driver.flow.cwnd == 1.0
    expected_bps = 8 * 1500 * driver.flow.state[rounds.WINDOW] / 100e-6
    assert driver.flow.pacing_rate_bps == pytest.approx(expected_bps)


def test_a_window_that_limits_nobody_has_an_end() -> None:
    """It would double every round trip, beyond what a float holds."""
    driver = settled(saying(window=5.0))
    for _ in range(20):
        driver.flow.nxt = driver.flow.una  # a round is over with the next ACK
        driver.flow.state[rounds.ROUND_END] = driver.flow.una
        driver.ack()
    assert driver.flow.state[rounds.WINDOW] == law.MOST_WINDOW
    assert np.isfinite(driver.flow.pacing_rate_bps)


def test_the_hidden_layer_sees_the_inputs() -> None:
    weights = np.zeros(N_PARAMETERS)
    weights[law.HIDDEN_WEIGHTS + law.INPUTS.index("fraction of marked packets")] = 2.0
    weights[law.OUTPUT_WEIGHTS + law.OUTPUTS.index("window") * law.N_HIDDEN] = -1.5
    driver = settled(neural_transport(weights))
    assert driver.flow.state[law.CORRECTION] == 0.0
    one_round(driver, marked=True)
    assert driver.flow.state[law.CORRECTION] == pytest.approx(math.tanh(-1.5 * math.tanh(2.0)))


@pytest.mark.parametrize("bad", [np.zeros(3), np.full(N_PARAMETERS, np.nan)])
def test_other_weights_are_refused(bad: NDArray[np.float64]) -> None:
    with pytest.raises(SysgymError, match=f"expected {N_PARAMETERS} finite parameters"):
        neural_transport(bad)


def test_two_laws_share_their_code_and_not_their_weights(make_network: MakeNetwork) -> None:
    def queue(transport: Transport) -> float:
        network = make_network(transport, workload__start_jitter_s=0.0)
        network.advance(20e-3)
        return float(network.ports().queue_byte_s.max())

    gentle, again, plain = saying(window=-0.2), saying(window=-0.2), saying()
    assert queue(gentle) == queue(again) < queue(plain)


def test_a_parameter_that_there_is_not_is_an_error(make_network: MakeNetwork) -> None:
    def on_ack(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = parameter(event, 2)

    known = neural_transport(np.zeros(N_PARAMETERS))
    short = dataclasses.replace(
        known, name="short", on_ack=on_ack, on_start=known.on_tick, parameters=(3.0, 4.0)
    )
    network = make_network(short)
    with pytest.raises(TransportError, match="parameter"):
        network.advance(10e-3)
