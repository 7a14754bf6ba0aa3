"""A run shows what the simulator counts and repeats exactly from its recording; bad ones are refused."""

from __future__ import annotations

import base64
import gzip
import json
import re
import time
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.bench.run.episodes import make_contender, play
from sysgym.errors import ResultMismatch, SysgymError, UnknownName
from sysgym.live.export import exported_page, packed
from sysgym.live.frames import Frame
from sysgym.live.recording import Recorder, compare, read_recording
from sysgym.live.run import INTERVAL, Run
from sysgym.live.session import Session
from sysgym.scenarios import load_scenario
from sysgym.scenarios.families import families
from tests.sysgym.live.conftest import SHORT, MakeRun

K = "queue.ecn_threshold_bytes"


def frames_of(run: Run) -> list[Frame]:
    frames = []
    while (frame := run.next_frame()) is not None:
        frames.append(frame)
    return frames


def same(some: list[Frame], others: list[Frame]) -> bool:
    """Compare frames as data; pytest would look for the differences of long lists for minutes."""
    return [json.dumps(one.to_json()) for one in some] == [json.dumps(one.to_json()) for one in others]


def test_watching_does_not_change_the_episode(make_run: MakeRun) -> None:
    run = make_run("dctcp")
    frames = frames_of(run)
    scenario = load_scenario("incast-32", overrides=SHORT)
    contender = run.lanes[0].contender
    env, agent = make_contender(scenario.resolved(), "test", contender)
    play(env, agent, scenario.splits["test"].first_seed)
    alone, watched = (one.unwrapped.network for one in (env, run.lanes[0].env))  # type: ignore[attr-defined]
    assert alone.packet_hops == watched.packet_hops
    last = frames[-1].lanes[0]["values"]
    assert last["marks"] == alone.ports().marked_packets.sum() > 0
    assert last["drops"] == alone.ports().dropped_packets.sum() > 0
    done = int(np.isfinite(alone.flows().finish_s).sum())
    assert last["done"] == done > 0
    env.close()


def test_frames_are_as_many_as_said_and_events_add_up(make_run: MakeRun) -> None:
    run = make_run("dctcp", "neural")
    frames = frames_of(run)
    assert 750 <= len(frames) <= 752
    assert frames[0].time == 0.0
    assert frames[-1].time == pytest.approx(run.end)
    for lane in range(2):
        sums: dict[str, int] = {}
        for frame in frames:
            for kind, place, count in frame.lanes[lane]["events"]:
                assert 0 <= place < len(run.header["lanes"][lane]["places"])
                sums[kind] = sums.get(kind, 0) + count
        last = frames[-1].lanes[lane]["values"]
        for kind, key in (("mark", "marks"), ("drop", "drops"), ("resend", "resent"), ("done", "done")):
            assert sums.get(kind, 0) == last[key], kind
    assert max(max(frame.lanes[0]["values"]["net"]) for frame in frames) == 100


def test_a_change_acts_in_all_lanes_and_is_in_the_next_frame(make_run: MakeRun) -> None:
    run = make_run("dctcp", "cubic")
    for _ in range(100):
        run.next_frame()
    run.change(None, K, 30_000)
    run.change(1, "law", "dctcp")
    frame = run.next_frame()
    assert frame is not None
    assert frame.changes == ((None, K, 30_000), (1, "law", "dctcp"))
    networks = [lane.env.unwrapped.network for lane in run.lanes]  # type: ignore[attr-defined]
    assert [network.scenario.queue.ecn_threshold_bytes for network in networks] == [30_000, 30_000]
    assert [network.law.name for network in networks] == ["dctcp", "dctcp"]


def test_wrong_changes_are_refused(make_run: MakeRun) -> None:
    run = make_run("dctcp", "neural")
    with pytest.raises(UnknownName, match="topology"):
        run.change(None, "topology.hosts", 4)
    with pytest.raises(SysgymError, match="expected a number from 3000 to 500000"):
        run.change(None, K, 1e12)
    with pytest.raises(SysgymError, match="expected a number"):
        run.change(None, K, "much")
    with pytest.raises(UnknownName, match="dctcpp"):
        run.change(0, "law", "dctcpp")
    with pytest.raises(SysgymError, match="the same for all lanes"):
        run.change(0, K, 30_000)
    with pytest.raises(SysgymError, match="law: every lane has its own; expected a lane"):
        run.change(None, "law", "cubic")
    with pytest.raises(SysgymError, match="no lane 7"):
        run.change(7, "law", "dctcp")
    frame = run.next_frame()
    assert frame is not None
    assert frame.changes == ()


