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
