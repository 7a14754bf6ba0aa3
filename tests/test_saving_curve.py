"""Savings at equal waste of scripts/stragglers/saving_curve.py: hulls, mixtures, choices on other jobs."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from tests.scripts import load_script

PERCENT = hnp.arrays(np.float64, (3, 20), elements=st.integers(0, 1000).map(lambda value: value / 10.0))


@pytest.fixture(scope="module")
def curve() -> ModuleType:
    return load_script("stragglers/saving_curve")


@given(saved=PERCENT, wasted=PERCENT, level=st.sampled_from([1.0, 5.0, 30.0]))
def test_a_mixture_is_on_the_hull(
    curve: ModuleType, saved: NDArray[np.float64], wasted: NDArray[np.float64], level: float
) -> None:
    means, wastes = saved.mean(axis=1), wasted.mean(axis=1)
    shares = curve.mixture_at(means, wastes, level)
    hull = curve.upper_hull(means, wastes)
    assert (shares >= 0.0).all()
    assert shares.sum() <= 1.0 + 1e-12
    assert shares @ wastes == pytest.approx(min(level, hull[-1, 0]), abs=1e-9)
    assert shares @ means == pytest.approx(np.interp(level, hull[:, 0], hull[:, 1]), abs=1e-9)


def test_settings_are_chosen_on_other_jobs(curve: ModuleType) -> None:
    """A setting that is good on one job alone is not chosen for it."""
    saved = np.zeros((2, 20))
    saved[0], saved[1, 3] = 10.0, 1000.0
    wasted = np.full((2, 20), 5.0)
    found, thrown_away = curve.held_out(curve.Points(saved, wasted), 5.0)
    assert found[3] == 10.0
    assert (thrown_away == 5.0).all()
    assert curve.saving_at(saved.mean(axis=1), wasted.mean(axis=1))[2] == 50.0


def test_the_table_marks_who_learns_from_other_jobs_and_names_who_saves_nothing(curve: ModuleType) -> None:
    rng = np.random.default_rng(0)
    groups = {
        (agent, "copy"): curve.Points(rng.uniform(5.0, 9.0, (2, 20)), rng.uniform(1.0, 4.0, (2, 20)))
        for agent in ("spark", "wrangler", "transfer")
    }
    groups["late", "relaunch"] = curve.Points(np.full((1, 20), -2.0), np.full((1, 20), 1.0))
    lines = curve.table("a-scenario", groups).splitlines()
    assert lines[0].startswith("| `a-scenario`, completion time saved in % on 20 jobs | at 1 % waste |")
    names = {line.split(" | ")[0].removeprefix("| ") for line in lines[2:5]}
    assert names == {"spark-copy", "wrangler-copy †", "transfer-copy †"}
    assert lines[-1] == "† learns from other jobs. No saving at any waste: late-relaunch."


def test_differences_are_from_the_reference(curve: ModuleType) -> None:
    """Agents that save 9, 6 and 2 % of every job, at a waste of 5 %."""
    groups = {
        (agent, "copy"): curve.Points(np.full((1, 20), saved), np.full((1, 20), 5.0))
        for agent, saved in (("transfer", 9.0), ("spark", 6.0), ("speed", 2.0))
    }

    def last_cells(lines: list[str]) -> list[str]:
        return [line.split("|")[-2].strip() for line in lines[:1] + lines[2:5]]

    usual = last_cells(curve.table("a-scenario", groups).splitlines())
    assert usual == ["less spark-copy at 5 %", "3.0 [3.0, 3.0]", "", "-4.0 [-4.0, -4.0]"]
    other = last_cells(curve.table("a-scenario", groups, ("speed", "copy")).splitlines())
    assert other == ["less speed-copy at 5 %", "7.0 [7.0, 7.0]", "4.0 [4.0, 4.0]", ""]
