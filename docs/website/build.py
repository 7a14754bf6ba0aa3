"""Sources of the site, and its build by Sphinx."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from docs.website import api, catalogue, chapters, command_line, environments
from docs.website.links import Links
from docs.website.markdown import Pages
from docs.website.results import published
from sysgym.scenarios import list_scenarios, list_suites

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


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


def write_sources(folder: Path) -> int:
    """Write all sources but the animations into an empty folder, and return the number of pages."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = all_pages()
    for path, text in pages.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "images", folder / "images")
    for lesson in chapters.lessons(DOCS):
        if lesson.suffix == ".ipynb":
            (folder / lesson.relative_to(DOCS)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(lesson, folder / lesson.relative_to(DOCS))
    return len(pages)


def run_sphinx(source: Path, site: Path) -> None:
    """Build the site; warnings are errors.

    Raises:
        subprocess.CalledProcessError: If Sphinx fails or warns.
    """
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "auto", "-b", "html"]
    folders = ["-c", str(DOCS / "website"), "-d", str(site.with_name("doctrees")), str(source), str(site)]
    subprocess.run([*command, *folders], check=True)
