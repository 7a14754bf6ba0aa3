"""Reports of hostile rows stay in their folder, and no text becomes a tag, a link or a script."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from sysgym.bench import surveys
from sysgym.bench.contenders import Contender
from sysgym.bench.report import Written, write
from sysgym.bench.report.data import benchmark
from sysgym.bench.report.markdown import plain
from sysgym.bench.report.texts import printable, shown_name, slug
from sysgym.bench.results.records import MachineFields, MetricFields, RunFields, SittingFields, SuiteFields
from sysgym.bench.results.rows import RESULTS, Row
from sysgym.bench.run.runner import RUN
from sysgym.bench.run.training import STARTED, TRAINING_FOLDER
from sysgym.bench.surveys import Page
from sysgym.errors import SysgymError
from sysgym.scenarios import load_scenario

# One report serves the whole file, so one worker takes it.
pytestmark = pytest.mark.xdist_group("report-safety")

MARK = "document.documentElement.dataset.pwned=1"
PAYLOADS = (
    f"<script>{MARK}</script>",
    f'"><img src=x onerror="{MARK}">',
    f"--></style></svg><script>{MARK}</script>",
    f"'><svg onload={MARK}>",
    "[x](javascript:alert(1))",
    "<javascript:alert(1)>",
    "![x](https://evil.example/x.png)",
    "[a]: javascript:alert(1)",
    "https://evil.example www.evil.example",
    'id="a" href="#b" url(#c)',
    "a|b\n\n# c\n- d",
    "`<b>`</code><b>",
    "{{ 7 * 7 }}{% raw %}",
    "../../x",
    "\x00\x1b[31m\u202e\ud800",
)
NAMES = PAYLOADS[:8]
"""Names are cut, so that each has one payload; these can do harm in what is left of them."""
EVERYTHING = "  ".join(PAYLOADS)

PAGE_TAGS = frozenset(
    re.findall(
        r"\w+",
        "html head meta title style body nav ul li a h1 h2 p details summary div table caption span thead"
        " tbody tr th td small figure figcaption dl dt dd code pre script svg g path text use defs"
        " clippath rect",
    )
)
MARKDOWN_TAGS = frozenset(
    re.findall(r"\w+", "h1 h2 p ul li strong em table thead tbody tr th td br img code blockquote a")
)


SWITCHES = """
--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --disable-dev-shm-usage
"""


class _Tags(HTMLParser):
    """Reads a document: its tags, their attributes, its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attributes}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def names(self) -> set[str]:
        return {tag for tag, _ in self.tags}

    def values(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.tags if name in attributes]


DELAY = {"queue_delay_p99_s": 1e-3}


def _rows() -> Iterator[Row]:
    scenario = load_scenario("iroko-dumbbell-10m")
    resolved = scenario.resolved() | {"title": EVERYTHING, "description": EVERYTHING}
    for place, name in enumerate(NAMES[:2]):
        for rank, contender in enumerate(NAMES):
            for seed in range(20000, 20005):
                yield Row(
                    env_id=scenario.env_id,
                    scenario=name,
                    scenario_sha256=f"{EVERYTHING}{place}",
                    scenario_resolved=resolved,
                    split="test" if place else PAYLOADS[2],
                    contender=Contender(
                        contender,
                        PAYLOADS[rank],
                        EVERYTHING,
                        learned=rank == 1,
                        privileged=rank == 2,
                        checkpoint_sha256="a",
                        plugins=((EVERYTHING, EVERYTHING),),
                    ),
                    seed=seed,
                    metrics={PAYLOADS[0]: 1e6 + rank + seed, "goodput_bps": 1e6 * (rank + 1) + seed, **DELAY},
                    total_reward=1.0,
                    versions={EVERYTHING: EVERYTHING, "sysgym": PAYLOADS[0]},
                    wall_s=0.1,
                    steps=3,
                    decision_ms=0.1,
                )


def _record() -> RunFields:
    """A record of a run in which names are payloads too, which reading it would have refused."""
    text = printable(EVERYTHING)
    metrics = [
        MetricFields.model_construct(name=name, label=label, direction=direction)
        for name, label, direction in (
            (shown_name(PAYLOADS[0]), PAYLOADS[0], "higher"),
            ("goodput_bps", PAYLOADS[4], "higher"),
            ("queue_delay_p99_s", PAYLOADS[1], "lower"),
        )
    ]
    suite = SuiteFields.model_construct(
        title=text, description=text, contenders=list(NAMES), metrics=metrics, scenarios={NAMES[0]: {}}
    )
    machine = MachineFields(processor=text, cpus=2, platform=text)
    sitting = SittingFields(command=text, began=text, machine=machine, played=3, wall_s=1.0)
    return RunFields.model_construct(suite=suite, sittings=[sitting])