def test_a_change_that_one_lane_refuses_changes_none(make_run: MakeRun) -> None:
    run = make_run("dctcp", "dctcp")
    scene = run._scenes[1]
    narrow = [replace(one, high=20_000) if one.key == K else one for one in scene.controls]
    run._scenes[1] = replace(scene, controls=tuple(narrow))
    with pytest.raises(SysgymError, match="expected a number from 3000 to 20000"):
        run.change(None, K, 30_000)
    networks = [lane.env.unwrapped.network for lane in run.lanes]  # type: ignore[attr-defined]
    assert len({network.scenario.queue.ecn_threshold_bytes for network in networks}) == 1
    frame = run.next_frame()
    assert frame is not None
    assert frame.changes == ()


def test_settings_that_are_offered_can_be_changed(make_run: MakeRun) -> None:
    own_flow = make_run("flow_aimd", scenario="flow-incast", overrides={"control.episode_steps": 10})
    offered = {control["key"] for control in own_flow.header["lanes"][0]["controls"]}
    # The agent's flow and the others are drawn together in the beginning: there is no load to change.
    assert offered == {"queue.ecn_threshold_bytes", "topology.link_delay_s"}
    for run in (own_flow, make_run("dctcp")):
        run.next_frame()
        for control in run.header["lanes"][0]["controls"]:
            run.change(0 if control["own"] else None, control["key"], control["value"])
        assert run.next_frame() is not None


