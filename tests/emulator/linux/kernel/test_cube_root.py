"""The integer cube root of the kernel's programs, compiled for user space."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from .user_space import compiled_for_user_space


@pytest.fixture(scope="module")
def cube_root(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], int]:
    code = (
        '#include "decisions/cube_root.h"\nunsigned int root(unsigned long long n) { return cube_root(n); }\n'
    )
    function = compiled_for_user_space(code, tmp_path_factory.mktemp("cube_root")).root
    function.argtypes, function.restype = [ctypes.c_uint64], ctypes.c_uint32
    found: Callable[[int], int] = function
    return found


@given(st.one_of(st.integers(0, 2**63 - 1), st.integers(1, 2**21 - 1).map(lambda root: root**3)))
@example(0)
@example(7)
@example(8)
@example(2**63 - 1)
def test_it_is_the_largest_whole_number_whose_cube_is_not_more(
    cube_root: Callable[[int], int], number: int
) -> None:
    root = cube_root(number)
    assert root**3 <= number < (root + 1) ** 3


@given(st.integers(1, 2**21 - 1))
def test_just_below_a_cube_it_is_one_less(cube_root: Callable[[int], int], root: int) -> None:
    assert cube_root(root**3 - 1) == root - 1
