"""Content and legibility of a report: verdict, summary, queues, contrast."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from sysgym.bench.report import write
from sysgym.bench.report.content import facts, reading_guide, seeds_text
from sysgym.bench.report.data.benchmark import BenchmarkResult, read_benchmark
from sysgym.bench.report.data.curves import Curve
from sysgym.bench.report.data.headlines import headline
from sysgym.bench.report.data.verdict import verdict
from sysgym.bench.report.pictures.plots import COLOURS, REFERENCE_COLOUR, styles, tradeoff_caption
from sysgym.bench.report.pictures.queues import queues_over_time
from sysgym.bench.report.pictures.trainings import caption, training_curves
from sysgym.bench.report.tables import contest_table, summary_table
from sysgym.bench.results import queues
from sysgym.bench.results.queues import MOST_POINTS, QueueWatch
from sysgym.bench.results.rows import ResultsFile, Row
from sysgym.bench.run.runner import RUN
from sysgym.errors import SysgymError
from sysgym.scenarios.units import time_text

MakeRow = Callable[..., Row]
MakeStudy = Callable[..., BenchmarkResult]
WHO = {
    "ppo": {"transport": "paced", "agent": "ppo", "learned": True, "checkpoint_sha256": "ab"},
    "oracle": {"transport": "paced", "agent": "oracle", "privileged": True},
}
N_SEEDS = 6


@pytest.fixture
def make_study(make_row: MakeRow, tmp_path: Path) -> MakeStudy:
    """Make a benchmark of rows by hand: contender -> goodput in Mb/s and delay in ms."""

    def make(levels: Mapping[str, tuple[float, float]], first_seed: int = 200) -> BenchmarkResult:
        with ResultsFile(tmp_path / "out") as results:
            for name, (goodput, delay) in levels.items():
                for index in range(N_SEEDS):
                    noise = 1.0 + 1e-3 * index
                    metrics = {
                        "goodput_bps": goodput * 1e6 * noise,
                        "queue_delay_p99_s": delay * 1e-3 * noise,
                    }
                    results.append(make_row(name, first_seed + index, metrics, **WHO.get(name, {})))
        return read_benchmark(tmp_path / "out")

    return make


def test_the_verdict_counts_comparisons(make_study: MakeStudy) -> None:
    benchmark = make_study({"dctcp": (9.5, 1.0), "reno": (9.0, 8.0), "ppo": (9.4, 2.0), "oracle": (9.9, 0.1)})
    assert verdict(benchmark) == (
        "dctcp is best or tied with the best in all 2 comparisons (goodput; queueing delay, p99; on tiny); "
        "of the learned agents, ppo in none."
    )


def test_those_that_are_equal_share_the_verdict(make_study: MakeStudy) -> None:
    benchmark = make_study({"dctcp": (9.5, 1.0), "reno": (9.5, 1.0)})
    assert verdict(benchmark).startswith(
        "dctcp and reno are each best or tied with the best in all 2 comparisons"
    )


def test_the_summary_says_who_is_worse_and_who_is_not_ranked(make_study: MakeStudy) -> None:
    levels = {"dctcp": (9.5, 1.0), "reno": (9.5, 8.0), "lazy": (1.0, 0.01), "oracle": (9.9, 0.1)}
    grid = summary_table(make_study(levels))
    assert grid is not None
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in grid.rows}
    assert rows == {
        "dctcp": ["best", "best"],
        "reno": ["tied", "worse"],
        "lazy": ["worse", "not ranked"],
        "oracle": ["reference", "reference"],
    }
    assert "Not ranked: too little goodput" in grid.caption
    assert grid.groups == [("tiny-test", "tiny", 2)]
    assert grid.apart == {3}


def test_the_share_of_episodes_that_are_not_valid_is_a_column(make_row: MakeRow, tmp_path: Path) -> None:
    with ResultsFile(tmp_path / "out") as results:
        for name, n_invalid in (("dctcp", 0), ("reno", 2)):
            for index in range(4):
                metrics = {"goodput_bps": 1e6, "valid": float(index >= n_invalid)}
                results.append(make_row(name, 200 + index, metrics))
    benchmark = read_benchmark(tmp_path / "out")
    (result,) = benchmark.results
    grid = contest_table(result, measured=False)
    column = [one.label for one in grid.columns].index("Not valid")
    assert {row[0].text: row[column].text for row in grid.rows} == {"dctcp": "0 %", "reno": "50 %"}
    assert any(text.startswith('"Not valid" is the share') for text in reading_guide(benchmark))


def test_without_such_episodes_there_is_no_such_column(make_study: MakeStudy) -> None:
    benchmark = make_study({"dctcp": (9.5, 1.0), "reno": (9.5, 1.0)})
    grid = contest_table(benchmark.results[0], measured=False)
    assert "Not valid" not in [one.label for one in grid.columns]
    assert not any("Not valid" in text for text in reading_guide(benchmark))


def test_the_next_is_not_alone_where_several_tie(make_study: MakeStudy) -> None:
    levels = {"dctcp": (9.5, 1.0), "reno": (9.0, 8.0), "cubic": (9.0, 8.0), "bbr": (9.0, 8.0)}
    (sentence,) = headline(make_study(levels).results[0]).sentences
    assert "p99: dctcp leads with 1.00" in sentence
    also = (
        r"lower than the next, reno.*; cubic \(8\.02 ms\) and bbr \(8\.\d+ ms\) do not differ significantly"
    )
    assert re.search(also, sentence)


def test_a_caption_names_no_line_that_is_not_drawn(make_study: MakeStudy) -> None:
    one_front = make_study({"dctcp": (9.5, 1.0), "reno": (9.0, 8.0)}).results[0]
    assert "dashed" not in tradeoff_caption(one_front)


def test_a_front_of_two_is_a_line(make_study: MakeStudy) -> None:
    two = make_study({"dctcp": (9.0, 1.0), "reno": (9.5, 8.0)}).results[0]
    assert "the dashed line joins" in tradeoff_caption(two)


def test_seeds_outside_the_split_are_said_to_be(make_study: MakeStudy) -> None:
    benchmark = make_study({"dctcp": (9.5, 1.0)}, first_seed=297)
    assert seeds_text(benchmark.results[0]) == "297 to 302 (test split, but 300 to 302 outside it)"
    assert "none of them seen in training" not in reading_guide(benchmark)[0]


def test_a_replay_of_a_law_of_a_file_needs_the_file(make_row: MakeRow, tmp_path: Path) -> None:
    with ResultsFile(tmp_path / "out") as results:
        results.append(make_row("dctcp"))
        results.append(make_row("mine", plugins=(("laws/own.py", "a" * 64),)))
    (replayed,) = [words for label, words in facts(read_benchmark(tmp_path / "out")) if label == "replay"]
    assert replayed.startswith(
        f"`sysgym validate {tmp_path / 'out'} --plugin FILE`, with your copies of `laws/own.py` for FILE,"
    )


def test_no_seed_of_the_split(make_study: MakeStudy) -> None:
    benchmark = make_study({"dctcp": (9.5, 1.0)}, first_seed=25000)
    assert seeds_text(benchmark.results[0]) == "25000 to 25005 (outside the test split, with its parameters)"


def test_a_full_buffer_that_reads_as_more_is_explained(make_study: MakeStudy) -> None:
    assert any(
        "up to 3 % more than the buffer" in text for text in reading_guide(make_study({"dctcp": (9, 1)}))
    )


@pytest.mark.parametrize(
    ("time_s", "words"),
    [(4.02e-7, "402 ns"), (0.28, "280 ms"), (1.5e-5, "15 µs"), (0.0, "0 s"), (72.0, "72 s")],
)
def test_times_have_a_unit_that_fits(time_s: float, words: str) -> None:
    assert time_text(time_s) == words


def test_a_scenario_has_one_panel_of_trainings() -> None:
    steps = np.array([1.0, 2.0, 3.0])
    curves = [
        Curve(f"{agent}-{scenario}-seed{seed}", agent, scenario * 2, steps, seed * steps)
        for scenario in ("a", "b")
        for agent in ("ppo", "ddpg")
        for seed in (1, 2, 3)
    ]
    picture = training_curves(curves, {}, {"aa": "first", "bb": "second"})
    assert picture is not None
    for panel in ("first", "second"):
        assert picture.svg.count(f">{panel}</text>") == 1
    assert picture.svg.count(">ppo</text>") == picture.svg.count(">ddpg</text>") == 2, (
        "at lines, in each panel"
    )
    assert "thick: the median" in caption(curves)
    assert "Thin" not in caption(curves[:1])
    assert curves[0].scenario({}) == "a"


def test_queues_are_kept_of_the_first_episode_and_drawn(played: Path) -> None:
    benchmark = read_benchmark(played)
    result = benchmark.results[0]
    first, second = (result.row("dctcp", seed) for seed in (200, 201))
    assert first is not None
    assert second is not None
    series = queues.read(played, first)
    assert series is not None
    assert len(series.time_s) == first.steps
    assert series.time_s[-1] == pytest.approx(0.24)
    assert 0.0 < series.queue_bytes.max() <= 30_000.0
    assert queues.read(played, second) is None
    shown = queues_over_time(result, played, styles(benchmark.players))
    assert shown is not None
    picture, words = shown
    assert all(f">{name}" in picture.svg for name in ("dctcp", "reno"))
    assert "the episode of seed 200" in words
    assert "grey: dctcp" in words
    changed = dataclasses.replace(first, scenario_sha256="0" * 64)
    assert queues.read(played, changed) is None, "the queue of another scenario is not shown"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"time_s":[1],"queue_bytes":[1]}',
        '{"time_s":[1,2],"queue_bytes":["<b>",2]}',
        '{"time_s":[1,2],"queue_bytes":[1,1e999]}',
        '{"time_s":[1,2],"queue_bytes":[[1],[2]]}',
        "[" * 100_000,
    ],
)
def test_what_is_no_series_is_not_drawn(content: str, make_row: MakeRow, tmp_path: Path) -> None:
    path = queues.path_of(tmp_path, make_row())
    path.parent.mkdir()
    path.write_text(content)
    assert queues.read(tmp_path, make_row()) is None


def test_a_long_episode_keeps_its_peaks(make_row: MakeRow, tmp_path: Path) -> None:
    watch = QueueWatch()
    for step in range(5000):
        watch(
            step, {"time_s": 1e-3 * (step + 1), "metrics": {"queue_max_bytes": 1e6 if step == 3333 else 5.0}}
        )
    watch.write(tmp_path, make_row())
    series = queues.read(tmp_path, make_row())
    assert series is not None
    assert MOST_POINTS / 2 < len(series.time_s) <= MOST_POINTS
    assert series.time_s[-1] == 5.0
    # One resolution throughout, but for what is left over at the end.
    assert np.ptp(np.diff(series.time_s)[:-1]) < 1e-9
    assert sorted(series.queue_bytes)[-2:] == [5.0, 1e6]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{", "not JSON"),
        ("[]", "the whole"),
        ('{"suite": {"title": 3}}', r"suite\.title"),
        ('{"sittings": [{"command": "a", "began": "b", "played": "many"}]}', r"sittings\[0\]\.played"),
        ('{"sittings": [{"command": "a", "began": "b", "wall_s": "long"}]}', r"sittings\[0\]\.wall_s"),
        ('{"suite": {"metrics": [{"name": "a", "label": "b", "direction": "up"}]}}', "direction"),
        ('{"suite": {"contenders": "dctcp"}}', r"suite\.contenders"),
    ],
)
def test_a_broken_record_is_one_sentence(
    content: str, what: str, make_study: MakeStudy, tmp_path: Path
) -> None:
    make_study({"dctcp": (9.5, 1.0)})
    (tmp_path / "out" / RUN).write_text(content)
    with pytest.raises(SysgymError, match=what) as caught:
        read_benchmark(tmp_path / "out")
    assert str(tmp_path / "out" / RUN) in str(caught.value)
    assert "\n" not in str(caught.value)


def _css() -> str:
    return resources.files("sysgym.bench.report").joinpath("page", "page.css").read_text()


def _themes() -> dict[str, dict[str, str]]:
    """Light and dark: name of a colour -> its value."""
    blocks = re.findall(r":root \{(.*?)\}", _css(), re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks)
    return {"light": light, "dark": light | dark}


def _contrast(one: str, other: str) -> float:
    """Contrast of two colours as WCAG 2 defines it."""
    lights = []
    for colour in (one, other):
        parts = [int(colour[place : place + 2], 16) / 255.0 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        lights.append(float(np.dot(linear, (0.2126, 0.7152, 0.0722))) + 0.05)
    return max(lights) / min(lights)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_and_lines_of_the_page_can_be_seen(theme: str) -> None:
    colours = _themes()[theme]
    assert {"ink", "soft", "link", "paper", "best", "tied", "worse", "warn", "panel"} <= set(colours)
    pairs = [(text, "paper") for text in ("ink", "soft", "link")]
    pairs += [("ink", ground) for ground in ("best", "tied", "worse", "warn", "panel")]
    for text, ground in pairs:
        assert _contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for kind in ("best", "tied"):  # their edges tell the cells from others, whatever colours one sees
        assert _contrast(colours[f"{kind}-edge"], colours["paper"]) >= 3.0, kind
    for line in (*COLOURS, REFERENCE_COLOUR):
        assert _contrast(line, colours["paper"]) >= 3.0, line


def test_every_colour_of_the_page_is_one_of_those() -> None:
    rules = re.sub(r":root \{.*?\}", "", _css(), flags=re.DOTALL)
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b", rules)
    # Text is ink where its ground is coloured, and what is soft stands on paper.
    assert ".best small, .tied small, .worse small { color: var(--ink); }" in rules


def test_texts_in_pictures_are_in_the_pages_ink(make_study: MakeStudy, tmp_path: Path) -> None:
    make_study({"dctcp": (9.5, 1.0), "reno": (9.0, 8.0), "ppo": (9.7, 2.0)})
    page = write(tmp_path / "out").html.read_text()
    texts = re.findall(r"<text ([^>]*)>", page)
    assert len(texts) > 10
    for attributes in texts:
        assert 'fill="currentColor"' in attributes
        assert "opacity" not in attributes


def test_tables_have_captions_scopes_and_values_to_sort_by(make_study: MakeStudy, tmp_path: Path) -> None:
    make_study({"dctcp": (9.5, 1.0), "reno": (9.0, 8.0)})
    page = write(tmp_path / "out").html.read_text()
    assert page.count("<table") == page.count("<caption>") == page.count('tabindex="0" role="region"') - 2
    heads = re.findall(r"<th\b[^>]*>", page)
    assert all("scope=" in head for head in heads)
    assert len(re.findall(r'<td[^>]* data-sort="[\d.e+-]+"', page)) == 4
    assert "<details><summary>How to read this</summary>" in page
    anchors = set(re.findall(r'href="#([^"]+)"', page))
    assert {"top", "tiny-test", "made"} <= anchors <= set(re.findall(r'id="([^"]+)"', page))
    assert 'href="results.jsonl"' in page
    resolved = page.partition("<pre>")[2].partition("</pre>")[0]
    assert json.loads(resolved.replace("&#34;", '"').replace("&#39;", "'"))["name"] == "tiny"
