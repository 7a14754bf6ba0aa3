"""A few cases of scripts/robustness/fuzz_inputs.py, which mutates users' files."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.scripts import load_script


def _script() -> ModuleType:
    return load_script("robustness/fuzz_inputs")


fuzz = _script()


@pytest.mark.parametrize("kind", sorted(fuzz.KINDS))
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(number=st.integers(0, 2**40))
def test_a_mutated_input_loads_or_is_refused_in_words(kind: str, number: int, tmp_path: Path) -> None:
    assert fuzz.attempt(kind, number, tmp_path) in {"loaded", "refused"}


@pytest.mark.parametrize("kind", sorted(fuzz.KINDS))
def test_the_inputs_that_are_mutated_are_right_in_themselves(kind: str, tmp_path: Path) -> None:
    for name, content in fuzz.KINDS[kind].seeds[:3]:
        (tmp_path / name).write_bytes(content)
        fuzz.KINDS[kind].load(tmp_path / name)


def test_a_failure_is_counted_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = fuzz.KINDS["taccl"]._replace(load=lambda path: 1 / 0)
    monkeypatch.setitem(fuzz.KINDS, "taccl", broken)
    out = tmp_path / "failures"
    monkeypatch.setattr(sys, "argv", ["fuzz", "--kind", "taccl", "--count", "3", "--out", str(out)])
    assert fuzz.main() == 1
    assert "tried 3, passed 0 (0 loaded, 0 refused), failed 3" in capsys.readouterr().out
    assert len(list(out.glob("*.json"))) == 3
    assert all("ZeroDivisionError" in file.read_text() for file in out.glob("*.txt"))
