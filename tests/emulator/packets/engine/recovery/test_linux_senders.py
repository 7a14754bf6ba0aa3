"""What Linux's hosts do beyond RFC 8985 and 9937, by scripts of ACKs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sysgym.emulator.packets.memory.flow_record import RETRANSMISSION
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.scenarios import CongestionScenario, load_scenario
from tests.emulator.packets.engine.recovery.scripted_sender import HALVING, RTT_MS, ScriptedSender, sender

pytestmark = pytest.mark.xdist_group("scripted sender")  # compiled once, in one worker

LINUX: dict[str, Any] = {"detection": "linux", "tick_ms": 1.0}
SLACK_MS = 2.5  # Linux's 2 ms and half a tick


def test_linux_waits_two_milliseconds_longer_for_a_probe_whatever_its_tick() -> None:
    scripted = sender(10, packets=11, **LINUX)
    scripted.ack(9, by=8)
    scripted.at(RTT_MS + 2 * RTT_MS + SLACK_MS - 1)
    assert scripted.sent() == []
    scripted.at(RTT_MS + 2 * RTT_MS + SLACK_MS + 1)
    assert scripted.sent() == [10]


def test_linux_waits_as_much_longer_for_a_packet_that_may_be_late() -> None:
    scripted = sender(10, **LINUX)
    scripted.ack(1, by=2)
    scripted.sent()
    scripted.at(RTT_MS + RTT_MS / 4 + SLACK_MS - 1)
    assert scripted.sent() == []
    scripted.at(RTT_MS + RTT_MS / 4 + SLACK_MS + 1)
    assert scripted.sent() == [1]


def test_with_a_probe_in_flight_linux_times_out_from_when_the_first_packet_left() -> None:
    scripted = sender(10, packets=30, **LINUX)
    scripted.at(64)
    assert scripted.sent() == [11]  # a new packet as a probe, which is lost
    scripted.at(90).ack(2, by=1)  # packet 2 left at 0, and nothing after it arrives
    assert scripted.sent() == []
    rto_ms = scripted.flow.rto_ns * 1e-6
    assert 90 + 2 * scripted.flow.srtt_ns * 1e-6 < rto_ms
    scripted.at(rto_ms - 1)
    assert scripted.sent() == []
    scripted.at(rto_ms + 1)
    assert scripted.sent() == [2]
    assert scripted.flow.timeouts == 1


def test_a_mark_lets_linux_probe_again() -> None:
    scripted = sender(10, packets=30, **LINUX)
    scripted.at(64)
    assert scripted.sent() == [11]
    scripted.at(70).ack(2, by=1, marked=True)
    scripted.sent()
    scripted.at(70 + 2 * scripted.flow.srtt_ns * 1e-6 + SLACK_MS + 2)
    (probe,) = scripted.sent()
    assert probe > 11
    assert scripted.flow.timeouts == 0


@pytest.mark.parametrize(("acknowledged", "probes"), [(11, False), (12, True)])
def test_the_next_mark_counts_when_a_packet_beyond_the_window_of_the_last_one_has_arrived(
    acknowledged: int, probes: bool
) -> None:
    scripted = sender(10, packets=100, **LINUX)
    scripted.at(25).ack(2, by=1, marked=True)  # packets up to 10 are in flight
    assert scripted.sent() == [11]
    scripted.at(75)
    assert scripted.sent() == [12]
    scripted.at(76).ack(acknowledged, by=acknowledged - 1, marked=True)
    last = scripted.sent()[-1]
    scripted.at(76 + 2 * scripted.flow.srtt_ns * 1e-6 + SLACK_MS + 2)
    assert scripted.sent() == ([last + 1] if probes else [])
    assert scripted.flow.timeouts == 0


@pytest.mark.parametrize(("detection", "probe_ms"), [("linux", 2 * 0.3375 + SLACK_MS), ("rack", 2 * 2 + 2)])
def test_linux_probes_early_because_its_estimate_began_with_the_handshake(
    detection: str, probe_ms: float
) -> None:
    """A first packet that waited in a queue is an eighth of the estimate (RFC 6298, 2.3), not all of it."""
    scripted = ScriptedSender(window=10, packets=30, tick_ms=1.0, base_rtt_ms=0.1, detection=detection)
    scripted.at(2).ack(1, by=0)
    assert scripted.sent() == list(range(11))
    scripted.at(2 + probe_ms - 1)
    assert scripted.sent() == []
    scripted.at(2 + probe_ms + 1)
    assert scripted.sent() == [11]


@pytest.mark.parametrize(
    ("detection", "handshake", "estimated"), [("linux", False, 1), ("linux", True, 0), ("rack", False, 0)]
)
def test_connections_that_are_open_have_measured_the_empty_path_on_linux(
    detection: str, handshake: bool, estimated: int
) -> None:
    overrides = {"transport.loss_detection": detection, "transport.handshake": handshake}
    network = PacketNetwork(
        load_scenario("linux-fattree-incast", overrides=overrides, expect=CongestionScenario)
    )
    flows = network._state.flows
    assert (flows["srtt_ns"] == estimated * flows["base_rtt_ns"]).all()
    assert (flows["rttvar_ns"] == estimated * flows["base_rtt_ns"] / 2).all()
    assert (flows["rto_ns"] >= 200_000_000).all()


def _note_limit(flow: Any, event: Any) -> None:
    flow.state[0] = event.window_limited


@pytest.mark.parametrize(
    ("detection", "packets", "limited"), [("rack", 8, 0), ("linux", 8, 1), ("linux", 5, 0), ("rack", 10, 1)]
)
def test_in_linux_a_window_of_which_more_than_half_is_in_flight_may_grow(
    detection: str, packets: int, limited: int
) -> None:
    law = replace(HALVING, name="noting", on_ack=_note_limit)
    scripted = ScriptedSender(window=10, packets=packets, detection=detection, transport=law)
    assert scripted.sent() == list(range(packets))
    scripted.at(RTT_MS).ack(1, by=0)
    assert scripted.flow.state[0] == limited


@pytest.mark.parametrize(("detection", "counts_from_ms"), [("linux", 0.0), ("rack", 35.0)])
def test_a_time_out_in_place_of_a_probe_counts_from_when_the_first_packet_left(
    detection: str, counts_from_ms: float
) -> None:
    scripted = sender(10, packets=11, detection=detection, tick_ms=1.0)
    scripted.at(30).ack(2, by=1)
    scripted.flow.in_recovery = 1  # no probe from now on
    scripted.flow.recover = 11
    scripted.at(35).ack(3, by=2)
    assert scripted.flow.timer == RETRANSMISSION
    deadline_ms = scripted.flow.timer_deadline_ns * 1e-6
    assert deadline_ms == pytest.approx(counts_from_ms + scripted.flow.rto_ns * 1e-6, abs=1.0)


@pytest.mark.parametrize(("detection", "sent"), [("linux", [4]), ("rack", [])])
def test_what_the_reordering_timer_finds_lost_leaves_at_once(detection: str, sent: list[int]) -> None:
    """Packet 3 left long before 5, which arrives; packet 4 left just before it."""
    scripted = sender(3, detection=detection, tick_ms=1.0)
    scripted.at(27).ack(2, by=1)
    scripted.at(28).ack(3, by=2)
    assert scripted.sent() == [4, 5]
    scripted.at(50).ack(3, by=5)
    assert scripted.sent() == [3]
    scripted.at(62)
    assert scripted.flow.lost == 1 - len(sent)
    assert scripted.sent() == sent


@pytest.mark.parametrize(("detection", "divisor"), [("linux", 30), ("rack", 22)])
def test_the_rate_is_reduced_by_the_window_before_the_recovery(detection: str, divisor: int) -> None:
    scripted = ScriptedSender(window=30, packets=25, detection=detection, tick_ms=1.0)
    scripted.at(RTT_MS).ack(1, by=0)
    for later in (2, 3, 4):
        scripted.ack(1, by=later)
    assert scripted.flow.in_recovery
    assert scripted.flow.prr_flight == divisor


def _note_round_trip(flow: Any, event: Any) -> None:
    flow.state[0] = event.rtt_sampled
    flow.state[1] = event.rtt_ns


@pytest.mark.parametrize(
    ("detection", "header_bytes", "sampled"), [("linux", 40, 0), ("linux", 52, 1), ("rack", 40, 1)]
)
def test_without_timestamps_retransmissions_give_no_round_trip(
    detection: str, header_bytes: int, sampled: int
) -> None:
    """Karn's algorithm; RFC 6298, 3. The time-out stays doubled until there is a sample."""
    law = replace(HALVING, name="noting", on_ack=_note_round_trip)
    scripted = sender(
        4, packets=8, detection=detection, header_bytes=header_bytes, transport=law, tick_ms=1.0
    )
    flow = scripted.flow
    assert flow.state[0] == 1
    samples, smoothed_ns, rto_ns = int(flow.rtt_samples), float(flow.srtt_ns), int(flow.rto_ns)
    scripted.at(400)
    assert scripted.sent()[-1] == 1
    assert flow.timeouts == 1
    scripted.at(403).ack(2, by=1)
    assert flow.state[0] == sampled
    last_ns = 403_000_000 - scripted.last_sent_ns(1)
    assert flow.state[1] == (last_ns if sampled else max(smoothed_ns, flow.base_rtt_ns))
    assert flow.rtt_samples == samples + sampled
    assert (flow.srtt_ns == smoothed_ns) == (not sampled)
    assert (flow.rto_ns == 2 * rto_ns) == (not sampled)


@pytest.mark.parametrize(("header_bytes", "undone"), [(40, False), (52, True)])
def test_without_timestamps_a_late_packet_undoes_nothing(header_bytes: int, undone: bool) -> None:
    """Eifel detection needs timestamps (RFC 3522)."""
    scripted = sender(6, detection="linux", header_bytes=header_bytes, tick_ms=1.0)
    for later in (2, 3, 4):
        scripted.ack(1, by=later)
    assert 1 in scripted.sent()
    assert scripted.flow.in_recovery
    scripted.at(RTT_MS + 1).ack(5, by=1, sent_ms=0.0)
    assert bool(scripted.window == 6.0) == undone
