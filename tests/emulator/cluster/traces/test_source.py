"""Windows that are known in time, and jobs with ties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.emulator.cluster.traces import TraceSource, load_jobs
from sysgym.emulator.cluster.traces.source import TOO_MANY_TIES, window_until_warmup

WriteRows = Callable[[str, list[str]], str]


def test_the_first_tasks_to_finish_set_the_window() -> None:
    ends_s = np.array([90.0, 40.0, 20.0, 60.0])
    assert window_until_warmup(ends_s, 0.0, 10) == pytest.approx(2.0)
    assert window_until_warmup(ends_s, 30.0, 10) == pytest.approx(3.0)
    # Of 50 tasks, two are 4 %.
    assert window_until_warmup(np.linspace(100.0, 149.0, 50), 0.0, 10) == pytest.approx(10.1)


@given(st.integers(1, 2000), st.floats(1e-3, 1e6), st.integers(2, 200))
def test_the_warm_up_ends_with_a_window(n_tasks: int, unit_s: float, n_windows: int) -> None:
    ends_s = np.arange(1, n_tasks + 1) * np.float64(unit_s)
    window_s = window_until_warmup(ends_s, 0.0, n_windows)
    now_s = 0.0
    for _ in range(n_windows):
        before_s, now_s = now_s, now_s + window_s
    assert (ends_s <= before_s).mean() < 0.04 <= (ends_s <= now_s).mean()


def instances(job: str, durations_s: list[int]) -> list[str]:
    return [
        f"i{task},M1,{job},1,Terminated,100,{100 + duration_s},m,1,1,50,60,0.2,0.3"
        for task, duration_s in enumerate(durations_s)
    ]


def lives(job: str, durations_s: list[int]) -> list[str]:
    return [f"{job},t{task},0,{duration_s},1" for task, duration_s in enumerate(durations_s)]


APART = list(range(100, 120))
JOBS = {
    "apart": APART,  # two of twenty reach the quantile 0.9
    "four": [*APART[:16], *[150] * 4],  # within 15 % of twenty, and one more
    "five": [*APART[:15], *[150] * 5],
    "all": [100] * 20,
}


@pytest.mark.parametrize("kind", ["alibaba-2018", "table"])
@pytest.mark.parametrize(
    ("quantile", "names"),
    [
        (None, {"all", "apart", "five", "four"}),
        (0.9, {"apart", "four"}),
        (0.75, {"apart", "five", "four"}),
    ],
)
def test_jobs_in_which_the_quantile_is_tied_are_left_out(
    write_rows: WriteRows, make_spec: Callable[..., Any], kind: str, quantile: float | None, names: set[str]
) -> None:
    rows = [] if kind == "alibaba-2018" else ["job,task,start_s,end_s,cpu"]
    for job, durations_s in JOBS.items():
        rows += (instances if kind == "alibaba-2018" else lives)(job, durations_s)
    source: TraceSource = load_jobs(make_spec(kind, (write_rows("trace.csv", rows),), tasks_max=20), quantile)
    assert {name.split("/")[0] for name in source.names} == names
    assert len(source) == len(names)
    assert source.left_out_jobs.get(TOO_MANY_TIES, 0) == len(JOBS) - len(names)
    for which, name in enumerate(source.names):
        durations_s = JOBS[name.split("/")[0]]
        assert source.job(which).latency_s.tolist() == source.job(name).latency_s.tolist()
        assert sorted(source.job(name).latency_s.tolist()) == durations_s
