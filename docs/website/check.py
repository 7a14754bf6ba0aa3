"""Checks of the built site: nothing external is loaded, links lead somewhere, pictures have texts, size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

MOST_BYTES = 22_000_000
"""Limit of the size, a seventh above the present one, so that what is added to every page is noticed."""

_LOADING_RELS = {"stylesheet", "preload", "prefetch", "modulepreload", "preconnect", "dns-prefetch", "icon"}
_IN_CSS = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])((?:https?:)?//[^"')\s]+)""")
_IN_SCRIPT = re.compile(
    r"""(?:import\s*\(?|fetch\(|importScripts\(|\.src\s*=)\s*["'`]((?:https?:)?//[^"'`]+)"""
)


@dataclass
class _Page(HTMLParser):
    """What one page loads, links to and names.

    Attributes:
        external: Addresses outside the site that the browser would load by itself.
        links: Relative addresses, of links and of what is loaded.
        anchors: Names that links can have after ``#``.
        without_text: Pictures without an alternative text.
    """

    external: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    without_text: list[str] = field(default_factory=list)
    in_style: bool = False

    def __post_init__(self) -> None:
        """Prepare the parser."""
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag loads, links to and names."""
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if given.get(name))
        self.in_style = tag == "style"
        if tag == "img" and not given.get("alt", "").strip():
            self.without_text.append(given.get("src", ""))
        loads = tag != "a" and (tag != "link" or bool(_LOADING_RELS & set(given.get("rel", "").split())))
        sources = [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]
        for address in (*sources, *(given[name] for name in ("src", "href", "data") if given.get(name))):
            if _is_external(address):
                if loads:
                    self.external.append(address)
            elif not urlsplit(address).scheme:
                self.links.append(address)
        self.external += _IN_CSS.findall(given.get("style", ""))

    def handle_data(self, data: str) -> None:
        """Collect what inline styles and scripts load."""
        if self.in_style:
            self.external += _IN_CSS.findall(data)
        self.external += _IN_SCRIPT.findall(data) if self.cdata_elem == "script" else []


@dataclass(frozen=True)
class Summary:
    """What was checked.

    Attributes:
        pages: Number of pages.
        links: Number of links inside the site.
        images: Number of different pictures that pages show or link to.
        size_bytes: Size of all files.
        problems: What is wrong, one line each.
    """

    pages: int
    links: int
    images: int
    size_bytes: int
    problems: tuple[str, ...]


def check(site: Path) -> Summary:
    """Check a built site.

    Args:
        site: Folder of the HTML pages.
    """
    pages = {}
    for file in sorted(site.rglob("*.html")):
        if file.is_relative_to(site / "_static"):  # templates of the theme, which no page shows
            continue
        parser = _Page()
        parser.feed(file.read_text(encoding="utf-8"))
        parser.close()
        pages[file.resolve()] = parser
    problems = [*_external(pages, site), *_broken(pages, site), *_silent(pages, site)]
    size_bytes = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
    if size_bytes > MOST_BYTES:
        problems.append(f"the site has {size_bytes / 1e6:.1f} MB, at most {MOST_BYTES / 1e6:.0f} MB")
    images = {
        target for file, one in pages.items() for target in _targets(one, file, site) if _is_image(target)
    }
    n_links = sum(len(one.links) for one in pages.values())
    return Summary(len(pages), n_links, len(images), size_bytes, tuple(problems))


def _is_external(address: str) -> bool:
    return address.startswith(("http://", "https://", "//"))


def _is_image(path: Path) -> bool:
    return path.suffix in {".png", ".gif", ".svg", ".jpg"}


def _target(address: str, file: Path, site: Path) -> Path:
    path = unquote(urlsplit(address).path)
    base = site.resolve() if path.startswith("/") else file.parent
    target = (base / path.lstrip("/")).resolve() if path else file
    return target / "index.html" if target.is_dir() else target


def _targets(page: _Page, file: Path, site: Path) -> Iterator[Path]:
    return (_target(address, file, site) for address in page.links)


def _external(pages: dict[Path, _Page], site: Path) -> Iterator[str]:
    """Yield what a browser would load from elsewhere."""
    for file, page in pages.items():
        for address in page.external:
            yield f"{_name(file, site)} loads {address}"
    for suffix, pattern in ((".css", _IN_CSS), (".js", _IN_SCRIPT)):
        for file in sorted(site.rglob(f"*{suffix}")):
            for address in pattern.findall(file.read_text(encoding="utf-8")):
                yield f"{_name(file.resolve(), site)} loads {address}"


def _broken(pages: dict[Path, _Page], site: Path) -> Iterator[str]:
    """Yield links to files or anchors that are not there."""
    for file, page in pages.items():
        for address in page.links:
            target, anchor = _target(address, file, site), unquote(urlsplit(address).fragment)
            if not target.is_file():
                yield f"{_name(file, site)} links to {address}, which is not there"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{_name(file, site)} links to {address}, whose page has no such anchor"


def _silent(pages: dict[Path, _Page], site: Path) -> Iterator[str]:
    """Yield pictures without an alternative text."""
    for file, page in pages.items():
        for address in page.without_text:
            yield f"{_name(file, site)} shows {address} without an alternative text"


def _name(file: Path, site: Path) -> str:
    return str(file.relative_to(site.resolve()))
