"""Actions of a sender, by scripts of ACKs: RFC 8985 (RACK-TLP), 9937 (PRR), 5682 (F-RTO), 4015."""

from __future__ import annotations

import itertools

import pytest

from sysgym.emulator.packets.memory.records import NEVER_NS
from tests.emulator.packets.engine.recovery.scripted_sender import RTT_MS, ScriptedSender, sender

pytestmark = pytest.mark.xdist_group("scripted sender")  # compiled once, in one worker


def sender_in_recovery() -> ScriptedSender:
    """A sender of eight packets whose packet 1 was lost and has just been sent again."""
    scripted = sender(8)
    for later in (2, 3, 4):
        scripted.ack(1, by=later)
    return scripted


def test_three_later_packets_make_a_hole_a_loss_at_once() -> None:
    scripted = sender(10)
    scripted.ack(1, by=2)
    assert scripted.sent() == [11]  # a packet that arrived left the network (RFC 3042)
    scripted.ack(1, by=3)
    assert scripted.sent() == [12]
    scripted.ack(1, by=4)
    assert scripted.sent() == [1]
    assert scripted.window == 5


def test_fewer_later_packets_make_it_a_loss_a_quarter_of_a_round_trip_later() -> None:
    scripted = sender(10, tick_ms=1.0)
    scripted.ack(1, by=2)
    scripted.sent()
    scripted.at(RTT_MS + RTT_MS / 4 - 1)
    assert scripted.sent() == []
    scripted.at(RTT_MS + RTT_MS / 4)
    assert scripted.sent() == [1]
    assert scripted.window == 5


def test_a_packet_that_is_late_by_less_is_no_loss() -> None:
    scripted = sender(10, tick_ms=1.0)
    scripted.ack(1, by=2)
    scripted.at(RTT_MS + 4).ack(3, by=1)
    scripted.at(RTT_MS + 10)
    assert 1 not in scripted.sent()
    assert scripted.window == 10
    assert scripted.flow.reordering_seen


def test_where_reordering_was_seen_three_later_packets_are_not_enough() -> None:
    scripted = sender(10, tick_ms=1.0)
    scripted.ack(1, by=2)
    scripted.ack(3, by=1)
    for later in (4, 5, 6):
        scripted.ack(3, by=later)
    assert 3 not in scripted.sent()
    scripted.at(RTT_MS + RTT_MS / 4)
    assert 3 in scripted.sent()


def test_a_retransmission_is_lost_when_a_packet_sent_later_arrives() -> None:
    scripted = sender(8)
    for later in (2, 3):
        scripted.ack(1, by=later)
    scripted.at(RTT_MS + 1).ack(1, by=4)
    assert scripted.sent()[-1] == 1
    scripted.at(RTT_MS + 2)
    for later in (5, 6, 7, 8):
        scripted.ack(1, by=later)
    new = scripted.sent()
    assert new
    assert 1 not in new
    scripted.at(2 * RTT_MS + 2).ack(1, by=new[-1])
    assert scripted.sent()[0] == 1


def test_an_ack_of_a_packet_sent_before_the_retransmission_says_nothing_of_it() -> None:
    scripted = sender(8)
    for later in (2, 3):
        scripted.ack(1, by=later)
    scripted.at(RTT_MS + 1).ack(1, by=4)
    assert scripted.sent()[-1] == 1
    scripted.at(2 * RTT_MS - 1)
    for later in (9, 10):
        scripted.ack(1, by=later)
    assert 1 not in scripted.sent()


def test_the_end_of_a_flow_is_repaired_by_a_probe() -> None:
    scripted = sender(10, packets=11)
    scripted.ack(9, by=8)  # the last two packets are lost
    scripted.at(RTT_MS + 2 * RTT_MS + 7)
    assert scripted.sent() == []
    scripted.at(RTT_MS + 2 * RTT_MS + 12)  # two round trips and two ticks later
    assert scripted.sent() == [10]
    scripted.at(RTT_MS * 4 + 12).ack(9, by=10)  # the probe arrives: the packet before it is lost
    scripted.at(RTT_MS * 4.25 + 16)
    assert scripted.sent() == [9]
    assert scripted.flow.timeouts == 0
    assert scripted.window == 5


def test_a_probe_is_a_new_packet_where_there_is_one() -> None:
    scripted = sender(4)
    scripted.at(3 * RTT_MS + 12)
    assert scripted.sent() == [5]
    assert scripted.flow.retransmitted_packets == 0


