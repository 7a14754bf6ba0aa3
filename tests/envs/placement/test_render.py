"""Rendering of the placement environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.accelerators.matrices import steps_of_matrix
from sysgym.emulator.accelerators.programs import Collective

MakeEnv = Callable[..., Any]


def picture(env: Any) -> Any:
    """Return the picture of a state, and check that there is something on it."""
    env.render_mode = "rgb_array"
    frame = env.render()
    assert frame.dtype == np.uint8
    assert frame.ndim == 3
    assert frame.shape[2] == 3
    assert min(frame.shape[:2]) > 300
    assert frame.std() > 10.0
    # The margin is white: nothing is cut off at the sides.
    assert (frame[:, [0, -1]] == 255).all()
    return frame


def text(env: Any) -> str:
    """Return the text of a state, no line of it too long for a terminal."""
    env.render_mode = "ansi"
    shown = env.render()
    assert isinstance(shown, str)
    assert max(map(len, shown.splitlines())) < 160
    return shown


@pytest.mark.parametrize("kind", ["placement", "program", "joint"])
def test_every_state_can_be_drawn(kind: str, make_env: MakeEnv) -> None:
    env = make_env(kind, split="test", render_mode="rgb_array")
    for seed in (20_000, 20_003):
        env.reset(options={"episode_seed": seed})
        before = picture(env)
        text(env)
        while env.outcome is None:
            allowed = np.flatnonzero(env.action_masks())
            env.step(allowed[-1] if kind == "joint" and env.steps > 2 else allowed[env.steps % len(allowed)])
        after = picture(env)
        assert before.shape != after.shape or (before != after).any()
        text(env)


def test_a_placement_in_words(make_env: MakeEnv, world: Any) -> None:
    env = make_env(
        "placement",
        render_mode="ansi",
        overrides={
            **world.nodes_of(4, 16),
            "problem.axes": [4, 16],
            **world.reductions(([0], 1e9), ([1], 2e8)),
        },
    )
    env.reset(seed=0)
    env.step(0)
    assert "1 of 6 primes placed; next: a 2 of the nodes" in text(env)
    assert "axis 0 (4): 2 nodes x 2 not placed yet" in text(env)
    env.reset(seed=0)
    for action in steps_of_matrix(((4, 1), (1, 16))):
        env.step(action)
    shown = text(env)
    # Axis 0 crosses: 6/4 GB for each of 16 groups at 8.4 GB/s and 6 hops of 14 us, 2857.23 ms; axis 1 inside:
    # 30/16 of 0.2 GB at 235 GB/s and 30 hops of 3 us, 1.69 ms. The best has both in nodes as far as they fit:
    # 6/4 GB at 235 GB/s and 6 hops of 3 us, 6.40 ms; then 30/16 of 0.2 GB for 4 groups at 8.4 GB/s and the
    # last piece's hop of 14 us, 178.59 ms. 2858.91 / 184.99 = 15.45.
    for words in (
        "axes 4 x 16 on 4 nodes x 16 gpus",
        "2.86 s: as fast as the default (2.86 s), 15.5 times as slow as the best (185 ms)",
        "axis 1 (16): 16 gpus",
        "reduction 1, 1 GB over axis 0 (4): 2.86 s, 16 groups of 4 devices",
        "node: 8.4 GB/s",
        "not used",
    ):
        assert words in shown


def test_devices_have_the_colours_of_their_groups(make_env: MakeEnv, world: Any) -> None:
    from sysgym.envs.placement.render.common import GROUP_COLOURS

    env = make_env(
        "placement",
        render_mode="rgb_array",
        overrides={**world.nodes_of(2, 4), "problem.axes": [2, 4], **world.reductions(([1], 1e9))},
    )
    area = {}
    for matrix, groups in ((((2, 1), (1, 4)), 2), (((1, 2), (2, 2)), 2)):
        env.reset(seed=0)
        for action in steps_of_matrix(matrix):
            env.step(action)
        frame = picture(env)
        colours = [tuple(int(name[at : at + 2], 16) for at in (1, 3, 5)) for name in GROUP_COLOURS]
        area[matrix] = [int((frame == colour).all(axis=2).sum()) for colour in colours]
        assert [size > 1000 for size in area[matrix]] == [True] * groups + [False] * (len(colours) - groups)
        assert area[matrix][0] == pytest.approx(area[matrix][1], rel=0.1)


@pytest.mark.parametrize("nodes", [8, 64])
def test_large_systems_are_drawn_quickly_and_what_is_left_out_is_said(make_env: MakeEnv, nodes: int) -> None:
    from sysgym.envs.placement.render.placement import _Boxes

    env = make_env(
        "placement",
        scenario="placement-unseen",
        split="test",
        overrides={"system.preset": "gb200-nvl72", "system.nodes": nodes},
    )
    env.reset(seed=0)
    while env.outcome is None:
        env.step(int(np.flatnonzero(env.action_masks())[0]))
    picture(env)
    boxes = _Boxes(env.problem)
    devices = sum(level == boxes.levels[-1] for level, *_ in boxes.instances)
    assert devices == min(nodes, 16) * 72
    assert boxes.left_out == max(nodes - 16, 0)


def test_boxes_hold_what_is_in_them_and_do_not_overlap(make_env: MakeEnv, world: Any) -> None:
    from sysgym.envs.placement.render.placement import _Boxes

    levels = [world.level("rack", 3, 1e9), world.level("node", 2, 2e9), world.level("gpu", 7, 3e9)]
    env = make_env("placement", overrides={**world.system(*levels), "problem.axes": [6, 7]})
    env.reset(seed=0)
    boxes = _Boxes(env.problem)
    assert [sum(level == which for level, *_ in boxes.instances) for which in range(3)] == [3, 6, 42]
    for level, device, x, y, width, height in boxes.instances:
        assert 0 <= x < x + width <= boxes.width + 1e-9
        assert 0 <= y < y + height <= boxes.height + 1e-9
        for other, first, left, top, wide, high in boxes.instances:
            if other == level and device != first:
                apart = x + width <= left or left + wide <= x or y + height <= top or top + high <= y
                assert apart
            if other == level + 1 and device <= first < device + boxes.inside[level]:
                assert x < left
                assert left + wide < x + width
                assert y < top
                assert top + high < y + height


def test_a_program_in_words(make_env: MakeEnv, world: Any) -> None:
    env = make_env(
        "program",
        render_mode="ansi",
        overrides={
            **world.nodes_of(2, 16),
            "problem.axes": [32],
            "problem.axes_min": 1,
            **world.reductions(([0], 1e9)),
        },
    )
    env.reset(seed=0)
    assert "this program so far: nothing yet" in text(env)
    for word in ("inside:RS", "across:AR", "inside:AG"):
        env.step(env.action_of(word))
    shown = text(env)
    # The single ring: 62 pieces of 1/32 GB at 8.4 GB/s without a pause, and the last one's hop of 14 us, make
    # 230.67 ms. The program: inside, twice 15/16 GB at 235 GB/s and 15 hops of 3 us, 8.07 ms; across, 16
    # rings share the NIC with 1 GB in all and 2 hops of 14 us, 119.08 ms. 230.67 / 127.14 = 1.814.
    for words in (
        "one group of 32 devices = 2 nodes x 16 gpus",
        "this program: 127 ms in 3 steps, 1.81 times as fast as a single AllReduce",
        "inside: ReduceScatter",
        "a single AllReduce, the default: 231 ms in 1 step",
        "the best program: 127 ms in 3 steps",
    ):
        assert words in shown
    bars = [line for line in shown.splitlines() if "█" in line]
    assert len(bars) == 7


def test_a_timeline_is_as_long_as_the_time(make_env: MakeEnv, world: Any) -> None:
    """The all-reduce's bar over the best program's, in pixels of the all-reduce's colour."""
    from sysgym.envs.placement.render.common import COLLECTIVE_COLOURS

    env = make_env(
        "program",
        render_mode="rgb_array",
        overrides={
            **world.nodes_of(2, 4),
            "problem.axes": [8],
            "problem.axes_min": 1,
            **world.reductions(([0], 1e9)),
        },
    )
    env.reset(seed=0)
    frame = picture(env)
    name = COLLECTIVE_COLOURS[Collective.ALL_REDUCE]
    colour = tuple(int(name[at : at + 2], 16) for at in (1, 3, 5))
    runs = sorted({int(count) for count in (frame == colour).all(axis=2).sum(axis=1)})[-2:]
    across_s = float(env.task.edge_time_s[env.task.space.edges_of(env.task.best(5)[0])][1])
    assert runs[0] / runs[1] == pytest.approx(across_s / env.task.all_reduce_time_s, abs=0.02)


