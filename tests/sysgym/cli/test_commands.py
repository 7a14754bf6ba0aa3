"""Every command answers --help, and reports errors in one readable block."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

import sysgym
from sysgym.cli.app import app
from sysgym.cli.order import ORDER

CommandLine = Callable[..., subprocess.CompletedProcess[str]]
Call = Callable[..., tuple[int, str, str]]

COMMAND = typer.main.get_command(app).commands  # type: ignore[attr-defined]
COMMANDS = sorted(COMMAND)


def test_the_commands_are_there() -> None:
    assert {"list", "show", "run", "train", "bench", "report", "study", "validate", "perf"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, call: Call) -> None:
    code, out, err = call(command, "--help")
    assert (code, err) == (0, "")
    assert f"Usage: sysgym {command}" in out
    summary = app_help(command)
    assert summary
    assert summary in " ".join(out.split())
    assert call(command, "-h") == (code, out, err)


def app_help(command: str) -> str:
    """First sentence of a command's docstring, or what a group of commands is about."""
    for group in app.registered_groups:
        if group.name == command and group.typer_instance is not None:
            return str(group.typer_instance.info.help).partition(".")[0]
    (found,) = [
        info
        for info in app.registered_commands
        if (info.name or getattr(info.callback, "__name__", "")) == command
    ]
    return (found.callback.__doc__ or "").partition(".")[0] if found.callback else ""


@pytest.mark.parametrize("name", sorted(COMMAND["study"].commands))
def test_every_study_has_help(name: str, call: Call) -> None:
    code, out, err = call("study", name, "--help")
    assert (code, err) == (0, "")
    assert f"Usage: sysgym study {name}" in out
    assert (COMMAND["study"].commands[name].help or "").partition(".")[0] in " ".join(out.split())


def test_help_of_the_whole_names_every_command(call: Call) -> None:
    code, out, _ = call("--help")
    assert code == 0
    lines = [line.strip("│ ").split(" ")[0] for line in out.splitlines()]
    assert set(COMMANDS) <= set(lines)
    listed = [line for line in lines if line in COMMANDS]
    assert listed[:7] == ["list", "show", "run", "live", "train", "bench", "report"]
    assert sorted(ORDER) == COMMANDS, "every command has a place in the help"


def test_the_version(call: Call) -> None:
    assert call("--version") == (0, f"sysgym {sysgym.__version__}\n", "")


UNKNOWN: dict[str, tuple[list[str], str, str]] = {
    "command": (["bnch"], "bnch", "bench"),
    "scenario to run": (["run", "dumbel-10g"], "dumbel-10g", "dumbbell-10g"),
    "scenario to train on": (["train", "ppo", "incst-32", "--out", "x"], "incst-32", "incast-32"),
    "contender": (["run", "tiny.toml", "-c", "dctpc"], "dctpc", "dctcp"),
    "agent": (["run", "tiny.toml", "--agent", "oracel"], "oracel", "oracle"),
    "transport": (["run", "tiny.toml", "--transport", "renoo"], "renoo", "reno"),
    "split": (["run", "tiny.toml", "--split", "tset"], "tset", "test"),
    "suite": (["bench", "qick"], "qick", "quick"),
    "contender of a benchmark": (["bench", "quick", "-c", "mine=cubik"], "cubik", "cubic"),
    "learning algorithm": (["train", "pppo", "tiny.toml", "--out", "x"], "pppo", "ppo"),
    "environment": (["show", "sysgym/DatacenterC-v0"], "sysgym/datacenterc-v0", "sysgym/datacentercc-v0"),
    "thing to show": (["show", "newvegsa"], "newvegsa", "newvegas"),
}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("what", UNKNOWN)
def test_an_unknown_name_is_told_the_nearest(what: str, call: Call, tmp_path: Path) -> None:
    arguments, name, nearest = UNKNOWN[what]
    before = sorted(tmp_path.iterdir())
    code, out, err = call(*arguments)
    assert code == 2
    assert out == ""
    words = err.replace("'", '"').lower()
    assert f'"{name}"' in words
    assert f'did you mean "{nearest}"?' in words
    assert "traceback" not in words
    assert sorted(tmp_path.iterdir()) == before, "nothing is written for a name that does not exist"


