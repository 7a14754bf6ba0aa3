"""Sources of the whole site, made once for all tests that read them."""

from __future__ import annotations

import pytest

from docs.website.build import all_pages
from docs.website.markdown import Pages


@pytest.fixture(scope="session")
def pages() -> Pages:
    return all_pages()
