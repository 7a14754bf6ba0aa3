"""The processor of a world's packets: its choice, the kernel's notation, and the threads that stay off it."""

from __future__ import annotations

import os
import threading

import pytest

from sysgym.emulator.linux.processors import (
    ThreadKeptOff,
    keep_process_off,
    processor_for_packets,
    steering_mask,
)
from sysgym.emulator.packets.topology import Topology, build_topology
from sysgym.scenarios import CongestionScenario, load_scenario

TWO = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this process may use one processor only")


def _topology(name: str) -> Topology:
    return build_topology(load_scenario(name, expect=CongestionScenario).topology)


@pytest.mark.parametrize(
    ("usable", "session", "chosen"), [({0, 1}, 0, 1), ({0, 1}, 1, 0), ({2, 5, 7}, 4, 5), ({3}, 0, None)]
)
def test_fast_links_get_a_processor_by_session(
    monkeypatch: pytest.MonkeyPatch, usable: set[int], session: int, chosen: int | None
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: usable)
    assert processor_for_packets(_topology("linux-dumbbell-1g"), session) == chosen
    assert processor_for_packets(_topology("linux-dumbbell-100m"), session) is None


@pytest.mark.parametrize(
    ("processor", "mask"),
    [(0, "1"), (5, "20"), (31, "80000000"), (32, "1,00000000"), (70, "40,00000000,00000000")],
)
def test_mask_is_the_kernel_s(processor: int, mask: str) -> None:
    assert steering_mask(processor) == mask


@TWO
def test_thread_and_its_threads_stay_off_until_released() -> None:
    before = os.sched_getaffinity(0)
    processor = max(before)
    kept_off = ThreadKeptOff(processor)
    inherited: list[set[int]] = []
    thread = threading.Thread(target=lambda: inherited.append(os.sched_getaffinity(0)))
    thread.start()
    thread.join()
    assert os.sched_getaffinity(0) == inherited[0] == before - {processor}
    kept_off.release()
    assert os.sched_getaffinity(0) == before


def test_several_hold_and_end_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    usable = {0, 1, 2, 3}
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: set(usable))

    def choose(thread: int, processors: set[int]) -> None:
        usable.clear()
        usable.update(processors)

    monkeypatch.setattr(os, "sched_setaffinity", choose)
    first, second, third = ThreadKeptOff(3), ThreadKeptOff(2), ThreadKeptOff(3)
    assert usable == {0, 1}
    first.release()
    first.release()
    assert usable == {0, 1}
    third.release()
    assert usable == {0, 1, 3}
    second.release()
    assert usable == {0, 1, 2, 3}


@TWO
def test_release_keeps_a_later_choice() -> None:
    before = os.sched_getaffinity(0)
    kept_off = ThreadKeptOff(max(before))
    try:
        os.sched_setaffinity(0, {max(before)})
        kept_off.release()
        assert os.sched_getaffinity(0) == {max(before)}
    finally:
        os.sched_setaffinity(0, before)


@TWO
def test_thread_that_may_use_no_other_processor_stays() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        kept_off = ThreadKeptOff(min(before))
        assert os.sched_getaffinity(0) == {min(before)}
        kept_off.release()
    finally:
        os.sched_setaffinity(0, before)


def test_release_after_the_thread_has_ended() -> None:
    made: list[ThreadKeptOff] = []
    thread = threading.Thread(target=lambda: made.append(ThreadKeptOff(0)))
    thread.start()
    thread.join()
    made[0].release()


@TWO
def test_whole_process_stays_off() -> None:
    before = os.sched_getaffinity(0)
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    assert other.native_id is not None
    try:
        keep_process_off(max(before))
        assert os.sched_getaffinity(0) == os.sched_getaffinity(other.native_id) == before - {max(before)}
    finally:
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), before)
        done.set()
        other.join()