@pytest.mark.usefixtures("tiny")
def test_an_unknown_key_of_a_scenario_is_told_the_nearest(call: Call) -> None:
    code, out, err = call("run", "tiny.toml", "--set", "control.episode_stps=3")
    assert (code, out) == (2, "")
    assert "control.episode_stps" in err
    assert 'did you mean "episode_steps"?' in err


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "scenaros"], 'did you mean "scenarios"?'),
        (["list", "scenario"], 'no list is named "scenario"; did you mean "scenarios"?'),
        (["run", "sysgym/FlowCC-v0"], "it is an environment; name a scenario of it: "),
        (["bench", "dumbbell-10g"], "it is a scenario: sysgym run dumbbell-10g"),
        (["train", "dctcp", "incast-32"], "it is a transport of which nothing is trained; on incast-32: ppo"),
        (["train", "aimd", "incast-32"], "it is an agent of which nothing is trained"),
        (
            ["train", "dqn", "placement-unseen"],
            "on placement-unseen: ppo, a2c, reinforce, trpo, maskable_ppo",
        ),
        (["train", "ppo", "incast-32", "--steps", "1.5"], "such as 100000 or 1e5"),
        (["train", "ppo", "incast-32", "--steps", "0"], "such as 100000 or 1e5"),
        (["run", "tiny.toml", "--seed", "-1"], "'--seed'"),
        (["run", "tiny.toml", "--seed", "one"], "'--seed'"),
        (["train", "ppo", "tiny.toml", "--seed", "-1"], "'--seed'"),
        (["bench", "quick", "--seeds", "0"], "'--seeds'"),
        (["bench"], "Missing argument"),
        (["run", "nothere.toml"], "nothere.toml"),
        (["run", "tiny.toml", "--plugin", "nothere.py"], "nothere.py: cannot be read"),
        (["run", "tiny.toml", "--set", "nonsense"], "KEY=VALUE"),
        (["run", "tiny.toml", "-c", "ppo"], "needs a checkpoint"),
        (["run", "tiny.toml", "-c", "ppo"], "sysgym list policies"),
        (["run", "tiny.toml", "-c", "ppo@tiny"], "tiny: cannot be read"),
        (["run", "tiny.toml", "--agent", "dctcp"], "it is a transport: --contender dctcp"),
        (["run", "tiny.toml", "--agent", "dctcp,g=0.1"], "parts of a contender: --contender dctcp,g=0.1"),
        (["run", "tiny.toml", "-c", "half"], "--plugin FILE loads a file of your own"),
        (["run", "tiny.toml", "-c", "half"], "). Write TRANSPORT:AGENT for both"),
        (["run", "tiny.toml", "-c", "dctcp", "-c", "cubic"], "sysgym plot, sysgym live and sysgym bench"),
        (["run", "--scenario", "incast-32", "tiny.toml"], "got two scenarios, tiny.toml and --scenario"),
        (["trace", "what-if", "nothere/"], "nothere: no such file or folder"),
        (["run", "tiny.toml", "--checkpoint", "x.zip"], "takes no checkpoint"),
        (["run", "tiny.toml", "-c", "aimd", "--agent", "max"], "--contender names transport and agent"),
        (["run", "tiny.toml", "--render", "ansi", "--picture", "x.png"], "choose one"),
        (["report", "nothere"], "no results.jsonl in this folder"),
        (["validate", "nothere"], "no results.jsonl in this folder"),
    ],
)
def test_what_is_wrong_is_said_without_a_traceback(arguments: list[str], words: str, call: Call) -> None:
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


def test_debug_shows_the_traceback_wherever_it_stands(command_line: CommandLine) -> None:
    plain = command_line("show", "newvegsa")
    assert plain.returncode == 2
    assert plain.stderr.startswith("error: ")
    for arguments in (("--debug", "show", "newvegsa"), ("show", "newvegsa", "--debug")):
        done = command_line(*arguments)
        assert done.returncode == 1
        assert "Traceback" in done.stderr
        assert "UnknownName" in done.stderr


def test_lists_of_a_family(call: Call) -> None:
    code, out, _ = call("list", "--family", "placement")
    assert code == 0
    kinds: dict[str, list[str]] = {}
    for name, _, kind in (line.split("\t") for line in out.splitlines()):
        kinds.setdefault(kind, []).append(name)
    assert all("placement" in name for name in kinds["suite"])
    assert "sysgym/JointPlacement-v0" in kinds["environment"]
    assert "sysgym/FlowCC-v0" not in kinds["environment"]
    assert {"exhaustive", "oracle", "maskable_ppo"} <= set(kinds["agent"])
    assert not {"dctcp", "nurd"} & set(kinds["agent"])
    assert "transport" not in kinds
    assert "policy" not in kinds
    code, out, _ = call("list", "policies", "--family", "congestion")
    assert "adaptive_swift" in out
    code, _, err = call("list", "--family", "placements")
    assert code == 2
    assert 'did you mean "placement"' in err


