"""Ctrl-C in blocks that must not raise."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sysgym.scenarios import load_scenario
from sysgym.scenarios.interrupts import interrupts_deferred, interrupts_kept
from sysgym.scenarios.schema.later_keys import GrownTable

pytestmark = pytest.mark.usefixtures("ctrl_c_raises")


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def deferring(times: int, error: Exception | None = None) -> Iterator[int]:
    """Press Ctrl-C in a block, and yield the number of the press where the block goes on."""
    with interrupts_deferred():
        for number in range(1, times + 1):
            press()
            yield number
        if error is not None:
            raise error


def gone_on(block: Iterator[int]) -> list[int]:
    """Run a block, which Ctrl-C is to end, and return how often it went on."""
    done: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        done.extend(block)
    return done


def test_the_first_one_is_deferred_and_the_second_is_not() -> None:
    assert gone_on(deferring(1)) == [1]
    assert gone_on(deferring(2)) == [1]
    with pytest.raises(KeyboardInterrupt):
        press()


def test_an_error_of_the_block_does_not_hide_it() -> None:
    error = ValueError("of the block")
    with pytest.raises(KeyboardInterrupt) as caught:
        list(deferring(1, error))
    assert caught.value.__context__ is error


def test_nothing_happens_without_one() -> None:
    with interrupts_deferred(), interrupts_kept() as seen:
        pass
    assert not seen()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_blocks_can_be_nested() -> None:
    def nested() -> Iterator[int]:
        with interrupts_deferred():
            yield from deferring(1)
            yield 2

    assert gone_on(nested()) == [1, 2]


def test_who_keeps_them_hears_of_a_deferred_one() -> None:
    with interrupts_kept() as seen:
        with interrupts_deferred():
            press()
        assert seen()


def test_other_threads_are_left_alone() -> None:
    raised: list[BaseException] = []

    def elsewhere() -> None:
        try:
            with interrupts_deferred():
                pass
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert not raised
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_scenario_is_dumped_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pydantic would make an error of its own of it, or a warning."""
    scenario = load_scenario("dumbbell-10g")
    before = GrownTable.changed_defaults.__func__  # type: ignore[attr-defined]
    times: list[None] = []

    def interrupted(table: type[GrownTable]) -> Any:
        times.append(None)
        if len(times) == 1:
            press()
        return before(table)

    monkeypatch.setattr(GrownTable, "changed_defaults", classmethod(interrupted))
    with pytest.raises(KeyboardInterrupt):
        scenario.resolved()
    assert len(times) > 1
