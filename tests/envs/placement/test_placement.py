"""Placements, compared with brute force: all matrices, costs by counting bytes at every NIC."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.envs.placement import rings

MakeEnv = Callable[..., Any]
Matrix = tuple[tuple[int, ...], ...]


def all_matrices(levels: Sequence[int], axes: Sequence[int]) -> list[Matrix]:
    """Return every matrix, by trying every table of divisors."""
    cells = [
        [factor for factor in range(1, size + 1) if size % factor == 0 and cardinality % factor == 0]
        for size in axes
        for cardinality in levels
    ]
    found = []
    for chosen in itertools.product(*cells):
        rows = tuple(chosen[at : at + len(levels)] for at in range(0, len(chosen), len(levels)))
        if [math.prod(row) for row in rows] == list(axes) and [
            math.prod(column) for column in zip(*rows, strict=True)
        ] == list(levels):
            found.append(rows)
    return found


def groups_of(levels: Sequence[int], matrix: Matrix, reduced: Sequence[int]) -> list[list[int]]:
    """Return who reduces with whom: devices whose digits of the other axes are equal."""
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    digits = [range(row[at]) for at in range(len(levels)) for row in matrix]
    for device, place in enumerate(itertools.product(*digits)):
        others = tuple(digit for index, digit in enumerate(place) if index % len(matrix) not in reduced)
        groups[others].append(device)
    return list(groups.values())


def ring_time_s(nodes: int, gpus: int, matrix: Matrix, reduced: Sequence[int], size: float) -> float:
    """Return the time of an all-reduce by rings, round by round: a NIC is shared by the groups that cross."""
    groups = groups_of((nodes, gpus), matrix, reduced)
    per_nic = [0] * nodes
    for group in groups:
        inside = {device // gpus for device in group}
        if len(inside) > 1:
            for node in inside:
                per_nic[node] += 1
    return rings.ring_time_s(groups[0], gpus, 2, size, max(per_nic))


def leaves(env: Any, seed: int = 20_001) -> Iterator[tuple[Matrix, float, dict[str, float]]]:
    """Walk all sequences of allowed actions; yields matrix, reward and episode metrics of each."""
    pending: list[list[int]] = [[]]
    while pending:
        chosen = pending.pop()
        env.reset(options={"episode_seed": seed})
        result = None
        for action in chosen:
            result = env.step(action)
        if result is not None and result[2]:
            yield env.matrix, result[1], result[4]["episode_metrics"]
            continue
        allowed = np.flatnonzero(env.action_masks()).tolist()
        assert allowed, "the mask has led into a dead end"
        pending += [[*chosen, action] for action in allowed]


PROBLEMS = [
    (2, 4, [2, 4], [([0], 1e9)]),
    (2, 4, [4, 2], [([1], 1e9), ([0], 5e7)]),
    (4, 16, [4, 16], [([0], 1e9)]),
    (4, 4, [2, 2, 4], [([0], 1e9), ([1, 2], 2e8), ([2], 1e6)]),
    (6, 4, [4, 6], [([1], 3e8), ([0, 1], 1e6)]),
    (4, 8, [8, 2, 2], [([0, 1], 3e8)]),
    (1, 8, [2, 4], [([0], 1e9)]),
    (3, 5, [5, 3], [([0], 1e9)]),
]


@pytest.mark.parametrize(("nodes", "gpus", "axes", "reduced"), PROBLEMS)
def test_the_optimum_is_that_of_a_brute_force(
    make_env: MakeEnv,
    world: Any,
    nodes: int,
    gpus: int,
    axes: list[int],
    reduced: list[tuple[list[int], float]],
) -> None:
    env = make_env(
        "placement",
        overrides={**world.nodes_of(nodes, gpus), "problem.axes": axes, **world.reductions(*reduced)},
    )
    expected = {
        matrix: sum(ring_time_s(nodes, gpus, matrix, over, size) for over, size in reduced)
        for matrix in all_matrices((nodes, gpus), axes)
    }
    reached = list(leaves(env))
    # Every matrix is reached, and in one way only.
    assert sorted(matrix for matrix, _, _ in reached) == sorted(expected)
    best_s, worst_s = min(expected.values()), max(expected.values())
    for matrix, reward, metrics in reached:
        time_s = expected[matrix]
        assert metrics["time_s"] == pytest.approx(time_s, rel=1e-12)
        assert metrics["best_time_s"] == pytest.approx(best_s, rel=1e-12)
        assert metrics["worst_time_s"] == pytest.approx(worst_s, rel=1e-12)
        assert metrics["placement_range"] == pytest.approx(worst_s / best_s, rel=1e-9)
        assert metrics["n_placements"] == len(expected)
        assert metrics["regret"] == pytest.approx(math.log(time_s / best_s), abs=2e-9)
        assert reward == pytest.approx(math.log(metrics["default_time_s"] / time_s), abs=2e-9)
        if time_s == best_s:
            assert metrics["regret"] == 0.0
            assert metrics["optimal"] == 1.0
    assert any(metrics["optimal"] for _, _, metrics in reached)


def test_a_placement_may_cost_448_times_another(make_env: MakeEnv, world: Any) -> None:
    """The arithmetic of P2's abstract: 16 rings behind one NIC, against rings inside nodes."""
    env = make_env(
        "placement",
        overrides={**world.nodes_of(4, 16), "problem.axes": [4, 16], **world.reductions(([0], 1e9))},
    )
    metrics = {matrix: metrics for matrix, _, metrics in leaves(env)}
    assert metrics[(4, 1), (1, 16)]["time_s"] == pytest.approx(2857.23e-3, abs=1e-5)
    assert metrics[(1, 4), (4, 4)]["time_s"] == pytest.approx(6.40e-3, abs=1e-5)
    assert metrics[(1, 4), (4, 4)]["placement_range"] == pytest.approx(446.4, abs=0.1)


