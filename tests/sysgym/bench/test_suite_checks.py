"""Suites with unknown names are refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sysgym.bench.plan import make_plan
from sysgym.bench.run.episodes import EpisodeJob
from sysgym.bench.suite_checks import check_suite
from sysgym.errors import ScenarioError, SysgymError
from sysgym.scenarios import list_suites, load_scenario, load_suite

WriteSuite = Callable[..., Path]


@pytest.mark.parametrize("name", [info.name for info in list_suites()])
def test_the_suites_of_the_package_name_what_there_is(name: str) -> None:
    check_suite(load_suite(name))


def test_misspelt_metrics_and_contenders_are_told_at_once_before_anything_is_played(
    write_suite: WriteSuite, tmp_path: Path
) -> None:
    path = write_suite('"rneo", "dctcp", "nurd"')
    path.write_text(path.read_text().replace("goodput_bps", "godput_bps").replace("queue_delay_p99_s", "zzz"))
    with pytest.raises(ScenarioError) as caught:
        make_plan(load_suite(path), tmp_path / "out")
    problems = {problem.key: problem for problem in caught.value.problems}
    assert set(problems) == {
        "tasks[0].contenders[0]",
        "tasks[0].contenders[2]",
        "metrics[0].name",
        "metrics[1].name",
    }
    assert problems["tasks[0].contenders[0]"].advice == 'did you mean "reno"?'
    assert problems["metrics[0].name"].advice == 'did you mean "goodput_bps"?'
    assert "goodput_bps" in problems["metrics[1].name"].advice
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ("beta = [0.4, 0.8]", ""),
        ("bta = [0.4, 0.8]", 'a known constant of swift: did you mean "beta"'),
        ("beta = [0.4, 9.0]", "swift: beta is 9, expected 0.05 to 2"),
    ],
)
def test_every_value_of_a_grid_is_checked(
    write_suite: WriteSuite, tmp_path: Path, grid: str, words: str
) -> None:
    path = write_suite(f'{{ name = "swift", transport = "swift", agent = "max", grid = {{ {grid} }} }}')
    text = path.read_text()
    path.write_text(
        text.replace("[[metrics]]", 'constants = { score = "return", episodes = 2 }\n\n[[metrics]]', 1)
    )
    if not words:
        make_plan(load_suite(path), tmp_path / "out")
        return
    with pytest.raises(ScenarioError) as caught:
        make_plan(load_suite(path), tmp_path / "out")
    (problem,) = caught.value.problems
    assert words in f"{problem.expected}: {problem.advice}"


def test_a_row_never_names_a_split_that_its_seed_is_not_of(
    write_suite: WriteSuite, tmp_path: Path, tiny: Path
) -> None:
    scenario = load_scenario(tiny)
    contender = make_plan(load_suite(write_suite()), tmp_path).cells[0].contender
    job = EpisodeJob(scenario.resolved(), scenario.sha256(), "test", contender, 25_000, str(tmp_path))
    with pytest.raises(SysgymError, match="the split, which has the seeds 200 to 299"):
        job.run(lambda _: None)
