"""Sources of the site, and its build by Sphinx."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from docs.website import api, catalogue, chapters, command_line, environments
from docs.website.links import Links
from docs.website.markdown import Pages
from docs.website.pictures import file_names
from docs.website.results import published
from docs.website.shrink import shrink
from sysgym.scenarios import list_scenarios, list_suites

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

NOT_DRAWN = b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2D\1\0;"
"""Picture of one pixel."""


def all_pages(root: Path = ROOT) -> Pages:
    """Return every page of the site as Sphinx's sources.

    Args:
        root: Folder of the repository.

    Raises:
        FileNotFoundError: If a page links to a file that is not there.
    """
    places = chapters.places(root / "docs")
    for folder, infos in (("scenarios", list_scenarios()), ("suites", list_suites())):
        places |= {
            str(info.path.relative_to(root)): f"{folder}/{info.name}.md"
            for info in infos
            if info.path.is_relative_to(root)
        }
    links = Links(root, places)
    results = published(root / "docs")
    made = {
        **chapters.pages(root, links),
        **environments.pages(results),
        **catalogue.pages(results, links),
        **command_line.pages(),
        **api.pages(),
    }
    return {**made, **links.sources()}


def write_sources(folder: Path, pictures: Path) -> int:
    """Write all sources, and return the number of pages; files that have not changed are left alone.

    Args:
        folder: Where they go; files of earlier builds that are no longer needed are removed.
        pictures: Animations of the environments; in place of those that are not drawn yet goes an empty one,
            until :func:`place_pictures`.
    """
    files = {path: text.encode() for path, text in all_pages().items()}
    n_pages = len(files)
    copied = [(path, DOCS) for path in (*(DOCS / "images").iterdir(), *chapters.lessons(DOCS))]
    for name in file_names():
        drawn = pictures / name
        files[f"{pictures.name}/{name}"] = drawn.read_bytes() if drawn.is_file() else NOT_DRAWN
    for path, base in copied:
        if path.suffix != ".md":
            files[path.relative_to(base).as_posix()] = path.read_bytes()
    for old in [path for path in folder.rglob("*") if path.is_file()]:
        if old.relative_to(folder).as_posix() not in files:
            old.unlink()
    for name, content in files.items():
        file = folder / name
        if not file.is_file() or file.read_bytes() != content:  # Sphinx reads pages that are newer again
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return n_pages


def place_pictures(pictures: Path, source: Path, site: Path) -> None:
    """Put the animations where empty ones were, in the sources and in the site."""
    for drawn in pictures.glob("*.gif"):
        for folder in (source / pictures.name, site / "_images"):
            shutil.copyfile(drawn, folder / drawn.name)


def run_sphinx(source: Path, site: Path) -> None:
    """Build the site, without what no reader sees; warnings are errors.

    Raises:
        subprocess.CalledProcessError: If Sphinx fails or warns.
    """
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "auto", "-b", "html"]
    folders = ["-c", str(DOCS / "website"), "-d", str(site.with_name("doctrees")), str(source), str(site)]
    subprocess.run([*command, *folders], check=True)
    shrink(site)


def write_live_pages(site: Path) -> None:
    """Write the recorded runs of docs/website/live as pages that play them, into ``live`` of the site."""
    from sysgym.live.export import exported_page
    from sysgym.live.recording import read_recording

    folder = site / "live"
    folder.mkdir(exist_ok=True)
    for path in sorted((DOCS / "website" / "live").glob("*.jsonl.gz")):
        recorded = read_recording(path)
        page = exported_page(recorded.header, recorded.frames)
        (folder / path.name.replace(".jsonl.gz", ".html")).write_text(page, encoding="utf-8")
