"""Scenarios of the straggler family: included ones, varied values, and errors for broken files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sysgym.scenarios import (
    GeneratedJobs,
    StragglerScenario,
    TraceJobs,
    list_scenarios,
    load_scenario,
    scenario_from_resolved,
)
from sysgym.scenarios.errors import ScenarioError

WriteText = Callable[[str], Path]
Refused = Callable[..., None]

FILE = """\
schema = 1
name = "mine"
family = "stragglers"
env_id = "sysgym/StragglerPrediction-v0"
title = "Mine"
description = "A scenario for tests."

[jobs]
kind = "generated"
profile = "google-2011"
tasks_min = 100
tasks_max = 200

[jobs.cluster]
machines = 60

[straggler]
definition = "quantile"
value = 0.9

[splits.train]
seeds = [0, 9]
vary = { "jobs.cluster.background_load" = [0.2, 0.4] }

[splits.validation]
seeds = [10, 19]

[splits.test]
seeds = [20, 29]
"""

TRACE = """\
[jobs]
kind = "trace"
format = "google-2011"
paths = ["task_events", "task_usage"]

[straggler]
"""


BROKEN: dict[str, tuple[Any, ...]] = {
    "unknown key of a table in a table": (
        "machines = 60",
        "machines = 60\nslots = 4",
        "jobs.cluster.slots",
        4,
        "a key of [jobs.cluster]: machines, slots_per_machine",
    ),
    "unknown profile": (
        '"google-2011"',
        '"google2011"',
        "jobs.profile",
        "google2011",
        '"google-2011"',
        "did you mean",
    ),
    "key of a trace": ("tasks_min = 100", 'paths = ["a"]', "jobs.paths", ["a"], "a key of [jobs]: tasks_min"),
    "fewest more than most": (
        "tasks_min = 100",
        "tasks_min = 201",
        "jobs.tasks_min",
        201,
        "at most tasks_max = 200",
    ),
    "too few slots": (
        "machines = 60",
        "machines = 49",
        "jobs.cluster.machines",
        49,
        "there are 196 slots",
        "more machines",
    ),
    "factors backwards": (
        "tasks_min = 100",
        "interference_factor_min = 5.0",
        "jobs.interference_factor_min",
        5.0,
        "at most interference_factor_max = 4",
    ),
    "factors of machines backwards": (
        "machines = 60",
        "machines = 60\nslow_machine_factor_max = 1.2",
        "jobs.cluster.slow_machine_factor_min",
        1.5,
        "at most slow_machine_factor_max = 1.2",
    ),
    "informativeness above one": (
        "tasks_min = 100",
        "informativeness = 1.5",
        "jobs.informativeness",
        1.5,
        "at most 1",
    ),
    "fewer bursts than Poisson": (
        "machines = 60",
        "machines = 60\nburstiness = 0.5",
        "jobs.cluster.burstiness",
        0.5,
        "at least 1",
    ),
    "quantile above one": ("value = 0.9", "value = 1.5", "straggler.value", 1.5, "less than 1"),
    "multiple below one": (
        'definition = "quantile"',
        'definition = "median_multiple"',
        "straggler.value",
        0.9,
        "more than 1",
    ),
    "spaces that vary": (
        '"jobs.cluster.background_load" = [0.2, 0.4]',
        '"jobs.tasks_max" = [150, 200]',
        'splits.train.vary."jobs.tasks_max"',
        [150, 200],
        "other than jobs.kind, jobs.profile",
    ),
    "straggler that varies": (
        '"jobs.cluster.background_load" = [0.2, 0.4]',
        '"straggler.value" = [0.8, 0.9]',
        'splits.train.vary."straggler.value"',
        [0.8, 0.9],
        "a key of [jobs], [mitigation]",
    ),
    "varied value out of range": (
        "[0.2, 0.4]",
        "[0.2, 4.0]",
        'splits.train.vary."jobs.cluster.background_load"',
        4.0,
        "at most 2",
    ),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
def test_broken_file(case: tuple[Any, ...], refused: Refused) -> None:
    refused(FILE, *case)


def _traced() -> str:
    head, _, rest = FILE.partition("[jobs]")
    tail = rest.partition("[straggler]\n")[2]
    return (head + TRACE + tail).replace('vary = { "jobs.cluster.background_load" = [0.2, 0.4] }\n', "")


def test_a_trace_names_its_files(write_text: WriteText) -> None:
    scenario = load_scenario(write_text(_traced()), expect=StragglerScenario)
    assert isinstance(scenario.jobs, TraceJobs)
    assert scenario.jobs.paths == ("task_events", "task_usage")
    assert scenario_from_resolved(scenario.resolved()) == scenario
    with pytest.raises(ScenarioError, match="the files of the trace") as caught:
        load_scenario(write_text(_traced().replace('paths = ["task_events", "task_usage"]\n', "")))
    assert caught.value.key == "jobs.paths"


def test_spar_has_its_file(write_text: WriteText) -> None:
    text = _traced().replace('"google-2011"', '"spar"')
    with pytest.raises(ScenarioError, match=r"no paths with format") as caught:
        load_scenario(write_text(text))
    assert caught.value.key == "jobs.paths"
    jobs = load_scenario(
        write_text(text.replace('paths = ["task_events", "task_usage"]\n', "")),
        expect=StragglerScenario,
    ).jobs
    assert isinstance(jobs, TraceJobs)
    assert (jobs.paths, jobs.static_counters) == ((), "withheld")


def test_load_on_machines_varies_between_episodes(write_text: WriteText) -> None:
    scenario = load_scenario(write_text(FILE), expect=StragglerScenario)
    drawn = set()
    for seed in range(10):
        jobs = scenario.draw("train", seed).jobs
        assert isinstance(jobs, GeneratedJobs)
        drawn.add(jobs.cluster.background_load)
    assert drawn == {0.2, 0.4}


PREDICTED = ("alibaba-2018", "google-2011", "google-2011-near")
MITIGATED = (
    "alibaba-2018-mitigation",
    "google-2011-limited",
    "google-2011-mitigation",
    "google-2011-near-mitigation",
)
GENERATED = (*PREDICTED, *MITIGATED)


def test_the_generated_scenarios_ship() -> None:
    assert set(GENERATED) <= {info.name for info in list_scenarios("stragglers")}


@pytest.mark.parametrize("name", GENERATED)
def test_shipped_scenarios_have_nurd_s_setting(name: str) -> None:
    scenario = load_scenario(name, expect=StragglerScenario)
    assert (scenario.straggler.definition, scenario.straggler.value) == ("quantile", 0.9)
    # NURD gives the threshold to every method; an agent that acts does without.
    assert scenario.straggler.threshold_known == (name in PREDICTED)
    assert scenario.control.warmup_fraction == 0.04
    assert scenario.jobs.tasks_min == 100


def test_limited_differs_in_its_machines_alone() -> None:
    full = load_scenario("google-2011", expect=StragglerScenario)
    limited = load_scenario("google-2011-limited", expect=StragglerScenario)
    assert limited.jobs == full.jobs
    assert (full.mitigation.spare_machines, limited.mitigation.spare_machines) == (-1, 10)
    key = "mitigation.spare_machines"
    splits = limited.splits
    assert set(splits.test.vary[key]) - set(splits.train.vary[key]) == {10, 40}
    assert limited.mitigation.model_dump(exclude={"spare_machines"}) == full.mitigation.model_dump(
        exclude={"spare_machines"}
    )


@pytest.mark.parametrize("name", GENERATED)
def test_numbers_without_a_comment_are_calibrated(name: str) -> None:
    """A number of the jobs has a comment, or is one of those that the calibration decides."""
    path = next(info.path for info in list_scenarios("stragglers") if info.name == name)
    text = path.read_text()
    assert "sysgym calibrate" in text
    for key in ("tasks_min", "tasks_max", "windows_per_median", "burstiness", "max_checkpoints", "value"):
        line = next(line for line in text.splitlines() if line.startswith(f"{key} ="))
        assert "#" in line, line


@pytest.mark.parametrize("name", ["alibaba-2018", "google-2011", "google-2011-near"])
def test_mitigation_has_the_jobs_of_prediction(name: str) -> None:
    predicted = load_scenario(name, expect=StragglerScenario)
    mitigated = load_scenario(f"{name}-mitigation", expect=StragglerScenario)
    assert mitigated.jobs == predicted.jobs
    assert mitigated.env_id == "sysgym/StragglerMitigation-v0"


@pytest.mark.parametrize(
    ("format_name", "split", "works"),
    [
        ("google-2011", "user", True),
        ("pai-2020", "program", True),
        ("alibaba-2018", "time", True),
        ("alibaba-2018", "user", False),
        ("alibaba-2017", "program", False),
    ],
)
def test_a_trace_is_split_by_what_it_tells(
    write_text: WriteText, format_name: str, split: str, works: bool
) -> None:
    text = _traced().replace('"google-2011"', f'"{format_name}"')
    path = write_text(text.replace("paths = [", f'split = "{split}"\npaths = ['))
    if works:
        jobs = load_scenario(path, expect=StragglerScenario).jobs
        assert isinstance(jobs, TraceJobs)
        assert jobs.split == split
    else:
        with pytest.raises(ScenarioError, match="one of google-2011, pai-2020") as caught:
            load_scenario(path)
        assert caught.value.key == "jobs.split"


@pytest.mark.parametrize(("format_name", "works"), [("google-2011", True), ("table", False), ("spar", False)])
def test_the_first_decision_of_a_trace_is_after_its_window_is_known(
    write_text: WriteText, format_name: str, works: bool
) -> None:
    text = _traced().replace('"google-2011"', f'"{format_name}"')
    if format_name == "spar":
        text = text.replace('paths = ["task_events", "task_usage"]\n', "")
    path = write_text(text)
    assert load_scenario(path, expect=StragglerScenario).control.warmup_fraction == 0.04
    if works:
        load_scenario(path, overrides={"control.warmup_fraction": 0.0})
    else:
        with pytest.raises(ScenarioError, match=r"at least 0\.04") as caught:
            load_scenario(path, overrides={"control.warmup_fraction": 0.039})
        assert caught.value.key == "control.warmup_fraction"


def test_spar_has_no_times(write_text: WriteText) -> None:
    text = _traced().replace('"google-2011"', '"spar"').replace('paths = ["task_events", "task_usage"]\n', "")
    with pytest.raises(ScenarioError, match="google-2011, alibaba-2017, alibaba-2018, pai-2020"):
        load_scenario(write_text(text.replace('"spar"', '"spar"\nsplit = "time"')))


def test_the_way_to_split_came_later() -> None:
    """Scenarios from before have the digest that their results are known by."""
    scenario = load_scenario("alibaba-2018-hour")
    assert scenario.sha256() == "8346d4419f708b413d6f42840d8658cd08face5b75effb3bc2b01af714d7765d"
    assert "split" not in scenario.resolved()["jobs"]
    by_time = load_scenario("google-2011-trace")
    assert by_time.resolved()["jobs"]["split"] == "time"
    assert by_time.sha256() != load_scenario("google-2011-trace-users").sha256()


def test_no_split_varies_the_way_to_split(write_text: WriteText) -> None:
    text = _traced() + 'vary = { "jobs.split" = ["time", "user"] }\n'
    with pytest.raises(ScenarioError) as caught:
        load_scenario(write_text(text))
    assert caught.value.key == 'splits.test.vary."jobs.split"'
