"""Files that `sysgym lab new` writes, in an installed package without the masters."""

from __future__ import annotations

from pathlib import Path

import pytest

from sysgym.errors import SysgymError
from sysgym.labs import export
from sysgym.labs.catalogue import get_lab


def test_solutions_are_refused_in_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "masters", lambda: tmp_path)
    with pytest.raises(SysgymError, match="from a clone of the repository") as refused:
        export.solution(get_lab(6))
    assert str(tmp_path) not in str(refused.value), "a path that was never meant to be there"
