"""The built site: one page of each kind through Sphinx, checked, measured, and looked at in a browser.

The whole site takes minutes, so only `make docs` builds it. Its size follows from this sample.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from docs.website import check as checking
from docs.website.build import DOCS, NOT_DRAWN, place_pictures, run_sphinx, write_live_pages
from docs.website.chapters import chapters
from docs.website.check import check
from docs.website.environments import environments, slug
from docs.website.markdown import Pages, replace_links
from docs.website.pictures import draw
from sysgym.registration import ENVIRONMENTS
from tests.browser import started_browser

pytest.importorskip("sphinx", reason="the extra docs is not installed: make venv installs it")
pytestmark = [pytest.mark.xdist_group("docs site"), pytest.mark.slow]

DRAWN = "sysgym/BurstPlan-v0"
"""Environment of the sample, whose animation takes two seconds."""

SAMPLE = (
    f"environments/{slug(DRAWN)}.md",
    "transports/dctcp.md",
    "agents/stragglers/transfer.md",
    "scenarios/incast-32.md",
    "suites/quick.md",
    "api/scenarios.rst",
    "labs/1-bufferbloat.md",
    "index.md",
    "overview.md",
    "cli.md",
    "live.md",
    "evaluation.md",
)
"""A page of each kind, of usual length, and the front page."""

LISTED = ("transports", "agents", "policies", "scenarios", "suites")
"""Folders whose pages list no siblings, as there are hundreds."""

ANIMATION_BYTES = 120_000
"""Mean size of the animations that `make docs` draws, of 16 frames each."""

SHARE_FOR_GROWTH = 0.05
ENTRY = re.compile(r"^ */(\S+)$", re.MULTILINE)


class Built(NamedTuple):
    """The sample.

    Attributes:
        site: Folder of the built pages.
        sources: Its sources.
        everything: Sources of the whole site.
    """

    site: Path
    sources: Pages
    everything: Pages


@pytest.fixture(scope="module")
def built(pages: Pages, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build the sample; links and entries that lead out of it lead to the overview, or are left out."""
    everything = pages
    wanted = {*(f"{one.name}.md" for one in chapters(DOCS)), *SAMPLE}
    for others in (r"policies/(?!index).*\.md", r"source/.*\.py\.md"):  # named by what there is
        wanted.add(next(path for path in sorted(everything) if re.fullmatch(others, path)))
    wanted |= {*(f"{folder}/index.md" for folder in (*LISTED, "environments"))} | {"api/index.rst"}
    sources = {path: _inside(everything[path], wanted) for path in sorted(wanted)}
    folder = tmp_path_factory.mktemp("site")
    source, site = folder / "source", folder / "html"
    shutil.copytree(DOCS / "images", source / "images")
    for path in (DOCS / "labs").rglob("*"):
        if path.is_file() and path.suffix not in {".md", ".ipynb"}:
            (source / path.relative_to(DOCS)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, source / path.relative_to(DOCS))
    (source / "pictures").mkdir()
    family, environment = next(pair for pair in environments() if pair[1].env_id == DRAWN)
    draw(family, environment, source / "pictures" / f"{slug(DRAWN)}.gif")
    for name, text in sources.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text, encoding="utf-8")
    run_sphinx(source, site)
    write_live_pages(site)
    return Built(site, sources, everything)


def _inside(text: str, wanted: set[str]) -> str:
    """Return a page of the sample without what leads out of it."""

    def replaced(target: str) -> str:
        path = target.partition("#")[0].removeprefix("/")
        is_page = target.startswith("/") and not path.startswith(("images/", "pictures/"))
        return "/overview.md" if is_page and path not in wanted else target

    names = {path.rpartition(".")[0] for path in wanted}
    text = replace_links(text, replaced)
    return ENTRY.sub(lambda entry: entry[0] if entry[1] in names else "", text)


