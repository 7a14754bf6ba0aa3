"""Pages of the documentation as programs: their files, their Python, their commands.

A fenced block whose first line is `# file: NAME` is that file. Other `python` blocks are programs. In a
`console` block the lines after `$ ` are commands, and a line of output, where one is shown, has to appear.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

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


def run(command: list[str] | str, folder: Path, variables: Mapping[str, str] | None = None) -> str:
    """Run a program, or a line of the shell, that has to succeed; return what it prints."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        shell=isinstance(command, str),
        env={**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "200", **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def type_commands(block: str, folder: Path, variables: Mapping[str, str] | None = None) -> None:
    """Type the commands of a console block and look for the lines of output that it shows."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.rstrip("\n").split("\n")
        output = " ".join(run(command, folder, variables).split())
        for line in shown:
            if line.strip() not in {"", "..."}:
                assert " ".join(line.split()) in output, (
                    f"'$ {command}' did not print {line!r} but:\n{output}"
                )
