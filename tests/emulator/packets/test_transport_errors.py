"""Transports that raise or set invalid windows or rates: the error, and the state afterwards."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.errors import SysgymError, TransportError

MakeNetwork = Callable[..., PacketNetwork]

FAILS_AT_NS = 1_000_000


def raises(flow: Any, event: Any) -> None:
    """A message with a number that is known when it runs."""
    flow.cwnd += 1.0
    if event.now_ns > FAILS_AT_NS:
        raise ValueError("more than a millisecond", event.now_ns)


def raises_without_words(flow: Any, event: Any) -> None:
    """An exception without a message."""
    if event.now_ns > FAILS_AT_NS:
        raise RuntimeError


def writes_beyond_its_state(flow: Any, event: Any) -> None:
    """What lies behind the state belongs to the simulator."""
    flow.state[39 + int(event.now_ns > FAILS_AT_NS)] = 1e300


def stops(flow: Any, event: Any) -> None:
    """An exception that numba treats apart."""
    if event.now_ns > FAILS_AT_NS:
        raise StopIteration


def divides(flow: Any, event: Any) -> None:
    """Infinity would be lost in the least of both."""
    flow.cwnd = min(1e6 / max(FAILS_AT_NS - event.now_ns, 0), 10.0)


def divides_whole_numbers(flow: Any, event: Any) -> None:
    """As a law does that counts."""
    flow.cwnd = 10.0 + 4 // int(event.now_ns <= FAILS_AT_NS)


def takes_a_remainder(flow: Any, event: Any) -> None:
    """As a law does that takes turns."""
    flow.cwnd = 10.0 + event.now_ns % int(event.now_ns <= FAILS_AT_NS)


@pytest.fixture
def with_on_ack(make_network: MakeNetwork) -> MakeNetwork:
    """Makes a dumbbell whose law is Reno but for one function."""
    reno = get_transport("reno")

    def make(on_ack: Callable[[Any, Any], None], **overrides: Any) -> PacketNetwork:
        transport = Transport("mine", "", on_ack, reno.on_loss, reno.on_timeout)
        return make_network(transport, **overrides)

    return make


@pytest.mark.parametrize(
    ("on_ack", "got"),
    [
        (raises, "ValueError: ('more than a millisecond', 10"),
        (raises_without_words, "RuntimeError"),
        (writes_beyond_its_state, "IndexError: index is out of bounds (flow.state has 40 numbers)"),
        (stops, "StopIteration"),
        (divides, "ZeroDivisionError: division by zero"),
        (divides_whole_numbers, "ZeroDivisionError: integer division by zero"),
        (takes_a_remainder, "ZeroDivisionError: integer modulo by zero"),
    ],
)
@pytest.mark.parametrize("loop", ["plain", "extended"])
def test_what_a_callback_raises_comes_out(
    with_on_ack: MakeNetwork, capfd: pytest.CaptureFixture[str], on_ack: Any, got: str, loop: str
) -> None:
    delayed = {"transport__delayed_ack_packets": 2, "transport__delayed_ack_timeout_s": 1e-4}
    network = with_on_ack(on_ack, **(delayed if loop == "extended" else {}))
    with pytest.raises(TransportError) as caught:
        network.advance(10e-3)
    error = caught.value
    assert isinstance(error, SysgymError)
    assert error.transport == "mine"
    assert error.got.startswith(got)
    assert error.callback.startswith(f"on_ack ({__file__}:")
    assert 0 <= error.flow < 4
    assert error.ends == f"h{error.flow} to h{error.flow + 4}"
    assert FAILS_AT_NS * 1e-9 < error.time_s < 1.1e-3
    assert error.time_s == network.now_s
    for part in ('"mine"', "on_ack", f"flow {error.flow}", "0.00100", got, "expected", "to do"):
        assert part in str(error)
    assert capfd.readouterr() == ("", ""), "numba has printed what was raised"


def test_the_line_that_raised_is_in_the_traceback(with_on_ack: MakeNetwork) -> None:
    network = with_on_ack(raises)
    with pytest.raises(TransportError) as caught:
        network.advance(10e-3)
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError)
    assert cause.__traceback__ is not None
    trace = cause.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    assert trace.tb_frame.f_code.co_filename == __file__
    assert trace.tb_lineno == raises.__code__.co_firstlineno + 4


@pytest.mark.parametrize("window", [math.nan, math.inf, -math.inf, -3.0])
def test_a_window_that_is_none_is_an_error(with_on_ack: MakeNetwork, window: float) -> None:
    def on_ack(flow: Any, event: Any) -> None:
        flow.cwnd = window

    network = with_on_ack(on_ack)
    with pytest.raises(TransportError, match="a finite window of 0 packets or more") as caught:
        network.advance(10e-3)
    assert caught.value.got == f"flow.cwnd = {window}"


@pytest.mark.parametrize("window", [1e300, 0.25, 0.0])
def test_a_window_however_large_or_small_is_none_of_these(with_on_ack: MakeNetwork, window: float) -> None:
    def on_ack(flow: Any, event: Any) -> None:
        flow.cwnd = window

    network = with_on_ack(on_ack)
    network.advance(10e-3)
    assert np.all(network.flows().delivered_bytes > 10_000)  # an endless window loses most of what it sends


@pytest.mark.parametrize("threshold", [math.nan, -1.0])
def test_a_threshold_that_is_none_is_an_error(with_on_ack: MakeNetwork, threshold: float) -> None:
    def on_ack(flow: Any, event: Any) -> None:
        flow.ssthresh = threshold

    with pytest.raises(TransportError, match=f"flow.ssthresh = {threshold}"):
        with_on_ack(on_ack).advance(10e-3)


@pytest.mark.parametrize("rate_bps", [math.nan, math.inf, -1.0])
def test_a_rate_that_is_none_is_an_error(with_on_ack: MakeNetwork, rate_bps: float) -> None:
    def on_ack(flow: Any, event: Any) -> None:
        flow.pacing_rate_bps = rate_bps

    network = with_on_ack(on_ack)
    with pytest.raises(TransportError, match="a finite rate, 0 bit/s or more") as caught:
        network.advance(10e-3)
    assert caught.value.got == f"flow.pacing_rate_bps = {rate_bps}"


@pytest.mark.parametrize("callback", ["on_start", "on_loss", "on_timeout", "on_tick"])
def test_the_callback_is_named(make_network: MakeNetwork, callback: str) -> None:
    def fails(flow: Any, event: Any) -> None:
        flow.cwnd = math.nan

    reno = get_transport("reno")
    own = Transport("mine", "", reno.on_ack, reno.on_loss, reno.on_timeout)
    changed: dict[str, Any] = {callback: fails, "tick_s": 1e-4 if callback == "on_tick" else 0.0}
    own = dataclasses.replace(own, **changed)
    network = make_network(own, faults__loss_probability=0.5 if callback == "on_timeout" else 0.02)
    with pytest.raises(TransportError) as caught:
        network.advance(50e-3)
    assert caught.value.callback.startswith(f"{callback} (")


def test_of_two_laws_the_one_that_failed_is_named(with_on_ack: MakeNetwork) -> None:
    reno = get_transport("reno")
    broken = Transport("broken", "", raises, reno.on_loss, reno.on_timeout)
    network = PacketNetwork(with_on_ack(reno.on_ack).scenario, transport="reno", flow_transports={2: broken})
    network.reset(1)
    with pytest.raises(TransportError, match='"broken"') as caught:
        network.advance(10e-3)
    assert caught.value.flow == 2


def test_the_world_stands_still_until_a_reset_and_then_works(with_on_ack: MakeNetwork) -> None:
    network = with_on_ack(raises)
    with pytest.raises(TransportError) as first:
        network.advance(10e-3)
    for _ in range(2):
        with pytest.raises(TransportError) as again:
            network.advance(1e-3)
        assert str(again.value) == str(first.value)
        assert network.now_s == first.value.time_s
    with pytest.raises(TransportError):
        pickle.loads(pickle.dumps(copy.deepcopy(network))).advance(1e-3)
    network.reset(1)
    network.advance(0.9e-3)  # before the time at which it fails
    assert network.flows().delivered_bytes.sum() > 0


def test_other_worlds_are_unaffected(with_on_ack: MakeNetwork, make_network: MakeNetwork) -> None:
    alone, beside, broken = make_network("reno"), make_network("reno"), with_on_ack(raises)
    for _ in range(4):
        alone.advance(1e-3)
        beside.advance(1e-3)
        try:
            broken.advance(1e-3)
        except TransportError:
            broken.reset(1)
    assert alone._state.flows.tobytes() == beside._state.flows.tobytes()


def step_often(env: gymnasium.Env[Any, Any]) -> None:
    for _ in range(100):
        env.step(env.action_space.sample())


def test_it_comes_out_of_an_environments_step() -> None:
    reno = get_transport("reno")
    transport = Transport("mine", "", raises, reno.on_loss, reno.on_timeout)
    env = gymnasium.make("sysgym/DatacenterCC-v0", scenario="dumbbell-10g", transport=transport)
    for seed in (1, 2):
        env.reset(seed=seed)
        with pytest.raises(TransportError, match="more than a millisecond"):
            step_often(env)
    env.close()
