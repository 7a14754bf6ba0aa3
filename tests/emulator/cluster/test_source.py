"""A scenario's jobs by split and seed."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.emulator.cluster.generator import generate_job
from sysgym.emulator.cluster.job import FloatArray
from sysgym.emulator.cluster.source import TracedJobs, job_source, names_of, read_trace, split_of
from sysgym.emulator.cluster.traces import TraceError, TraceSource
from sysgym.emulator.cluster.traces.reading import Tally
from sysgym.emulator.cluster.traces.source import FirstAttempts, Origin
from sysgym.scenarios import StragglerScenario, load_scenario, scenario_from_resolved
from sysgym.scenarios.errors import ScenarioError, UnknownName
from sysgym.scenarios.schema.splits import SPLIT_NAMES


def _spar(folder: Path, n_jobs: int, n_tasks: int = 5) -> StragglerScenario:
    """Return a scenario on a file made by hand in the format of Alibaba's trace of 2018."""
    path = folder / "batch_instance.csv"
    lines = [
        f"i{task},M1,j_{job},1,Terminated,{100 + job},{110 + job + 3 * task + job % 7},m_{task},1,1,"
        f"{50 + task},60,0.2,0.3"
        for job in range(n_jobs)
        for task in range(n_tasks)
    ]
    path.write_text("\n".join(lines) + "\n")
    resolved: dict[str, Any] = load_scenario("google-2011").resolved()
    resolved["jobs"] = {
        "kind": "trace",
        "format": "alibaba-2018",
        "paths": [str(path)],
        "tasks_min": 2,
        "tasks_max": 10,
    }
    return scenario_from_resolved(resolved, expect=StragglerScenario)


def test_the_seed_draws_a_generated_job() -> None:
    scenario = load_scenario("google-2011", expect=StragglerScenario)
    source = job_source(scenario)
    job = source.job("test", 20_003)
    assert scenario.jobs.kind == "generated"
    expected = generate_job(scenario.jobs, 20_003, 3)
    np.testing.assert_array_equal(job.duration_s, expected.duration_s)
    np.testing.assert_array_equal(job.counters, expected.counters)
    assert source.job("test", 20_004).duration_s.tobytes() != job.duration_s.tobytes()
    with pytest.raises(UnknownName, match="validation"):
        source.job("tset", 1)


def test_what_a_split_varies_is_applied() -> None:
    scenario = load_scenario(
        "google-2011",
        overrides={
            "splits.test.vary": {"jobs.skew_log_sd_mean": [-6.0, -0.5], "mitigation.attempts": [1, 2]}
        },
        expect=StragglerScenario,
    )
    jobs = [job_source(scenario).job("test", seed) for seed in range(20_000, 20_012)]
    assert {job.n_attempts for job in jobs} == {1, 2}
    spreads = sorted(float(np.log(job.latency_s).std()) for job in jobs)
    assert spreads[-1] > 3 * spreads[0]


def test_jobs_of_a_trace_belong_to_one_split(tmp_path: Path) -> None:
    source = job_source(_spar(tmp_path, 60))
    assert isinstance(source, TracedJobs)
    names = [name for split in source.names.values() for name in split]
    assert len(names) == len(set(names)) == 60
    assert {split: len(found) > 0 for split, found in source.names.items()} == {
        "train": True,
        "validation": True,
        "test": True,
    }
    for split, first in (("train", 0), ("test", 20_000)):
        found = source.names[split]
        drawn = [source.job(split, first + offset).name for offset in range(len(found) + 1)]
        assert tuple(drawn[:-1]) == found
        assert drawn[-1] == found[0]


def test_all_groups_of_a_submission_are_in_one_split_and_come_one_by_one(tmp_path: Path) -> None:
    resolved = _spar(tmp_path, 1).resolved()
    lines = [
        f"i{row},{task},j_{job},1,Terminated,{100 + job},{110 + job + 3 * row},m_{row},1,1,50,60,0.2,0.3"
        for job in range(40)
        for task in ("M1", "R2", "J3")[: 1 + job % 3]
        for row in range(5)
    ]
    (tmp_path / "batch_instance.csv").write_text("\n".join(lines) + "\n")
    source = job_source(scenario_from_resolved(resolved, expect=StragglerScenario))
    assert isinstance(source, TracedJobs)
    owners = {split: {name.split("/")[0] for name in names} for split, names in source.names.items()}
    assert sum(map(len, source.names.values())) == sum(1 + job % 3 for job in range(40))
    assert sum(map(len, owners.values())) == 40, "no submission is in two splits"
    for split, names in source.names.items():
        first = names[: len(owners[split])]
        assert {name.split("/")[0] for name in first} == owners[split]
        assert len(set(names)) == len(names)
    stages = {name.split("/")[1] for name in source.names["train"][: len(owners["train"])]}
    assert len(stages) > 1, "not the first stage of every submission"


