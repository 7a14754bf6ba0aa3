"""Optimisation of compiled functions in one piece.

numba makes a library of every function, together with all functions that it calls, and optimises each of
these libraries in full. A function ten calls below the event loop is optimised ten times, in ever larger
libraries, and only the last result runs. While one of our functions is compiled, this module leaves its parts
as they are, and the whole is optimised once: the extended event loop compiles in two thirds of the time.
Results do not change, because LLVM keeps the order of floating-point operations.

A part that Python calls by itself afterwards runs without optimisation. That concerns tests only: functions
that Python calls are compiled as wholes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import codegen, event
from numba.core.caching import NullCache

_OURS = "sysgym."
_STEP = "_optimize_final_module"  # numba has no public name for it; without it, compiling just takes longer


class _Nesting(event.Listener, threading.local):
    """Functions that this thread is compiling, the outermost first."""

    def __init__(self) -> None:
        self._dispatchers: list[Any] = []
        self._wholes = 0

    def on_start(self, event: Any) -> None:
        self._dispatchers.append(event.data["dispatcher"])

    def on_end(self, event: Any) -> None:
        self._dispatchers.pop()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Take everything that is compiled meanwhile for parts of one function, which has no dispatcher."""
        self._wholes += 1
        try:
            yield
        finally:
            self._wholes -= 1

    def is_at_a_part(self) -> bool:
        """Return whether the function at hand is compiled as a part of one of ours, and not kept on disk."""
        if not self._dispatchers or len(self._dispatchers) + self._wholes < 2:
            return False
        outermost, innermost = self._dispatchers[0], self._dispatchers[-1]
        ours = self._wholes > 0 or outermost.py_func.__module__.startswith(_OURS)
        return ours and isinstance(innermost._cache, NullCache)


_nesting = _Nesting()
whole = _nesting.whole


def _install() -> None:
    """Replace numba's step; once, because this module is imported once."""
    optimise = getattr(codegen.CPUCodeLibrary, _STEP, None)
    if optimise is None:
        return

    def optimise_wholes(library: Any) -> None:
        if not _nesting.is_at_a_part():
            optimise(library)

    event.register("numba:compile", _nesting)  # type: ignore[no-untyped-call]
    setattr(codegen.CPUCodeLibrary, _STEP, optimise_wholes)


_install()
