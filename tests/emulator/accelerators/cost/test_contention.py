"""Loads of the first instance equal those of the fullest link, by brute force."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sysgym.emulator.accelerators.cost import CostModel
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.matrices import enumerate_matrices
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.programs import Instruction, actions

from .loads import Step
from .systems import Case, cases


def assert_as_brute_force(case: Case, instruction: Instruction, size_bytes: float, algorithm: str) -> Step:
    step = Step(*case, instruction, size_bytes, algorithm)
    model = CostModel(case.hierarchy, algorithm)
    time_s = model.instruction_time_s(case.matrix, case.reduce_axes, instruction, 1.0, 1.0, size_bytes)
    exact_s = step.time_s()
    if len(case.factors) < 3 or step.halving:
        assert time_s == pytest.approx(exact_s, rel=1e-9, abs=1e-18), (case, instruction, algorithm)
    # On three levels a ring's closed form can count ways that do not pass the slowest links.
    latencies_s = sum(level.latency_s for level in case.hierarchy.levels)
    assert exact_s * (1 - 1e-9) - 1e-18 <= time_s <= (exact_s + latencies_s) * (1 + 1e-9)
    return step


@settings(max_examples=400, deadline=None)
@given(case=cases(), action=st.integers(0, 44), size_bytes=st.floats(0, 1e12), tree=st.booleans())
def test_rings_trees_and_chains(case: Case, action: int, size_bytes: float, tree: bool) -> None:
    assume(case.factors)
    instructions = actions(len(case.factors))
    instruction = instructions[action % len(instructions)]
    step = assert_as_brute_force(case, instruction, size_bytes, "tree" if tree else "ring")
    if not instruction.pattern.masters and size_bytes:
        # Devices are alike: in a switch no uplink is idle or carries more than another.
        for index, level in enumerate(case.hierarchy.levels):
            loads = step.switch_loads(index)
            if level.network == "switch" and loads:
                assert len(loads) == case.hierarchy.n_devices // case.hierarchy.devices_inside(index) * (
                    level.uplinks
                )
                assert min(loads.values()) == pytest.approx(max(loads.values()))


@settings(max_examples=200, deadline=None)
@given(case=cases(cardinalities=(1, 2, 4, 8)), action=st.integers(0, 44), size_bytes=st.floats(0, 1e12))
def test_halving_and_doubling(case: Case, action: int, size_bytes: float) -> None:
    assume(case.factors)
    instructions = actions(len(case.factors))
    assert_as_brute_force(case, instructions[action % len(instructions)], size_bytes, "halving_doubling")


@pytest.mark.parametrize("algorithm", ["ring", "tree", "halving_doubling"])
@pytest.mark.parametrize("network", ["switch", "ring"])
def test_every_instruction_of_every_placement(network: str, algorithm: str) -> None:
    """All of a small system, so that nothing hangs on what hypothesis draws."""
    inner = Level("gpu", 4, 40e9, 1e-6, network="ring" if network == "ring" else "switch")
    outer = Level("node", 4, 10e9, 5e-6, uplinks=2, network="ring" if network == "ring" else "switch")
    hierarchy = Hierarchy("small", (Level("rack", 2, 5e9, 20e-6, uplinks=4), outer, inner))
    fullest: Counter[int] = Counter()
    for matrix in enumerate_matrices(hierarchy.cardinalities, (4, 8)):
        for reduce_axes in ((0,), (1,), (0, 1)):
            case = Case(hierarchy, matrix, reduce_axes)
            for instruction in actions(len(case.factors)):
                step = assert_as_brute_force(case, instruction, 1e9, algorithm)
                times_s = [step.level_time_s(level) for level in range(3)]
                fullest[times_s.index(max(times_s))] += 1
    assert set(fullest) == {0, 1, 2}


@pytest.mark.parametrize("uplinks", [1, 2, 4, 8])
def test_masters_crowd_on_the_first_uplink(uplinks: int) -> None:
    """Of 8 devices the first of each node takes part: one NIC sends what all could."""
    hierarchy = Hierarchy("x", (Level("node", 2, 10e9, 0.0, uplinks=uplinks), Level("gpu", 8, 1e12, 0.0)))
    case = Case(hierarchy, ((2, 8),), (0,))
    times_s = {}
    for instruction in actions(2):
        if instruction.collective == "AR":
            step = assert_as_brute_force(case, instruction, 1e9, "ring")
            times_s[instruction.pattern.label(2)] = step.level_time_s(0)
    # A group through one NIC; eight groups through all; one of 16 devices, spread over all.
    assert times_s["masters"] == pytest.approx(0.1)
    assert times_s["across"] == pytest.approx(8 * 0.1 / uplinks)
    assert times_s["all"] == pytest.approx(2 * 15 / 16 * 0.1 / uplinks)


def test_arcs_and_circles_of_a_ring() -> None:
    """Rings of 8 devices, 1 GB/s to each neighbour, an all-reduce of 1 GB."""
    hierarchy = Hierarchy("x", (Level("gpu", 8, 2e9, 0.0, network="ring"),))
    expected_s = {
        # All 8: 7/4 GB, half of it each way.
        (((8,),), (0,)): 7 / 8,
        # Two neighbours: 1 GB there and back. Pairs do not meet.
        (((4,), (2,)), (1,)): 1.0,
        # Opposite ones: four pairs, half of each GB either way.
        (((2,), (4,)), (0,)): 2.0,
        # Every other one of four pairs of steps reach around: both sets share all links.
        (((4,), (2,)), (0,)): 2 * 3 / 4,
        # Arcs of three links with 3/2 GB, next to each other.
        (((2,), (4,)), (1,)): 1.5,
        # Devices 0 and 2, 1 and 3, 4 and 6, 5 and 7: two arcs on the links between 1 and 2.
        (((2,), (2,), (2,)), (1,)): 2.0,
        # Devices 0, 1, 4, 5 and 2, 3, 6, 7.
        (((2,), (2,), (2,)), (0, 2)): 2 * 3 / 4,
    }
    instruction = next(step for step in actions(1) if step.collective == "AR")
    for (matrix, reduce_axes), time_s in expected_s.items():
        step = assert_as_brute_force(Case(hierarchy, matrix, reduce_axes), instruction, 1e9, "ring")
        assert step.time_s() == pytest.approx(time_s), (matrix, reduce_axes)


def test_halving_and_doubling_in_a_ring() -> None:
    """The same rings: half of the vector over the first distance, a quarter over the next, and back."""
    hierarchy = Hierarchy("x", (Level("gpu", 8, 2e9, 0.0, network="ring"),))
    expected_s = {
        # Distances 1, 2 and 4; as many pairs share a link, but halfway around they use both ways.
        (((8,),), (0,)): 2 * (1 / 2 + 2 / 4 + 4 / 8 / 2),
        (((4,), (2,)), (1,)): 2 * (1 / 2),
        (((2,), (4,)), (0,)): 2 * (4 / 2 / 2),
        (((4,), (2,)), (0,)): 2 * (2 / 2 + 4 / 4 / 2),
        (((2,), (2,), (2,)), (1,)): 2 * (2 / 2),
        (((2,), (2,), (2,)), (0, 2)): 2 * (1 / 2 + 4 / 4 / 2),
    }
    instruction = next(step for step in actions(1) if step.collective == "AR")
    for (matrix, reduce_axes), time_s in expected_s.items():
        step = assert_as_brute_force(
            Case(hierarchy, matrix, reduce_axes), instruction, 1e9, "halving_doubling"
        )
        assert step.time_s() == pytest.approx(time_s), (matrix, reduce_axes)


def test_what_leaves_a_ring_does_not_use_it() -> None:
    torus = get_preset("tpu-v3", 4)
    instruction = next(step for step in actions(1) if step.collective == "AR")
    step = assert_as_brute_force(Case(torus, ((4, 1), (1, 8)), (0,)), instruction, 1e9, "ring")
    assert step.level_time_s(1) == 0.0
    assert step.level_time_s(0) == pytest.approx(1.5 / 2 / 80)


@settings(max_examples=150, deadline=None)
@given(case=cases(), size_bytes=st.floats(0, 1e12), action=st.integers(0, 44))
def test_auto_is_the_fastest(case: Case, size_bytes: float, action: int) -> None:
    assume(case.factors)
    instructions = actions(len(case.factors))
    instruction = instructions[action % len(instructions)]
    sizes = {len(group) for group in Step(*case, instruction, 1.0, "ring").groups}
    names = ["ring", "tree"] + ["halving_doubling"] * all(n & (n - 1) == 0 for n in sizes)
    times_s = {
        name: CostModel(case.hierarchy, name).instruction_time_s(
            case.matrix, case.reduce_axes, instruction, 1.0, 1.0, size_bytes
        )
        for name in [*names, "auto"]
    }
    assert times_s.pop("auto") == min(times_s.values())


def test_continued_digits_hold_most_first() -> None:
    """The lemma that the first uplink carries most: no block holds more masters than the first as long."""
    for radices in itertools.product((2, 3), repeat=4):
        for kept in itertools.product((False, True), repeat=4):
            digits = itertools.product(*map(range, radices))
            active = [all(free or not digit for free, digit in zip(kept, it, strict=True)) for it in digits]
            below = [0, *itertools.accumulate(active)]
            for length in range(1, len(active) + 1):
                blocks = [below[end] - below[end - length] for end in range(length, len(below))]
                assert max(blocks) == blocks[0]