def test_one_probe_only_and_then_a_time_out() -> None:
    scripted = sender(4, packets=5)
    assert scripted.flow.timeouts == 0
    scripted.at(3 * RTT_MS + 12)
    assert scripted.sent() == [4]
    scripted.at(3 * RTT_MS + 12 + 190)
    assert scripted.sent() == []
    scripted.at(3 * RTT_MS + 12 + 228)
    assert scripted.sent() == [1]
    assert scripted.flow.timeouts == 1
    assert scripted.window == 1


def test_a_probe_that_repairs_the_only_loss_reduces_the_window_once() -> None:
    scripted = sender(4, packets=5)
    scripted.ack(4, by=3)
    assert scripted.sent() == []  # nothing new to send: the probe repeats packet 4, which was lost
    scripted.at(RTT_MS + 250)
    assert scripted.sent() == [4]
    scripted.flow.n_packets = 10
    scripted.at(2 * RTT_MS + 250).ack(5, by=4)
    assert scripted.window == 4  # it might have been the original
    following = scripted.sent()[0]
    scripted.at(3 * RTT_MS + 250).ack(following + 1, by=following)
    assert scripted.window == 2
    assert not scripted.flow.in_recovery


def test_a_probe_that_was_not_needed_changes_nothing() -> None:
    scripted = sender(4, packets=5)
    scripted.ack(4, by=3)
    scripted.at(RTT_MS + 250)
    assert scripted.sent() == [4]
    scripted.flow.n_packets = 10
    scripted.ack(5, by=4, sent_ms=RTT_MS)
    scripted.at(2 * RTT_MS + 250).ack(5, by=4, duplicate=True)
    following = scripted.sent()[0]
    scripted.at(3 * RTT_MS + 250).ack(following + 1, by=following)
    assert scripted.window == 4


def test_the_rate_is_reduced_in_proportion() -> None:
    """Of 20 packets the first is lost, and the window is halved: every second ACK sends one (RFC 9937)."""
    scripted = ScriptedSender(window=20)
    scripted.sent()
    scripted.at(RTT_MS)
    sent_by_ack = []
    for later in range(1, 20):
        scripted.ack(0, by=later)
        sent_by_ack.append(len(scripted.sent()))
    assert sent_by_ack[:3] == [1, 1, 1]  # two by limited transmit, then the retransmission
    assert sum(sent_by_ack[3:]) == 7
    assert set(sent_by_ack[3:]) == {0, 1}
    assert max(sum(sent_by_ack[i : i + 3]) for i in range(3, 17)) == 2
    assert scripted.flow.nxt - scripted.flow.una - scripted.flow.sacked == 10


def test_after_many_losses_the_rate_grows_by_slow_start_up_to_the_target() -> None:
    scripted = ScriptedSender(window=20)
    scripted.sent()
    scripted.at(RTT_MS)
    for later in range(16, 20):  # 0 to 15 are lost: fewer in flight than half the window
        scripted.ack(0, by=later)
    sent = scripted.sent()
    assert [seq for seq in sent if seq < 20] == [0, 1]
    scripted.at(2 * RTT_MS).ack(1, by=0)
    assert scripted.sent() == [2, 3]  # one for the packet that arrived, one more as the left edge moved


def test_a_recovery_ends_when_all_that_was_sent_before_it_is_acknowledged() -> None:
    scripted = sender_in_recovery()
    assert scripted.flow.in_recovery
    high = int(scripted.flow.recover)
    scripted.at(2 * RTT_MS).ack(5, by=1)
    assert scripted.flow.in_recovery
    scripted.ack(high, by=high - 1)
    assert not scripted.flow.in_recovery
    assert scripted.window == 4


def test_a_time_out_that_was_justified_repairs_all_losses() -> None:
    scripted = sender(6, packets=7)
    scripted.at(400)
    assert scripted.sent() == [6, 1]  # a probe, then the time-out
    assert scripted.flow.lost == 5
    scripted.flow.cwnd = 4.0
    scripted.at(400 + RTT_MS).ack(2, by=1)
    assert scripted.sent() == [2, 3, 4, 5]
    assert scripted.flow.timeouts == 1


def test_the_time_out_doubles() -> None:
    scripted = sender(3, packets=4)
    scripted.at(3 * RTT_MS + 8)
    assert scripted.sent() == [3]  # the probe
    times = []
    for time_ms in range(72, 1700, 4):
        scripted.at(time_ms)
        if scripted.sent():
            times.append(time_ms)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert gaps == pytest.approx([440, 880], abs=4)


