"""Lines over time: interquartile means of the rows, a few in colour, all with names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.bench.report import write
from sysgym.bench.report.data.benchmark import N_BEST, Player, ScenarioResult, read_benchmark
from sysgym.bench.report.pictures.labels import spread
from sysgym.bench.report.pictures.over_time import caption, coinciding, line_of, over_time
from sysgym.bench.report.pictures.plots import COLOURS, INK_ON_PAPER, styles
from sysgym.bench.results.rows import ResultsFile, Row
from sysgym.bench.statistics import iqm
from sysgym.scenarios import load_scenario
from sysgym.scenarios.families import evaluation_of
from sysgym.scenarios.family import Curve
from sysgym.scenarios.units import unit_of

MakeRow = Callable[..., Row]
MakeContest = Callable[..., ScenarioResult]

STRAGGLERS = evaluation_of("stragglers")
F1, TPR, FPR, PRECISION = STRAGGLERS.curves
N_SEEDS = 6
POINTS = (10, 40, 100)
FEW = {"nurd": 0.5, "none": 0.0, "oracle": 1.0}
MANY = {f"rival{rank}": 0.02 * rank for rank in range(10)} | FEW


def _metrics(level: float, index: int) -> dict[str, float]:
    """Metrics of an episode: what grows over time to a level, a little another in each episode."""
    reached = {at: level * at / 100 * (1.0 + 0.01 * index) for at in POINTS}
    metrics = {STRAGGLERS.headline.name: level, "tpr": 0.9 * level, "fpr": 0.1}
    for at, value in reached.items():
        metrics |= {f"f1_at_{at}": value, f"tpr_at_{at}": value, f"fpr_at_{at}": value / 2}
        # Precise only where something is flagged: at 10 in two episodes of six.
        if value > 0.0 and (at > 10 or index < 2):
            metrics[f"precision_at_{at}"] = 0.75
    return metrics


@pytest.fixture
def make_folder(make_row: MakeRow, tmp_path: Path) -> Callable[..., Path]:
    """Write rows of a straggler scenario: contender -> F1 at the end."""

    def make(levels: Mapping[str, float], scenario: str = "google-2011") -> Path:
        spec = load_scenario(scenario)
        with ResultsFile(tmp_path / "out") as results:
            for name, level in levels.items():
                of = {
                    "transport": "",
                    "agent": name,
                    "privileged": name == "oracle",
                    "learned": name == "ppo",
                }
                for index in range(N_SEEDS):
                    row = make_row(name, 20000 + index, _metrics(level, index), name=scenario, **of)
                    resolved, digest = spec.resolved(), spec.sha256()
                    row = dataclasses.replace(row, scenario_resolved=resolved, scenario_sha256=digest)
                    results.append(row)
        return tmp_path / "out"

    return make


@pytest.fixture
def make_contest(make_folder: Callable[..., Path]) -> MakeContest:
    """Make the result of such rows."""
    return lambda levels: read_benchmark(make_folder(levels)).results[0]


def test_points_are_in_the_order_of_time() -> None:
    names = ["f1", "f1_at_100", "f1_at_20", "f1_at_best", "tpr_at_10", "f1_at_"]
    assert F1.points(names) == {20: "f1_at_20", 100: "f1_at_100"}
    assert list(F1.points(names)) == [20, 100]
    assert Curve("x_", "X", "time", True).points(names) == {}


def test_every_point_of_a_curve_is_a_metric_that_is_explained() -> None:
    assert len(STRAGGLERS.curves) == 4
    meanings = STRAGGLERS.metric_meanings()
    for curve in STRAGGLERS.curves:
        assert list(curve.points(meanings)) == list(range(10, 101, 10))
    assert evaluation_of("stragglers", "sysgym/StragglerMitigation-v0").curves == ()
    assert evaluation_of("congestion").curves == ()


def test_points_have_the_unit_of_the_whole() -> None:
    assert [unit_of(f"{name}_at_30").symbol for name in ("tpr", "fpr", "precision", "f1")] == [
        "%",
        "%",
        "%",
        "",
    ]


def test_a_line_is_the_interquartile_mean_in_the_shown_unit(make_contest: MakeContest) -> None:
    result = make_contest(FEW)
    expected = [iqm(np.array([_metrics(0.5, index)[f"f1_at_{at}"] for index in range(6)])) for at in POINTS]
    for curve, scale in ((F1, 1.0), (TPR, 100.0), (FPR, 50.0)):
        line = line_of(result, "nurd", curve)
        assert line is not None
        np.testing.assert_array_equal(line.at, POINTS)
        np.testing.assert_allclose(line.value, scale * np.array(expected))


def test_a_point_needs_half_of_the_episodes(make_contest: MakeContest) -> None:
    result = make_contest(FEW)
    line = line_of(result, "nurd", PRECISION)
    assert line is not None
    np.testing.assert_array_equal(line.at, [40, 100])
    np.testing.assert_allclose(line.value, 75.0)
    assert line_of(result, "none", PRECISION) is None, "it flags nothing"


def test_of_few_all_are_in_colour_of_many_those_that_matter(make_contest: MakeContest) -> None:
    few = make_contest(FEW)
    assert few.in_colour == ["nurd", "none", "oracle"]
    assert "In colour" not in caption(few)


def test_of_many_the_best_the_reference_the_learned_and_the_bounds_are_in_colour(
    make_contest: MakeContest,
) -> None:
    levels = MANY | {"nurd": 0.01, "ppo": 0.03}
    result = make_contest(levels)
    assert result.in_colour == ["rival7", "rival8", "rival9", "nurd", "ppo", "oracle"]
    assert f"the {N_BEST} best by {STRAGGLERS.headline.label}, nurd" in caption(result)
    looks = styles(result.players, result.in_colour)
    picture = over_time(result, looks)
    assert picture is not None
    assert all(f">{name}</text>" in picture.svg for name in levels), "every line is named"
    assert all(curve.label in picture.svg for curve in STRAGGLERS.curves)
    assert F1.x_label.replace("'", "&#x27;") in picture.svg.replace("'", "&#x27;")
    for name in levels:
        style = picture.svg.partition(f">{name}</text>")[0].rpartition("<text")[2]
        assert 'fill="currentColor"' in style, "names have the contrast of the page's text"
        assert ('font-weight="700"' in style) == (name in result.in_colour), name


def test_lines_that_coincide_have_a_panel_of_differences(make_contest: MakeContest) -> None:
    apart = make_contest({"nurd": 0.5, "rival": 0.2, "none": 0.0, "oracle": 1.0})
    assert coinciding(apart) == []
    assert "differences" not in caption(apart)


def test_the_differences_are_from_the_reference(make_contest: MakeContest) -> None:
    result = make_contest({"nurd": 0.5, "twin": 0.505, "rival": 0.2, "oracle": 1.0})
    assert coinciding(result) == ["twin"]
    picture = over_time(result, styles(result.players))
    assert picture is not None
    assert "F1: difference from nurd" in picture.svg
    assert "The last panel has the paired differences of lines that coincide with nurd's." in caption(result)


def test_a_suite_says_what_is_a_column_and_curves_are_drawn(make_folder: Callable[..., Path]) -> None:
    written = write(make_folder(FEW))
    markdown = written.markdown.read_text()
    heads = next(line for line in markdown.splitlines() if line.startswith("| contender | F1"))
    assert heads.count(" | ") == len(STRAGGLERS.metrics) + 1, "no point is a column, but the gap is"
    assert "_at_" not in markdown
    picture = written.markdown.parent / "plots" / "google-2011-test-over-time.png"
    assert f"(plots/{picture.name})" in markdown
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "F1, Recall (TPR), False positive rate, Precision over time of nurd, none, oracle" in (
        written.html.read_text()
    )


def test_rows_without_points_have_no_such_picture(make_row: MakeRow, tmp_path: Path) -> None:
    with ResultsFile(tmp_path) as results:
        for index in range(N_SEEDS):
            results.append(make_row("dctcp", 200 + index))
            results.append(make_row("reno", 200 + index, {"goodput_bps": 9e6, "queue_delay_p99_s": 1e-3}))
    write(tmp_path)
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {
        "tiny-test-metrics.png",
        "tiny-test-tradeoff.png",
    }


@given(heights=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=25).map(sorted), share=st.floats(0.01, 1.0))
def test_names_do_not_overlap_and_are_in_order(heights: list[float], share: float) -> None:
    room = share / len(heights)
    placed = spread(heights, room)
    assert len(placed) == len(heights)
    assert all(above - below >= room - 1e-9 for below, above in pairwise(placed))
    assert min(placed) >= -1e-9
    assert max(placed) <= 1.0 + 1e-9


def test_names_with_room_stand_at_their_line() -> None:
    assert spread([0.1, 0.5, 0.9], 0.1) == [0.1, 0.5, 0.9]
    assert spread([0.1, 0.5, 0.5], 0.1) == pytest.approx([0.1, 0.45, 0.55])
    assert spread([0.0, 0.0, 1.0, 1.0], 0.1) == pytest.approx([0.0, 0.1, 0.9, 1.0])


def _players(names: list[str]) -> list[Player]:
    return [Player(name, name, learned=False, privileged=False) for name in names]


def test_no_two_contenders_look_the_same() -> None:
    names = [f"c{number}" for number in range(40)]
    important = ["c30", "c17", "c39"]
    looks = styles([*_players(names), Player("oracle", "oracle", False, True)], important)
    assert len({(look.colour, look.marker, look.filled) for look in looks.values()}) == 41
    full = {look.colour for name, look in looks.items() if look.filled and name != "oracle"}
    assert full == set(COLOURS), "full markers of every colour once"
    assert all(looks[name].filled for name in important)
    assert INK_ON_PAPER not in {look.face for look in looks.values()}


def test_as_long_as_there_are_colours_the_order_decides() -> None:
    names = [f"c{number}" for number in range(len(COLOURS))]
    looks = styles(_players(names), ["c7"])
    assert [looks[name].colour for name in names] == list(COLOURS)
    assert all(look.filled for look in looks.values())
