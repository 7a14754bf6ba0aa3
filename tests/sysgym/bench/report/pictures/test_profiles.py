"""Performance profiles and gaps of scores made by hand, and when a report draws them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sysgym.bench.report.data.benchmark import BenchmarkResult, Player, ScenarioResult, read_benchmark
from sysgym.bench.report.data.bound import gap, shares
from sysgym.bench.report.pictures.profiles import panels, thresholds_of
from sysgym.bench.results.rows import ResultsFile, Row
from sysgym.bench.statistics import performance_profile
from sysgym.scenarios.families import evaluation_of
from sysgym.scenarios.family import Metric

MakeRow = Callable[..., Row]

GOODPUT = Metric("goodput_bps", "Goodput", True)
DELAY = Metric("queue_delay_p99_s", "Queueing delay, p99", False)
ORACLE = {"transport": "paced", "agent": "oracle", "privileged": True}


def test_a_profile_is_the_share_above_each_threshold() -> None:
    strata = [np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([[10.0, 10.0]])]
    profile = performance_profile(strata, np.array([0.0, 2.0, 4.0, 10.0]))
    # Scenarios weigh the same, however many episodes they have.
    np.testing.assert_allclose(profile.value, [1.0, 0.75, 0.5, 0.0])
    assert profile.low[0] == profile.high[0] == 1.0
    assert profile.low[1] < 0.75 < profile.high[1]
    assert profile.low[2] == profile.high[2] == 0.5, "no draw of episodes changes it"


@given(arrays(np.float64, (2, 6), elements=st.floats(-5.0, 5.0)))
def test_a_profile_falls_and_lies_in_its_band(sample: np.ndarray) -> None:
    profile = performance_profile([sample], np.linspace(-6.0, 6.0, 25))
    for part in profile:
        assert np.all(np.diff(part) <= 1e-12)
    assert np.all(profile.low <= profile.value + 1e-12)
    assert np.all(profile.value <= profile.high + 1e-12)
    assert profile.value[0] == 1.0
    assert profile.value[-1] == 0.0


def _contest(make_row: MakeRow) -> ScenarioResult:
    goodput = {"dctcp": [8.0, 10.0, 12.0], "oracle": [10.0, 10.0, 10.0]}
    delay = {"dctcp": [4.0, 1.0, 0.5], "oracle": [1.0, 1.0, 1.0]}
    rows = [
        make_row(
            name,
            200 + index,
            {"goodput_bps": goodput[name][index], "queue_delay_p99_s": delay[name][index]},
            **(ORACLE if name == "oracle" else {}),
        )
        for name in goodput
        for index in range(3)
    ]
    players = [Player("dctcp", "dctcp", False, False), Player("oracle", "oracle", False, True)]
    return ScenarioResult(rows, evaluation_of("congestion"), players, [GOODPUT, DELAY], "dctcp")


def test_shares_and_the_gap_by_hand(make_row: MakeRow) -> None:
    result = _contest(make_row)
    more, less = (shares(result, "dctcp", "oracle", metric) for metric in (GOODPUT, DELAY))
    assert more is not None
    assert less is not None
    np.testing.assert_allclose(more, np.array([[0.8, 1.0, 1.2]]))
    np.testing.assert_allclose(less, np.array([[0.25, 1.0, 2.0]]))
    found = gap(result, "dctcp")
    assert found is not None
    assert found.value == pytest.approx(0.2 / 3), "what is better than the bound makes up for nothing"
    assert gap(result, "oracle") is None


def _study(make_row: MakeRow, folder: Path, *, n_seeds: int, bound: bool = True) -> BenchmarkResult:
    rng = np.random.default_rng(0)
    with ResultsFile(folder) as results:
        for name, digest in (("tiny", None), ("other", "0" * 64)):
            for contender, base in (("dctcp", 9.0), ("reno", 5.0), *((("oracle", 10.0),) if bound else ())):
                for index in range(n_seeds):
                    metrics = {"goodput_bps": base + rng.random(), "queue_delay_p99_s": 1.0 / base}
                    who = ORACLE if contender == "oracle" else {}
                    results.append(make_row(contender, 200 + index, metrics, name=name, digest=digest, **who))
    return read_benchmark(folder)


def test_profiles_are_shares_of_the_bound(make_row: MakeRow, tmp_path: Path) -> None:
    results, found = panels(_study(make_row, tmp_path / "out", n_seeds=6))
    assert [result.name for result in results] == ["tiny", "other"]
    assert [panel.title for panel in found] == ["Goodput", "Queueing delay, p99"]
    assert all(set(panel.strata) == {"dctcp", "reno"} and panel.relative for panel in found)
    assert found[0].x_label == "share of oracle's value"
    assert [sample.shape for sample in found[0].strata["reno"]] == [(1, 6), (1, 6)]
    thresholds, logarithmic = thresholds_of(found[0])
    assert not logarithmic
    assert thresholds[0] < min(float(sample.min()) for sample in found[0].strata["reno"])


def test_without_a_bound_they_are_shares_of_the_reference(make_row: MakeRow, tmp_path: Path) -> None:
    _, found = panels(_study(make_row, tmp_path / "out", n_seeds=6, bound=False))
    assert [panel.x_label for panel in found] == ["share of dctcp's value"] * 2
    assert all(set(panel.strata) == {"reno"} for panel in found)


def test_few_seeds_have_no_profiles(make_row: MakeRow, tmp_path: Path) -> None:
    assert panels(_study(make_row, tmp_path / "out", n_seeds=4)) == ([], [])
