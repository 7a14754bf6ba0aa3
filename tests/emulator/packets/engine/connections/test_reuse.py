"""Connections that outlive a flow: who continues which, and what becomes of an idle window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport, get_transport, list_transports
from sysgym.emulator.packets.transports.base import do_nothing
from sysgym.emulator.packets.workloads.schedule import make_schedule
from sysgym.errors import SysgymError
from sysgym.scenarios import CongestionScenario, load_scenario

MakeNetwork = Callable[..., PacketNetwork]

SENDER_DRIVEN = [name for name in list_transports() if get_transport(name).receiver is None]

ALONE = {"workload__start_jitter_s": 0.0, "transport__host_jitter_s": 0.0, "transport__min_rto_s": 0.2}
KEPT = {**ALONE, "transport__connections": "persistent"}
MS = 1_000_000
BASE_RTT_NS = 63_744


def begin(network: PacketNetwork, *flows: tuple[int, int, int, float]) -> Any:
    """Begin flows of (sender, receiver, packets, start in ms), and return their records."""
    src, dst, packets, start_ms = zip(*flows, strict=True)
    start_ns = [round(start * MS) for start in start_ms]
    rng = np.random.default_rng(0)
    network.reset(0, make_schedule(rng, src, dst, size_bytes=1460 * np.array(packets), start_ns=start_ns))
    return network._state.flows


def growing() -> Transport:
    """Adds a packet to its window for each ACK, and counts starts and restarts."""

    def on_ack(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd += 1.0

    def on_start(flow, event):  # type: ignore[no-untyped-def]
        flow.state[0] += 1.0

    def on_restart(flow, event):  # type: ignore[no-untyped-def]
        flow.state[1] += 1.0
        flow.state[2] = event.now_ns - flow.idle_since_ns

    return Transport("growing", "", on_ack, do_nothing, do_nothing, on_start, on_restart=on_restart)


def test_a_flow_continues_with_window_state_and_round_trips(make_network: MakeNetwork) -> None:
    network = make_network(growing(), transport__idle_window="keep", **KEPT)
    flows = begin(network, (0, 4, 30, 0.0), (0, 4, 20, 500.0))
    network.advance(0.4999)
    assert flows["cwnd"][0] == 10 + 30
    network.advance(1e-3)
    assert flows["cwnd"][1] == 40 + 20
    starts, restarts, idle_ns = flows["state"][1][:3]
    assert (starts, restarts) == (1, 1)
    last_sent_ns = (
        2 * BASE_RTT_NS
    )  # the third window of the first flow: 10, 20 (of which all are sent) packets
    assert 500 * MS - last_sent_ns <= idle_ns < 500 * MS - BASE_RTT_NS / 2
    assert flows["min_rtt_ns"][1] == flows["min_rtt_ns"][0]
    assert network.flows().finish_s[1] - 0.5 < 0.6 * network.flows().finish_s[0]


def test_counters_are_those_of_the_flow(make_network: MakeNetwork) -> None:
    network = make_network("cubic", **KEPT)
    begin(network, (0, 4, 30, 0.0), (0, 4, 20, 500.0))
    network.advance(0.6)
    table = network.flows()
    assert table.delivered_bytes.tolist() == [30 * 1460, 20 * 1460]
    assert table.acked_packets.tolist() == [30, 20]
    counters = network.flow_counters(np.arange(2))
    assert counters["sent_packets"].tolist() == [30, 20]
    assert counters["delivered_packets"].tolist() == [30, 20]
    assert network.hosts().delivered_bytes[0] == 50 * 1460
    assert table.finish_s[1] > 0.5


def test_without_an_idle_connection_a_flow_opens_one(make_network: MakeNetwork) -> None:
    network = make_network(growing(), **KEPT)
    flows = begin(network, (0, 4, 1000, 0.0), (0, 4, 5, 0.05), (1, 4, 5, 0.05), (0, 5, 5, 0.05))
    network.advance(0.1)
    assert flows["state"][:, 1].sum() == 0, "all others are busy, or between other hosts"


def test_the_connection_that_became_idle_last_is_taken(make_network: MakeNetwork) -> None:
    network = make_network(growing(), transport__idle_window="keep", **KEPT)
    flows = begin(
        network, (0, 4, 40, 0.0), (0, 4, 20, 0.0), (0, 4, 1, 10.0), (0, 4, 1, 10.0), (0, 4, 1, 10.0)
    )
    network.advance(20e-3)
    assert flows["cwnd"][2:].tolist() == [10 + 40 + 1, 10 + 20 + 1, 10 + 1]
    assert flows["state"][2:, 1].tolist() == [1, 1, 0]


def test_its_path_is_taken_too(make_network: MakeNetwork) -> None:
    fat_tree = {"kind": "fat_tree", "k": 4, "link_rate_bps": 10e9, "link_delay_s": 1e-6}
    network = make_network("cubic", topology=fat_tree, **KEPT)
    times_ms = [float(time_ms) for time_ms in range(12)]
    begin(network, *((0, 15, 5, time_ms) for time_ms in times_ms))
    before = network.routes()
    network.advance(20e-3)
    assert len(np.unique(before, axis=0)) > 1, "ports of their own would lead over several paths"
    for acks in (False, True):
        assert len(np.unique(network.routes(acks=acks), axis=0)) == 1


def idle_for(
    make_network: MakeNetwork, rule: str, idle_ms: float, transport: str | Transport
) -> tuple[float, float]:
    """Window and threshold with which a flow continues a connection of 40 packets after a pause."""
    network = make_network(transport, transport__idle_window=rule, **KEPT)
    flows = begin(network, (0, 4, 30, 0.0), (0, 4, 1, 1.0 + idle_ms))
    network.advance(1e-3)
    flows["cwnd"][0] = 96.0
    flows["ssthresh"][0] = 20.0
    flows["rto_ns"][0] = 200 * MS
    flows["idle_since_ns"][0] = 1 * MS
    network.advance(idle_ms * 1e-3 + 20e-6)
    return float(flows["cwnd"][1]), float(flows["ssthresh"][1])


@pytest.mark.parametrize(
    ("rule", "idle_ms", "expected"),
    [
        ("decay", 190.0, (96.0, 20.0)),  # net/ipv4: half for each time-out, down to the initial window
        ("decay", 201.0, (48.0, 72.0)),
        ("decay", 399.0, (48.0, 72.0)),
        ("decay", 401.0, (24.0, 72.0)),
        ("decay", 601.0, (12.0, 72.0)),
        ("decay", 801.0, (10.0, 72.0)),
        ("decay", 5000.0, (10.0, 72.0)),
        ("restart", 190.0, (96.0, 20.0)),  # RFC 5681, 4.1
        ("restart", 201.0, (10.0, 20.0)),
        ("keep", 5000.0, (96.0, 20.0)),  # RFC 7661: five minutes
        ("keep", 300_001.0, (48.0, 72.0)),
    ],
)
def test_idle_windows(
    make_network: MakeNetwork, rule: str, idle_ms: float, expected: tuple[float, float]
) -> None:
    assert idle_for(make_network, rule, idle_ms, "cubic") == expected


@pytest.mark.parametrize("transport", ["bbr", "bbr_ideal"])
def test_laws_with_a_model_of_the_path_keep_their_windows(make_network: MakeNetwork, transport: str) -> None:
    assert get_transport(transport).sets_window_in_recovery
    assert idle_for(make_network, "decay", 5000.0, transport)[0] == 96.0


def test_a_smaller_window_than_the_first_stays(make_network: MakeNetwork) -> None:
    for rule in ("decay", "restart"):
        network = make_network("cubic", transport__idle_window=rule, **KEPT)
        flows = begin(network, (0, 4, 30, 0.0), (0, 4, 1, 1000.0))
        network.advance(1e-3)
        flows["cwnd"][0] = 3.0
        network.advance(1.0)
        assert flows["cwnd"][1] <= 4.0


def test_cubic_does_not_count_the_pause(make_network: MakeNetwork) -> None:
    """RFC 9438, 5.8: the curve stands still while there is nothing to send."""
    network = make_network("cubic", transport__idle_window="keep", **KEPT)
    flows = begin(network, (0, 4, 100, 0.0), (0, 4, 100, 10_000.0))
    network.advance(80e-6)
    flows["cwnd"][0], flows["ssthresh"][0] = 20.0, 5.0  # congestion avoidance from now on
    network.advance(9.0)
    window = float(flows["cwnd"][0])
    assert np.isfinite(network.flows().finish_s[0])
    network.advance(1.1)
    assert np.isfinite(network.flows().finish_s[1])
    assert window < flows["cwnd"][1] < window + 8, "ten seconds of the curve are 400 packets"


@pytest.mark.parametrize("detection", ["rack", "dupack"])
@pytest.mark.parametrize("transport", SENDER_DRIVEN)
def test_many_answers_over_few_connections_all_arrive(
    make_network: MakeNetwork, transport: str, detection: str
) -> None:
    network = make_network(
        transport, topology={"kind": "single_switch", "hosts": 5, "link_rate_bps": 1e9, "link_delay_s": 1e-6},
        workload={"kind": "poisson", "load": 0.6, "flow_sizes": "fixed", "fixed_bytes": 40_000},
        control__decision_interval_s=1e-3, control__episode_steps=40, transport__min_rto_s=2e-3,
        transport__connections="persistent", transport__max_window_packets=64,
        transport__loss_detection=detection, queue__buffer_bytes=20_000, queue__ecn_threshold_bytes=10_000,
    )  # fmt: skip
    network.advance(5.0)
    flows = network.flows()
    assert len(flows.src) > 100
    assert (network._state.flows["first_packet"] > 0).sum() > len(flows.src) / 4
    assert np.array_equal(flows.delivered_bytes, flows.size_bytes)
    assert network.hosts().active_flows.sum() == 0
    assert network._state.world["free_packets"][0] == len(network._state.packets)
    again = network.flow_counters(np.arange(len(flows.src)))["sent_packets"] - flows.retransmitted_packets
    assert np.array_equal(again, -(-flows.size_bytes // 1460))


@pytest.mark.parametrize(
    ("own", "before"),
    [
        (dict.fromkeys(range(6), "cubic"), [None, 0, 1, 2, 3, 4]),
        ({2: "reno"}, [None, 0, None, 1, 3, 4]),
        ({1: "dctcp"}, [None, 0, 1, 2, 3, 4]),
    ],
)
def test_flows_with_laws_of_their_own_continue_connections_of_that_law(
    own: dict[int, str], before: list[int | None]
) -> None:
    scenario = load_scenario(
        "dumbbell-10g", overrides={"transport.connections": "persistent"}, expect=CongestionScenario
    )
    network = PacketNetwork(scenario, transport="dctcp")
    rng, start_ns = np.random.default_rng(0), np.arange(6) * 2 * MS
    schedule = make_schedule(rng, [0] * 6, [4] * 6, size_bytes=14_600, start_ns=start_ns)
    network.flow_transports.update({flow: get_transport(name) for flow, name in own.items()})
    network.reset(0, schedule)
    network.advance(20e-3)
    first = network._state.flows["first_packet"]
    expected = [0]
    for flow in range(1, 6):
        last = before[flow]
        expected.append(0 if last is None else expected[last] + 4096)
    assert first.tolist() == expected


@pytest.mark.parametrize("flow", [-1, 10**6, "a", 0.5])
def test_a_law_for_a_flow_that_does_not_exist_is_an_error(flow: Any) -> None:
    scenario = load_scenario("dumbbell-10g", expect=CongestionScenario)
    with pytest.raises(SysgymError, match="expected a number from 0 to"):
        PacketNetwork(scenario, flow_transports={flow: "cubic"})


@pytest.mark.parametrize(("rule", "window"), [("decay", 10.0), ("restart", 10.0), ("keep", 30.0)])
def test_a_window_beyond_the_largest_one_shrinks_from_there(
    make_network: MakeNetwork, rule: str, window: float
) -> None:
    """What a window has beyond ``max_window_packets`` was never used."""
    network = make_network(growing(), transport__idle_window=rule, transport__max_window_packets=16, **KEPT)
    flows = begin(network, (0, 4, 20, 0.0), (0, 4, 1, 3000.0))
    network.advance(2.9999)
    assert flows["cwnd"][0] == 30.0
    network.advance(0.15e-3)
    assert flows["cwnd"][1] == window
