"""The language of programs: groups of each pattern, and spelling."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.emulator.accelerators.programs import (
    COLLECTIVES,
    Collective,
    Form,
    Instruction,
    Pattern,
    actions,
    format_program,
    lower,
    n_patterns,
    parse_program,
    pattern_of,
    patterns,
)
from sysgym.scenarios.errors import ScenarioError, SysgymError, UnknownName

Groups = frozenset[tuple[int, ...]]

factor_lists = st.lists(st.integers(2, 4), min_size=1, max_size=4).map(tuple)


def spelled_groups(factors: tuple[int, ...], depth: int, form: Form, ancestor: int) -> Groups:
    """Groups of a slice and a form by their definition: instances of a depth, positions in them."""
    below = math.prod(factors[depth:])
    if form is Form.INSIDE:
        instances = math.prod(factors[:depth])
        return frozenset(tuple(range(u * below, (u + 1) * below)) for u in range(instances))
    siblings = math.prod(factors[ancestor:depth])
    positions = range(1 if form is Form.MASTER else below)
    return frozenset(
        tuple((w * siblings + v) * below + p for v in range(siblings))
        for w in range(math.prod(factors[:ancestor]))
        for p in positions
    )


def spellings(n_levels: int) -> list[tuple[int, Form, int]]:
    pairs = [(depth, Form.INSIDE, 0) for depth in range(n_levels + 1)]
    for depth in range(n_levels + 1):
        pairs += [(depth, form, a) for a in range(depth) for form in (Form.PARALLEL, Form.MASTER)]
    return pairs


def as_groups(pattern: Pattern, factors: tuple[int, ...]) -> Groups:
    return frozenset(map(tuple, pattern.groups(factors).tolist()))


@pytest.mark.parametrize("n_levels", range(5))
def test_patterns_are_the_levels_squared(n_levels: int) -> None:
    assert len(spellings(n_levels)) == (n_levels + 1) ** 2
    assert len(patterns(n_levels)) == len(set(patterns(n_levels))) == n_levels**2 == n_patterns(n_levels)


@given(factor_lists)
def test_every_slice_and_form_is_its_pattern(factors: tuple[int, ...]) -> None:
    n_levels, found = len(factors), set()
    for depth, form, ancestor in spellings(n_levels):
        groups = spelled_groups(factors, depth, form, ancestor)
        pattern = pattern_of(depth, form, ancestor, n_levels)
        if pattern is None:
            assert {len(group) for group in groups} == {1}
        else:
            assert as_groups(pattern, factors) == groups
            found.add(groups)
    assert found == {as_groups(pattern, factors) for pattern in patterns(n_levels)}
    assert len(found) == n_levels**2


def test_two_levels_of_2_and_4() -> None:
    expected = {
        "all": [[0, 1, 2, 3, 4, 5, 6, 7]],
        "inside": [[0, 1, 2, 3], [4, 5, 6, 7]],
        "across": [[0, 4], [1, 5], [2, 6], [3, 7]],
        "masters": [[0, 4]],
    }
    found = {pattern.label(2): pattern.groups((2, 4)).tolist() for pattern in patterns(2)}
    assert found == expected
    assert list(found) == list(expected)


def test_slices_of_the_16_gpu_example() -> None:
    # Racks, servers, CPUs, GPUs; CPUs A to D hold the devices 0 to 3, 4 to 7, 8 to 11 and 12 to 15.
    factors = (1, 2, 2, 4)
    cpu = 3
    parallel_server = pattern_of(cpu, Form.PARALLEL, 2, 4)
    parallel_rack = pattern_of(cpu, Form.PARALLEL, 1, 4)
    master_server = pattern_of(cpu, Form.MASTER, 2, 4)
    master_rack = pattern_of(cpu, Form.MASTER, 1, 4)
    assert parallel_server is not None
    assert parallel_rack is not None
    assert master_server is not None
    assert master_rack is not None
    assert [0, 4] in parallel_server.groups(factors).tolist()
    assert len(parallel_server.groups(factors)) == 8
    assert parallel_rack.groups(factors).tolist() == [[p, 4 + p, 8 + p, 12 + p] for p in range(4)]
    assert master_server.groups(factors).tolist() == [[0, 4], [8, 12]]
    assert master_rack.groups(factors).tolist() == [[0, 4, 8, 12]]


def test_an_index_means_the_same_slice_and_form_on_every_number_of_levels() -> None:
    for depth, form, ancestor in spellings(4):
        indices = set()
        for n_levels in range(depth + 1, 5):
            pattern = pattern_of(depth, form, ancestor, n_levels)
            assert pattern is not None
            indices.add(patterns(n_levels).index(pattern))
        assert len(indices) <= 1


def test_actions_go_by_pattern_then_collective() -> None:
    for index, instruction in enumerate(actions(3)):
        pattern, collective = divmod(index, len(COLLECTIVES))
        assert instruction == Instruction(patterns(3)[pattern], COLLECTIVES[collective])
    assert len(actions(3)) == 45


@given(st.integers(1, 4).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.sampled_from(actions(n))))))
def test_what_is_formatted_is_parsed(case: tuple[int, list[Instruction]]) -> None:
    n_levels, program = case
    text = format_program(program, n_levels)
    assert parse_program(text, n_levels) == tuple(program)
    assert len(text.split()) == len(program)


def test_labels_are_different_names() -> None:
    for n_levels in range(1, 5):
        assert len({pattern.label(n_levels) for pattern in patterns(n_levels)}) == n_levels**2
    assert Pattern(1, 3).label(3) == "inside-1-2"
    assert Pattern(0, 1, masters=True).label(3) == "masters-0"


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownName, match='no collective is named "ARR"; did you mean "AR"'):
        parse_program("inside:ARR", 2)
    with pytest.raises(UnknownName, match='did you mean "inside"'):
        parse_program("insid:AR", 2)
    with pytest.raises(UnknownName, match="no pattern of 3 levels"):
        parse_program("across:AR", 3)
    with pytest.raises(ScenarioError, match="step 2"):
        parse_program("all:RS allAG", 1)


def test_what_is_no_pattern_is_refused() -> None:
    with pytest.raises(SysgymError, match="one or more levels"):
        Pattern(1, 1)
    # Masters of the innermost level would be all devices: not another spelling of "all".
    for pattern in (Pattern(0, 3), Pattern(0, 2, masters=True)):
        with pytest.raises(SysgymError, match="does not exist on 2 levels"):
            pattern.groups((2, 2))
    with pytest.raises(SysgymError, match="smaller depth"):
        pattern_of(1, Form.PARALLEL, 1, 2)
    with pytest.raises(SysgymError, match="depth from 0 to 2"):
        pattern_of(3, Form.INSIDE, 0, 2)


def test_lowered_groups_are_the_members_devices() -> None:
    # Axis 0 of [[1, 1, 2, 2], [1, 2, 1, 2]] on 1 x 2 x 2 x 4 devices: groups of the reference's table.
    groups = np.array([[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]], np.int32)
    inside = lower(Pattern(1, 2), (2, 2), groups)
    assert inside.tolist()[:4] == [[0, 2], [4, 6], [1, 3], [5, 7]]
    assert sorted(inside.ravel().tolist()) == list(range(16))
    assert lower(Pattern(0, 1, masters=True), (2, 2), groups).tolist() == [[0, 4], [1, 5], [8, 12], [9, 13]]
    with pytest.raises(SysgymError, match="members"):
        lower(Pattern(1, 2), (2, 4), groups)


def test_collectives_are_their_short_names() -> None:
    assert [str(collective) for collective in Collective] == ["AR", "RS", "AG", "R", "B"]
