"""The rule on speed, with sums of logarithms computed by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from sysgym.agents import make_agent
from sysgym.emulator.cluster.job import Job
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios.errors import SysgymError

ViewOf = Callable[..., JobView]
Flags = Callable[..., list[int]]

ALIBABA = ("cpu_avg", "mem_avg")
GOOGLE = ("cpu_rate", "cycles_per_instruction", "canonical_memory")
TIME_ONLY = {"elapsed": 1.0, "near": 10.0, "most": 1.0}
COUNTERS_ONLY = {"elapsed": 0.0, "near": 10.0, "most": 1.0}


@pytest.fixture
def flags(stage: Callable[..., Any]) -> Flags:
    """Return the tasks that the rule flags, in a job with these counters."""

    def run(view: JobView, counters: tuple[str, ...], **arguments: Any) -> list[int]:
        agent: Any = make_agent("speed", **arguments)
        job = Job(
            name="by hand",
            window_s=1.0,
            counter_names=counters,
            start_s=np.zeros(2),
            duration_s=np.full((2, 1), 4.0),
            counters=np.ones((2, 1, 4, len(counters)), dtype=np.float32),
            cause=np.zeros(2, dtype=np.int8),
        )
        agent.begin(stage(job))
        return np.flatnonzero(agent.predict(view)).tolist()

    return run


def five_tasks(view_of: ViewOf, x: ArrayLike, **arguments: Any) -> JobView:
    """Two finished tasks and three that have run for four windows of a threshold of ten."""
    elapsed = {task: 4.0 for task in (2, 3, 4)}
    return view_of(x, latency={0: 5.0, 1: 5.0}, elapsed=elapsed, threshold=10.0, **arguments)


def test_a_task_at_half_of_the_median_speed_is_ln_2_slow(view_of: ViewOf, flags: Flags) -> None:
    # Median CPU 80: task 3 has half of it.
    view = five_tasks(view_of, [[80, 1], [80, 1], [80, 1], [40, 1], [120, 1]])
    assert flags(view, ALIBABA, least=math.log(2.0) - 1e-6, **COUNTERS_ONLY) == [3]
    assert flags(view, ALIBABA, least=math.log(2.0) + 1e-6, **COUNTERS_ONLY) == []


def test_cycles_per_instruction_divide_the_cpu(view_of: ViewOf, flags: Flags) -> None:
    # Speeds 2, 2, 2, 0.5 and 2: task 3 uses as much CPU as task 0 for a quarter of the instructions, task 4
    # uses half of the CPU for as many.
    view = five_tasks(view_of, [[4, 2, 1], [4, 2, 1], [4, 2, 1], [4, 8, 1], [2, 1, 1]])
    assert flags(view, GOOGLE, least=math.log(4.0) - 1e-6, **COUNTERS_ONLY) == [3]
    assert flags(view, GOOGLE, least=math.log(4.0) + 1e-6, **COUNTERS_ONLY) == []


def test_memory_is_compared_with_finished_tasks_and_weighted(view_of: ViewOf, flags: Flags) -> None:
    # Finished tasks have memory 1; task 2 has three times as much, and so have the other running ones.
    view = five_tasks(view_of, [[80, 1], [80, 1], [80, 3], [80, 3], [80, 3]])
    for weight, expected in ((1.01, [2, 3, 4]), (0.99, [])):
        assert flags(view, ALIBABA, memory=weight, least=math.log(3.0), **COUNTERS_ONLY) == expected


def test_recent_weighs_the_last_window_against_the_mean(view_of: ViewOf, flags: Flags) -> None:
    view = five_tasks(view_of, [[80, 1]] * 5)
    last = view.last.copy()
    last[2, 0] = 40.0  # half of the usual speed, in the last window only
    view = replace(view, last=last)
    half = 0.5 * math.log(2.0)
    assert flags(view, ALIBABA, recent=0.5, least=half - 1e-6, **COUNTERS_ONLY) == [2]
    assert flags(view, ALIBABA, recent=0.5, least=half + 1e-6, **COUNTERS_ONLY) == []
    assert flags(view, ALIBABA, recent=0.0, least=1e-6, **COUNTERS_ONLY) == []


def test_time_counts_as_its_logarithm_over_the_threshold(view_of: ViewOf, flags: Flags) -> None:
    elapsed = {2: 4.0, 3: 6.0, 4: 8.0}
    view = view_of([[80, 1]] * 5, latency={0: 5.0, 1: 5.0}, elapsed=elapsed, threshold=10.0)
    assert flags(view, ALIBABA, least=math.log(0.61), **TIME_ONLY) == [4]
    assert flags(view, ALIBABA, least=math.log(0.59), **TIME_ONLY) == [3, 4]
    # Without a threshold, 1.5 times the median of finished tasks: 7.5.
    unknown = view_of([[80, 1]] * 5, latency={0: 5.0, 1: 5.0}, elapsed=elapsed)
    assert flags(unknown, ALIBABA, least=math.log(0.81), **TIME_ONLY) == [4]
    assert flags(unknown, ALIBABA, least=math.log(0.79), **TIME_ONLY) == [3, 4]


def test_the_largest_sums_come_first_and_the_cap_counts_all_flags(view_of: ViewOf, flags: Flags) -> None:
    x = [[80, 1], [80, 1], [40, 1], [20, 1], [30, 1]]
    usual = {"elapsed": 0.0, "least": 0.1, "near": 10.0}
    # Two fifths of five tasks: the two slowest. A flag that was raised before takes a place.
    assert flags(five_tasks(view_of, x), ALIBABA, most=0.4, **usual) == [3, 4]
    assert flags(five_tasks(view_of, x, flagged=(3,)), ALIBABA, most=0.4, **usual) == [4]
    assert flags(five_tasks(view_of, x, flagged=(3, 4)), ALIBABA, most=0.4, **usual) == []
    assert flags(five_tasks(view_of, x), ALIBABA, most=0.0, **usual) == []


def test_near_the_threshold_any_task_is_flagged(view_of: ViewOf, flags: Flags) -> None:
    elapsed = {2: 8.9, 3: 9.0, 4: 9.5}
    view = view_of([[80, 1]] * 5, latency={0: 5.0, 1: 5.0}, elapsed=elapsed, threshold=10.0)
    assert flags(view, ALIBABA, least=1.0, most=1.0, near=0.9) == [3, 4]


def test_tasks_without_a_measurement_count_as_ordinary(view_of: ViewOf, flags: Flags) -> None:
    # Task 2 has no complete window yet: zeros are not slowness, and not part of the median.
    view = five_tasks(view_of, [[80, 1], [80, 1], [0, 0], [40, 1], [80, 1]])
    assert flags(view, ALIBABA, least=0.1, **COUNTERS_ONLY) == [3]
    # Without any counter that the rule knows, only time is left.
    unknown = five_tasks(view_of, [[80, 1], [80, 1], [1, 9], [2, 9], [3, 9]])
    assert flags(unknown, ("disk", "network"), least=1e-6, **COUNTERS_ONLY) == []
    assert flags(unknown, ("disk", "network"), least=math.log(0.39), **TIME_ONLY) == [2, 3, 4]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory", -0.1),
        ("least", math.inf),
        ("most", 1.1),
        ("elapsed", -1.0),
        ("recent", 1.5),
        ("near", -1.0),
    ],
)
def test_constants_out_of_range_are_refused(name: str, value: float) -> None:
    arguments: dict[str, Any] = {name: value}
    with pytest.raises(SysgymError, match=name):
        make_agent("speed", **arguments)