def test_lists_have_everything_with_a_line_on_each(call: Call) -> None:
    from sysgym.agents import list_agents
    from sysgym.agents.learned.shipped import list_shipped
    from sysgym.emulator.packets.transports import list_transports
    from sysgym.registration import ENVIRONMENTS
    from sysgym.scenarios import list_scenarios, list_suites

    expected = {
        "envs": list(ENVIRONMENTS),
        "scenarios": [info.name for info in list_scenarios()],
        "transports": list(list_transports()),
        "agents": list(list_agents()),
        "suites": [info.name for info in list_suites()],
        "policies": [one.name for one in list_shipped()],
    }
    code, everything, _ = call("list")
    assert code == 0
    for kind, names in expected.items():
        code, out, _ = call("list", kind)
        assert code == 0
        assert out in everything
        first_words = [line.split()[0] for line in out.splitlines() if len(line.split()) > 1]
        for name in names:
            assert first_words.count(name) == 1, f"{name} with a line that says what it is"


def test_the_lists_have_what_a_users_file_brings(agents_file: Path, command_line: CommandLine) -> None:
    done = command_line("list", "agents", "--plugin", agents_file)
    assert done.returncode == 0, done.stderr
    assert {"sleepy", "fragile", "deadly"} <= {line.split("\t")[0] for line in done.stdout.splitlines()}


def test_the_command_of_a_page_loads_what_the_page_needed(
    agents_file: Path, command_line: CommandLine
) -> None:
    done = command_line("show", "sleepy", "--plugin", agents_file)
    assert done.returncode == 0, done.stderr
    command = done.stdout.splitlines()[-1]
    assert command.startswith("sysgym run ")
    assert command.endswith(f" --contender sleepy --plugin {shlex.quote(str(agents_file))}")


def test_a_command_without_the_option_for_own_files_is_printed_without_it(
    agents_file: Path, command_line: CommandLine
) -> None:
    done = command_line("show", "onnx", "--plugin", agents_file)
    assert done.stdout.splitlines()[-1] == "sysgym export CHECKPOINT --out FILE.onnx"


def test_every_name_that_is_listed_has_a_page(call: Call) -> None:
    for kind in ("envs", "scenarios", "transports", "agents", "suites"):
        names = [line.split("\t")[0] for line in call("list", kind)[1].splitlines()]
        assert names
        for name in names:
            code, out, err = call("show", name)
            assert (code, err) == (0, ""), name
            assert name.rpartition("/")[2] in out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sysgym/DatacenterCC-v0", ["DatacenterCC-v0", "Observation"]),
        ("DatacenterCC", ["DatacenterCC-v0"]),
        ("dumbbell-10g", ["[topology]", "10 Gb/s", "Splits", "20000 to 20999"]),
        (
            "tiny.toml",
            ["tiny: Tiny", "10 Mb/s", "200 to 299", "episode_steps", "sysgym run tiny.toml --contender"],
        ),
        (
            "small.toml",
            ["small: Small", "test, 2 seeds", "dctcp, reno", "Queueing delay, p99", "bench small.toml\n"],
        ),
        ("quick", ["quick", "Trainings", "40 000", "Tasks"]),
        ("adaptive_swift", ["adaptive_swift,NAME=VALUE", "target_of_small", "32 (0.5 to 128)"]),
        ("dctcp", ["dctcp: ", "Source: ", "its packets may be marked"]),
        ("oracle", ["oracle: ", "Reference, not a competitor"]),
        ("ppo", ["ppo: ", "Learned agent: needs a checkpoint"]),
        ("aimd", ["aimd: ", "Heuristic", "sysgym run dumbbell-10g --contender aimd"]),
        (
            "alibaba-2018",
            ["profile", "cluster.slots_per_machine", "Splits", "sysgym run alibaba-2018 --contender nurd"],
        ),
        ("nurd", ["nurd: ", "Heuristic", "sysgym run google-2011 --contender nurd"]),
        ("ppo@iroko-dumbbell-10m", ["Not for", "sysgym bench iroko"]),
        ("stragglers/oracle", ["oracle: ", "a reference", "sysgym run google-2011 --contender oracle"]),
    ],
)
def test_show_tells_of_one_thing(
    name: str, words: list[str], call: Call, write_suite: Callable[..., Path]
) -> None:
    write_suite()
    code, out, err = call("show", name)
    assert (code, err) == (0, "")
    for word in words:
        assert word in out