def test_the_seed_draws_second_attempts_of_a_trace_s_job(tmp_path: Path) -> None:
    source = job_source(_spar(tmp_path, 30, n_tasks=9))
    assert isinstance(source, TracedJobs)
    around = len(source.names["train"])
    one, again, other = (source.job("train", seed) for seed in (3, 3, 3 + around))
    assert one.name == other.name
    np.testing.assert_array_equal(one.duration_s, again.duration_s)
    np.testing.assert_array_equal(one.duration_s[:, 0], other.duration_s[:, 0])
    assert (one.duration_s != other.duration_s).any()
    assert one.n_attempts == 3


def test_a_trace_is_read_once(tmp_path: Path) -> None:
    scenario = _spar(tmp_path, 30)
    first = job_source(scenario).job("train", 0)
    (tmp_path / "batch_instance.csv").unlink()
    np.testing.assert_array_equal(job_source(scenario).job("train", 0).duration_s, first.duration_s)


def test_jobs_of_ties_alone_are_of_no_split(tmp_path: Path) -> None:
    scenario = _spar(tmp_path, 30)
    path = tmp_path / "batch_instance.csv"
    tied = [f"i{task},M1,j_tied,1,Terminated,100,150,m,1,1,50,60,0.2,0.3" for task in range(9)]
    path.write_text(path.read_text() + "\n".join(tied) + "\n")
    source = job_source(scenario)
    assert isinstance(source, TracedJobs)
    assert sum(map(len, source.names.values())) == 30
    resolved = scenario.resolved()
    resolved["straggler"] |= {"definition": "median_multiple", "value": 1.5}
    source = job_source(scenario_from_resolved(resolved, expect=StragglerScenario))
    assert isinstance(source, TracedJobs)
    assert sum(map(len, source.names.values())) == 31


def test_a_split_without_a_job_says_so(tmp_path: Path) -> None:
    source = job_source(_spar(tmp_path, 1))
    assert isinstance(source, TracedJobs)
    empty = next(split for split, names in source.names.items() if not names)
    with pytest.raises(ScenarioError, match=f"split {empty}") as caught:
        source.job(empty, 0)
    assert caught.value.key == "jobs.paths"


def test_splits_are_a_hash_of_the_name() -> None:
    counts = Counter(split_of(f"job {index}") for index in range(5000))
    assert counts["train"] == pytest.approx(3000, rel=0.05)
    assert counts["validation"] == pytest.approx(1000, rel=0.1)
    assert counts["test"] == pytest.approx(1000, rel=0.1)
    # By hand: the same in every process, version and trace.
    tenth = int.from_bytes(hashlib.sha256(b"split j_1").digest()[:8], "big") % 10
    assert split_of("j_1") == ("train" if tenth < 6 else "validation" if tenth < 8 else "test")


class _Trace(TraceSource):
    """Jobs without content: where they come from is all that splits need."""

    def __init__(self, origins: dict[str, Origin], span_s: tuple[float, float] = (0.0, 1000.0)) -> None:
        super().__init__(
            tuple(sorted(origins)), (), Tally(), {}, [origins[n] for n in sorted(origins)], span_s
        )

    def _first_attempts(self, index: int) -> FirstAttempts:
        raise NotImplementedError

    def _durations_s(self, index: int) -> FloatArray:
        raise NotImplementedError


def _names(trace: TraceSource, by: str) -> dict[str, set[str]]:
    return {split: set(names_of(trace, split, by)) for split in SPLIT_NAMES}


