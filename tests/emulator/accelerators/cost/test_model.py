"""The cost model: known costs of P2's problem, and properties that hold on every system."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sysgym.emulator.accelerators.cost import (
    SIMAI_2_NODES,
    SIMAI_128_NODES,
    CostModel,
    EfficiencyCurve,
    synthesis_space,
)
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.matrices import Matrix, enumerate_matrices
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction
from sysgym.emulator.accelerators.programs import (
    InvalidProgram,
    best_program,
    enumerate_programs,
    format_program,
    parse_program,
    program_times,
)
from sysgym.scenarios.errors import ScenarioError, SysgymError, UnknownName

from .lower_bounds import reduction_bound_s
from .systems import Case, cases

RS_AR_AG = "inside:RS across:AR inside:AG"
ROUNDING = 1 + 1e-9

# Flows print the same (flows.collective.program_time_s), to the digit. An earlier form took the network's
# latency for each of the 62 rounds of the first row: 231.52.
COSTS_MS = [
    (2, (2, 16), 230.67, 127.14, RS_AR_AG),
    (2, (2, 8), 446.44, 245.61, RS_AR_AG),
    (2, (2, 4), 833.35, 482.62, RS_AR_AG),
    (2, (2, 2), 1428.59, 956.67, RS_AR_AG),
    (2, (2, 1), 1904.79, 1904.79, "all:AR"),
    (2, (1, 16), 8.07, 8.07, "all:AR"),
    (2, (1, 8), 7.49, 7.49, "all:AR"),
    (2, (1, 4), 6.40, 6.40, "all:AR"),
    (2, (1, 2), 4.26, 4.26, "all:AR"),
    (4, (4, 16), 234.39, 186.72, RS_AR_AG),
    (4, (4, 4), 892.87, 720.77, RS_AR_AG),
    (4, (4, 2), 1666.68, 1432.92, RS_AR_AG),
    (4, (4, 1), 2857.23, 2857.23, "all:AR"),
    # On four nodes these rows cost what they cost on two.
    (4, (2, 8), 446.44, 245.61, RS_AR_AG),
    (4, (2, 4), 833.35, 482.62, RS_AR_AG),
    (4, (2, 2), 1428.59, 956.67, RS_AR_AG),
]

NAMED_MS = {
    RS_AR_AG: (127.144, 186.724),
    "inside:R masters:AR inside:B": (127.676, 187.256),
    "all:AR": (230.669, 234.389),
    "inside:AR across:AR": (1912.859, 2865.296),
    "across:RS inside:AR across:AG": (1908.869, 2859.312),
}

GIGABYTE = Reduction((0,), 1e9)


def row_first(nodes: int, row: tuple[int, int]) -> Matrix:
    """Return the placement on nodes of 16 whose first axis has this row."""
    return (row, (nodes // row[0], 16 // row[1]))


@pytest.mark.parametrize(("nodes", "row", "all_reduce_ms", "best_ms", "program"), COSTS_MS)
def test_costs(nodes: int, row: tuple[int, int], all_reduce_ms: float, best_ms: float, program: str) -> None:
    model = CostModel(get_preset("p2-a100", nodes))
    matrix = row_first(nodes, row)
    assert model.all_reduce_time_s(matrix, GIGABYTE) * 1e3 == pytest.approx(all_reduce_ms, abs=0.006)
    best, time_s = model.best_program(matrix, GIGABYTE)
    assert time_s * 1e3 == pytest.approx(best_ms, abs=0.006)
    assert format_program(best, sum(factor > 1 for factor in row)) == program
    assert model.program_time_s(matrix, GIGABYTE, best) == pytest.approx(time_s, rel=1e-12)


@pytest.mark.parametrize(("program", "times_ms"), NAMED_MS.items())
def test_costs_of_named_programs(program: str, times_ms: tuple[float, float]) -> None:
    for nodes, expected in zip((2, 4), times_ms, strict=True):
        model = CostModel(get_preset("p2-a100", nodes))
        time_s = model.program_time_s(row_first(nodes, (nodes, 16)), GIGABYTE, parse_program(program, 2))
        assert time_s * 1e3 == pytest.approx(expected, abs=0.0006)


@pytest.mark.parametrize(
    ("program", "split"),
    [(RS_AR_AG, "inside:RS across:RS across:AG inside:AG"), ("all:AR", "all:RS all:AG")],
)
@settings(max_examples=60, deadline=None)
@given(case=cases(), size_bytes=st.floats(1, 1e12))
def test_an_all_reduce_ties_with_a_reduce_scatter_and_an_all_gather(
    program: str, split: str, case: Case, size_bytes: float
) -> None:
    assume(len(case.factors) == 2)
    model, reduction = CostModel(case.hierarchy), Reduction(case.reduce_axes, size_bytes)
    times_s = [
        model.program_time_s(case.matrix, reduction, parse_program(text, 2)) for text in (program, split)
    ]
    if program == "all:AR":
        # Between its halves a ring of unlike hops waits for the last member.
        assert times_s[0] <= times_s[1] * ROUNDING
        case = case._replace(hierarchy=alike(case.hierarchy))
        model = CostModel(case.hierarchy)
        times_s = [
            model.program_time_s(case.matrix, reduction, parse_program(text, 2)) for text in (program, split)
        ]
    assert times_s[0] == pytest.approx(times_s[1])


def alike(hierarchy: Hierarchy) -> Hierarchy:
    """Return the hierarchy with switches of the same latency and the same rate for a device."""
    first = hierarchy.levels[0]
    levels = tuple(
        dataclasses.replace(
            level,
            latency_s=first.latency_s,
            bandwidth_bytes_per_s=1e9 * hierarchy.devices_inside(index) / level.uplinks,
            network="switch",
        )
        for index, level in enumerate(hierarchy.levels)
    )
    return dataclasses.replace(hierarchy, levels=levels)


def thirty_six() -> list[tuple[int, tuple[int, ...], Matrix, int]]:
    """Return (nodes, axes, matrix, reduced axis) of the cases that the reference statements are about."""
    problems = [(2, axes) for axes in ((2, 16), (4, 8), (8, 4), (16, 2), (32,))]
    problems += [(4, axes) for axes in ((4, 16), (8, 8), (16, 4), (64,))]
    return [
        (nodes, axes, matrix, axis)
        for nodes, axes in problems
        for matrix in enumerate_matrices((nodes, 16), axes)
        for axis in range(len(axes))
    ]


def test_statements_over_36_cases() -> None:
    assert len(thirty_six()) == 36
    flat, best, bound = [], [], []
    for nodes, _, matrix, axis in thirty_six():
        system, reduction = get_preset("p2-a100", nodes), Reduction((axis,), 1e9)
        model = CostModel(system)
        flat.append(model.all_reduce_time_s(matrix, reduction))
        best.append(model.best_program(matrix, reduction)[1])
        bound.append(reduction_bound_s(system, matrix, reduction))
    assert max(flat) / min(flat) == pytest.approx(670.5, abs=0.05)
    gains = [one / other for one, other in zip(flat, best, strict=True) if one / other > 1.02]
    assert len(gains) == 18
    assert np.mean(gains) == pytest.approx(1.557, abs=0.0006)
    assert max(gains) == pytest.approx(1.818, abs=0.0006)
    over = [one / other for one, other in zip(best, bound, strict=True)]
    assert min(over) >= 1.0
    assert min(over) == pytest.approx(1.000, abs=0.0006)
    assert max(over) == pytest.approx(1.068, abs=0.0006)
    # The dynamic programme's optimum is the minimum over all programs.
    for (nodes, _, matrix, axis), time_s in zip(thirty_six(), best, strict=True):
        model, reduction = CostModel(get_preset("p2-a100", nodes)), Reduction((axis,), 1e9)
        space = synthesis_space(sum(factor > 1 for factor in matrix[axis]), 5)
        edges_s = model.edge_times_s(matrix, reduction, space)
        assert program_times(space, edges_s, 5).min() == pytest.approx(time_s)


def placement_range(system: Hierarchy, axes: tuple[int, int], axis: int) -> float:
    matrices = enumerate_matrices(system.cardinalities, axes)
    times_s = CostModel(system).placement_times_s(
        PlacementProblem(system, axes, (Reduction((axis,), 1e9),)), matrices
    )
    return float(times_s.max() / times_s.min())


def test_placement_matters_by_hundreds_because_devices_share_a_nic() -> None:
    assert placement_range(get_preset("p2-a100", 4), (4, 16), 0) == pytest.approx(446.4, abs=0.05)
    assert placement_range(get_preset("p2-a100", 2), (2, 16), 0) == pytest.approx(447.0, abs=0.05)
    # Without latencies it is 16 Bi/Bn; with a NIC of the same bandwidth for every device only Bi/Bn.
    for uplinks, sharing in ((1, 16), (16, 1)):
        node = Level("node", 4, 8.4e9, 0.0, uplinks=uplinks)
        system = Hierarchy("x", (node, Level("gpu", 16, 235e9, 0.0)))
        assert placement_range(system, (4, 16), 0) == pytest.approx(sharing * 235 / 8.4)


def test_with_a_nic_for_every_device_programs_gain_little() -> None:
    """4 x 8 B200, 50 GB/s each: a flat ring of 4 GiB runs at 400 GB/s per node, 20.8 ms and latencies."""
    system = Hierarchy("b200", (Level("node", 4, 50e9, 14e-6, uplinks=8), Level("gpu", 8, 900e9, 3.4e-6)))
    model, reduction = CostModel(system), Reduction((0,), 4 * 2**30)
    (cost,) = model.step_costs(((4, 8),), reduction, parse_program("all:AR", 2))
    assert cost.link_s * 1e3 == pytest.approx(20.8, abs=0.05)
    # The NICs are never idle, and the last piece arrives a hop later.
    assert cost.latency_s == pytest.approx(14e-6)
    assert cost.level == 0
    assert cost.time_s == pytest.approx(model.all_reduce_time_s(((4, 8),), reduction))
    three = model.program_time_s(((4, 8),), reduction, parse_program(RS_AR_AG, 2))
    assert three * 1e3 == pytest.approx(24.5, abs=0.15)
    # Bus bandwidth is not above the links'.
    assert 2 * 31 / 32 * reduction.size_bytes / cost.time_s < 400e9


@settings(max_examples=150, deadline=None)
@given(case=cases(cardinalities=(1, 2, 4, 8)), size_bytes=st.floats(0, 1e12), data=st.data())
def test_no_program_is_under_the_bound(case: Case, size_bytes: float, data: st.DataObject) -> None:
    algorithm = data.draw(st.sampled_from(["ring", "tree", "halving_doubling", "auto"]))
    model, reduction = CostModel(case.hierarchy, algorithm), Reduction(case.reduce_axes, size_bytes)
    bound_s = reduction_bound_s(case.hierarchy, case.matrix, reduction)
    space = synthesis_space(len(case.factors), 5)
    times_s = program_times(space, model.edge_times_s(case.matrix, reduction, space), 5)
    assert times_s.min() * ROUNDING >= bound_s
    assert model.all_reduce_time_s(case.matrix, reduction) * ROUNDING >= bound_s


@settings(max_examples=150, deadline=None)
@given(case=cases(), size_bytes=st.floats(1, 1e12))
def test_bus_bandwidth_is_never_above_a_link(case: Case, size_bytes: float) -> None:
    assume(case.factors)
    devices = CostModel(case.hierarchy).all_reduce_time_s(
        case.matrix, Reduction(case.reduce_axes, size_bytes)
    )
    n = math.prod(case.factors)
    last = case.hierarchy.levels[-1]
    if last.network == "switch":
        assert 2 * (n - 1) / n * size_bytes / devices <= last.bandwidth_bytes_per_s * ROUNDING


@settings(max_examples=150, deadline=None)
@given(case=cases(), size_bytes=st.floats(0, 1e12), data=st.data())
def test_monotone(case: Case, size_bytes: float, data: st.DataObject) -> None:
    """In size and in every latency times do not fall, in every bandwidth they do not grow."""
    algorithm = data.draw(st.sampled_from(["ring", "tree", "auto"]))
    curve = data.draw(st.sampled_from([None, SIMAI_2_NODES, SIMAI_128_NODES]))
    more = data.draw(st.floats(1, 100))
    level = data.draw(st.integers(0, case.hierarchy.n_levels - 1))
    space = synthesis_space(len(case.factors), 5)

    def times_s(hierarchy: Hierarchy, size_bytes: float) -> np.ndarray:
        model = CostModel(hierarchy, algorithm, curve)
        return model.edge_times_s(case.matrix, Reduction(case.reduce_axes, size_bytes), space)

    def changed(**factors: float) -> Hierarchy:
        levels = list(case.hierarchy.levels)
        old = {name: getattr(levels[level], name) * factor for name, factor in factors.items()}
        levels[level] = dataclasses.replace(levels[level], **old)
        return dataclasses.replace(case.hierarchy, levels=tuple(levels))

    before = times_s(case.hierarchy, size_bytes)
    assert (times_s(case.hierarchy, size_bytes * more) * ROUNDING >= before).all()
    assert (times_s(changed(bandwidth_bytes_per_s=more), size_bytes) <= before * ROUNDING).all()
    assert (times_s(changed(latency_s=more), size_bytes) * ROUNDING >= before).all()


@settings(max_examples=100, deadline=None)
@given(case=cases(networks=("switch",)), data=st.data())
def test_the_order_of_axes_does_not_matter_in_switches(case: Case, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(case.matrix))))
    matrix = tuple(case.matrix[axis] for axis in order)
    reduce_axes = tuple(order.index(axis) for axis in case.reduce_axes)
    model = CostModel(case.hierarchy)
    times_s = [
        model.all_reduce_time_s(placed, Reduction(axes, 1e9))
        for placed, axes in ((case.matrix, case.reduce_axes), (matrix, reduce_axes))
    ]
    assert times_s[0] == pytest.approx(times_s[1])


@settings(max_examples=100, deadline=None)
@given(case=cases(), data=st.data())
def test_levels_and_axes_of_one_change_nothing(case: Case, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, case.hierarchy.n_levels))
    idle = Level("idle", 1, 1e15, 1.0, network="ring")
    levels = case.hierarchy.levels
    wider = Hierarchy("wider", (*levels[:at], idle, *levels[at:]))
    rows = [(*row[:at], 1, *row[at:]) for row in case.matrix]
    matrix = (*rows, (1,) * wider.n_levels)
    reduction = Reduction(case.reduce_axes, 1e9)
    space = synthesis_space(len(case.factors), 5)
    before = CostModel(case.hierarchy).edge_times_s(case.matrix, reduction, space)
    for reduce_axes in (case.reduce_axes, (*case.reduce_axes, len(rows))):
        after = CostModel(wider).edge_times_s(matrix, Reduction(reduce_axes, 1e9), space)
        np.testing.assert_array_equal(after, before)


@settings(max_examples=60, deadline=None)
@given(case=cases(), size_bytes=st.floats(0, 1e12), data=st.data())
def test_steps_edges_and_programs_agree(case: Case, size_bytes: float, data: st.DataObject) -> None:
    algorithm = data.draw(st.sampled_from(["ring", "tree", "auto"]))
    model, reduction = CostModel(case.hierarchy, algorithm), Reduction(case.reduce_axes, size_bytes)
    space = synthesis_space(len(case.factors), 5)
    edge_s = model.edge_times_s(case.matrix, reduction, space)
    programs = enumerate_programs(space, 5)
    program = programs[data.draw(st.integers(0, len(programs) - 1))]
    costs = model.step_costs(case.matrix, reduction, program)
    edges = space.edges_of(program)
    assert [cost.time_s for cost in costs] == pytest.approx(edge_s[edges].tolist())
    assert model.program_time_s(case.matrix, reduction, program) == pytest.approx(edge_s[edges].sum())
    levels_s = model.level_times_s(case.matrix, reduction, program)
    latency_s = sum(cost.latency_s for cost in costs)
    assert levels_s.sum() + latency_s == pytest.approx(edge_s[edges].sum())
    before, after = space.edge_shares(case.factors)
    for edge, instruction in zip(edges.tolist(), program, strict=True):
        alone = model.instruction_time_s(
            case.matrix, case.reduce_axes, instruction, before[edge], after[edge], size_bytes
        )
        assert alone == pytest.approx(edge_s[edge])


def test_the_fullest_level_is_named() -> None:
    model = CostModel(get_preset("p2-a100", 2))
    program = parse_program(RS_AR_AG, 2)
    levels_s = model.level_times_s(((2, 16),), GIGABYTE, program)
    assert levels_s * 1e3 == pytest.approx([1e3 / 16 / 8.4 * 16, 2 * 15 / 16 / 235 * 1e3])
    costs = model.step_costs(((2, 16),), GIGABYTE, program)
    assert [cost.level for cost in costs] == [1, 0, 1]
    nothing = model.step_costs(((2, 16),), Reduction((0,), 0.0), program)
    assert [(cost.level, cost.link_s) for cost in nothing] == [(-1, 0.0)] * 3


@settings(max_examples=60, deadline=None)
@given(case=cases(), sizes=st.lists(st.floats(0, 1e12), min_size=1, max_size=3), data=st.data())
def test_many_placements_cost_what_each_costs(case: Case, sizes: list[float], data: st.DataObject) -> None:
    algorithm = data.draw(st.sampled_from(["ring", "tree", "auto"]))
    reductions = tuple(
        Reduction(tuple(data.draw(st.sets(st.integers(0, len(case.axes) - 1), min_size=1))), size)
        for size in sizes
    )
    problem = PlacementProblem(case.hierarchy, case.axes, reductions)
    matrices = enumerate_matrices(case.hierarchy.cardinalities, case.axes)[:12]
    model = CostModel(case.hierarchy, algorithm)
    for programs in ("all_reduce", "synthesized"):
        times_s = model.placement_times_s(problem, matrices, programs)
        each = [model.placement_time_s(problem, matrix, programs) for matrix in matrices]
        assert times_s.tolist() == pytest.approx(each)
    table = np.array(matrices, np.int64)
    np.testing.assert_array_equal(
        model.placement_times_s(problem, table), model.placement_times_s(problem, matrices)
    )


def test_the_best_placement() -> None:
    system = get_preset("p2-a100", 4)
    model = CostModel(system)
    one = PlacementProblem(system, (8, 8), (Reduction((0,), 1e9), Reduction((1,), 1e8)))
    matrices = enumerate_matrices((4, 16), (8, 8))
    for programs in ("all_reduce", "synthesized"):
        matrix, time_s = model.best_placement(one, programs)
        times_s = model.placement_times_s(one, matrices, programs)
        assert time_s == times_s.min() == model.placement_time_s(one, matrix, programs)
    # Both axes alike: two placements are mirror images, and the first of them is taken.
    small = Hierarchy("small", (Level("node", 2, 8.4e9, 14e-6), Level("gpu", 2, 235e9, 3e-6)))
    alike = PlacementProblem(small, (2, 2), (Reduction((0,), 1e9), Reduction((1,), 1e9)))
    assert CostModel(small).best_placement(alike)[0] == ((1, 2), (2, 1))
    # Links may differ from those of the problem's hierarchy.
    slower = CostModel(get_preset("dgx-2", 4))
    assert slower.placement_time_s(one, matrices[0]) != model.placement_time_s(one, matrices[0])


def test_sizes_of_nothing_and_of_a_terabyte() -> None:
    model = CostModel(get_preset("p2-a100", 2))
    matrix = ((2, 16),)
    # Twice around 30 hops inside and 2 between, less 2, cost more than 30 rounds inside and 2 between.
    assert model.all_reduce_time_s(matrix, Reduction((0,), 0.0)) == pytest.approx(58 * 3e-6 + 4 * 14e-6)
    program, time_s = model.best_program(matrix, Reduction((0,), 0.0))
    assert time_s == pytest.approx(30 * 3e-6 + 2 * 14e-6)
    assert format_program(program, 2) == "inside:AR across:AR"
    # A thousand times the bytes, the same latencies.
    large = model.all_reduce_time_s(matrix, Reduction((0,), 1e12))
    assert large == pytest.approx(1000 * (0.2306687619 - 14e-6) + 14e-6)


def test_a_group_of_one_device_takes_no_time() -> None:
    for system, matrix in ((get_preset("single", 1), ((1,),)), (get_preset("p2-a100", 2), ((1, 1), (2, 16)))):
        model = CostModel(system)
        assert model.all_reduce_time_s(matrix, GIGABYTE) == 0.0
        assert model.best_program(matrix, GIGABYTE) == ((), 0.0)
        assert model.program_time_s(matrix, GIGABYTE, ()) == 0.0
        assert model.edge_times_s(matrix, GIGABYTE, synthesis_space(0, 5)).shape == (0,)


def test_efficiency_slows_the_network_but_not_what_is_inside() -> None:
    system = get_preset("p2-a100", 2)
    half = EfficiencyCurve((1.0,), (0.5,))
    for matrix, slower in ((((2, 1), (1, 16)), 2.0), (((1, 16), (2, 1)), 1.0)):
        plain, curved = (
            CostModel(system, efficiency=curve).step_costs(matrix, GIGABYTE, parse_program("all:AR", 1))[0]
            for curve in (None, half)
        )
        assert curved.link_s == pytest.approx(slower * plain.link_s)
        assert curved.latency_s == plain.latency_s
    # By the bytes of the step: after the reduce-scatter 1/16 GB.
    across, slowed = (
        CostModel(system, efficiency=curve).step_costs(((2, 16),), GIGABYTE, parse_program(RS_AR_AG, 2))[1]
        for curve in (None, SIMAI_2_NODES)
    )
    assert slowed.link_s == pytest.approx(across.link_s / SIMAI_2_NODES.at(1e9 / 16))


def test_halving_doubling_needs_powers_of_two() -> None:
    system = Hierarchy("x", (Level("node", 2, 10e9, 1e-5), Level("gpu", 6, 100e9, 1e-6)))
    model, reduction = CostModel(system, "halving_doubling"), Reduction((0,), 1e9)
    problem = PlacementProblem(system, (2, 6), (Reduction((1,), 1e9),))
    message = r"halving_doubling is defined for groups of a power of two, .* over 2 x 6 devices"
    for call in (
        lambda: model.all_reduce_time_s(((2, 6),), reduction),
        lambda: model.best_program(((2, 6),), reduction),
        lambda: model.program_time_s(((2, 6),), reduction, parse_program("all:AR", 2)),
    ):
        with pytest.raises(SysgymError, match=message):
            call()
    for programs in ("all_reduce", "synthesized"):
        with pytest.raises(SysgymError, match="a power of two"):
            model.placement_times_s(problem, [((1, 2), (2, 3)), ((2, 1), (1, 6))], programs)
    # Groups of two nodes are fine, and "auto" leaves it out where it does not fit.
    assert model.all_reduce_time_s(((2, 1), (1, 6)), reduction) > 0.0
    auto, ring = CostModel(system, "auto"), CostModel(system)
    assert 0.0 < auto.all_reduce_time_s(((2, 6),), reduction) <= ring.all_reduce_time_s(((2, 6),), reduction)


def test_small_messages_take_other_algorithms_than_rings() -> None:
    system = get_preset("p2-a100", 4)
    small, large = Reduction((0,), 1e3), Reduction((0,), 1e9)
    times_s = {
        name: [CostModel(system, name).all_reduce_time_s(((4, 16),), one) for one in (small, large)]
        for name in ("ring", "halving_doubling", "tree", "auto")
    }
    # 118 hops inside and 8 between, against 8 and 4 of a tree, or of halving and doubling.
    assert times_s["ring"][0] == pytest.approx(118 * 3e-6 + 8 * 14e-6, rel=1e-3)
    assert times_s["tree"][0] == pytest.approx(8 * 3e-6 + 4 * 14e-6, rel=4e-3)
    assert times_s["halving_doubling"][0] == pytest.approx(8 * 3e-6 + 4 * 14e-6, rel=3e-3)
    # Nearest first, what is left of 16 members crosses, 2 * 3/4 GB; but one after the other.
    assert times_s["tree"][1] == pytest.approx(2 / 8.4 + 8 * 3e-6 + 4 * 14e-6)
    assert times_s["halving_doubling"][1] == pytest.approx(
        1.5 / 8.4 + 2 * 15 / 16 / 235 + 8 * 3e-6 + 4 * 14e-6
    )
    assert times_s["auto"] == times_s["halving_doubling"]


def test_a_tree_of_two_nodes_crosses_once_each_way() -> None:
    for nodes, crossings in ((2, 1.0), (3, 1.5), (4, 2.0), (8, 2.0)):
        model = CostModel(get_preset("p2-a100", nodes), "tree")
        (cost,) = model.step_costs(((nodes, 16),), GIGABYTE, parse_program("all:AR", 2))
        assert cost.link_s == pytest.approx(crossings / 8.4)


def test_programs_of_four_levels() -> None:
    """With as many levels as no table lists, the usual program is among the best."""
    system = Hierarchy("x", tuple(Level(f"l{i}", 2, 10e9 * 4**i, 1e-6) for i in range(4)))
    model, reduction = CostModel(system), Reduction((0,), 1e9)
    space = synthesis_space(4, 3)
    program, time_s = best_program(space, model.edge_times_s(((2, 2, 2, 2),), reduction, space), 3)
    assert (program, time_s) == model.best_program(((2, 2, 2, 2),), reduction, max_steps=3)
    assert model.program_time_s(((2, 2, 2, 2),), reduction, program) == pytest.approx(time_s)
    assert time_s < model.all_reduce_time_s(((2, 2, 2, 2),), reduction)


def test_bad_input_is_named() -> None:
    system = get_preset("p2-a100", 2)
    model = CostModel(system)
    with pytest.raises(UnknownName, match='no algorithm is named "rings"; did you mean "ring"'):
        CostModel(system, "rings")
    problem = PlacementProblem(system, (2, 16), (GIGABYTE,))
    with pytest.raises(UnknownName, match="synthesized"):
        model.placement_time_s(problem, ((2, 1), (1, 16)), "synthesised")
    with pytest.raises(UnknownName, match="synthesized"):
        model.placement_times_s(problem, [((2, 1), (1, 16))], "best")
    with pytest.raises(ScenarioError, match="column 0"):
        model.all_reduce_time_s(((4, 8), (1, 1)), GIGABYTE)
    with pytest.raises(ScenarioError, match="matrix"):
        model.placement_times_s(problem, [((2, 1), (1, 16)), ((2, 2), (1, 8))])
    with pytest.raises(ScenarioError, match="matrix"):
        model.placement_times_s(problem, [((2, 1, 1), (1, 16, 1))])
    with pytest.raises(ScenarioError, match=r"hierarchy[\s\S]*\[2, 16\]"):
        CostModel(get_preset("p2-a100", 4)).placement_time_s(problem, ((2, 1), (1, 16)))
    with pytest.raises(InvalidProgram, match="step 2"):
        model.program_time_s(((2, 16),), GIGABYTE, parse_program("inside:AR all:AR", 2))
    with pytest.raises(SysgymError, match="programs of 2 levels for a reduction over 1 levels"):
        model.edge_times_s(((2, 1), (1, 16)), GIGABYTE, synthesis_space(2, 5))
    with pytest.raises(SysgymError, match="does not exist on 1 levels"):
        model.instruction_time_s(((2, 1), (1, 16)), (0,), parse_program("masters:AR", 2)[0], 1.0, 1.0, 1e9)
    for size_bytes in (-1.0, math.inf, math.nan):
        with pytest.raises(ScenarioError, match="size_bytes"):
            model.all_reduce_time_s(((2, 16),), Reduction((0,), size_bytes))
        with pytest.raises(ScenarioError, match="size_bytes"):
            model.best_program(((2, 16),), Reduction((0,), size_bytes))


def test_large_groups_are_checked_by_their_levels() -> None:
    """1,024 devices in one group: which programs are valid depends on the levels alone."""
    system = Hierarchy(
        "x", (Level("pod", 16, 10e9, 2e-5), Level("node", 8, 50e9, 1e-5), Level("gpu", 8, 300e9, 1e-6))
    )
    model = CostModel(system)
    program, time_s = model.best_program(((16, 8, 8),), GIGABYTE)
    assert model.program_time_s(((16, 8, 8),), GIGABYTE, program) == pytest.approx(time_s)
    with pytest.raises(InvalidProgram, match="step 2"):
        model.program_time_s(((16, 8, 8),), GIGABYTE, parse_program("all:AR all:AR", 3))
