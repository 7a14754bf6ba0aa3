"""Ctrl-C while a function is compiled."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from numba import njit, types
from numba.extending import intrinsic

import sysgym.emulator.compiling  # noqa: F401  (it defers Ctrl-C)
from sysgym.scenarios.interrupts import interrupts_kept

pytestmark = pytest.mark.usefixtures("ctrl_c_raises")


def interrupted_while_compiling(times: int) -> tuple[Any, list[int]]:
    """Return a function, and a list of the interrupts during whose compilation the compiler went on."""
    heard: list[int] = []

    @intrinsic
    def interrupt(context: Any, x: Any) -> Any:
        for number in range(times):
            signal.raise_signal(signal.SIGINT)
            heard.append(number)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return arguments[0]

        return types.int64(types.int64), generate

    part = njit(lambda x: interrupt(x) + 1)  # type: ignore[call-arg]
    return njit(lambda x: part(x)), heard


def test_the_first_one_waits_until_the_function_is_compiled() -> None:
    function, heard = interrupted_while_compiling(1)
    with pytest.raises(KeyboardInterrupt):
        function(1)
    assert heard[0] == 0
    assert len(function.overloads) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert function(1) == 2, "nobody interrupts this one"


def test_the_second_one_does_not_wait() -> None:
    function, heard = interrupted_while_compiling(2)
    with pytest.raises(KeyboardInterrupt):
        function(1)
    assert heard == [0]
    assert not function.overloads
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_whoever_keeps_interrupts_hears_of_one_in_the_compiler() -> None:
    function, _ = interrupted_while_compiling(1)
    with interrupts_kept() as seen:
        assert not seen()
        assert function(1) == 2
        assert seen()


def test_ignored_ones_stay_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    function, heard = interrupted_while_compiling(2)
    assert function(1) == 2
    assert heard[:2] == [0, 1]
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
