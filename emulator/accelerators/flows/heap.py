"""Heap of timed events in two arrays, for compiled code."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.compiling import cached_kernel

FloatArray = NDArray[np.float64]


@cached_kernel()
def push(heap_s: FloatArray, heap_code: NDArray[np.int64], size: int, time_s: float, code: int) -> None:
    """Add an event to a binary heap that has room; equal times are in the order of their codes."""
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        above_s = heap_s[parent]
        if above_s < time_s or (above_s == time_s and heap_code[parent] <= code):
            break
        heap_s[place] = above_s
        heap_code[place] = heap_code[parent]
        place = parent
    heap_s[place] = time_s
    heap_code[place] = code


@cached_kernel()
def drop_first(heap_s: FloatArray, heap_code: NDArray[np.int64], size: int) -> None:
    """Remove the first of ``size`` events from the heap."""
    last = size - 1
    time_s, code = heap_s[last], heap_code[last]
    place, child = 0, 1
    while child < last:
        right = child + 1
        if right < last and (
            heap_s[right] < heap_s[child]
            or (heap_s[right] == heap_s[child] and heap_code[right] < heap_code[child])
        ):
            child = right
        if time_s < heap_s[child] or (time_s == heap_s[child] and code <= heap_code[child]):
            break
        heap_s[place] = heap_s[child]
        heap_code[place] = heap_code[child]
        place = child
        child = 2 * place + 1
    heap_s[place] = time_s
    heap_code[place] = code


@cached_kernel()
def longer(values: FloatArray, codes: NDArray[np.int64]) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return copies with room for twice as many."""
    more_values = np.empty(2 * len(values), np.float64)
    more_codes = np.empty(2 * len(codes), np.int64)
    more_values[: len(values)] = values
    more_codes[: len(codes)] = codes
    return more_values, more_codes
