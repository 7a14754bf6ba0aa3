"""Time series: recording has no effect, sums agree, and files round-trip."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.bench.contenders import parse_contender
from sysgym.bench.run.episodes import make_contender, play
from sysgym.errors import MissingExtra, SysgymError, UnknownName
from sysgym.scenarios import load_scenario
from sysgym.series import TimeSeries, Watch, read_series, record
from sysgym.series_picture import Choice, draw_side_by_side

SHORT = {"control.episode_steps": 60}
LONELY = {**SHORT, "workload.flows_per_pair": 1}


@pytest.fixture(scope="module")
def dctcp() -> TimeSeries:
    """DCTCP on a dumbbell, 15 ms, a sample every 20 us."""
    return record("dumbbell-10g", interval_s=20e-6, overrides=LONELY)


@pytest.mark.parametrize(
    ("scenario", "contender", "interval_s"),
    [("tiny", "reno", 1e-3), ("tiny", "aimd", 0.7e-3), ("flow-1g-1ms", "flow_aimd", 130e-6)],
)
def test_a_recording_changes_no_number_of_the_episode(
    scenario: str, contender: str, interval_s: float, tiny: Path
) -> None:
    path = tiny if scenario == "tiny" else scenario
    overrides = None if scenario == "tiny" else {"control.episode_steps": 30}
    loaded = load_scenario(path, overrides=overrides)
    seed = loaded.splits["test"].first_seed
    env, agent = make_contender(loaded.resolved(), "test", parse_contender(contender))
    plain = play(env, agent, seed)
    series = record(path, contender=contender, interval_s=interval_s, overrides=overrides)
    assert plain.info["episode_metrics"] == pytest.approx(series.metrics, rel=0, abs=0, nan_ok=True)
    network = env.unwrapped.network  # type: ignore[attr-defined]
    last = [series.flow(flow)["delivered_bytes"][-1] for flow in range(len(network.schedule.src))]
    assert network.flows().delivered_bytes.tolist() == last


def test_increments_add_up_to_what_the_flows_delivered() -> None:
    """Short flows too: those that begin and end between two samples have one, at the next moment."""
    series = record("incast-32", interval_s=1e-3, overrides=SHORT)
    env, agent = make_contender(
        load_scenario("incast-32", overrides=SHORT).resolved(), "test", parse_contender("dctcp")
    )
    play(env, agent, 20000)
    table = env.unwrapped.network.flows()  # type: ignore[attr-defined]
    finished = np.flatnonzero(np.isfinite(table.finish_s))
    assert len(finished) > 100
    for flow in finished:
        rows = series.flow(int(flow))
        moments = np.r_[0.0, rows["time_s"]]
        passed_s = np.diff(moments)[-len(rows) :]
        passed_s[0] = 1e-3
        delivered = (rows["goodput_bps"] * passed_s / 8.0).sum()
        assert delivered == pytest.approx(table.size_bytes[flow])
        assert rows["delivered_bytes"][-1] == table.size_bytes[flow]
        assert rows["acked_packets"][-1] * 1460 >= table.size_bytes[flow]
    assert np.array_equal(
        np.bincount(series.flows["flow"]) > 0, table.started[: series.flows["flow"].max() + 1]
    )


def test_queues_stay_within_their_buffers_and_carry_what_flows_deliver() -> None:
    series = record(
        "dumbbell-10g",
        contender="cubic",
        interval_s=50e-6,
        overrides={**LONELY, "control.episode_steps": 200},
    )
    core = series.port("west->east")
    buffer_bytes = series.about["ports"]["west->east"]["buffer_bytes"]
    assert 0.9 * buffer_bytes < core["queue_bytes"].max() <= buffer_bytes + 1  # a ns is 1.25 bytes
    assert core["queue_mean_bytes"].max() <= buffer_bytes + 1
    assert core["dropped_packets"][-1] > 0
    flows = series.flows
    delivered = sum(flows["delivered_bytes"][flows["flow"] == flow].max() for flow in range(4))
    assert delivered < core["sent_bytes"][-1] < 10e9 / 8 * core["time_s"][-1]
    lost = sum(flows["retransmitted_packets"][flows["flow"] == flow].max() for flow in range(4))
    assert lost >= core["dropped_packets"][-1] * 0.9
    busy = np.diff(core["sent_bytes"]) * 8 / np.diff(core["time_s"])
    assert busy.max() == pytest.approx(10e9, rel=1e-3)


def test_windows_do_what_the_laws_say(dctcp: TimeSeries) -> None:
    rows = dctcp.flow(0)
    assert rows["cwnd_packets"][0] >= 10, "RFC 6928"
    grown = rows["cwnd_packets"][:20]
    assert grown.max() > 2 * grown[0], "slow start"
    settled = rows[rows["time_s"] > 5e-3]
    ratio = settled["cwnd_packets"][1:] / settled["cwnd_packets"][:-1]
    assert 0.5 < ratio.min() < 1, "DCTCP cuts by alpha / 2, which is far from 1 / 2 once it has settled"
    reno = record("dumbbell-10g", contender="reno", interval_s=20e-6, overrides=LONELY)
    drops = [np.diff(reno.flow(flow)["cwnd_packets"]) for flow in range(4)]
    cut = min(range(4), key=lambda flow: drops[flow].min())
    place = int(drops[cut].argmin())
    window = reno.flow(cut)["cwnd_packets"]
    assert window[place + 1] == pytest.approx(window[place] / 2, rel=0.1), "Reno halves"
    assert not reno.flow(0)["marked_packets"].any(), "Reno's packets are not marked"
    assert dctcp.flow(0)["marked_packets"][-1] > 0
    assert np.all(np.diff(dctcp.flow(0)["marked_packets"]) >= 0)


def test_round_trips_are_propagation_and_queue(dctcp: TimeSeries) -> None:
    late = dctcp.flow(0)[-100:]
    queue = dctcp.port("west->east")["queue_mean_bytes"][-100:]
    expected_s = 64e-6 + queue.mean() * 8 / 10e9
    assert late["srtt_s"].mean() == pytest.approx(expected_s, rel=0.1)
    share = late["in_flight_bytes"] / 1460
    assert np.all(share <= np.ceil(late["cwnd_packets"].max()))
    rate = dctcp.flows["delivery_rate_bps"][dctcp.flows["time_s"] > 5e-3]
    assert rate.sum() / (len(rate) / 4) == pytest.approx(9.7e9, rel=0.03)


def test_rates_of_an_agent_are_caps_of_hosts() -> None:
    series = record("dumbbell-10g", contender="paced:fixed_fair", overrides=LONELY)
    rows = series.flow(1)
    assert np.isnan(rows["cwnd_packets"]).all()
    assert rows["host_cap_bps"][-1] == pytest.approx(2.5e9, rel=0.05)
    assert series.about["contender"] == "paced-fixed_fair"


def test_a_single_flow_has_its_pace() -> None:
    series = record("flow-1g-1ms", contender="bbr", overrides={"control.episode_steps": 20})
    rows = series.flow(0)
    assert np.nanmax(rows["pacing_rate_bps"]) > 0.9e9
    assert series.flow_sources[0] == "h0"


def test_samples_lie_on_the_grid_and_begin_with_the_warm_up(tiny: Path) -> None:
    series = record(tiny, interval_s=3e-3, overrides={"control.warmup_s": 0.05}, links=["west->east"])
    moments = np.unique(series.ports["time_s"])
    assert moments[:-1].tolist() == [step * 3 / 1000 for step in range(1, 97)]
    assert moments[-1] == 0.29, "and the end"
    assert {series.port_names[port] for port in np.unique(series.ports["port"])} == {"west->east"}
    assert record(tiny, flows=[1], links=[]).flows["flow"].max() == 1
    assert len(record(tiny, flows=[1], links=[]).ports) == 0


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_hold_what_the_arrays_hold(dctcp: TimeSeries, tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    flows, ports, about = dctcp.write(tmp_path / "new" / f"flows{suffix}")
    assert [path.name for path in (flows, ports, about)] == [
        f"flows{suffix}",
        f"flows.ports{suffix}",
        "flows.json",
    ]
    assert len(list(flows.parent.iterdir())) == 3
    read = sysgym.read_series(flows)
    for name in dctcp.flows.dtype.names or ():
        np.testing.assert_allclose(read.flows[name], dctcp.flows[name], rtol=1e-9)
    for port in ("west->east", "east->h4"):
        for name in ("time_s", "queue_bytes", "sent_bytes", "dropped_packets"):
            np.testing.assert_allclose(read.port(port)[name], dctcp.port(port)[name], rtol=1e-9)
    assert read.flow_sources.tolist() == dctcp.flow_sources.tolist()
    if suffix == ".csv":  # as a spreadsheet saves it
        flows.write_bytes(b"\xef\xbb\xbf" + flows.read_bytes())
        assert sysgym.read_series(flows).flows.tobytes() == read.flows.tobytes()
    assert read.about == json.loads(json.dumps(dctcp.about))
    assert read.metrics == dctcp.metrics


def test_a_table_is_plain_csv(dctcp: TimeSeries, tmp_path: Path) -> None:
    flows, ports, _ = dctcp.write(tmp_path / "flows.csv")
    head, first, *_ = flows.read_text().splitlines()
    row = dict(zip(head.split(","), first.split(","), strict=True))
    assert row["time_s"].startswith("0.00")
    assert row["src"].startswith("h")
    assert row["pacing_rate_bps"] == "", "no value: an empty cell"
    assert ports.read_text().splitlines()[1].split(",")[1] == "west->h0"


def test_numbers_that_json_lacks_are_null(dctcp: TimeSeries, tmp_path: Path) -> None:
    odd = TimeSeries(
        dctcp.flows[:1],
        dctcp.ports[:0],
        dctcp.flow_sources,
        dctcp.flow_targets,
        (),
        {**dctcp.about, "metrics": {"fct": math.nan}},
    )
    path, _, about = odd.write(tmp_path / "odd.csv")
    assert json.loads(about.read_text(), parse_constant=pytest.fail)["metrics"] == {"fct": None}
    assert math.isnan(read_series(path).metrics["fct"])
    about.unlink()
    assert read_series(path).about["contender"] == "odd"


def test_too_many_samples_are_refused_before_the_episode(tiny: Path) -> None:
    with pytest.raises(SysgymError, match=r"at least 1,91\d rows.*an interval of at least 0\.0021 s"):
        record(tiny, interval_s=1e-3, max_rows=1000)
    advised = record(tiny, interval_s=2.1e-3, max_rows=1000)
    assert advised.about["missed_samples"] == 0


def test_what_cannot_be_recorded_is_refused(tiny: Path, tmp_path: Path, dctcp: TimeSeries) -> None:
    with pytest.raises(SysgymError, match="a scenario with a packet network"):
        record("p2-systems", contender="default")
    with pytest.raises(UnknownName, match="west->east"):
        record(tiny, links=["west->eats"])
    with pytest.raises(UnknownName, match="train"):
        record(tiny, split="tarin")
    with pytest.raises(SysgymError, match="seed 5000 is outside every split"):
        record(tiny, seed=5000)
    with pytest.raises(SysgymError, match="seed 3 is in the split train; test has the seeds 200 to 299"):
        record(tiny, seed=3, split="test")
    with pytest.raises(SysgymError, match="at least 1e-9"):
        record(tiny, interval_s=0.0)
    with pytest.raises(UnknownName, match="no port is named"):
        dctcp.port("core")
    with pytest.raises(SysgymError, match=r"ends in \.csv or \.parquet"):
        dctcp.write(tmp_path / "flows.xlsx")
    (tmp_path / "file").touch()
    with pytest.raises(SysgymError, match="cannot be written"):
        dctcp.write(tmp_path / "file" / "flows.csv")
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SysgymError, match="cannot be read"):
        read_series(tmp_path / "bad.csv")
    (tmp_path / "bad.ports.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SysgymError, match="column time_s is missing"):
        read_series(tmp_path / "bad.csv")


def test_a_missing_library_is_named(dctcp: TimeSeries, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"sysgym\[parquet\]"):
        dctcp.write(tmp_path / "flows.parquet")


def test_an_environment_of_ones_own_is_watched(tiny: Path) -> None:
    env = gym.make("sysgym/DatacenterCC-v0", scenario=tiny, transport="dctcp")
    watch = Watch(env, interval_s=1e-3)
    env.reset(seed=1)
    env.step(env.action_space.sample())
    assert len(watch.series({"contender": "mine"}).flows) > 10
    env.reset(seed=2)
    assert len(watch.series({"contender": "mine"}).flows) == 0, "a new episode, a new recording"


def test_no_planted_link_is_written_through(dctcp: TimeSeries, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("a.csv", "a.ports.csv", "a.json"):
        (tmp_path / f".{name}.part").symlink_to(victim)
        (tmp_path / name).symlink_to(victim)
    files = dctcp.write(tmp_path / "a.csv")
    assert victim.read_text() == "mine"
    assert not any(file.is_symlink() for file in files)


def changed(path: Path, column: str, value: str) -> None:
    """Change the first row of a table."""
    head, first, *rest = path.read_text().splitlines()
    cells = first.split(",")
    cells[head.split(",").index(column)] = value
    path.write_text("\n".join([head, ",".join(cells), *rest]) + "\n")


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("flow", "700000000", "is out of range"),
        ("flow", "-9", "column flow: expected non-negative integers"),
        ("flow", "0.5", "column flow: expected non-negative integers"),
        ("flow", "nan", "column flow: expected non-negative integers"),
        ("delivered_bytes", "1e300", "column delivered_bytes: expected non-negative integers"),
        ("time_s", "inf", "column time_s: expected times"),
        ("src", "h" * 1000, "no valid name of a host"),
        ("src", "h\x1b[2J", "no valid name of a host"),
        ("srtt_s", "soon", "column srtt_s: could not convert"),
        ("srtt_s", "1,2", "cannot be read"),
    ],
)
def test_a_table_that_lies_is_refused(
    dctcp: TimeSeries, tmp_path: Path, column: str, value: str, words: str
) -> None:
    path, _, _ = dctcp.write(tmp_path / "flows.csv")
    changed(path, column, value)
    with pytest.raises(SysgymError, match=words) as caught:
        read_series(path)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "about",
    [
        "[" * 200_000,
        "5",
        '{"metrics": 5}',
        '{"metrics": {"goodput_bps": "x"}}',
        '{"ports": 7}',
        '{"ports": {"west->east": 7}}',
        '{"contender": ["a"]}',
        '{"contender": "' + "x" * 1000 + '"}',
        '{"contender": "\\u001b[2J"}',
        '{"seed": {}}',
        '{"scenario": 5}',
    ],
)
def test_a_description_that_lies_is_refused(dctcp: TimeSeries, tmp_path: Path, about: str) -> None:
    path, _, description = dctcp.write(tmp_path / "flows.csv")
    description.write_text(about)
    with pytest.raises(SysgymError, match=r"flows\.json: ") as caught:
        read_series(path)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_is_limited(
    dctcp: TimeSeries, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path, _, _ = dctcp.write(tmp_path / f"flows{suffix}")
    for limit, words in (("MOST_ROWS", "rows"), ("MOST_COLUMNS", "columns"), ("LARGEST_TABLE_BYTES", "MB")):
        with monkeypatch.context() as patch:
            patch.setattr(f"sysgym.series_files.{limit}", 5)
            with pytest.raises(SysgymError, match=words):
                read_series(path)


def test_a_name_is_no_formula(dctcp: TimeSeries, tmp_path: Path) -> None:
    path, _, about = dctcp.write(tmp_path / "flows.csv")
    about.write_text(json.dumps({"contender": r"$\frac{$", "scenario": r"$\frac{$"}))
    draw_side_by_side([read_series(path)], tmp_path / "x.png", Choice(None, None, [], []))
    assert (tmp_path / "x.png").stat().st_size > 1000
