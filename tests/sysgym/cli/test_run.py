"""`sysgym run`: one episode, as the user asked for it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest

from sysgym.bench.rows import read_rows

CommandLine = Callable[..., subprocess.CompletedProcess[str]]


def _played(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_a_seed_gives_the_same_numbers_each_time_and_others_give_others(
    tiny: Path, command_line: CommandLine
) -> None:
    first, again, other = (
        command_line("run", tiny, "--seed", seed, "--json") for seed in ("200", "200", "201")
    )
    assert first.stdout == again.stdout
    assert _played(first)["metrics"] != _played(other)["metrics"]
    assert _played(first)["steps"] == 12
    assert "dctcp" in first.stderr
    assert "(test split, seed 200)" in first.stderr


def test_an_episode_is_that_of_the_benchmark(played: Path, tiny: Path, command_line: CommandLine) -> None:
    (row,) = [row for row in read_rows(played) if (row.contender.name, row.seed) == ("reno", 201)]
    result = _played(command_line("run", tiny, "-c", "reno", "--seed", "201", "--json"))
    assert result == {"return": row.total_reward, "steps": row.steps, "metrics": row.metrics}


def test_what_is_left_out_is_found(tiny: Path, command_line: CommandLine) -> None:
    done = command_line("run", tiny)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split() == ["tiny", "dctcp", "(test", "split,", "seed", "200)"]
    assert "12 decisions, 0.24 simulated s" in done.stdout
    assert any(line.startswith("goodput_bps") and "Mb/s" in line for line in done.stdout.splitlines())
    train = command_line("run", "--scenario", tiny, "--agent", "aimd", "--seed", "3")
    assert train.returncode == 0, train.stderr
    assert "paced under aimd" in train.stdout
    assert "(train split, seed 3)" in train.stdout


def test_a_key_of_the_scenario_is_replaced(tiny: Path, command_line: CommandLine) -> None:
    result = _played(
        command_line(
            "run", tiny, "--set", "control.episode_steps=5", "--set", "topology.link_rate_bps=5e6", "--json"
        )
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
    assert 'no contender is named "fragile"' in unknown.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nothing_of_this_name\n", "cannot be imported: ModuleNotFoundError"),
        ("x = 1\n", "registers no transport and no agent"),
        ("def :\n", "cannot be imported: SyntaxError"),
    ],
)
def test_a_file_that_brings_nothing_is_an_error_that_names_it(
    text: str, words: str, tiny: Path, tmp_path: Path, command_line: CommandLine
) -> None:
    file = tmp_path / "broken_agents.py"
    file.write_text(text)
    done = command_line("run", tiny, "--plugin", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {file}: {words}")
    assert "Traceback" not in done.stderr


def test_the_last_moment_is_printed_where_no_one_watches(tiny: Path, command_line: CommandLine) -> None:
    watched, plain = command_line("run", tiny, "--render", "ansi"), command_line("run", tiny)
    assert watched.returncode == 0, watched.stderr
    assert "tiny" in watched.stdout
    assert "goodput_bps" in watched.stdout
    assert len(watched.stdout.splitlines()) > len(plain.stdout.splitlines()) + 3


def test_a_picture_of_the_episode(tiny: Path, tmp_path: Path, command_line: CommandLine) -> None:
    path = tmp_path / "new" / "episode.png"
    done = command_line("run", tiny, "--picture", path)
    assert done.returncode == 0, done.stderr
    assert f"picture: {path}" in done.stdout.replace("\n", "")
    height, width, _ = matplotlib.image.imread(path).shape
    assert min(height, width) > 100
