"""Frames that are left out lose no event, deadlines do not drift, and the newest frame wins."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.live.frames import Frame, after, thinned
from sysgym.live.pacing import LATE_S, Mailbox, Pacer

EVENTS = st.lists(
    st.tuples(st.sampled_from(["mark", "drop"]), st.integers(0, 3), st.integers(1, 9)).map(list), max_size=6
)


def frame_of(number: int, events: list[list[Any]], changes: tuple[Any, ...] = ()) -> Frame:
    return Frame(number, number / 10, ({"values": {"queue": number}, "events": events},), changes)


def totals(frames: list[Frame]) -> dict[tuple[str, int], int]:
    sums: dict[tuple[str, int], int] = {}
    for frame in frames:
        for kind, place, count in frame.lanes[0]["events"]:
            sums[kind, place] = sums.get((kind, place), 0) + count
    return sums


@given(st.lists(EVENTS, min_size=1, max_size=30), st.integers(1, 12))
def test_thinning_keeps_all_events_and_the_last_frame(all_events: list[list[list[Any]]], most: int) -> None:
    frames = [frame_of(n, events, ((None, "k", n),)) for n, events in enumerate(all_events)]
    kept = thinned(frames, most)
    assert len(kept) <= most + 1
    assert totals(kept) == totals(frames)
    assert kept[-1].lanes[0]["values"] == frames[-1].lanes[0]["values"]
    assert [change for frame in kept for change in frame.changes] == [
        change for frame in frames for change in frame.changes
    ]
    assert [frame.number for frame in kept] == list(range(len(kept))) or len(frames) <= most


def test_a_frame_has_one_event_for_each_kind_and_place() -> None:
    earlier, later = frame_of(0, [["mark", 1, 2], ["drop", 1, 1]]), frame_of(1, [["mark", 1, 3]])
    assert after(earlier, later).lanes[0]["events"] == [["mark", 1, 5], ["drop", 1, 1]]
    assert after(earlier, later).lanes[0]["values"] == {"queue": 1}
    assert after(None, later) is later


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_deadlines_follow_the_time_of_frames_and_do_not_drift() -> None:
    clock = Clock()
    pacer = Pacer(0.1, 30.0, clock)
    for n in range(100):
        clock.now_s += 0.013  # simulating and sending take time
        clock.now_s += pacer.wait_s(n * 0.1 / 750)
    assert clock.now_s - 100.013 == pytest.approx(99 * 30 / 750)
    assert not pacer.late


def test_twice_the_speed_takes_half_the_time() -> None:
    clock = Clock()
    pacer = Pacer(1.0, 30.0, clock)
    pacer.speed = 2.0
    pacer.wait_s(0.0)
    assert pacer.wait_s(0.1) == pytest.approx(1.5)


def test_a_slow_machine_is_late_and_makes_nothing_up() -> None:
    clock = Clock()
    pacer = Pacer(1.0, 30.0, clock)
    pacer.wait_s(0.0)
    clock.now_s += 3.0 + 2 * LATE_S
    assert pacer.wait_s(0.1) == 0.0
    assert pacer.late
    assert pacer.wait_s(0.2) == pytest.approx(3.0)  # counted from the late frame
    assert not pacer.late


def test_after_a_pause_deadlines_count_anew() -> None:
    clock = Clock()
    pacer = Pacer(1.0, 30.0, clock)
    pacer.wait_s(0.0)
    clock.now_s += 1_000.0
    pacer.restart()
    assert pacer.wait_s(0.1) == 0.0
    assert not pacer.late


def test_the_newest_frame_wins_with_the_events_of_all() -> None:
    told = []
    mailbox = Mailbox(lambda: told.append(1))
    for n in range(50):
        mailbox.put_frame(frame_of(n, [["mark", 0, 1]]))
    messages = mailbox.take()
    assert len(messages) == 1
    assert messages[0]["frame"]["n"] == 49
    assert messages[0]["frame"]["lanes"][0]["events"] == [["mark", 0, 50]]
    assert mailbox.replaced == 49
    assert len(told) == 50
    assert mailbox.take() == []


def test_a_mailbox_is_bounded_and_a_header_replaces_everything() -> None:
    mailbox = Mailbox()
    for n in range(1_000):
        mailbox.put({"status": {"n": n}})
        mailbox.put({"error": str(n)})
    mailbox.put_frame(frame_of(1, []))
    assert len(mailbox.take()) == 3
    mailbox.put({"status": {}})
    mailbox.put_frame(frame_of(1, []))
    mailbox.put({"header": {}})
    assert [next(iter(message)) for message in mailbox.take()] == ["header"]


def test_putting_never_waits_for_the_reader() -> None:
    mailbox = Mailbox()

    def put_all() -> None:
        for n in range(10_000):
            mailbox.put_frame(frame_of(n, []))

    sender = threading.Thread(target=put_all)
    sender.start()
    sender.join(20.0)  # nobody takes anything
    assert not sender.is_alive()
    assert mailbox.take()[0]["frame"]["n"] == 9_999