def test_a_time_out_that_was_spurious_is_undone() -> None:
    """F-RTO: the ACKs of the first transmissions come late, all of them."""
    scripted = sender(6, packets=20)
    scripted.at(60 + 20).sent()
    scripted.at(1000)
    resent = scripted.sent()
    assert resent[-1] == 1
    assert scripted.window == 1
    scripted.ack(2, by=1, sent_ms=0.0)  # the first transmission of packet 1
    assert scripted.window == 6
    assert scripted.flow.lost == 0
    assert all(seq >= 6 for seq in scripted.sent())


def test_after_a_time_out_new_packets_tell_whether_it_was_spurious() -> None:
    """F-RTO, RFC 5682, 3.1: the ACK of the retransmission lets new packets leave instead of further ones."""
    scripted = sender(6, packets=40)
    scripted.at(1000)
    scripted.sent()
    scripted.flow.cwnd = 3.0
    scripted.at(1000 + RTT_MS).ack(2, by=1)
    new = scripted.sent()
    assert new
    assert all(seq >= 7 for seq in new)
    scripted.ack(3, by=2, sent_ms=0.0)  # not sent again: it only came late
    assert scripted.window == 6
    assert scripted.flow.lost == 0


def test_after_a_time_out_a_new_packet_that_overtakes_confirms_the_losses() -> None:
    scripted = sender(6, packets=40)
    scripted.at(1000)
    scripted.sent()
    scripted.flow.cwnd = 3.0
    scripted.at(1000 + RTT_MS).ack(2, by=1)
    new = scripted.sent()
    scripted.at(1000 + 2 * RTT_MS).ack(2, by=new[0])
    assert scripted.sent()[0] == 2
    assert scripted.window < 6


def test_a_recovery_is_undone_when_the_original_arrives() -> None:
    scripted = sender_in_recovery()
    assert scripted.sent()[-1] == 1
    assert scripted.window == 4
    scripted.at(RTT_MS + 2).ack(5, by=1, sent_ms=0.0)
    assert scripted.window == 8
    assert not scripted.flow.in_recovery


def test_a_recovery_is_undone_when_all_retransmissions_are_reported_as_duplicates() -> None:
    scripted = sender_in_recovery()
    scripted.sent()
    high = int(scripted.flow.high)
    scripted.at(2 * RTT_MS).ack(high, by=high - 1)
    assert scripted.window == 4
    scripted.ack(high, by=1, duplicate=True, sent_ms=RTT_MS)
    assert scripted.window == 8


def test_a_duplicate_widens_the_reordering_window_once_a_round_trip() -> None:
    scripted = sender(8)
    assert scripted.flow.reordering_steps == 1
    for _ in range(3):
        scripted.ack(1, by=0, duplicate=True)
    assert scripted.flow.reordering_steps == 2
    high = int(scripted.flow.nxt)
    scripted.at(2 * RTT_MS).ack(high, by=high - 1)
    scripted.ack(high, by=0, duplicate=True)
    assert scripted.flow.reordering_steps == 3


def test_the_reordering_window_is_reset_after_sixteen_recoveries() -> None:
    scripted = sender(8)
    scripted.ack(1, by=0, duplicate=True)
    time_ms = RTT_MS
    for _ in range(16):
        assert scripted.flow.reordering_steps == 2
        una = int(scripted.flow.una)
        for later in (una + 1, una + 2, una + 3):
            scripted.ack(una, by=later)
        assert scripted.flow.in_recovery
        scripted.flow.cwnd = 8.0
        time_ms += RTT_MS
        scripted.at(time_ms)
        high = int(scripted.flow.high)
        scripted.ack(high, by=high - 1)
    assert scripted.flow.reordering_steps == 1


def test_nothing_in_flight_means_no_timer() -> None:
    scripted = sender(4, packets=5)
    scripted.flow.n_packets = 20
    scripted.flow.n_packets = 5
    assert scripted.flow.timer_deadline_ns < NEVER_NS
    scripted.ack(5, by=4)
    assert scripted.flow.timer_deadline_ns == NEVER_NS


def test_the_shortest_time_out_comes_on_top_of_the_round_trip() -> None:
    """As in Linux: 200 ms beyond the smoothed round trip, not 200 ms in all."""
    scripted = sender(4, packets=5)
    assert scripted.flow.rto_ns == (RTT_MS + 200) * 1e6
