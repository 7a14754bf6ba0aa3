"""Output for programs and shells: JSON, lines in pipes, completion, exit codes."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from sysgym.agents import list_agents
from sysgym.agents.learned.shipped import list_shipped
from sysgym.cli import completion, main
from sysgym.cli.app import app
from sysgym.cli.usage import EXAMPLES
from sysgym.emulator.packets.transports import get_transport
from sysgym.registration import ENVIRONMENTS
from sysgym.scenarios import list_scenarios, list_suites

CommandLine = Callable[..., subprocess.CompletedProcess[str]]
Call = Callable[..., tuple[int, str, str]]


def test_the_module_is_the_command(tmp_path: Path) -> None:
    told = [
        subprocess.run(
            [*command, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        for command in (
            [sys.executable, "-m", "sysgym"],
            [sys.executable, "-c", "from sysgym.cli import main; main()"],
        )
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize("command", EXAMPLES)
def test_examples_are_right(command: str) -> None:
    program, *words = shlex.split(EXAMPLES[command])
    names = command.split()
    assert (program, words[: len(names)]) == ("sysgym", names)
    known = typer.main.get_command(app)
    for name in names:
        known = known.commands[name]  # type: ignore[attr-defined]
    known.make_context(names[-1], words[len(names) :])  # parses, and runs nothing


def test_a_missing_argument_is_told_with_an_example(call: Call) -> None:
    code, out, err = call("bench")
    assert (code, out) == (2, "")
    first, *rest = err.splitlines()
    assert first == "error: Missing argument 'suite'."
    assert [line.split(":")[0].strip() for line in rest] == ["Usage", "Example", "More"]


def test_a_misspelt_option_is_told_the_nearest(call: Call) -> None:
    code, _, err = call("run", "--sede", "3")
    assert code == 2
    assert "--seed" in err.splitlines()[0]


def test_nothing_asked_for_is_answered_with_the_help(call: Call) -> None:
    assert "Usage: sysgym" in call()[1]
    assert "Usage: sysgym emulator" in call("emulator")[1]


def test_a_pipe_gets_a_line_for_each_thing(command_line: CommandLine) -> None:
    done = command_line("list")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert all(len(line) == 3 and all(line) for line in lines)
    scenarios = [name for name, _, kind in lines if kind == "scenario"]
    assert scenarios == [info.name for info in list_scenarios()]
    assert not re.search(r"[\x1b│─━…]", done.stdout)


def test_pages_have_no_broken_lines_in_a_pipe(
    call: Call, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sysgym/DatacenterCC-v0", "quick", "dctcp", "ppo@iroko-dumbbell-10m"):
        assert not re.search(r"[\x1b│─━┏…]", call("show", name)[1])
    monkeypatch.delenv("COLUMNS")
    with pytest.raises(SystemExit):
        main(["show", "dumbbell-10g"])
    out = capsys.readouterr().out
    assert not re.search(r"[\x1b│─━┏…]", out)
    (line,) = [line for line in out.splitlines() if line.startswith("link_model ")]
    assert line.endswith("virtual links")
    assert "\n[topology]  " in out
    assert " \n" not in out, "tables are filled with blanks"


@pytest.mark.parametrize("arguments", [["list"], ["show", "dumbbell-10g"]])
def test_a_reader_that_leaves_early_is_no_error(arguments: list[str], tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sysgym", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() in {0, 1}


def test_lists_as_json(call: Call) -> None:
    code, out, _ = call("list", "--json")
    assert code == 0
    found = json.loads(out)
    assert all(set(one) == {"kind", "name", "summary"} for one in found)
    names = {
        kind: [one["name"] for one in found if one["kind"] == kind] for kind in {o["kind"] for o in found}
    }
    assert names["agent"] == list_agents()
    assert names["suite"] == [info.name for info in list_suites()]
    assert names["policy"] == [one.name for one in list_shipped()]
    assert names["environment"] == list(ENVIRONMENTS)
    assert json.loads(call("list", "suites", "--json")[1]) == [one for one in found if one["kind"] == "suite"]


KEYS = {
    "DatacenterCC": ("environment", {"entry_point", "documentation"}),
    "dumbbell-10g": (
        "scenario",
        {
            "family",
            "env_id",
            "description",
            "references",
            "sha256",
            "resolved",
            "observation_index",
        },
    ),
    "google-2011": (
        "scenario",
        {"family", "env_id", "description", "references", "sha256", "resolved", "observation_index"},
    ),
    "quick": ("suite", {"resolved"}),
    "dctcp": ("transport", {"reference", "ecn_capable", "recovery", "rate_driven", "constants"}),
    "aimd": ("agent", {"family", "env_id", "learned", "privileged", "documentation"}),
    "ppo@iroko-dumbbell-10m": ("policy", {"agent", "scenario", "path", "documentation"}),
}


@pytest.mark.parametrize("name", KEYS)
def test_pages_as_json_have_the_keys_that_are_documented(name: str, call: Call) -> None:
    import sysgym.cli.pages.show_json

    code, out, err = call("show", name, "--json")
    assert code == 0, err
    found, (kind, keys) = json.loads(out), KEYS[name]
    assert found["kind"] == kind
    assert set(found) == {"kind", "name", "summary"} | keys
    assert all(f"``{key}``" in (sysgym.cli.pages.show_json.__doc__ or "") for key in found)


def test_the_observation_is_printed_index_by_index(call: Call) -> None:
    import gymnasium as gym

    env = gym.make("sysgym/DatacenterCC-v0", scenario="dumbbell-10g")
    expected = env.unwrapped.observation_index  # type: ignore[attr-defined]
    assert env.observation_space.shape == (len(expected),)
    code, out, err = call("show", "dumbbell-10g", "--observation")
    assert code == 0, err
    assert out.splitlines() == [f"{number}\t{words}" for number, words in enumerate(expected)]
    assert json.loads(call("show", "dumbbell-10g", "--observation", "--json")[1]) == expected
    assert json.loads(call("show", "dumbbell-10g", "--json")[1])["observation_index"] == expected
    code, _, err = call("show", "dumbbell-10g", "--observation", "--plugin", "missing.py")
    assert code == 2
    assert "missing.py" in err
    for name, words in (("google-2011", "no list of numbers"), ("dctcp", "of kind transport")):
        code, _, err = call("show", name, "--observation")
        assert code == 2
        assert words in err


def test_completion_knows_all_names() -> None:
    assert set(completion.scenarios("")) == {info.name for info in list_scenarios()}
    assert set(completion.suites("")) == {info.name for info in list_suites()}
    assert [get_transport(name).name for name in completion.TRANSPORTS] == list(completion.TRANSPORTS)
    assert completion.contenders("paced:ai") == ["paced:aimd"]
    assert "ppo" in completion.learners("p")
    assert "aimd" not in completion.learners("")
    assert {"dumbbell-10g", "quick", "dctcp", "aimd", *ENVIRONMENTS} <= set(completion.everything(""))


def test_completion_knows_every_transport_of_the_package() -> None:
    listing = subprocess.run(
        [sys.executable, "-m", "sysgym", "list", "transports"], capture_output=True, text=True, check=True
    ).stdout
    assert [line.split("\t")[0] for line in listing.splitlines()] == list(completion.TRANSPORTS)


def test_completion_finds_a_users_scenarios(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYSGYM_SCENARIO_PATH", str(tiny.parent))
    assert completion.scenarios("tin") == ["tiny"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("sysgym run dumbbell-10", {"dumbbell-10g", "dumbbell-100m-hadoop", "dumbbell-100g-early-marks"}),
        ("sysgym run incast-32 -c dct", {"dctcp"}),
        ("sysgym bench qui", {"quick"}),
        ("sysgym plot park", {"parking-lot-3-websearch", "parking-lot-4"}),
        ("sysgym study stress incast-32 -c dct", {"dctcp"}),
        ("sysgym show sysgym/Flow", {"sysgym/FlowCC-v0"}),
    ],
)
def test_the_shell_completes(words: str, expected: set[str], tmp_path: Path) -> None:
    code = (
        "import sys; from sysgym.cli import main\n"
        "try: main([])\n"
        "finally: print(sorted({'numba', 'scipy', 'torch', 'matplotlib'} & set(sys.modules)))"
    )
    environment = {
        "_SYSGYM_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    *completed, loaded = done.stdout.splitlines()
    assert set(completed) == expected, done.stderr
    assert loaded == "[]", "nothing heavy is imported for a name"


def test_completion_is_installed_by_an_option(call: Call) -> None:
    assert "--install-completion" in call("--help")[1]


@pytest.mark.slow
def test_ctrl_c_is_130(start_command: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    process = start_command("run", "dumbbell-10g", "--set", "control.episode_steps=30000")
    deadline = time.monotonic() + 60
    while b"dumbbell-10g" not in (tmp_path / "stdout").read_bytes() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert b"Traceback" not in (tmp_path / "stderr").read_bytes()
