"""Varied values of a split: checked on loading, and drawn by the seed only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.scenarios import CongestionScenario, load_scenario, scenario_from_resolved
from sysgym.scenarios.errors import Problem, ScenarioError, UnknownName
from sysgym.scenarios.schema import scenario as schema
from sysgym.scenarios.schema.scenario import MOST_COMBINATIONS_CHECKED

WriteFile = Callable[..., Path]

VARIED = {
    "splits.train.vary": {
        "workload.flows_per_pair": [1, 2, 3],
        "queue.buffer_bytes": [200_000, 400_000],
        "topology.link_delay_s": [1e-6, 2e-6],
        "workload.pairs": ["one_to_one", "random"],
    }
}


@pytest.fixture(scope="module")
def varied() -> CongestionScenario:
    return load_scenario("dumbbell-10g", overrides=VARIED, expect=CongestionScenario)


def _drawn(scenario: CongestionScenario, seed: int) -> tuple[object, ...]:
    drawn = scenario.draw("train", seed)
    assert drawn.workload.kind == "long_lived"
    return (
        drawn.workload.flows_per_pair,
        drawn.queue.buffer_bytes,
        drawn.topology.link_delay_s,
        drawn.workload.pairs,
    )


def test_a_draw_is_a_function_of_the_seed(varied: CongestionScenario) -> None:
    assert [_drawn(varied, seed) for seed in range(50)] == [_drawn(varied, seed) for seed in range(50)]


def test_draws_stay_as_they_are_from_version_to_version() -> None:
    """Results name episodes by seed: another draw for the same seed would change them."""
    scenario = load_scenario("fattree-k4-websearch", expect=CongestionScenario)
    loads = [
        workload.load
        for seed in range(20_000, 20_008)
        if (workload := scenario.draw("test", seed).workload).kind == "poisson"
    ]
    assert loads == [0.6, 0.4, 0.4, 0.6, 0.6, 0.4, 0.6, 0.6]


def test_all_combinations_come_about_equally_often(varied: CongestionScenario) -> None:
    counts = Counter(_drawn(varied, seed) for seed in range(1200))
    assert len(counts) == 3 * 2 * 2 * 2
    assert min(counts.values()) > 20
    assert max(counts.values()) < 90


def test_only_the_varied_keys_change(varied: CongestionScenario) -> None:
    drawn = varied.draw("train", 3)
    assert drawn.splits == varied.splits
    assert drawn.transport == varied.transport
    assert drawn.control == varied.control
    assert drawn.name == varied.name


def test_a_key_more_leaves_the_draw_of_the_others() -> None:
    few = load_scenario(
        "dumbbell-10g",
        overrides={"splits.train.vary": {"workload.flows_per_pair": [1, 2, 3]}},
        expect=CongestionScenario,
    )
    many = load_scenario("dumbbell-10g", overrides=VARIED, expect=CongestionScenario)
    for seed in range(30):
        assert _drawn(few, seed)[0] == _drawn(many, seed)[0]


@given(st.integers(0, 2**31 - 1), st.lists(st.integers(1, 100), min_size=1, max_size=20))
def test_a_draw_is_one_of_the_values(seed: int, values: list[int]) -> None:
    scenario = load_scenario("dumbbell-10g", expect=CongestionScenario).with_overrides(
        {"splits.test.vary": {"workload.flows_per_pair": values}}
    )
    workload = scenario.draw("test", seed).workload
    assert workload.kind == "long_lived"
    assert workload.flows_per_pair in values


def test_a_split_without_variation_gives_the_scenario_itself() -> None:
    scenario = load_scenario("iroko-dumbbell-10m")
    assert scenario.draw("test", 20_000) is scenario


def test_unknown_split() -> None:
    with pytest.raises(UnknownName, match="validation") as caught:
        load_scenario("incast-32").draw("tset", 1)
    assert caught.value.suggestion == "test"


def test_values_that_are_wrong_only_together_are_found_on_loading(write: WriteFile) -> None:
    overrides = {
        "splits.test.vary": {
            "queue.buffer_bytes": [100_000, 200_000],
            "queue.ecn_threshold_bytes": [50_000, 150_000],
        }
    }
    with pytest.raises(ScenarioError) as caught:
        load_scenario(write(("1_000_000", "200_000")), overrides=overrides)
    (problem,) = caught.value.problems
    assert problem.key == 'splits.test.vary."queue.ecn_threshold_bytes"'
    assert problem.got == {"queue.buffer_bytes": 100_000, "queue.ecn_threshold_bytes": 150_000}


def test_beyond_many_combinations_a_wrong_one_is_told_when_it_is_drawn(write: WriteFile) -> None:
    thresholds = [50_000] * MOST_COMBINATIONS_CHECKED + [150_000]
    overrides = {
        "splits.test.vary": {
            "queue.buffer_bytes": [100_000, 200_000],
            "queue.ecn_threshold_bytes": thresholds,
        },
    }
    scenario = load_scenario(write(("1_000_000", "200_000")), overrides=overrides)
    wrong = []
    for seed in range(3000):
        try:
            scenario.draw("test", seed)
        except ScenarioError as error:
            wrong.append((error.key, error.expected))
    assert 1 <= len(wrong) <= 20
    assert set(wrong) == {("queue.ecn_threshold_bytes", "at most buffer_bytes = 100000")}


def test_seeds_of_a_split() -> None:
    split = load_scenario("incast-32").splits.test
    assert (split.first_seed, split.n_seeds) == (20_000, 1000)
    assert 20_999 in split
    assert 21_000 not in split
    assert "20000" not in split


RANGED = {
    "splits.train.ranges": {
        "topology.link_rate_bps": {"low": 1e6, "high": 100e6, "scale": "log"},
        "queue.buffer_bytes": {"low": 3_000, "high": 30_000},
        "topology.link_delay_s": {"low": 0.0, "high": 0.1},
    },
    "queue.ecn_threshold_bytes": 2_000,
}


def test_ranges_are_drawn_by_the_seed_over_all_their_length() -> None:
    scenario = load_scenario("dumbbell-10g", overrides=RANGED, expect=CongestionScenario)
    drawn = [scenario.draw("train", seed) for seed in range(400)]
    assert drawn == [scenario.draw("train", seed) for seed in range(400)]
    rates = sorted(one.topology.link_rate_bps for one in drawn)
    assert rates[0] < 1.1e6
    assert rates[-1] > 90e6
    # Uniform in the logarithm: the median is the geometric mean of the ends.
    assert 7e6 < rates[200] < 14e6
    buffers = [one.queue.buffer_bytes for one in drawn]
    assert all(type(size) is int and 3_000 <= size <= 30_000 for size in buffers)
    assert sorted(buffers)[200] == pytest.approx(16_500, rel=0.15)
    assert min(one.topology.link_delay_s for one in drawn) < 0.002
    # Each key by itself: a seed with a high rate has any delay.
    delays = [one.topology.link_delay_s for one in drawn if one.topology.link_rate_bps > 50e6]
    assert max(delays) - min(delays) > 0.05
    assert scenario_from_resolved(scenario.resolved()) == scenario


def test_what_is_overridden_is_no_longer_drawn_from_a_range() -> None:
    scenario = load_scenario("dumbbell-10g", overrides=RANGED)
    fixed = scenario.with_overrides({"topology.link_delay_s": 0.05})
    assert set(fixed.splits.train.ranges) == {"topology.link_rate_bps", "queue.buffer_bytes"}


@pytest.mark.parametrize(
    ("ranges", "key", "expected"),
    [
        ({"queue.buffer_bytes": {"low": 9_000, "high": 3_000}}, "high", "at least low = 9000"),
        ({"queue.buffer_bytes": {"low": 0, "high": 3, "scale": "log"}}, "low", "a positive number"),
        ({"queue.buffer_bytes": {"low": 100, "high": 30_000}}, "queue.buffer_bytes", "1500"),
        ({"control.episode_steps": {"low": 1, "high": 2}}, "control.episode_steps", "a key of"),
        ({"workload.flows_per_pair": {"low": 1, "high": 2}}, "workload.flows_per_pair", "vary does not have"),
        ({"topology.link_rate_bps": {"low": 1, "high": 2, "step": 1}}, "step", "key"),
    ],
)
def test_wrong_ranges_are_found_on_loading(ranges: dict[str, object], key: str, expected: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario("dumbbell-10g", overrides={"splits.train.ranges": ranges})
    assert any(key in problem.key for problem in caught.value.problems), caught.value
    assert expected in str(caught.value)


def test_valid_values_are_checked_once_and_others_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    validate = schema._Trials._validate

    def note(trials: schema._Trials, choice: Mapping[str, Any]) -> Sequence[Problem]:
        tried.append(choice["workload.load"])
        return validate(trials, choice)

    monkeypatch.setattr(schema._Trials, "_validate", note)
    lists = {
        f"splits.{split}.vary": {"workload.load": [0.31, 0.62]} for split in ("train", "validation", "test")
    }
    for _ in range(2):
        load_scenario("fattree-k4-websearch", overrides=lists)
    assert tried == [0.31, 0.62]
    for _ in range(2):
        del tried[:]
        with pytest.raises(ScenarioError):
            load_scenario(
                "fattree-k4-websearch", overrides={**lists, "splits.test.vary": {"workload.load": [62]}}
            )
        assert tried == [0.31, 0.62, 62]
