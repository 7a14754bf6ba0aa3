"""Pictures of one flow show measured values, and rendering does not affect the episode."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.envs.congestion.flow.flow_cc import FlowCC
from sysgym.envs.congestion.flow.intervals import FLOW_INTERVAL
from sysgym.envs.congestion.render.flow import FlowHistory, FlowRecorder
from sysgym.envs.congestion.render.frame import HEIGHT, WIDTH

REGISTERED = sysgym.__version__
N_STEPS = 8


def _env(scenario: str, **arguments: Any) -> FlowCC:
    env = gym.make(
        "sysgym/FlowCC-v0",
        scenario=scenario,
        split="test",
        overrides={"control.episode_steps": N_STEPS},
        **arguments,
    ).unwrapped
    assert isinstance(env, FlowCC)
    return env


def _play(env: FlowCC) -> list[Any]:
    env.reset(options={"episode_seed": 20000})
    rendered = []
    for _ in range(N_STEPS):
        _, _, _, _, info = env.step(np.array([0.1], np.float32))
        rendered.append(env.render() if env.render_mode else None)
    return [*rendered, info["episode_metrics"]]


@pytest.mark.parametrize("scenario", ["flow-1g-1ms", "flow-datacenter", "flow-incast", "aurora-links"])
def test_frames_are_alike_in_form_and_the_episode_is_the_same(scenario: str) -> None:
    *frames, metrics = _play(_env(scenario, render_mode="rgb_array"))
    assert {frame.shape for frame in frames} == {(HEIGHT, WIDTH, 3)}
    assert {frame.dtype for frame in frames} == {np.dtype(np.uint8)}
    assert all(not np.array_equal(one, other) for one, other in pairwise(frames))
    assert metrics == _play(_env(scenario))[-1], "who looks changes nothing"


def test_a_frame_does_not_depend_on_those_drawn_before() -> None:
    env = _env("flow-datacenter", render_mode="rgb_array")
    last = _play(env)[-2]
    assert env.recorder is not None
    assert np.array_equal(env.render(), last)
    env.recorder.contender = env.recorder.contender  # draws all anew
    assert np.array_equal(env.render(), last)


def test_what_is_drawn_is_what_was_measured() -> None:
    env = _env("flow-1g-1ms")
    env.reset(options={"episode_seed": 20000})
    history = FlowHistory(env.network, 0, None)
    queue_bytes, sent_bytes, begin_s = [], [], env.network.now_s
    for _ in range(4):
        before = env.network.ports()
        before_bytes, before_s = before.sent_bytes.copy(), before.queue_byte_s.copy()
        env.step(np.array([1.0], np.float32))
        history.add(env.sender.interval)
        after = env.network.ports()
        sent_bytes.append(after.sent_bytes - before_bytes)
        queue_bytes.append((after.queue_byte_s - before_s) / float(env.sender.interval["duration_s"]))
    assert history.time_s.column.tolist() == pytest.approx(begin_s + 1e-3 * np.arange(1, 5))
    used = 8.0 * sent_bytes[-1] / 1e-3 / env.network.topology.link_rate_bps
    assert history.utilization == pytest.approx(used)
    assert history.utilization[history.path].min() > 0.5, "the whole rate over every link of the path"
    assert history.queue_bytes == pytest.approx(queue_bytes[-1][env.network.topology.switch_ports])
    assert history.path_queue_bytes.rows[-1, 0] == pytest.approx(history.queue_bytes.max())
    assert history.fair_bps.column[-1] == pytest.approx(env.world.fair_rate_bps())


def test_recording_needs_an_episode() -> None:
    recorder = FlowRecorder("flow-1g-1ms", "datacenter", "paced")
    assert recorder.text().startswith("nothing yet")
    assert recorder.picture().shape == (HEIGHT, WIDTH, 3)
    with pytest.raises(RuntimeError, match="clear"):
        recorder.record(np.zeros(1, FLOW_INTERVAL)[0])
