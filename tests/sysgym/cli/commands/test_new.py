"""``sysgym new``: files that work unchanged, with the commands that they name."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sysgym.cli.commands.new import What, commands_in
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.schema.congestion.topology import GraphTopology
from tests.commands import Commands

Call = Callable[..., tuple[int, str, str]]


@pytest.mark.slow
@pytest.mark.parametrize("what", What)
def test_a_starting_file_works_as_its_comment_says(
    what: What, tmp_path: Path, call: Call, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call("new", what, "first")
    assert code == 0, err
    (path,) = tmp_path.iterdir()
    assert out.splitlines()[0] == path.name
    lines = commands_in(path.read_text())
    assert lines
    assert [line.strip() for line in out.splitlines()[1:]] == lines
    for line in lines:
        program, *words = shlex.split(line)
        if program == "sysgym":
            done = commands.run(words, tmp_path)
        else:
            path_with_python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            done = subprocess.run(
                [program, *words],
                env={**os.environ, "PATH": path_with_python},
                capture_output=True,
                text=True,
                check=False,
            )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


SNDLIB = """
NODES (
  Berlin ( 13.48 52.52 )
  Hamburg ( 10.10 53.55 )
  Muenchen" ( 11.58 48.14 )
)
LINKS (
  L1 ( Berlin Hamburg ) 0.00 0.00 0.00 0.00 ( 40.00 1.00 )
  L2 ( Hamburg Muenchen" ) 0.00 0.00 0.00 0.00 ( 40.00 1.00 )
)
"""


def test_a_scenario_with_the_network_of_a_file(tmp_path: Path, call: Call) -> None:
    (tmp_path / "net.txt").write_text(SNDLIB)
    code, _, err = call("new", "scenario", "german", "--folder", tmp_path, "--graph", tmp_path / "net.txt")
    assert code == 0, err
    scenario = load_scenario(str(tmp_path / "german.toml"), expect=CongestionScenario)
    assert isinstance(scenario.topology, GraphTopology)
    assert scenario.topology.switches == ("berlin", "hamburg", "muenchen")
    assert [cable.ends for cable in scenario.topology.cables] == [
        ("berlin", "hamburg"),
        ("hamburg", "muenchen"),
    ]
    network = PacketNetwork(scenario, transport="dctcp")
    network.advance(scenario.horizon_s)
    assert network.packet_hops > 100


def test_only_a_scenario_has_a_network(tmp_path: Path, call: Call) -> None:
    code, _, err = call("new", "suite", "mine", "--folder", tmp_path, "--graph", tmp_path / "net.txt")
    assert code == 2
    assert "--graph applies to a scenario" in err
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path, call: Call) -> None:
    (tmp_path / "mine.toml").write_text("precious")
    code, _, err = call("new", "suite", "mine", "--folder", tmp_path)
    assert code == 2
    assert "exists already" in err
    assert (tmp_path / "mine.toml").read_text() == "precious"


@pytest.mark.parametrize(
    ("what", "name", "words"),
    [
        ("suite", "../x", "is no valid name of a suite"),
        ("suite", "My Suite", "lower-case letters and digits, words joined by -"),
        ("scenario", "x" * 5000, "at most 60 characters"),
        ("law", "my-law", "lower-case letters, digits and _"),
        ("law", "dctcp", "the name of an existing transport"),
        ("law", "numpy", "the name of a Python or library module"),
        ("law", "class", "the name of a Python or library module"),
        ("law", "", "is no valid name of a law"),
    ],
)
def test_names_are_checked(what: str, name: str, words: str, tmp_path: Path, call: Call) -> None:
    code, _, err = call("new", what, name, "--folder", tmp_path)
    assert code == 2
    assert words in " ".join(err.split())
    assert len(err) < 300
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_said(tmp_path: Path, call: Call) -> None:
    code, _, err = call("new", "suite", "mine", "--folder", tmp_path / "nowhere")
    assert code == 2
    assert "cannot be written: No such file or directory" in err
