"""Short soak test: one round over every id, and its output on failure."""

from __future__ import annotations

from typing import Any

import pytest

from sysgym.registration import ENVIRONMENTS
from tests.scripts import load_script


@pytest.fixture(scope="module")
def soak() -> Any:
    """The script as a module."""
    return load_script("robustness/soak")


@pytest.mark.slow
def test_a_round_over_every_environment(soak: Any) -> None:
    found = soak.run(minutes=0.0)
    assert found.failed.total() == 0, found.report()
    for env_id in ENVIRONMENTS:
        for what in ("made", "episodes", "copies", "wrong calls", "side by side"):
            assert found.tried[f"{env_id} {what}"] == 1
    assert found.steps > 1_000
    assert found.resets == 5 * len(ENVIRONMENTS)
    assert len(found.memory_mib) == 1


def test_a_failure_is_counted_and_told_of(soak: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found = soak.Soak()

    def fails() -> None:
        raise ValueError("torn")

    found.attempt("something", fails)
    found.attempt("something", lambda: None)
    assert (found.tried["something"], found.failed["something"]) == (2, 1)
    assert "ValueError: torn" in capsys.readouterr().err
    assert found.report().splitlines()[-1].split()[-3:] == ["2", "1", "1"]


def test_growth_is_that_of_the_second_half(soak: Any) -> None:
    flat = soak.Soak(memory_mib=[50.0, 90.0, 100.0, 100.0, 101.0, 100.0])
    assert flat.growth() == pytest.approx(0.01)
    leaking = soak.Soak(memory_mib=[float(100 + n) for n in range(20)])
    assert leaking.growth() > soak.ALLOWED_GROWTH
    assert soak.resident_mib() > 10.0


def test_two_episodes_that_differ_are_a_failure(soak: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["one", "other"])
    monkeypatch.setattr(soak, "play", lambda *_: next(answers))
    with pytest.raises(AssertionError, match="two episodes of one seed differ"):
        soak.episodes(None, 0, soak.Soak())
