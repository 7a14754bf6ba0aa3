"""Documentation pages work: their files are written, their Python is run, their commands are run, in order.

The page on families is run by ``test_families.py``, which installs the package that it makes.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.commands import Commands
from tests.pages import BLOCK, NAMED, succeeded, type_commands

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(#[^)]*)?\)")
RUN = ("command-line", "integrations", "senders", "stragglers", "time-series", "training")
PAGES = [
    ROOT / "README.md",
    *(DOCS / f"{name}.md" for name in RUN),
    *(page for page in sorted(DOCS.glob("adding-*.md")) if page.stem != "adding-a-family"),
]


def shortened(block: str) -> str:
    """Return a program or commands with less to do where pages train, film or study for long.

    Whether they are right shows sooner.
    """
    block = block.replace("learn(30_000)", "learn(2_000)")
    # Minari keeps datasets in the user's home otherwise.
    minari = (
        "import os\n\nos.environ['MINARI_DATASETS_PATH'] = os.path.abspath('minari')\nfrom sysgym.datasets"
    )
    block = block.replace("from sysgym.datasets", minari)
    block = block.replace("--networks 120", "--networks 1")
    block = block.replace("study links", "study links --links 1 --crowds 1")
    return block.replace("--video hadoop.mp4", "--set control.episode_steps=20 --video hadoop.mp4")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_works_as_it_says(page: Path, tmp_path: Path, commands: Commands) -> None:
    ran = 0
    for language, block in BLOCK.findall(page.read_text()):
        named = NAMED.match(block)
        if named:
            (tmp_path / named[1]).write_text(block[named.end() :])
        elif language == "python":
            succeeded(commands.run_python(shortened(block), tmp_path))
            ran += 1
        elif language == "console":
            type_commands(shortened(block), tmp_path, commands)
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
    spec = importlib.util.spec_from_file_location(
        "scenario_keys", ROOT / "scripts" / "pages" / "scenario_keys.py"
    )
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text() == script.render(), "run scripts/pages/scenario_keys.py"


def test_the_table_of_constants_is_that_of_the_suites() -> None:
    spec = importlib.util.spec_from_file_location(
        "constants_table", ROOT / "scripts" / "stragglers" / "constants_table.py"
    )
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = (DOCS / "stragglers-tables.md").read_text()
    assert script.table() in page, "run scripts/stragglers/constants_table.py docs/stragglers-tables.md"


def test_the_page_of_time_series_has_every_column() -> None:
    from sysgym.emulator.packets.counters.recording import FLOW_SAMPLE, PORT_SAMPLE

    page = (DOCS / "time-series.md").read_text()
    for name in (*(FLOW_SAMPLE.names or ()), *(PORT_SAMPLE.names or ())):
        assert re.search(rf"^\| .*`{name}`.* \|", page, re.MULTILINE), name