def _fill(folder: Path) -> None:
    folder.mkdir()
    (folder / RESULTS).touch()
    (folder / RUN).touch()
    visible = PAYLOADS[:-1]  # control characters are refused
    surveys.write(folder, [Page(visible[0], visible[1], visible, (visible,))])
    training = folder / TRAINING_FOLDER / "<b>x"
    training.mkdir(parents=True)
    (training / STARTED).write_text(json.dumps({"agent": "ppo", "total_steps": 3}))
    (training / "progress.csv").write_text("total_steps,episode_return_mean\n1,2\n2,3\n")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Write a report in which every text is a payload; what reads rows would have refused their names."""
    folder = tmp_path_factory.mktemp("hostile") / "out"
    _fill(folder)
    rows = list(_rows())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "read_rows", lambda _: rows)
        patch.setattr(benchmark, "read_record", lambda _: _record())
        return write(folder)


def test_the_page_has_no_tag_and_no_link_of_the_rows(written: Written) -> None:
    page = _Tags(written.html.read_text())
    assert page.names() <= PAGE_TAGS
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert "style" not in attributes, "the page's policy forbids styles of elements"
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[\w.-]+", one) for one in ids)
    links = {link for link in page.values("href") if not link.startswith("#")}
    assert links == {RESULTS}
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert "{{ 7 * 7 }}" in page.text, "texts are no templates"
    for payload in PAYLOADS[:-1]:
        assert " ".join(printable(payload).split()) in " ".join(page.text.split())
    assert not [one for one in page.text if one in "\x00\x1b\u202e"]


def test_the_twin_has_no_tag_and_no_link_of_the_rows(written: Written) -> None:
    text = written.markdown.read_text()
    rendered = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)
    twin = _Tags(rendered)
    assert twin.names() <= MARKDOWN_TAGS
    assert set(twin.values("href")) == {RESULTS}
    assert all(re.fullmatch(r"plots/[\w.-]+\.png", source) for source in twin.values("src"))
    for tag, attributes in twin.tags:
        assert set(attributes) <= {"href", "src", "alt", "style"}, tag
    assert twin.tags.count(("h1", {})) == 1
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert len(headings) == sum(tag in {"h1", "h2"} for tag, _ in twin.tags)
    widths = {line.count(" | ") for line in text.splitlines() if line.startswith("| ")}
    assert len(widths) <= 4, "no text ends a cell"
    # GitHub makes links of bare addresses.
    assert not re.search(r"https?://|www\.", re.sub(r"`[^`]*`", "", text))
    for payload in PAYLOADS[:10]:
        assert " ".join(payload.split()) in " ".join(twin.text.split())


def test_nothing_is_written_elsewhere(written: Written) -> None:
    folder = written.html.parent
    assert [path.name for path in folder.parent.iterdir()] == ["out"]
    names = [path.name for path in (folder / "plots").iterdir()]
    assert len(names) >= 6
    assert all(re.fullmatch(r"[a-z0-9_-]+\.png", name) for name in names)
    assert {path.name for path in folder.iterdir()} == {
        RESULTS, RUN, surveys.FILE, TRAINING_FOLDER, "plots", "report.html", "report.md",
    }  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> str:
    """Skips where there is no Chromium and says why; with CI=true that is a failure for root."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        words = "no Chromium here; `sudo scripts/install_browser.sh` installs it on Debian"
        if os.environ.get("CI") and os.geteuid() == 0:
            pytest.fail(words)
        pytest.skip(words)
    return found


def _in_browser(browser: str, page: Path, profile: Path) -> str:
    """Return the document as it is after its scripts have run."""
    switches = re.findall(r"\S+", SWITCHES)
    done = subprocess.run(
        [browser, *switches, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


@pytest.mark.slow
def test_a_browser_runs_nothing_of_the_rows(written: Written, browser: str, tmp_path: Path) -> None:
    document = _in_browser(browser, written.html, tmp_path / "profile")
    page = _Tags(document)
    assert page.names() <= PAGE_TAGS | {"button"}
    assert page.tags.count(("button", {"type": "button"})) > 5, "the page's own script has run"
    assert "data-pwned" not in dict(page.tags)["html"]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]


@pytest.mark.slow
def test_a_script_that_got_in_would_not_run(written: Written, browser: str, tmp_path: Path) -> None:
    text = written.html.read_text()
    inside = tmp_path / "page.html"
    inside.write_text(text.replace("</h1>", f"</h1><script>{MARK}</script><img src=x onerror={MARK}>", 1))
    assert "data-pwned" not in dict(_Tags(_in_browser(browser, inside, tmp_path / "one")).tags)["html"]
    without = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", inside.read_text())
    inside.write_text(without)
    assert "data-pwned" in dict(_Tags(_in_browser(browser, inside, tmp_path / "two")).tags)["html"]


@pytest.mark.parametrize("where", ["plots", "report.html.part", "report.md.part"])
def test_a_link_in_the_folder_leads_nowhere(where: str, tmp_path: Path) -> None:
    folder, victim = tmp_path / "out", tmp_path / "victim"
    _fill(folder)
    if where == "plots":
        victim.mkdir()
    else:
        victim.write_text("mine")
    (folder / where).symlink_to(victim)
    rows = [dataclasses.replace(row, scenario="tiny", split="test") for row in list(_rows())[:5]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "read_rows", lambda _: rows)
        patch.setattr(benchmark, "read_record", lambda _: _record())
        with pytest.raises(SysgymError, match=re.escape(where)):
            write(folder)
    assert list(victim.iterdir()) == [] if where == "plots" else victim.read_text() == "mine"


def test_slugs_are_safe_and_differ() -> None:
    texts = [*PAYLOADS, "tiny", "Tiny", "tiny ", "tiny-", "ti--ny", "ti-ny", "", "x", "ü", "con", "a" * 300]
    slugs = [slug(text) for text in texts]
    assert len(set(slugs)) == len(texts)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*(_[0-9a-f]{12})?", one) for one in slugs)
    assert slug("iroko-dumbbell-10m") == "iroko-dumbbell-10m"


def test_names_are_one_printable_line() -> None:
    assert shown_name("a\n\tb") == "a b"
    assert shown_name("\u202ea\x00\ud800") == "\ufffda\ufffd\ufffd"
    assert shown_name("") == "\ufffd"
    assert len(shown_name("a" * 1000)) == 60
    assert printable("é ≈ 漢 🙂") == "é ≈ 漢 🙂"


@pytest.mark.parametrize("text", ["9.5 [9.4, 9.6]", "-2.00", "dctcp leads with 3.1 ms, 5 % lower"])
def test_what_is_harmless_stays_readable(text: str) -> None:
    assert plain(text) == text
