"""Chapters of the site: where each page of docs/ stands, and the front page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from docs.website.links import Links
from docs.website.markdown import Pages, page, sections, toctree


@dataclass(frozen=True)
class Chapter:
    """Chapter of the site, an entry of the bar at the top.

    Attributes:
        name: Name of its page.
        title: Title.
        about: One sentence for the front page.
        pages: Its pages, without suffix; those of docs/ by their names.
    """

    name: str
    title: str
    about: str
    pages: tuple[str, ...]


CHAPTERS = (
    Chapter(
        "start",
        "Start",
        "Install sysgym, play an episode, train an agent, and see what happened.",
        ("overview", "training", "pictures", "live", "time-series", "command-line"),
    ),
    Chapter(
        "problems",
        "Environments",
        "Every environment with its spaces, rewards, scenarios, metrics and baseline scores.",
        (
            "environments/index",
            "senders",
            "stragglers",
            "placement",
            "collectives*",
            "training-jobs",
            "compression*",
            "bursts*",
            "tuning*",
            "failslow*",
            "diagnosis*",
            "pipelines*",
        ),
    ),
    Chapter(
        "guides",
        "Guides",
        "Add a transport, scenario, suite, agent, environment or family; deploy a policy; use the kernel.",
        ("adding-*", "deploying", "linux"),
    ),
    Chapter(
        "reference",
        "Reference",
        "Commands, scenario files, transports, agents, suites and the Python interface.",
        (
            "cli",
            "scenarios",
            "scenario-keys",
            "scenarios/index",
            "transports/index",
            "agents/index",
            "policies/index",
            "suites/index",
            "api/index",
        ),
    ),
    Chapter(
        "studies",
        "Results",
        "How contenders are compared, the published comparisons, and the leaderboard.",
        (
            "evaluation*",
            "results",
            "leaderboard",
            "contest",
            "transports",
            "learned",
            "learned-tables",
            "beyond-classics",
            "adaptive-swift",
            "adaptive-swift-measurements",
            "iroko",
            "stragglers-tables",
            "against-ns3",
            "linux-validation",
            "speed",
            "scale",
        ),
    ),
    Chapter(
        "internals",
        "How it works",
        "The architecture, the packet simulator, its hosts, and what can be trusted.",
        ("architecture", "packets", "hosts", "trust", "contributing", "changelog"),
    ),
)

LESSONS = Chapter(
    "lessons", "Tutorials and labs", "Notebooks and exercises that can be followed step by step.", ("labs",)
)
"""Chapter that is there if docs/tutorials or docs/labs has pages."""

DEFAULT = "guides"
"""Chapter of a page of docs/ that no chapter names."""

_WRITTEN = {"overview": "README.md", "contributing": "CONTRIBUTING.md", "changelog": "CHANGELOG.md"}
"""Page -> its file in the repository, for those outside docs/."""


_LIVE = """
## An incast, live

32 hosts answer one host at once, again and again. On the left they run DCTCP, on the right a learned law;
everything else is the same. This is a recorded run of [`sysgym live`](/live.md), played by your browser.

```{raw} html
<iframe class="live" src="live/incast-32.html" loading="lazy"
 title="Recorded run of incast-32 with DCTCP and a learned law: links, queues and events"></iframe>
<p><a href="live/incast-32.html">The same on a page of its own</a></p>
```
"""
"""Part of the front page: a recorded run, which build.write_live_pages puts beside it."""


def lessons(docs: Path) -> list[Path]:
    """Return tutorials and labs, pages and notebooks."""
    return sorted(
        path
        for folder in ("tutorials", "labs")
        for path in (docs / folder).rglob("*")
        if path.suffix in {".md", ".ipynb"}
    )


def chapters(docs: Path) -> list[Chapter]:
    """Return the chapters with the names of their pages in full."""
    names = sorted(path.stem for path in docs.glob("*.md"))
    found = [(chapter, _resolved(chapter.pages, names)) for chapter in CHAPTERS]
    placed = {name for _, pages in found for name in pages} | set(LESSONS.pages)
    rest = tuple(name for name in names if name not in placed)
    resolved = [
        Chapter(one.name, one.title, one.about, (*pages, *rest) if one.name == DEFAULT else pages)
        for one, pages in found
    ]
    taught = tuple(str(path.relative_to(docs).with_suffix("")) for path in lessons(docs))
    if taught:
        first = tuple(name for name in LESSONS.pages if name in names)
        resolved.insert(2, Chapter(LESSONS.name, LESSONS.title, LESSONS.about, (*first, *taught)))
    return resolved


def _resolved(patterns: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the pages that patterns name; one without a star stands for itself."""
    return tuple(
        name
        for pattern in patterns
        for name in (
            [name for name in names if Path(name).match(pattern)] if pattern.endswith("*") else [pattern]
        )
    )


def places(docs: Path) -> dict[str, str]:
    """Return the page on the site of every page in the repository."""
    written = {f"docs/{path.name}": path.name for path in docs.glob("*.md")}
    taught = {f"docs/{path.relative_to(docs)}": str(path.relative_to(docs)) for path in lessons(docs)}
    return {**written, **taught, **{file: f"{name}.md" for name, file in _WRITTEN.items()}}


def pages(root: Path, links: Links) -> Pages:
    """Return the pages that are written by hand, the chapters' pages and the front page."""
    docs = root / "docs"
    found = {
        place: links.on_site((root / file).read_text(encoding="utf-8"), file)
        for file, place in places(docs).items()
        if file.endswith(".md")
    }
    readme = _without_list_of_pages(found["overview.md"])
    found["overview.md"] = readme.replace("# sysgym\n", "# Overview\n", 1)
    all_chapters = chapters(docs)
    for chapter in all_chapters:
        found[f"{chapter.name}.md"] = page(chapter.title, chapter.about, toctree(chapter.pages))
    found["index.md"] = _front(readme, all_chapters)
    return found


def _without_list_of_pages(readme: str) -> str:
    """Return the README without its list of pages, which the site's navigation replaces."""
    head, found, rest = readme.partition("\n## Documentation\n")
    return head + ("\n## " + rest.partition("\n## ")[2] if found and "\n## " in rest else "\n")


def _front(readme: str, all_chapters: Iterable[Chapter]) -> str:
    """Return the front page: the README's beginning, and a card for every chapter."""
    cards = "\n".join(
        f":::{{grid-item-card}} {one.title}\n:link: /{one.name}\n:link-type: doc\n\n{one.about}\n:::"
        for one in all_chapters
    )
    grid = f"::::{{grid}} 1 2 2 3\n:gutter: 3\n\n{cards}\n::::"
    listed = toctree((one.name for one in all_chapters), hidden=True)
    parts = sections(readme)
    opening = parts[""].replace("# sysgym\n", "", 1)
    text, image, rest = opening.partition("\n![")
    return page("sysgym", text, grid, _LIVE, f"![{rest}" if image else "", listed)