def test_the_default_takes_the_last_axis_innermost(make_env: MakeEnv, world: Any) -> None:
    env = make_env(
        "placement",
        overrides={**world.nodes_of(4, 8), "problem.axes": [4, 8], **world.reductions(([0], 1e9))},
    )
    default = {matrix: reward for matrix, reward, _ in leaves(env)}[(4, 1), (1, 8)]
    assert default == 0.0


@pytest.mark.parametrize("seed", range(20_000, 20_012))
def test_masks_are_exact_on_drawn_problems(make_env: MakeEnv, world: Any, seed: int) -> None:
    """What is allowed leads to all matrices, each once; what is not allowed ends the episode."""
    env = make_env("placement", scenario="placement-unseen", split="test")
    reached = [matrix for matrix, _, _ in leaves(env, seed)]
    cardinalities = env.problem.hierarchy.cardinalities
    assert sorted(reached) == sorted(all_matrices(cardinalities, env.problem.axes))
    path: list[int] = []
    env.reset(options={"episode_seed": seed})
    while not env.outcome:
        mask = env.action_masks()
        for action in np.flatnonzero(~mask).tolist():
            other = make_env("placement", scenario="placement-unseen", split="test")
            other.reset(options={"episode_seed": seed})
            for earlier in path:
                other.step(earlier)
            _, reward, terminated, _, info = other.step(action)
            assert (terminated, reward, info["reward_terms"]["invalid"]) == (True, -1.0, -1.0)
        path.append(int(np.flatnonzero(mask)[-1]))
        env.step(path[-1])


