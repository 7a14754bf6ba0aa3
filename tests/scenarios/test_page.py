"""The page on scenarios is up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_tables_of_the_page_are_what_the_files_say() -> None:
    spec = importlib.util.spec_from_file_location(
        "scenarios_page", ROOT / "scripts" / "pages" / "scenarios_page.py"
    )
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = script.PAGE.read_text()
    assert text == script.render(text), "run scripts/pages/scenarios_page.py"
    assert "| [`incast-32`]" in text