def html_of(built: Built, source: str) -> Path:
    return built.site / f"{source.rpartition('.')[0]}.html"


def test_pages_load_nothing_from_elsewhere_and_nothing_is_broken(built: Built) -> None:
    found = check(built.site)
    assert found.problems == ()
    assert found.pages >= len(built.sources)
    assert found.links > 500


def test_pages_of_what_has_hundreds_of_siblings_do_not_list_them(built: Built) -> None:
    for source in built.sources:
        if source.startswith(tuple(f"{folder}/" for folder in LISTED)):
            assert 'class="bd-links' not in html_of(built, source).read_text(), source
    assert 'class="bd-links' in html_of(built, "live.md").read_text()


def test_the_whole_site_is_well_below_its_limit(built: Built) -> None:
    """Pages are as large as those of the sample: what is around an article, and its ratio to the source."""
    n_pages: Counter[str] = Counter()
    source_bytes: Counter[str] = Counter()
    article_bytes: Counter[str] = Counter()
    around_bytes: Counter[str] = Counter()
    for source, text in built.sources.items():
        html, kind = html_of(built, source).read_text(), _kind(source)
        article = len(html.partition("<article")[2].partition("</article>")[0])
        n_pages[kind] += 1
        source_bytes[kind] += len(text)
        article_bytes[kind] += article
        around_bytes[kind] += len(html) - article
    pages_bytes = sum(
        around_bytes[kind] / n_pages[kind] + article_bytes[kind] / source_bytes[kind] * len(text)
        for kind, text in ((_kind(source), text) for source, text in built.everything.items())
    )
    share = sum(map(len, built.everything.values())) / sum(map(len, built.sources.values()))
    search_bytes = share * (built.site / "searchindex.js").stat().st_size
    others_bytes = sum(
        file.stat().st_size
        for file in built.site.rglob("*")
        if file.is_file() and file.suffix not in {".html", ".gif", ".png"} and file.name != "searchindex.js"
    )
    others_bytes += sum(file.stat().st_size for file in (DOCS / "images").iterdir())
    animations_bytes = ANIMATION_BYTES * len(ENVIRONMENTS)
    total_bytes = pages_bytes + search_bytes + others_bytes + animations_bytes
    assert total_bytes < (1.0 - SHARE_FOR_GROWTH) * checking.MOST_BYTES, (
        f"pages {pages_bytes / 1e6:.1f} MB, search {search_bytes / 1e6:.1f} MB, others"
        f" {others_bytes / 1e6:.1f} MB, animations {animations_bytes / 1e6:.1f} MB: what is on every page?"
    )


def _kind(source: str) -> str:
    """Return the folder of a source; pages of docs/ and of folders without a sample have none."""
    folder = source.partition("/")[0] if "/" in source else ""
    sampled = {*LISTED, "source", *(one.partition("/")[0] for one in SAMPLE if "/" in one)}
    return folder if folder in sampled else ""


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    """Open a page as wide as a phone."""
    with started_browser() as browser:
        yield browser.new_page(viewport={"width": 400, "height": 800})


def test_no_page_is_wider_than_a_phone(built: Built, page: Any) -> None:
    for source in built.sources:
        page.goto(html_of(built, source).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, source


def test_animations_replace_the_empty_ones(tmp_path: Path) -> None:
    pictures, source, site = (tmp_path / name for name in ("pictures", "source", "site"))
    for folder in (pictures, source / "pictures", site / "_images"):
        folder.mkdir(parents=True)
    for place in (source / "pictures", site / "_images"):
        (place / "flow-cc.gif").write_bytes(NOT_DRAWN)
    (pictures / "flow-cc.gif").write_bytes(b"GIF89a of many frames")
    place_pictures(pictures, source, site)
    assert (source / "pictures" / "flow-cc.gif").read_bytes() == b"GIF89a of many frames"
    assert (site / "_images" / "flow-cc.gif").read_bytes() == b"GIF89a of many frames"
