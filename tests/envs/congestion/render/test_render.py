"""Rendered frames: constant size, and independent of the number of frames drawn before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from sysgym.emulator.packets.topology import build_topology
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.datacenter.measurement import Interval
from sysgym.envs.congestion.render.frame import (
    HEIGHT,
    LINES,
    WIDTH,
    Frame,
    Series,
    darker,
    round_up,
    span_end,
    spread,
)
from sysgym.envs.congestion.render.history import History
from sysgym.envs.congestion.render.network import LINK_COLOURS, QUEUE_COLOURS, NetworkPanel
from sysgym.envs.congestion.render.window import WINDOW_INTERVALS, window
from sysgym.scenarios import CongestionScenario, load_scenario

MakeEnv = Callable[..., DatacenterCC]
MakeInterval = Callable[..., Interval]
Picture = NDArray[np.uint8]

SHAPE = (HEIGHT, WIDTH, 3)
FORMS = ("dumbbell-10g", "incast-64", "leafspine-hadoop", "parking-lot-4", "fattree-k4-websearch")


def _episode(env: DatacenterCC, *, draw_each: bool) -> list[Picture]:
    env.reset(options={"episode_seed": 20000})
    frames = []
    for _ in range(6):
        env.step(np.full(env.action_space.shape or (), 0.5, np.float32))
        if draw_each:
            frames.append(env.render())
    return frames or [env.render()]


@pytest.mark.parametrize("scenario", FORMS)
def test_frames_are_alike_in_form_and_differ_in_what_they_show(scenario: str, make_env: MakeEnv) -> None:
    env = make_env(scenario, render_mode="rgb_array")
    frames = _episode(env, draw_each=True)
    assert {frame.shape for frame in frames} == {SHAPE}
    assert {frame.dtype for frame in frames} == {np.dtype(np.uint8)}
    assert all(not np.array_equal(one, other) for one, other in pairwise(frames))
    # White around, and something in the network's place and in that of the curves.
    assert (frames[-1][-2:] == 255).all()
    assert (frames[-1][100:600, 20:740] < 128).any()
    assert (frames[-1][100:600, 800:1270] < 128).any()


@pytest.mark.parametrize("scenario", ["dumbbell-10g", "leafspine-hadoop"])
def test_a_frame_does_not_depend_on_those_drawn_before(scenario: str, make_env: MakeEnv) -> None:
    env = make_env(scenario, render_mode="rgb_array")
    drawn_each = _episode(env, draw_each=True)[-1]
    assert np.array_equal(_episode(env, draw_each=False)[-1], drawn_each)
    assert np.array_equal(env.render(), drawn_each), "nor on being drawn twice"
    fresh = make_env(scenario, render_mode="rgb_array")
    assert np.array_equal(_episode(fresh, draw_each=False)[-1], drawn_each)


def test_sizes_are_even_as_video_codecs_want_them() -> None:
    assert WIDTH % 2 == HEIGHT % 2 == 0


def test_before_reset_there_is_no_picture(make_env: MakeEnv) -> None:
    env = make_env("dumbbell-10g", render_mode="rgb_array")
    with pytest.raises(gym.error.ResetNeeded, match="no episode has begun"):
        env.render()


def test_who_plays_is_in_the_picture(make_env: MakeEnv) -> None:
    env = make_env("dumbbell-10g", render_mode="rgb_array")
    before = _episode(env, draw_each=False)[0]
    assert env.recorder is not None
    assert env.recorder.contender == "transport paced"
    env.recorder.contender = "my agent"
    after = env.render()
    changed = np.argwhere((before != after).any(axis=2))
    assert len(changed)
    assert changed[:, 0].max() < 80, "only the second line changed"


def test_an_episode_with_other_queues_is_drawn_anew(make_env: MakeEnv) -> None:
    vary = {"splits.train.vary": {"queue.ecn_threshold_bytes": [30_000, 300_000]}}
    env = make_env("dumbbell-10g", render_mode="rgb_array", overrides=vary)
    scales: dict[float | None, Picture] = {}
    for seed in range(8):
        env.reset(options={"episode_seed": seed})
        picture = np.asarray(env.render())
        scale = picture[640:, 400:780]
        assert np.array_equal(scales.setdefault(env.fabric.ecn_threshold_bytes, scale), scale)
    assert len(scales) == 2
    assert not np.array_equal(scales[30_000], scales[300_000])


def _panel(scenario: str) -> tuple[Frame, NetworkPanel, Any]:
    topology = build_topology(load_scenario(scenario, expect=CongestionScenario).topology)
    frame = Frame("", "")
    return frame, NetworkPanel(frame, topology, topology.switch_ports), topology


def _where(picture: Picture, colour: str) -> NDArray[np.int64]:
    """Pixels of the network that have a colour."""
    rgb = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return np.argwhere((np.abs(picture[:620, :750].astype(int) - rgb) <= 2).all(axis=2))


@pytest.mark.parametrize("scenario", ["dumbbell-10g", "incast-32", "parking-lot-4"])
def test_a_busy_link_is_dark_where_it_is(scenario: str) -> None:
    frame, panel, topology = _panel(scenario)
    idle = np.zeros(topology.n_hosts, dtype=np.bool_)
    queues = np.zeros(len(topology.switch_ports))
    order = np.argsort([panel.place(host)[0] for host in range(topology.n_hosts)])
    places = []
    for host in order[:5]:
        busy = np.zeros(topology.n_links)
        busy[topology.host_uplink[host]] = 1.0
        panel.update(busy, queues, 1e6, idle, None, {})
        dark = _where(frame.pixels(), LINK_COLOURS[-1])
        assert len(dark) > 50
        places.append(float(dark[:, 1].mean()))
    assert places == sorted(places)
    panel.update(np.zeros(topology.n_links), queues, 1e6, idle, None, {})
    assert not len(_where(frame.pixels(), LINK_COLOURS[-1]))


def test_a_bar_is_as_high_as_its_queue_and_a_full_one_is_darkest() -> None:
    frame, panel, topology = _panel("dumbbell-10g")
    idle, busy = np.zeros(topology.n_hosts, dtype=np.bool_), np.zeros(topology.n_links)
    heights = []
    for share, colour in ((0.25, QUEUE_COLOURS[1]), (0.5, QUEUE_COLOURS[2]), (1.0, QUEUE_COLOURS[4])):
        queues = np.zeros(len(topology.switch_ports))
        queues[0] = share * 1e6
        panel.update(busy, queues, 1e6, idle, 97_500.0, {})
        coloured = _where(frame.pixels(), colour)
        heights.append(int(np.ptp(coloured[:, 0])))
    assert heights[2] / heights[0] == pytest.approx(4.0, rel=0.1)
    assert heights[2] / heights[1] == pytest.approx(2.0, rel=0.1)


def test_of_a_large_network_a_cell_shows_the_longest_of_its_queues() -> None:
    frame, panel, topology = _panel("fattree-k8-permutation")
    idle, busy = np.zeros(topology.n_hosts, dtype=np.bool_), np.zeros(topology.n_links)
    sizes = []
    for full in (range(1), range(4)):  # the ports of the first edge switch to its hosts
        queues = np.zeros(len(topology.switch_ports))
        queues[list(full)] = 1e6
        panel.update(busy, queues, 1e6, idle, None, {})
        sizes.append(len(_where(frame.pixels(), QUEUE_COLOURS[-1])))
    assert sizes[0] == sizes[1] > 50


def test_hosts_with_something_to_send_are_filled_in_their_curves_colour() -> None:
    frame, panel, topology = _panel("dumbbell-10g")
    queues, busy = np.zeros(len(topology.switch_ports)), np.zeros(topology.n_links)
    areas = []
    for sending in (True, False):
        active = np.zeros(topology.n_hosts, dtype=np.bool_)
        active[0] = sending
        panel.update(busy, queues, 1e6, active, None, {0: "#0072b2"})
        areas.append(len(_where(frame.pixels(), "#0072b2")))
    assert areas[0] > 2 * areas[1] > 0


def test_a_port_keeps_its_curve_until_another_was_much_longer(make_interval: MakeInterval) -> None:
    interval = make_interval()
    fabric = interval.fabric
    history = History(fabric, None)

    def longest(**queues: float) -> list[int]:
        of_links = np.zeros(fabric.topology.n_links)
        for port, queue_bytes in queues.items():
            of_links[fabric.port_links[int(port[1:])]] = queue_bytes
        history.add(make_interval(queue_max_bytes=of_links))
        return list(history.ports)

    assert longest() == []
    assert longest(p4=1000.0) == [4]
    assert longest(p0=900.0, p2=800.0) == [4, 0, 2]
    assert longest(p1=850.0) == [4, 0, 2], "longer than the third, but not by much"
    assert longest(p1=1100.0) == [4, 0, 1], "takes the place of the shortest, and only that"
    assert len(history) == 5


def test_hosts_have_curves_in_the_order_in_which_they_began(make_interval: MakeInterval) -> None:
    history = History(make_interval().fabric, None)
    for sending in ([0, 0, 1, 0], [1, 0, 0, 0], [1, 0, 1, 0]):
        history.add(make_interval(active_flows=np.array(sending)))
    assert history.senders == [2, 0]


def test_rows_are_kept_however_many() -> None:
    series = Series(2)
    for number in range(200):
        series.append(np.array([number, -number], dtype=np.float64))
    assert len(series) == 200
    assert series.rows.tolist() == [[number, -number] for number in range(200)]
    assert series.column.tolist() == list(range(200))


@pytest.mark.parametrize(
    ("value", "rounded"), [(0.0, 1.0), (1.0, 1.0), (9.99, 10.0), (97_500.0, 100_000.0), (10.2e9, 12e9)]
)
def test_limits_are_round_and_not_below(value: float, rounded: float) -> None:
    assert round_up(value) == pytest.approx(rounded)


def test_the_axis_of_time_ends_with_the_episode_or_ahead_of_now() -> None:
    assert span_end(np.array([0.0, 0.01]), 0.1) == 0.1
    assert span_end(np.array([0.0, 0.01]), None) > 0.01
    assert span_end(np.array([0.0]), None) > 0.0


def test_the_window_slides_through_a_long_episode_and_shows_all_of_it_at_the_end() -> None:
    end_s, interval_s = 10.0, 0.01
    times = np.arange(0.0, end_s + 0.5 * interval_s, interval_s)
    begins = []
    for length in (2, 160, 200, 500, 999):
        begin_s, until_s = window(times[:length], end_s)
        assert begin_s <= times[length - 1] <= until_s
        assert until_s - begin_s == pytest.approx(WINDOW_INTERVALS * interval_s)
        begins.append(begin_s)
    assert begins == sorted(begins)
    assert begins[0] == 0.0 < begins[-1]
    assert window(times, end_s) == (0.0, end_s)
    assert window(times[:50], 1.0) == (0.0, 1.0), "a short episode has no window"
    moves = {window(times[:length], end_s)[0] for length in range(2, 999)}
    assert len(moves) < 50, "axes are drawn anew only when the window moves"


def test_names_at_lines_do_not_overlap() -> None:
    assert spread([10.0, 11.0, 50.0], 14.0, 100.0) == [10.0, 24.0, 50.0]
    assert spread([95.0, 99.0], 14.0, 100.0) == [86.0, 100.0]


@pytest.mark.parametrize("colour", LINES)
def test_names_of_lines_can_be_read(colour: str) -> None:
    parts = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in to_rgb(darker(colour))
    ]
    luminance = float(np.dot(parts, (0.2126, 0.7152, 0.0722)))
    assert 1.05 / (luminance + 0.05) >= 4.5


def test_receivers_are_those_that_only_receive(make_env: MakeEnv) -> None:
    env = make_env("incast-32", render_mode="rgb_array")
    before = _episode(env, draw_each=False)[0]
    assert env.recorder is not None
    history = env.recorder._history
    assert np.flatnonzero(history.receivers).tolist() == [0]
    history.carried_bytes[:] = 0.0
    assert not history.receivers.any()
    assert not np.array_equal(env.render(), before), "the receiver is marked"


def test_nothing_is_imported_for_drawing_until_something_is_drawn() -> None:
    program = (
        "import sys, sysgym.envs.congestion.datacenter.datacenter_cc, sysgym.envs.congestion.render.flow\n"
        "import gymnasium\n"
        "env = gymnasium.make('sysgym/DatacenterCC-v0', render_mode='ansi')\n"
        "env.reset(seed=0); env.render()\n"
        "assert 'matplotlib' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_terminal_shows_time_ports_and_hosts(make_env: MakeEnv) -> None:
    env = make_env("dumbbell-10g", render_mode="ansi")
    _episode(env, draw_each=False)
    first, *rest = str(env.render()).splitlines()
    assert first == "dumbbell-10g, paced   1.5 ms, decision 6"
    assert any(line.startswith("  west->east |") for line in rest)
    assert sum("goodput" in line and "rate" in line for line in rest) >= 4


def test_gymnasium_records_a_video(make_env: MakeEnv, tmp_path: Path) -> None:
    pytest.importorskip("moviepy", reason="Gymnasium's RecordVideo writes with moviepy: pip install moviepy")
    env = gym.wrappers.RecordVideo(make_env("dumbbell-10g", render_mode="rgb_array"), str(tmp_path / "new"))
    env.reset(seed=0)
    env.step(env.action_space.sample())
    env.close()  # type: ignore[no-untyped-call]
    assert (tmp_path / "new" / "rl-video-episode-0.mp4").stat().st_size > 1000