def test_an_agent_that_sets_rates_keeps_its_law(make_run: MakeRun) -> None:
    run = make_run("aimd")
    assert all(control["key"] != "law" for control in run.header["lanes"][0]["controls"])


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_a_recorded_run_repeats_exactly(make_run: MakeRun, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"run{suffix}"
    run = make_run("dctcp", "neural")
    recorder = Recorder(path, run.header)
    kept = []
    for number in range(400):
        if number == 90:
            run.change(None, "workload.senders", 12)
        if number == 150:
            run.change(None, K, 25_000)
            run.change(0, "law", "cubic")
        if number == 200:
            run.change(None, INTERVAL, run.interval / 4)
        frame = run.next_frame()
        assert frame is not None
        recorder.add(frame)
        kept.append(frame)
    recorder.close()
    recorded = read_recording(path)
    assert not recorded.incomplete
    assert same(recorded.frames, kept)
    plain = json.loads(json.dumps(run.header))
    assert all(recorded.header[key] == value for key, value in plain.items())
    assert compare(recorded, lambda: make_run("dctcp", "neural")) == 400
    recorded.frames[300].lanes[0]["values"]["queue"] += 1
    with pytest.raises(ResultMismatch, match="frame 300"):
        compare(recorded, lambda: make_run("dctcp", "neural"))


def test_a_session_records_what_it_is_told(make_run: MakeRun, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    run = make_run("dctcp")
    session = Session(run, speed=64.0, recorder=Recorder(path, run.header), paused=True)
    session.command({"do": "change", "lane": None, "key": K, "value": 20_000})
    session.command({"do": "play"})
    session.start()
    deadline_s = time.monotonic() + 60.0
    while not session._over and time.monotonic() < deadline_s:
        time.sleep(0.02)
    session.stop()
    recorded = read_recording(path)
    assert (None, K, 20_000) in recorded.frames[0].changes
    assert recorded.frames[-1].time == pytest.approx(run.end)
    assert compare(recorded, lambda: make_run("dctcp")) == len(recorded.frames)


def test_a_recording_that_was_cut_off_is_read_up_to_there(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run("dctcp")
    for name in ("run.jsonl", "run.jsonl.gz"):
        path = tmp_path / name
        run.begin()
        recorder = Recorder(path, run.header)
        for _ in range(50):
            frame = run.next_frame()
            assert frame is not None
            recorder.add(frame)
        recorder.close()
        whole = path.read_bytes()
        path.write_bytes(whole[: int(0.9 * len(whole))])
        recorded = read_recording(path)
        assert recorded.incomplete
        assert 10 < len(recorded.frames) < 50


@pytest.fixture(scope="module")
def good_lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    from sysgym.bench.contenders import parse_contender

    path = tmp_path_factory.mktemp("live") / "good.jsonl"
    scenario = load_scenario("dumbbell-10g", overrides={"control.episode_steps": 2})
    run = Run(scenario, "test", 20_000, [parse_contender("dctcp", family=scenario.family)])
    recorder = Recorder(path, run.header)
    run.change(None, K, 50_000)
    for frame in frames_of(run)[:3]:
        recorder.add(frame)
    recorder.close()
    run.close()
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("line", "place", "value", "words"),
    [
        (0, ["sysgym_live"], 2, r'line 1: expected "sysgym_live": 1'),
        (0, ["lanes"], [], "line 1: expected one for each contender, got 0 lanes"),
        (0, ["lanes", 0, "panels", 0, "kind"], "script", "got a panel of kind 'script'"),
        (0, ["lanes", 0, "panels", 0, "kind"], ["bars"], r"got a panel of kind \['bars'\]"),
        (0, ["lanes", 0, "end"], "soon", r"lanes\[0\].end, a number"),
        (0, ["seed"], 1.5, "seed, int"),
        (0, ["seed"], -1, "line 1: seed is -1; expected at least 0"),
        (0, ["split"], "tests", "line 1: split is 'tests'; expected"),
        (0, ["contenders", 0], 5, r"line 1: contenders\[0\] is 5; expected"),
        (0, ["contenders", 0, "agent"], 5, r"line 1: contenders\[0\]\.agent is 5; expected a text"),
        (0, ["contenders", 0, "agent"], [], r"line 1: contenders\[0\]\.agent is \[\]; expected a text"),
        (0, ["contenders", 0, "checkpoint"], 5, r"line 1: contenders\[0\]\.checkpoint is 5; expected"),
        (1, ["change"], [3, K, 1], "line 2: expected a change"),
        (1, ["change"], [None, K, {"a": 1}], "line 2: expected a change"),
        (2, ["frame", "t"], "0", "line 3: expected numbers"),
        (2, ["frame", "lanes"], [], "line 3: expected 1, as in line 1"),
        (2, ["frame", "lanes", 0, "values", "queue"], "<script>", "line 3: expected numbers, null, or lists"),
        (2, ["frame", "lanes", 0, "values", "net"], [[[1]]], "line 3: expected numbers, null, or lists"),
        (3, ["frame", "lanes", 0, "events"], [["nothing", 0, 1]], "line 4: expected events"),
        (3, ["frame", "lanes", 0, "events"], [["mark", 10**6, 1]], "line 4: expected events"),
        (3, ["frame", "lanes", 0, "events"], [[["mark"], 0, 1]], "line 4: expected events"),
        (4, ["frame", "t"], -1.0, "line 5: expected .* or later"),
        (3, [], {"code": "import os"}, 'line 4: expected "frame" or "change", got an object with'),
        (3, [], [1, 2], "line 4: expected a JSON object"),
    ],
)
def test_bad_recordings_are_refused(
    good_lines: list[dict[str, Any]], tmp_path: Path, line: int, place: list[Any], value: Any, words: str
) -> None:
    lines = json.loads(json.dumps(good_lines))
    if place:
        where = lines[line]
        for key in place[:-1]:
            where = where[key]
        where[place[-1]] = value
    else:
        lines[line] = value
    path = tmp_path / "bad.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    with pytest.raises(SysgymError, match=words) as raised:
        read_recording(path)
    assert str(path) in str(raised.value)
    assert "record the run again" in str(raised.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name, content, words in (
        ("empty.jsonl", b"", "an empty file"),
        ("text.jsonl", b"hello\n", "line 1: expected JSON"),
        ("nan.jsonl", b'{"a": NaN}\n', "line 1: expected JSON"),
        ("plain.jsonl.gz", b"hello", "not compressed by gzip"),
        ("spaces.jsonl.gz", gzip.compress(b" " * 20_000_000), "line 1: longer than 16 MB"),
        ("bomb.jsonl.gz", gzip.compress(b"\n" * 20_000_000), "line 1: expected JSON"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        tracemalloc.start()
        with pytest.raises(SysgymError, match=words):
            read_recording(path)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
        tracemalloc.stop()
    with pytest.raises(SysgymError, match="cannot be read"):
        read_recording(tmp_path / "absent.jsonl")


def unpacked(text: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text), wbits=-15))
    return loaded


def test_a_page_has_everything_and_loads_nothing(make_run: MakeRun) -> None:
    run = make_run("dctcp", "neural")
    frames = frames_of(run)
    page = exported_page(run.header, frames, most_frames=100)
    assert len(page) < 200_000
    assert not re.search(r"""(src|href)=["'](?!data:|#|saved\.html)""", page.partition("<script")[0])
    assert "https://unpkg" not in page
    assert 'src="' not in page
    data = unpacked(re.search(r'id="recording">([^<]+)<', page).group(1))  # type: ignore[union-attr]
    assert len(data["times"]) <= 101
    assert "resolved" not in data["header"]


def test_packing_keeps_every_number(make_run: MakeRun) -> None:
    run = make_run("dctcp")
    frames = frames_of(run)[:50]
    data = unpacked(packed(run.header, frames))
    values = data["lanes"][0]["values"]
    queues = [frame.lanes[0]["values"]["queue"] for frame in frames]
    assert np.cumsum(values["queue"]["whole"]).tolist() == queues
    links = np.cumsum(np.array(values["net"]["wholes"]), axis=1).T
    assert links.tolist() == [frame.lanes[0]["values"]["net"] for frame in frames]
    assert values["fct_s"]["any"] == [frame.lanes[0]["values"]["fct_s"] for frame in frames]
    assert data["lanes"][0]["events"] == [list(frame.lanes[0]["events"]) for frame in frames]


@pytest.mark.parametrize(
    ("scenario", "contenders"),
    [
        ("google-2011-mitigation", ("nurd", "oracle")),
        ("google-2011", ("nurd",)),
        ("p2-systems", ("default", "random")),
        ("program-p2", ("random",)),
        ("joint-unseen", ("random",)),
        ("multi-job-small", ("random",)),
        ("collectives-small", ("ring", "tacos")),
        ("flow-1g-1ms", ("cubic",)),
        ("tuning-buckets", ("random",)),
        ("pipeline-gpt", ("random",)),
        ("diagnosis-jobs", ("narrowing",)),
        ("failslow-hybrid", ("payback",)),
        ("compression-drift", ("crossover",)),
        ("burst-plan", ("random",)),
        ("burst-mux", ("random",)),
    ],
)
def test_every_environment_has_a_view(
    make_run: MakeRun, tmp_path: Path, scenario: str, contenders: tuple[str, ...]
) -> None:
    small = {"control.episode_steps": 20} if scenario == "flow-1g-1ms" else {}
    run = make_run(*contenders, scenario=scenario, overrides=small)
    recorder = Recorder(tmp_path / "run.jsonl", run.header)
    frames = frames_of(run)
    for frame in frames:
        recorder.add(frame)
    recorder.close()
    assert len(frames) > 1
    recorded = read_recording(tmp_path / "run.jsonl")
    assert same(recorded.frames, frames)
    for scene, lane in zip(run.header["lanes"], frames[-1].lanes, strict=True):
        for one in (*scene["panels"], *scene["charts"], *scene["facts"]):
            assert one["key"] in lane["values"]
        for fact in scene["facts"]:
            assert isinstance(lane["values"][fact["key"]], int | float | None)
        for panel in scene["panels"]:
            check_panel(panel, lane["values"])


def check_panel(panel: dict[str, Any], values: dict[str, Any]) -> None:
    numbers = values[panel["key"]]
    if panel["kind"] == "network":
        assert len(numbers) == len(values[f"{panel['key']}_queue"]) == len(panel["links"])
        assert all(0 <= one <= 100 for one in numbers)
    elif panel["kind"] == "bars":
        for row, begin, end, state in numbers:
            assert 0 <= row < panel["n_rows"]
            assert begin <= end
            assert 0 <= state < len(panel["states"])
    elif panel["kind"] == "levels":
        assert len(numbers) == len(panel["names"])
    else:
        assert len(numbers) == len(panel["rows"]) * len(panel["columns"])
        assert all(0 <= one < len(panel["states"]) for one in numbers)


def test_every_family_has_a_live_view() -> None:
    assert all(family.live for family in families().values() if family.scenario_folder is None)
