"""What is published: the source distribution, and the page of the package on an index."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import sysgym

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("agents", "emulator", "envs", "scenarios", "src")
FILES = ("CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py")
ADDRESS = "https://example.org/someone/sysgym"

# One copy and one build serve the whole file.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("release")]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of the source distribution, built as if the repository had an address: path -> text."""
    tree = tmp_path_factory.mktemp("release") / "tree"
    tree.mkdir()
    built = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in (*SOURCES, "docs", "tests"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=built)
    for name in FILES:
        shutil.copy(ROOT / name, tree)
    project = (tree / "pyproject.toml").read_text()
    project = project.replace(
        "\n[project.scripts]", f'\n[project.urls]\nRepository = "{ADDRESS}"\n\n[project.scripts]'
    )
    (tree / "pyproject.toml").write_text(project)
    command = [
        sys.executable,
        "-m",
        "build",
        "--sdist",
        "--no-isolation",
        "--outdir",
        str(tree.parent),
        str(tree),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = tree.parent.glob("sysgym-*.tar.gz")
    with tarfile.open(archive) as packed:
        members = [(member, packed.extractfile(member)) for member in packed.getmembers() if member.isfile()]
        return {
            member.name.partition("/")[2]: io.TextIOWrapper(content, "utf-8", errors="replace").read()
            for member, content in members
            if content is not None
        }


def test_the_source_distribution_has_what_a_wheel_is_built_from_and_no_tests(
    published: dict[str, str],
) -> None:
    assert {path.split("/")[0] for path in published} == {
        *SOURCES,
        *FILES,
        "PKG-INFO",
        "setup.cfg",
        "sysgym.egg-info",
    }


def test_links_of_the_page_on_an_index_are_absolute(published: dict[str, str]) -> None:
    page = published["PKG-INFO"]
    links = re.findall(r"\]\(([^()\s]+)\)", page)
    assert links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert f"]({ADDRESS}/raw/v{sysgym.__version__}/docs/images/quick.png)" in page
    assert f"]({ADDRESS}/blob/v{sysgym.__version__}/docs/evaluation.md#glossary)" in page
    own = re.findall(rf"\]\({ADDRESS}/(?:raw|blob)/v[^/]+/([^()\s#]+)", page)
    assert [path for path in own if not (ROOT / path).exists()] == []