def test_a_split_in_time_has_no_job_that_crosses_a_border() -> None:
    times = {"first": (0.0, 100.0), "to": (500.0, 599.0), "over": (590.0, 610.0), "later": (600.0, 799.0)}
    times |= {"end": (700.0, 800.0), "last": (950.0, 1000.0), "long": (10.0, 990.0), "past": (990.0, 1001.0)}
    assert _names(_Trace({name: Origin(*life) for name, life in times.items()}), "time") == {
        "train": {"first", "to"},
        "validation": {"later"},
        "test": {"last", "past"},
    }


@given(st.lists(st.tuples(st.floats(0.0, 1e7), st.floats(0.0, 1e6)), min_size=1, max_size=40))
def test_every_job_of_training_ends_before_any_of_validation_begins(lives: list[tuple[float, float]]) -> None:
    origins = {f"{i}": Origin(begin, begin + length) for i, (begin, length) in enumerate(lives)}
    span_s = (min(o.begin_s for o in origins.values()), max(o.end_s for o in origins.values()) + 1.0)
    names = _names(_Trace(origins, span_s), "time")
    for earlier, later in (("train", "validation"), ("validation", "test"), ("train", "test")):
        begins = [origins[name].begin_s for name in names[later]]
        assert all(origins[name].end_s < begin for name in names[earlier] for begin in begins)
    borders = [span_s[0] + share * (span_s[1] - span_s[0]) for share in (0.6, 0.8)]
    near = 1e-6 * span_s[1]
    for name, origin in origins.items():
        crosses = any(origin.begin_s < border - near and origin.end_s > border + near for border in borders)
        assert not (crosses and any(name in found for found in names.values()))


@pytest.mark.parametrize("by", ["user", "program"])
def test_users_and_programs_of_test_are_unseen(by: str) -> None:
    origins = {f"{i}": Origin(0.0, 1.0, **{by: f"owner {i % 23}"}) for i in range(200)}
    origins["nobody's"] = Origin(0.0, 1.0)
    trace = _Trace(origins)
    names = _names(trace, by)
    owners = {split: {getattr(origins[name], by) for name in found} for split, found in names.items()}
    assert sum(map(len, owners.values())) == len(set().union(*owners.values())) == 23
    assert set().union(*names.values()) == origins.keys() - {"nobody's"}, (
        "an unknown owner may be one of training"
    )
    in_order = names_of(trace, "train", by)
    first = in_order[: len(owners["train"])]
    assert {getattr(origins[name], by) for name in first} == owners["train"], "one job of each comes first"


@pytest.mark.parametrize("by", ["time", "submission"])
def test_one_trace_is_divided_in_several_ways(tmp_path: Path, by: str) -> None:
    resolved = _spar(tmp_path, 200).resolved()
    resolved["jobs"]["split"] = by
    source = job_source(scenario_from_resolved(resolved, expect=StragglerScenario))
    assert isinstance(source, TracedJobs)
    begins = {
        split: [int(name.split("_")[1][:-3]) for name in names] for split, names in source.names.items()
    }
    in_time = (
        max(begins["train"]) < min(begins["validation"]) < max(begins["validation"]) < min(begins["test"])
    )
    assert in_time == (by == "time")


def test_what_a_benchmark_reads_first(tmp_path: Path) -> None:
    scenario = _spar(tmp_path, 30)
    read_trace(scenario)
    read_trace(load_scenario("google-2011", expect=StragglerScenario))
    (tmp_path / "batch_instance.csv").unlink()
    with pytest.raises(TraceError, match="no such file"):
        read_trace(scenario)


@pytest.mark.parametrize("name", ["google-2011-trace", "google-2011-trace-users", "pai-2020-trace"])
def test_without_the_folder_of_traces_it_is_said_where_to_get_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = load_scenario(name, expect=StragglerScenario)
    monkeypatch.delenv("SYSGYM_TRACES", raising=False)
    with pytest.raises(TraceError, match=r"SYSGYM_TRACES is not set(.|\n)*https://github(.|\n)*CC-BY 4\.0"):
        read_trace(scenario)
    monkeypatch.setenv("SYSGYM_TRACES", str(tmp_path))
    with pytest.raises(TraceError, match=r"no such file(.|\n)*https://github(.|\n)*CC-BY 4\.0") as caught:
        read_trace(scenario)
    assert caught.value.path.startswith(str(tmp_path))
