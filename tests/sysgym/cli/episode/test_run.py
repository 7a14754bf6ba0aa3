"""`sysgym run`: one episode with the user's options."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest

from sysgym.bench.results.rows import read_rows
from sysgym.bench.run.episodes import make_contender
from sysgym.errors import SysgymError

CommandLine = Callable[..., subprocess.CompletedProcess[str]]
Call = Callable[..., tuple[int, str, str]]


def _played(done: subprocess.CompletedProcess[str] | tuple[int, str, str]) -> dict[str, Any]:
    code, out, err = done if isinstance(done, tuple) else (done.returncode, done.stdout, done.stderr)
    assert code == 0, err
    result: dict[str, Any] = json.loads(out)
    return result


def test_a_seed_gives_the_same_numbers_each_time_and_others_give_others(
    tiny: Path, call: Call, command_line: CommandLine
) -> None:
    code, first, err = call("run", tiny, "--seed", "200", "--json")
    assert code == 0
    assert "dctcp" in err
    assert "(test split, seed 200)" in err
    assert call("run", tiny, "--seed", "200", "--json")[1] == first
    assert command_line("run", tiny, "--seed", "200", "--json").stdout == first, "in another process too"
    other = _played(call("run", tiny, "--seed", "201", "--json"))
    assert other["metrics"] != json.loads(first)["metrics"]
    assert other["steps"] == 12


def test_json_is_alone_on_standard_output(tiny: Path, call: Call) -> None:
    code, out, err = call("run", tiny, "--json", "--render", "ansi")
    assert code == 0
    assert json.loads(out)["steps"] == 12
    assert "Mb/s" in err


def test_paths_are_no_markup(tiny: Path, call: Call, tmp_path: Path) -> None:
    code, out, err = call("run", tiny, "--csv", "d[v2]/[/x]/a.csv")
    assert code == 0, err
    assert "d[v2]/[/x]/a.csv" in out
    assert (tmp_path / "d[v2]" / "[" / "x]" / "a.csv").is_file()


def test_an_episode_is_that_of_the_benchmark(played: Path, tiny: Path, call: Call) -> None:
    (row,) = [row for row in read_rows(played) if (row.contender.name, row.seed) == ("reno", 201)]
    result = _played(call("run", tiny, "-c", "reno", "--seed", "201", "--json"))
    assert result == {"return": row.total_reward, "steps": row.steps, "metrics": row.metrics}


def test_what_is_left_out_is_found(tiny: Path, call: Call) -> None:
    code, out, _ = call("run", tiny)
    assert code == 0
    assert out.splitlines()[0].split() == ["tiny", "dctcp", "(test", "split,", "seed", "200)"]
    assert "12 decisions, 240 ms simulated" in out
    assert re.search(r"the agent took [\d.]+ (ns|µs|ms) for each decision$", out, re.MULTILINE)
    assert any(line.startswith("goodput_bps") and "Mb/s" in line for line in out.splitlines())
    code, out, _ = call("run", "--scenario", tiny, "--agent", "aimd", "--seed", "3")
    assert code == 0
    assert "paced under aimd" in out
    assert "(train split, seed 3)" in out


def test_the_environment_is_closed_after_an_error(
    tiny: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def make(*arguments: Any, **options: Any) -> tuple[Any, Any]:
        made.extend(make_contender(*arguments, **options))
        made[0].unwrapped.close = lambda: made.append("closed")
        return made[0], made[1]

    def fail(*_: Any) -> None:
        raise SysgymError("it stops here")

    monkeypatch.setattr("sysgym.bench.run.episodes.make_contender", make)
    monkeypatch.setattr("sysgym.bench.run.episodes.play", fail)
    code, _, err = call("run", tiny)
    assert code == 2
    assert "it stops here" in err
    assert made[2:] == ["closed"]


def test_a_key_of_the_scenario_is_replaced(tiny: Path, call: Call) -> None:
    result = _played(
        call("run", tiny, "--set", "control.episode_steps=5", "--set", "topology.link_rate_bps=5e6", "--json")
    )
    assert result["steps"] == 5
    assert 1e6 < result["metrics"]["goodput_bps"] < 5e6


def test_an_agent_of_the_users_own_plays(tiny: Path, agents_file: Path, command_line: CommandLine) -> None:
    halved = _played(
        command_line("run", tiny, "--plugin", agents_file, "-c", "fragile", "--seed", "202", "--json")
    )
    by_agent = _played(
        command_line(
            "run", tiny, "--transport-file", agents_file, "--agent", "fragile", "--seed", "202", "--json"
        )
    )
    assert halved == by_agent
    assert (agents_file.parent / "pids").read_text().count("\n") == 2, "it was asked for each episode"
    unknown = command_line("run", tiny, "-c", "fragile")
    assert unknown.returncode == 2
    assert 'no contender of the family congestion is named "fragile"' in unknown.stderr


def test_a_policy_of_the_package_is_named_by_its_scenario(call: Call) -> None:
    seed = ("--seed", "3", "--json")
    named = _played(call("run", "iroko-dumbbell-10m", "-c", "ppo@iroko-dumbbell-10m", *seed))
    assert named == _played(call("run", "iroko-dumbbell-10m", "--agent", "ppo", *seed))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nothing_of_this_name\n", "cannot be imported: ModuleNotFoundError"),
        ("x = 1\n", "expected a file that registers"),
        ("def :\n", "cannot be imported: SyntaxError"),
    ],
)
def test_a_file_that_brings_nothing_is_an_error_that_names_it(
    text: str, words: str, tiny: Path, tmp_path: Path, call: Call
) -> None:
    file = tmp_path / "broken_agents.py"
    file.write_text(text)
    for _ in range(2):  # and the file can be mended: it leaves no module behind
        code, out, err = call("run", tiny, "--plugin", file)
        assert (code, out) == (2, "")
        assert err.startswith(f"error: {file}: {words}")


def test_the_last_moment_is_printed_where_no_one_watches(tiny: Path, call: Call) -> None:
    (code, watched, _), (_, plain, _) = call("run", tiny, "--render", "ansi"), call("run", tiny)
    assert code == 0
    assert "tiny" in watched
    assert "goodput_bps" in watched
    assert len(watched.splitlines()) > len(plain.splitlines()) + 3


def test_a_picture_of_the_episode(tiny: Path, tmp_path: Path, call: Call) -> None:
    path = tmp_path / "new" / "episode.png"
    code, out, err = call("run", tiny, "--picture", path)
    assert code == 0, err
    assert f"picture: {path}" in out
    height, width, _ = matplotlib.image.imread(path).shape
    assert min(height, width) > 100


def test_traces_are_written_on_request(tiny: Path, call: Call, tmp_path: Path) -> None:
    trace, pcap = tmp_path / "trace.json", tmp_path / "new" / "core.pcap"
    plain = _played(call("run", tiny, "--json"))
    files = ["--trace", str(trace), "--pcap", str(pcap), "--pcap-link", "west->east"]
    code, out, err = call("run", tiny, *files)
    assert code == 0, err
    assert "ui.perfetto.dev" in out
    assert "packets of west->east" in out
    events = json.loads(trace.read_text())["traceEvents"]
    assert any(event["name"] == "queue west->east" for event in events)
    assert any(event["ph"] == "b" for event in events)
    assert pcap.stat().st_size > 1000
    assert _played(call("run", tiny, "--json", *files)) == plain, "recording changes nothing"


def test_traces_that_cannot_be_written_are_refused(tiny: Path, call: Call, tmp_path: Path) -> None:
    pcap = str(tmp_path / "a.pcap")
    assert call("run", tiny, "--pcap", pcap)[0] == 2
    code, _, err = call("run", tiny, "--pcap", pcap, "--pcap-link", "west->eats")
    assert code == 2
    assert "west->east" in err
    code, _, err = call("run", "google-2011", "--trace", str(tmp_path / "t.json"))
    assert code == 2
    assert "a scenario with a packet network" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--seed", "25000"], ["outside every split", "train 0 to 99", "test 200 to 299"]),
        (["--seed", "3", "--split", "test"], ["is in the split train", "test has the seeds 200 to 299"]),
        (["--seed", "25000", "--split", "test"], ["is outside every split", "test has the seeds 200 to 299"]),
    ],
)
def test_a_seed_outside_the_split_is_refused(
    options: list[str], words: list[str], tiny: Path, call: Call
) -> None:
    code, out, err = call("run", tiny, *options)
    assert code == 2
    assert out == ""
    assert all(word in " ".join(err.split()) for word in words), err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["google-2011", "-c", "dctcp"],
            ["a transport, and this family has none", "the agents of this family are", "nurd", "spark"],
        ),
        (["google-2011", "--transport", "dctcp"], ["a transport, and this family has none"]),
        (["dumbbell-10g", "-c", "nurd"], ["an agent of another family", "aimd", "dctcp"]),
        (["google-2011", "-c", "nurdd"], ['did you mean "nurd"', "sysgym list agents lists all"]),
    ],
)
def test_a_contender_of_another_family_is_told_who_plays_this_one(
    arguments: list[str], words: list[str], call: Call
) -> None:
    code, _, err = call("run", *arguments)
    assert code == 2
    assert all(word in " ".join(err.split()) for word in words), err


def test_long_work_is_said_before_it_begins(tiny: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "of simulation" not in call("run", tiny)[2]
    monkeypatch.setattr("sysgym.cli.estimates.WORTH_SAYING_S", 0.0)
    assert "of simulation" in call("run", tiny)[2]
