"""Pages of the documentation as programs: their files, their Python, their commands.

A fenced block whose first line is `# file: NAME` is that file. Other `python` blocks are programs. In a
`console` block the lines after `$ ` are commands, and a line of output, where one is shown, has to appear.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.commands import Commands

BLOCK = re.compile(r"^```(python|toml|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# file: (\S+)\n")


def files_of(page: Path) -> dict[str, str]:
    """Return name -> text of the files that a page shows."""
    blocks = [block for _, block in BLOCK.findall(page.read_text())]
    return {named[1]: block[named.end() :] for block in blocks if (named := NAMED.match(block))}


def programs_of(page: Path) -> list[tuple[str, str]]:
    """Return language and text of the blocks that are run, in order."""
    found = BLOCK.findall(page.read_text())
    return [(language, block) for language, block in found if language != "toml" and not NAMED.match(block)]


def run_in_shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        line,
        cwd=folder,
        shell=True,
        env={**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def type_commands(block: str, folder: Path, commands: Commands) -> None:
    """Type the commands of a console block and look for the lines of output that it shows.

    Those with more than words, such as pipes, start the installed ``sysgym`` from a shell.
    """
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.rstrip("\n").split("\n")
        if re.match(r"sysgym [^|<>$'\"]+$", command):
            done = commands.run(shlex.split(command, comments=True)[1:], folder)
        else:
            done = run_in_shell(command, folder)
        output = " ".join(succeeded(done).split())
        for line in shown:
            if line.strip() not in {"", "..."}:
                assert " ".join(line.split()) in output, (
                    f"'$ {command}' did not print {line!r} but:\n{output}"
                )


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a program printed that has to have succeeded."""
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout
