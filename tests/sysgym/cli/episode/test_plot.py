"""`sysgym run --csv` and `sysgym plot`: tables and pictures of an episode's time series."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from sysgym.cli.durations import duration_s
from sysgym.series import TimeSeries, read_series, record
from sysgym.series_picture import Choice, _apart, _points, _ports, draw_side_by_side

CommandLine = Callable[..., subprocess.CompletedProcess[str]]
Call = Callable[..., tuple[int, str, str]]


def test_the_same_episode_with_and_without_tables(tiny: Path, tmp_path: Path, call: Call) -> None:
    code, plain, _ = call("run", tiny, "--json")
    assert code == 0
    code, out, err = call("run", tiny, "--json", "--csv", tmp_path / "f" / "flows.csv", "--interval", "5ms")
    assert (code, out) == (0, plain)
    assert "flows.ports.csv" in err
    with (tmp_path / "f" / "flows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["src"] for row in rows} == {"h0", "h1"}
    assert {row["time_s"] for row in rows} <= {f"{step * 5 / 1000:.10g}" for step in range(1, 49)}
    about = json.loads((tmp_path / "f" / "flows.json").read_text())
    assert about["metrics"] == json.loads(plain)["metrics"]
    assert (about["scenario"], about["contender"], about["split"], about["seed"]) == (
        "tiny",
        "dctcp",
        "test",
        200,
    )


def test_agents_are_recorded_too_and_beside_a_trace(tiny: Path, tmp_path: Path, call: Call) -> None:
    files = ["--csv", tmp_path / "a.csv", "--trace", tmp_path / "a.json.gz.json"]
    code, out, err = call("run", tiny, "--agent", "aimd", *files)
    assert code == 0, err
    assert "a.ports.csv" in out
    series = read_series(tmp_path / "a.csv")
    assert np.isfinite(series.flows["host_cap_bps"]).all()
    events = json.loads((tmp_path / "a.json.gz.json").read_text())["traceEvents"]
    assert any(event["name"] == "goodput 0" for event in events)
    assert not any(event["name"].startswith("window") for event in events), "a paced flow has none"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--csv", "flows.xls"], "ends in .csv or .parquet"),
        (["--csv", "tiny.toml/flows.csv"], "cannot be written"),
        (["--interval", "1ms"], "--csv or --trace"),
        (["--csv", "a.csv", "--interval", "1 parsec"], "expected a number with a unit"),
        (["--csv", "a.csv", "--interval", "10"], "100us"),
        (["--csv", "a.csv", "--interval", "1ns"], "give at least"),
        (["--csv", "a.csv", "--backend", "linux"], "record the simulator"),
    ],
)
@pytest.mark.usefixtures("tiny")
def test_what_cannot_be_recorded_is_said_in_a_sentence(arguments: list[str], words: str, call: Call) -> None:
    code, out, err = call("run", "tiny.toml", *arguments)
    assert (code, out.strip().count("\n")) in {(2, 0)}
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [("100us", 1e-4), ("100µs", 1e-4), ("2.5 ms", 2.5e-3), ("1S", 1.0), ("7ns", 7e-9), ("1e3us", 1e-3)],
)
def test_durations_have_units(text: str, expected_s: float) -> None:
    assert duration_s(text) == pytest.approx(expected_s)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[TimeSeries]:
    """Two contenders on the same links."""
    overrides = {"control.episode_steps": 20, "workload.flows_per_pair": 1}
    return [record("dumbbell-10g", contender=name, overrides=overrides) for name in ("dctcp", "reno")]


def test_a_scenario_is_drawn_with_a_column_a_contender(tiny: Path, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "new" / "x.png"
    code, said, err = call("plot", tiny, "-c", "dctcp", "-c", "aimd", "--out", out, "--interval", "2ms")
    assert code == 0, err
    assert f"picture: {out}" in said
    height, width, _ = matplotlib.image.imread(out).shape
    assert width > height > 500


def test_a_law_of_a_file_is_drawn(agents_file: Path, tmp_path: Path, command_line: CommandLine) -> None:
    out = tmp_path / "x.png"
    short = ("--set", "control.episode_steps=3", "--interval", "1ms")
    done = command_line("plot", "incast-32", "-c", "fragile", "--plugin", agents_file, "--out", out, *short)
    assert done.returncode == 0, done.stderr
    assert out.is_file()


def test_files_are_drawn_as_what_made_them(pair: list[TimeSeries], tmp_path: Path, call: Call) -> None:
    paths = [one.write(tmp_path / f"{one.about['contender']}.csv")[0] for one in pair]
    out = tmp_path / "x.svg"
    code, _, err = call("plot", *paths, "--out", out, "--from", "1ms", "--until", "4ms", "--flow", "2")
    assert code == 0, err
    svg = out.read_text()
    for words in ("dctcp", "reno", "flow 2", "ECN threshold", "Delivery rate (Gb/s)", "Simulated time (ms)"):
        assert f"<!-- {words} -->" in svg, words
    assert "<!-- flow 1 -->" not in svg


def test_the_ports_with_the_longest_queues_are_drawn(pair: list[TimeSeries]) -> None:
    assert _ports(pair, Choice()) == ["west->east"]
    assert _ports(pair, Choice(ports=["east->h4"])) == ["east->h4"]


def test_means_over_parts_of_the_time_keep_the_mean_and_the_extremes(pair: list[TimeSeries]) -> None:
    from sysgym.series_picture import PANELS

    rows = pair[0].port("west->east")
    whole = _points(rows, "port", PANELS[3], None)
    parts = _points(rows, "port", PANELS[3], np.linspace(0.0, rows["time_s"][-1], 11))
    assert len(whole.values) == len(rows)
    assert len(parts.values) == 10
    assert parts.values.mean() == pytest.approx(rows["queue_bytes"].mean())
    assert parts.most.max() == rows["queue_bytes"].max()
    assert parts.least.min() == rows["queue_bytes"].min()


@pytest.mark.parametrize("heights", [[], [0.5], [0.1, 0.11, 0.12], [0.95, 0.97, 0.99], [0.0, 0.5, 0.51]])
def test_names_beside_lines_do_not_overlap(heights: list[float]) -> None:
    places = _apart(np.array(heights))
    assert np.all(np.diff(places) >= 0.08)
    assert np.all(places <= 1.0)
    assert np.all(places >= 0.0)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tiny.toml", "--out", "x.png"], "expected 1 to 4"),
        (["tiny.toml", "-c", "dctcp", "--out", "x.bmp"], ".png, .svg, .pdf"),
        (["tiny.toml", "incast-32", "-c", "dctcp", "--out", "x.png"], "expected one"),
        (["tiny.toml", "a.csv", "--out", "x.png"], "got both"),
        (["a.csv", "-c", "dctcp", "--out", "x.png"], "require a scenario"),
        (["a.csv", "--out", "x.png"], "a.csv: cannot be read"),
        (["tiny.toml", "-c", "dctpc", "--out", "x.png"], 'did you mean "dctcp"?'),
        (["tiny.toml", "-c", "dctcp", "--out", "x.png", "--from", "9s"], "the last one is at 0.24 s"),
        (["tiny.toml", "-c", "dctcp", "--out", "x.png", "--port", "core"], "was not recorded"),
        (["tiny.toml", "-c", "dctcp", "--out", "x.png", "--flow", "7"], "flow 7 has no sample"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_a_sentence(arguments: list[str], words: str, call: Call) -> None:
    code, out, err = call("plot", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


def test_a_picture_that_cannot_be_written(pair: list[TimeSeries], tmp_path: Path) -> None:
    from sysgym.errors import SysgymError

    (tmp_path / "file").touch()
    with pytest.raises(SysgymError, match="cannot be written"):
        draw_side_by_side(pair, tmp_path / "file" / "x.png", Choice())
