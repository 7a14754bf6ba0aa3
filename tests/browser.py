"""Chromium without a window, for the tests that look at pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def started_browser() -> Iterator[Any]:
    """Start Chromium; skip the test where there is none and say how to install it."""
    if CHROMIUM is None:
        words = "no Chromium; 'sudo scripts/install_browser.sh' installs it"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is in the extra dev")
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()
