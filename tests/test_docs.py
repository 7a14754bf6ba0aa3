"""What the pages show works: each page's files are written, its Python run, its commands typed, in order.

A fenced block whose first line is `# file: NAME` is that file. Other `python` blocks are programs. In a
`console` block the lines after `$ ` are commands, and a line of output, where one is shown, has to appear.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(python|toml|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# file: (\S+)\n")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(#[^)]*)?\)")
RUN = ("command-line", "senders", "stragglers", "time-series")
PAGES = [
    ROOT / "README.md",
    *(DOCS / f"{name}.md" for name in RUN),
    *sorted(DOCS.glob("adding-*.md")),
]


def _run(command: list[str] | str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        shell=isinstance(command, str),
        env={**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _type(block: str, folder: Path) -> None:
    """Type the commands of a console block and look for the lines of output that it shows."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.rstrip("\n").split("\n")
        output = " ".join(_run(command, folder).split())
        for line in shown:
            if line.strip() not in {"", "..."}:
                assert " ".join(line.split()) in output, (
                    f"'$ {command}' did not print {line!r} but:\n{output}"
                )


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_works_as_it_says(page: Path, tmp_path: Path) -> None:
    ran = 0
    for language, block in BLOCK.findall(page.read_text()):
        named = NAMED.match(block)
        if named:
            (tmp_path / named[1]).write_text(block[named.end() :])
        elif language == "python":
            # The README trains until it is good; whether the program is right shows sooner.
            _run([sys.executable, "-c", block.replace("learn(30_000)", "learn(2_100)")], tmp_path)
            ran += 1
        elif language == "console":
            _type(block, tmp_path)
            ran += 1
    assert ran, "a page without anything to run"


def test_the_pages_are_there() -> None:
    adding = {
        f"adding-{what}" for what in ("a-scenario", "a-suite", "a-transport", "an-agent", "an-environment")
    }
    assert {page.stem for page in PAGES} == {"README", *RUN} | adding


@pytest.mark.parametrize(
    "page",
    [*sorted(DOCS.glob("*.md")), *sorted(ROOT.glob("*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [target for target, _ in LINK.findall(page.read_text()) if not (page.parent / target).exists()]
    assert missing == []


def test_the_page_of_scenario_keys_is_what_the_schema_says() -> None:
    spec = importlib.util.spec_from_file_location("scenario_keys", ROOT / "scripts" / "scenario_keys.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text() == script.render(), "run scripts/scenario_keys.py"


def test_the_page_of_time_series_has_every_column() -> None:
    from sysgym.emulator.packets.counters.recording import FLOW_SAMPLE, PORT_SAMPLE

    page = (DOCS / "time-series.md").read_text()
    for name in (*(FLOW_SAMPLE.names or ()), *(PORT_SAMPLE.names or ())):
        assert re.search(rf"^\| .*`{name}`.* \|", page, re.MULTILINE), name