def test_candidates_in_words(make_env: MakeEnv) -> None:
    env = make_env("joint", split="test", render_mode="ansi")
    env.reset(options={"episode_seed": 20_003})
    rows = env.action_space.n // 2
    env.step(4)
    env.step(4)
    shown = text(env)
    assert "2 of 20 measurements taken" in shown
    assert "truly" not in shown
    assert " in 2" in shown
    env.step(rows + 4)
    shown = text(env)
    assert "<- chosen" in shown
    assert "truly" in shown
    assert "times as" in shown


def test_the_truth_is_drawn_only_when_the_episode_is_over(
    make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sysgym.envs.placement import measurements

    frames = []
    for stream in (0, 77):
        monkeypatch.setattr(measurements, "_TRUTH", stream)
        env = make_env("joint", split="test")
        env.reset(options={"episode_seed": 20_003})
        frames.append((picture(env), text(env)))
    assert np.array_equal(frames[0][0], frames[1][0])
    assert frames[0][1] == frames[1][1]


def test_invalid_actions_are_named(make_env: MakeEnv) -> None:
    for kind in ("placement", "program", "joint"):
        env = make_env(kind, split="test", overrides={"joint.budget": 0})
        env.reset(options={"episode_seed": 20_003})
        env.step(int(np.flatnonzero(~env.action_masks())[0]))
        assert "not valid" in text(env)
        picture(env)


@pytest.mark.parametrize(
    ("value_s", "words"),
    [
        (0.0, "0 us"),
        (3.4e-7, "0.34 us"),
        (0.000999, "999 us"),
        (0.0123, "12.3 ms"),
        (0.9996, "1000 ms"),
        (75.0, "75 s"),
    ],
)
def test_times_in_words(value_s: float, words: str) -> None:
    from sysgym.envs.placement.render.common import time

    assert time(value_s) == words
