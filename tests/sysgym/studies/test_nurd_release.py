"""The leaks of NURD's released evaluation, each by hand, and their labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sysgym.cli import main
from sysgym.emulator.cluster.job import Job
from sysgym.studies import nurd_release
from sysgym.studies.nurd_release import AGENTS, COLUMNS, Scored, f1_of, kept_by_filter, rows_of


def job_of(duration_s: list[float], counter: list[list[float]]) -> Job:
    """A job with windows of 10 s, one counter and one attempt."""
    n = len(duration_s)
    n_windows = max(len(row) for row in counter)
    counters = np.zeros((n, 1, n_windows, 1), np.float32)
    for task, row in enumerate(counter):
        counters[task, 0, : len(row), 0] = row
    return Job(
        "hand", 10.0, ("c",), np.zeros(n), np.array(duration_s)[:, None], counters, np.zeros(n, np.int8)
    )


def test_a_leaked_mean_is_over_the_final_latency() -> None:
    job = job_of([25.0, 10.0], [[1.0, 2.0, 4.0], [3.0]])
    honest, leaked = (rows_of(job, leaked=leaked) for leaked in (False, True))
    assert honest.n_rows.tolist() == [3, 1]
    # 1, (10 + 20) / 20, (10 + 20 + 4 * 5) / 25: the last window lasts 5 s.
    assert honest.mean[0, :, 0] == pytest.approx([1.0, 1.5, 2.0])
    assert leaked.mean[0, :, 0] == pytest.approx([10 / 25, 30 / 25, 50 / 25])
    assert honest.final[:, 0] == pytest.approx([2.0, 3.0])
    assert np.array_equal(honest.final, leaked.final)


def test_the_filter_drops_short_stragglers_and_long_others() -> None:
    job = job_of([10.0, 10.0, 10.0, 40.0, 50.0, 90.0], [[1.0] * n for n in (1, 1, 1, 4, 5, 9)])
    # Stragglers have 5 and 9 rows, 7 on average: 5 is less than 6. Others 1, 1, 1 and 4: 4 is more than 2.75.
    assert kept_by_filter(job, 50.0).tolist() == [True, True, True, False, False, True]


def test_a_late_flag_counts_only_with_the_leak() -> None:
    job = job_of([10.0, 20.0, 60.0, 60.0], [[1.0], [1.0] * 2, [1.0] * 6, [1.0] * 6])
    # Row 4 ends at 40 s, before the threshold of 50 s; row 5 at it.
    at_row = np.array([0, 2, 4, 5])
    assert f1_of(job, 50.0, at_row, filtered=False, late_counts=False) == pytest.approx(2 * 1 / (1 + 1 + 2))
    assert f1_of(job, 50.0, at_row, filtered=False, late_counts=True) == pytest.approx(2 * 2 / (2 + 1 + 2))


def test_scaling_by_all_tasks_knows_how_long_the_longest_will_be() -> None:
    job = job_of([10.0, 20.0, 30.0, 110.0], [[1.0], [2.0] * 2, [4.0] * 3, [5.0] * 11])
    rows = rows_of(job, leaked=False)
    finished = np.array([True, True, True, False])
    leaked, honest = (
        nurd_release._checkpoint(job, 60.0, rows, 4, finished, scaling=scaling) for scaling in (True, False)
    )
    assert leaked.latency == pytest.approx([0.0, 0.1, 0.2])
    assert leaked.threshold == pytest.approx(0.5)
    assert leaked.x_running[:, 0] == pytest.approx([1.0])
    assert honest.latency == pytest.approx([0.0, 0.5, 1.0])
    assert honest.threshold == pytest.approx(2.5)
    assert honest.x_running[:, 0] == pytest.approx([4 / 3])


def test_the_page_warns_and_has_every_column() -> None:
    results = [
        Scored("a", seed, {(agent, column): 0.1 * seed for agent in AGENTS for column in COLUMNS})
        for seed in range(5)
    ]
    page = nurd_release.markdown(results)
    assert "information from the future" in page
    assert all(column in page for column in COLUMNS)
    assert page.count("| a, ") == len(AGENTS)
    assert "0.20 [" in page


def test_a_suite_without_stragglers_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as left:
        main(["study", "nurd-release", "quick", "--out", str(tmp_path / "r")])
    assert left.value.code == 2
    assert "has no straggler prediction" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


@pytest.mark.slow
def test_one_job_under_every_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sysgym.scenarios import StragglerScenario, load_scenario

    small = {"jobs.tasks_min": 60, "jobs.tasks_max": 60, "jobs.windows_per_median": 4}
    scenario = load_scenario("google-2011", overrides=small, expect=StragglerScenario)
    scored = nurd_release.score(scenario, scenario.splits.test.first_seed)
    assert set(scored.f1) == {(agent, column) for agent in AGENTS for column in COLUMNS}
    assert all(0.0 <= value <= 1.0 for value in scored.f1.values())
    # Trees on finished tasks alone reach no threshold in time, but do when they may be late.
    assert scored.f1["gbtr", "lateness"] >= scored.f1["gbtr", "no leak"]
