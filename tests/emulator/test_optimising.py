"""Optimisation in one piece: which functions are parts, and what parts still do by themselves."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import pytest
from numba import njit, types

from sysgym.emulator import optimising
from sysgym.emulator.compiling import c_function, compile_for

Compiled = list[tuple[int, bool]]
"""Number of functions being compiled with a dispatcher, and whether the innermost is a part."""


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Compiled:
    nesting, seen = optimising._nesting, []
    asks = nesting.is_at_a_part

    def recorded() -> bool:
        seen.append((len(nesting._dispatchers), asks()))
        return seen[-1][1]

    monkeypatch.setattr(nesting, "is_at_a_part", recorded)
    return seen


def chain() -> tuple[Any, Any]:
    """Return a function that numba has not seen, and one that it calls."""

    innermost: Any = njit(lambda x: x + 1)
    middle: Any = njit(lambda x: innermost(x) * 2)

    def outermost(x: int, y: int) -> Any:
        return middle(x) + y

    return outermost, middle


def test_parts_of_a_c_function_are_not_optimised_by_themselves(compiled: Compiled) -> None:
    outermost, _ = chain()
    made = c_function(types.int64(types.int64, types.int64), outermost)
    assert made.ctypes(3, 4) == 12
    assert set(compiled) == {(2, True), (1, True), (0, False)}


def test_functions_of_others_are_compiled_as_numba_does(compiled: Compiled) -> None:
    outermost, _ = chain()
    made = compile_for(types.int64(types.int64, types.int64), outermost)
    assert made(3, 4) == 12
    assert {depth for depth, _ in compiled} == {1, 2, 3}
    assert not any(part for _, part in compiled)


def test_our_functions_have_parts_too(compiled: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    outermost, _ = chain()
    outermost.__module__ = "sysgym.tests"
    made = numba.njit(outermost)
    assert made(3, 4) == 12
    assert set(compiled) == {(3, True), (2, True), (1, False)}


def test_a_part_can_be_called_by_itself() -> None:
    outermost, middle = chain()
    c_function(types.int64(types.int64, types.int64), outermost)
    assert middle(3) == 8


def test_threads_compile_their_own_functions() -> None:
    signature = types.int64(types.int64, types.int64)
    both = threading.Barrier(2)

    def compiled_beside_another(_: int) -> Any:
        with optimising.whole():
            both.wait()  # both threads are inside of a whole
            return c_function(signature, chain()[0]).ctypes(3, 4)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(compiled_beside_another, range(2))) == [12, 12]


def test_a_function_that_fails_to_compile_leaves_nothing_behind() -> None:
    wrong: Any = njit(lambda x: x.missing)

    def outermost(x: int, y: int) -> Any:
        return wrong(x) + y

    with pytest.raises(numba.TypingError):
        c_function(types.int64(types.int64, types.int64), outermost)
    assert not optimising._nesting._dispatchers
    assert optimising._nesting._wholes == 0