@pytest.mark.filterwarnings("ignore::sysgym.emulator.accelerators.cost.validity.ClosedFormWarning")
def test_what_is_observed_by_hand(make_env: MakeEnv, world: Any) -> None:
    env = make_env(
        "placement",
        overrides={
            **world.system(
                world.level("node", 2, 10e9, 1e-5, uplinks=2),
                world.level("gpu", 6, 100e9, 1e-6, network="ring"),
            ),
            "problem.axes": [4, 3],
            **world.reductions(([0], 3e6), ([0, 1], 1e6)),
        },
    )
    observation, info = env.reset(seed=0)
    log = np.log10
    levels = [
        [1, log(2), 1, 1, log(2), log(6), 0],
        [1, log(6), 2, 0, 0, 0, 1],
    ]
    assert observation["levels"][:2] == pytest.approx(np.array(levels), abs=1e-6)
    axes = [[1, log(4), log(4), 1.0], [1, log(3), log(3), 0.25]]
    assert observation["axes"][:2] == pytest.approx(np.array(axes), abs=1e-6)
    assert observation["reductions"][:2] == pytest.approx(
        np.array([[1, log(3), 1, 0, 0, 0], [1, 0, 1, 1, 0, 0]]), abs=1e-6
    )
    # Node: 2; GPU: 2, then 3. The 2s go to the axis of 4.
    assert observation["next"] == pytest.approx(np.array([1, 0, 0, 0, log(2), 0, 1]))
    assert observation["action_mask"].tolist() == [1, 0, 0, 0]
    assert info["metrics"]["steps_left"] == 3.0
    env.step(0)
    observation = env.step(0)[0]
    assert observation["matrix"][:2, :2] == pytest.approx(np.array([[log(2), log(2)], [0, 0]]))
    assert observation["axes"][:2, 2] == pytest.approx(np.array([0.0, log(3)]))
    assert observation["next"] == pytest.approx(np.array([0, 1, 0, 0, log(3), 0, 1 / 3]))
    assert observation["action_mask"].tolist() == [0, 1, 0, 0]
    observation, _, terminated, _, info = env.step(1)
    assert terminated
    assert not observation["next"].any()
    assert info["metrics"]["steps_left"] == 0.0
    for key in ("levels", "axes", "reductions", "matrix"):
        assert not observation[key][2:].any()


def test_equal_primes_go_to_axes_in_order(make_env: MakeEnv, world: Any) -> None:
    env = make_env(
        "placement",
        overrides={**world.nodes_of(1, 8), "problem.axes": [2, 4], **world.reductions(([0], 1e6))},
    )
    observation, _ = env.reset(seed=0)
    assert observation["next"][5] == pytest.approx(np.log10(3))
    # To begin with the second axis would leave the first 2 to nobody.
    assert observation["action_mask"].tolist() == [1, 0, 0, 0]
    assert env.step(0)[0]["action_mask"].tolist() == [0, 1, 0, 0]


def test_a_single_device_has_nothing_to_place(make_env: MakeEnv, world: Any) -> None:
    env = make_env(
        "placement",
        overrides={
            "system.preset": "single",
            "system.nodes": 1,
            "problem.axes": [1, 1],
            **world.reductions(([0], 1e9)),
        },
    )
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert observation["action_mask"].tolist() == [1, 0, 0, 0]
    _, reward, terminated, _, info = env.step(0)
    assert (reward, terminated) == (0.0, True)
    metrics = info["episode_metrics"]
    assert metrics["time_s"] == metrics["best_time_s"] == 0.0
    assert (metrics["speedup"], metrics["regret"], metrics["optimal"]) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize("size", [0.0, 1e12])
def test_vectors_of_nothing_and_of_a_terabyte(make_env: MakeEnv, world: Any, size: float) -> None:
    env = make_env(
        "placement",
        overrides={**world.nodes_of(4, 16), "problem.axes": [4, 16], **world.reductions(([0], size))},
    )
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    for matrix, reward, metrics in leaves(env):
        assert metrics["time_s"] == pytest.approx(ring_time_s(4, 16, matrix, [0], size))
        assert np.isfinite(reward)


def test_links_without_latency_and_nothing_to_send_are_no_time(make_env: MakeEnv, world: Any) -> None:
    free = world.system(world.level("node", 2, 1e9, 0.0), world.level("gpu", 2, 1e9, 0.0))
    env = make_env("placement", overrides={**free, "problem.axes": [2, 2], **world.reductions(([0], 0.0))})
    for _, reward, metrics in leaves(env):
        assert (reward, metrics["time_s"], metrics["regret"]) == (0.0, 0.0, 0.0)


def test_placements_may_be_judged_with_the_best_programs(make_env: MakeEnv, world: Any) -> None:
    shared = {**world.nodes_of(2, 16), "problem.axes": [32, 1], **world.reductions(([0], 1e9))}
    env = make_env("placement", overrides={**shared, "problem.programs": "synthesized"})
    (_, _, metrics), *others = leaves(env)
    assert not others
    assert metrics["time_s"] == pytest.approx(127.14e-3, abs=1e-5)
    env = make_env("placement", overrides=shared)
    # 62 pieces of 1/32 GB leave a NIC without a pause, and the last one is on its way for 14 us.
    assert next(iter(leaves(env)))[2]["time_s"] == pytest.approx(62 / 32 / 8.4 + 14e-6, abs=1e-8)
