"""Formulas on the site are MathML, which needs no script."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from docs.website.build import ROOT
from docs.website.check import check

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("sphinx") is None,
    reason="the extra docs is not installed: make venv installs it",
)

CONF = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
extensions = ["docs.website.mathml"]
html_math_renderer = "mathml"
html_theme = "basic"
"""


def build(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    source = folder / "source"
    source.mkdir()
    (source / "conf.py").write_text(CONF)
    (source / "index.rst").write_text(text)
    command = [sys.executable, "-m", "sphinx", "-W", "-q", str(source), str(folder / "site")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_formula_is_mathml_and_loads_nothing(tmp_path: Path) -> None:
    done = build(tmp_path, "Title\n=====\n\n:math:`x^2`\n\n.. math:: \\frac{d}{d + r}\n")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "index.html").read_text()
    assert "<mfrac>" in page
    assert "<msup>" in page
    assert "MathJax" not in page
    assert check(tmp_path / "site").problems == ()


def test_what_is_no_formula_fails_the_build(tmp_path: Path) -> None:
    done = build(tmp_path, "Title\n=====\n\n.. math:: \\nosuchcommand{x}\n")
    assert done.returncode != 0
    assert "not a formula" in done.stderr
