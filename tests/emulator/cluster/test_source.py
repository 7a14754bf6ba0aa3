"""A scenario's jobs by split and seed."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.cluster.generator import generate_job
from sysgym.emulator.cluster.source import TracedJobs, job_source, split_of
from sysgym.scenarios import StragglerScenario, load_scenario, scenario_from_resolved
from sysgym.scenarios.errors import ScenarioError, UnknownName


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
