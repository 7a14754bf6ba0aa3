"""The stress study: equal episodes that differ in the condition only."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sysgym.bench.contenders import Contender, parse_contender
from sysgym.bench.run.episodes import EpisodeJob
from sysgym.errors import ScenarioError, SysgymError, UnknownName
from sysgym.scenarios import get_family, load_scenario, scenario_from_resolved
from sysgym.scenarios.locks import alone_in
from sysgym.studies.kept_rows import run_kept
from sysgym.studies.stress import (
    ROWS,
    Condition,
    Stress,
    StressJob,
    default_conditions,
    sweeps,
    tables,
)
from tests.agents.learned.trust.policies import write_policy

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def policy(tiny: Path, tmp_path: Path) -> Contender:
    scenario = load_scenario(tiny)
    path = write_policy(tmp_path / "policy" / "final.zip", scenario, 3, spread=3.0)
    return parse_contender(f"ppo@{path}")


def job(tiny: Path, contender: Contender, condition: Condition, seed: int = 200) -> StressJob:
    scenario = load_scenario(tiny)
    return StressJob(scenario.resolved(), scenario.sha256(), "test", contender, condition, seed)


def returned(job: StressJob) -> float:
    found = job.run(lambda news: None)["return"]
    assert isinstance(found, float)
    return found


def test_undisturbed_is_what_the_benchmark_plays(tiny: Path, policy: Contender) -> None:
    scenario = load_scenario(tiny)
    row = EpisodeJob(scenario.resolved(), scenario.sha256(), "test", policy, 200, "").run(lambda news: None)
    assert returned(job(tiny, policy, Condition())) == row.total_reward


def test_a_law_of_its_own_hears_neither_noise_nor_delay(tiny: Path, policy: Contender) -> None:
    conditions = Condition(), Condition(noise=0.5), Condition(delay=2)
    law = [returned(job(tiny, parse_contender("reno"), condition)) for condition in conditions]
    assert law[0] == law[1] == law[2]
    learned = [returned(job(tiny, policy, condition)) for condition in conditions]
    assert len(set(learned)) == 3
    assert returned(job(tiny, policy, conditions[1])) == learned[1], "noise follows the episode's seed"


def test_a_link_fails_for_two_fifths_of_the_episode(tiny: Path) -> None:
    condition = Condition(fail_link="west<->east")
    (fault,) = condition.scenario(load_scenario(tiny)).resolved()["faults"]["links"]
    assert fault == {"link": "west<->east", "down_s": pytest.approx(0.048), "up_s": pytest.approx(0.144)}
    rows = [job(tiny, parse_contender("max"), one).run(lambda news: None) for one in (Condition(), condition)]
    whole, failed = (row["metrics"]["goodput_bps"] for row in rows)
    assert failed < 0.8 * whole
    both = Condition(fail_link="h0->west").scenario(condition.scenario(load_scenario(tiny)))
    assert len(both.resolved()["faults"]["links"]) == 2, "what failed before still does"


def test_what_is_played_is_kept_and_what_is_torn_played_again(tiny: Path, tmp_path: Path) -> None:
    stress = Stress(
        load_scenario(tiny), "test", 2, [parse_contender("aimd")], [Condition(), Condition(delay=1)]
    )
    told: list[tuple[int, int]] = []
    folder = tmp_path / "out"
    rows = run_kept(stress, folder, n_workers=1, tell=lambda done, of: told.append((done, of)))
    assert told == [(done, 4) for done in range(5)]
    assert [(row["seed"], row["condition"]["delay"]) for row in rows] == [
        (200, 0),
        (200, 1),
        (201, 0),
        (201, 1),
    ]
    content = (folder / ROWS).read_bytes()
    (folder / ROWS).write_bytes(content[:-20])
    told.clear()
    again = run_kept(stress, folder, n_workers=1, tell=lambda done, of: told.append((done, of)))
    assert told[0] == (3, 4)
    assert [row["return"] for row in again] == [row["return"] for row in rows]
    assert len((folder / ROWS).read_bytes().splitlines()) == 4


def test_a_second_study_does_not_write_to_the_folder_of_a_running_one(tiny: Path, tmp_path: Path) -> None:
    stress = Stress(load_scenario(tiny), "test", 1, [parse_contender("aimd")], [Condition()])
    folder = tmp_path / "out"
    with (
        alone_in(folder, "writes rows of a study to"),
        pytest.raises(SysgymError, match="another process writes rows of a study to this folder"),
    ):
        run_kept(stress, folder, n_workers=1)
    assert [path.name for path in folder.iterdir()] == [".lock"]


def test_changes_are_paired_by_episode(tiny: Path) -> None:
    conditions = [Condition(), Condition(noise=0.1)]
    stress = Stress(load_scenario(tiny), "test", 3, [parse_contender("aimd")], conditions)
    rows = [
        {"return": 10.0 * seed - 2.0 * number, "metrics": {"goodput_bps": 1e6 * (1 + number)}}
        for seed in range(3)
        for number in range(2)
    ]
    strengths, page = tables(stress, rows)
    assert strengths.title.endswith("by noise of observations (relative)")
    assert strengths.columns == ("contender", ">undisturbed", ">0.1")
    assert [row[0] for row in strengths.rows] == ["aimd"]
    assert page.title == "aimd"
    assert page.columns[:3] == ("condition", ">return", ">change")
    (clean, noisy) = page.rows
    assert (clean[0], clean[2]) == ("undisturbed", "")
    assert (noisy[0], noisy[2]) == ("noise 10 %", "-2.0 [-2.0, -2.0]")
    assert np.isclose(float(noisy[1].split()[0]), 8.0)


def test_what_a_scenario_cannot_have_is_refused(tiny: Path) -> None:
    network, jobs = load_scenario(tiny), load_scenario("google-2011")
    placement = load_scenario("placement-unseen")
    for scenario, condition, message in (
        (network, Condition(noise=-1.0), "cannot be negative"),
        (jobs, Condition(delay=1), "late actions are not supported"),
        (placement, Condition(noise=0.1), "observations of the family placement are not measured"),
    ):
        with pytest.raises(SysgymError, match=message):
            Stress(scenario, "test", 1, [], [condition])
    with pytest.raises(SysgymError, match="split test has only 100 seeds"):
        Stress(network, "test", 101, [], [Condition()])
    assert replace(Condition(), delay=1).label == "1 decision late"


def test_the_command(tiny: Path, policy: Contender, call: Call, tmp_path: Path) -> None:
    arguments = (
        "-c",
        f"mine=ppo@{Path(str(policy.checkpoint)).relative_to(tmp_path)}",
        "--noise",
        "0.2",
        "--fail-link",
        "west<->east",
    )
    code, out, err = call(
        "study", "stress", tiny, *arguments, "--seeds", "1", "-j", "1", "--out", tmp_path / "out"
    )
    assert (code, err) == (0, "")
    lines = [line.split("  ")[0] for line in out.splitlines()]
    first = lines.index("condition") - 1
    assert lines[first : first + 5] == [
        "mine",
        "condition",
        "undisturbed",
        "noise 20 %",
        "west<->east fails",
    ]
    assert (tmp_path / "out" / "stress.png").read_bytes().startswith(b"\x89PNG")
    rows = [json.loads(line) for line in (tmp_path / "out" / ROWS).read_text().splitlines()]
    assert [row["condition"]["noise"] for row in rows] == [0.0, 0.2, 0.0]
    assert "| noise 20 % |" in (tmp_path / "out" / "stress.md").read_text()


JOBS, PLACEMENT, MEASURED = "google-2011", "placement-unseen", "joint-unseen"
SMALL_JOBS = {"jobs.tasks_min": 60, "jobs.tasks_max": 80}


def played(name: str, who: str, condition: Condition) -> dict[str, float]:
    """Return the metrics of a test episode of a scenario under a condition."""
    scenario = load_scenario(name, overrides=SMALL_JOBS if name == JOBS else {})
    condition.check(scenario)
    contender = parse_contender(who, (), scenario.family, scenario.env_id)
    of_episode = StressJob(scenario.resolved(), scenario.sha256(), "test", contender, condition, 20_000)
    row = of_episode.run(lambda news: None)
    return {"return": row["return"], **row["metrics"]}


def own(name: str, strength: float) -> Condition:
    return Condition(disturbance=name, strength=strength)


def test_what_agents_do_not_hear_of_costs_those_that_need_it() -> None:
    clean = played(JOBS, "knn", Condition())
    assert played(JOBS, "knn", own("missing", 0.0)) == clean == played(JOBS, "knn", own("late", 0.0))
    blind = played(JOBS, "knn", own("missing", 1.0))
    assert blind["f1_over_time"] < clean["f1_over_time"]
    assert blind["threshold_s"] == clean["threshold_s"], "the job is the same"
    assert played(JOBS, "knn", own("missing", 1.0)) == blind
    clock = [played(JOBS, "clock", one) for one in (Condition(), own("missing", 1.0), own("late", 3.0))]
    assert clock[0] == clock[1] == clock[2], "a clock needs no counters"


def test_the_share_of_stragglers_shifts() -> None:
    many, few = (played(JOBS, "none", own("quantile", value))["stragglers"] for value in (0.5, 0.95))
    assert many > 5 * few > 0


def test_a_factor_multiplies_what_the_scenario_has() -> None:
    scenario = load_scenario(JOBS)
    (before, after) = (one.resolved()["jobs"] for one in (scenario, own("faults", 3.0).scenario(scenario)))
    assert after["fault_rate"] == pytest.approx(3.0 * before["fault_rate"])
    assert after["cluster"]["slow_machine_fraction"] == pytest.approx(
        3.0 * before["cluster"]["slow_machine_fraction"]
    )


def test_an_exact_search_of_a_system_that_is_not_true_is_not_exact() -> None:
    seeds = range(20_000, 20_020)
    scenario = load_scenario(PLACEMENT)
    stress = Stress(
        scenario,
        "test",
        len(seeds),
        [parse_contender("exhaustive", (), scenario.family, scenario.env_id)],
        [Condition(), own("stated", 2.0)],
    )
    regrets = np.array([job.run(lambda news: None)["metrics"]["regret"] for job in stress.jobs()])
    true, stated = regrets.reshape(-1, 2).T
    assert np.all(true == 0.0)
    assert stated.mean() > 0.0


def test_costs_off_the_model_cost_a_rule_that_believes_it() -> None:
    regret = [played(MEASURED, "greedy", own("residual", value))["regret"] for value in (0.0, 1.0)]
    assert regret[1] > regret[0]


def test_sweeps_begin_with_what_changes_nothing() -> None:
    stress = Stress(
        load_scenario(JOBS),
        "test",
        1,
        [],
        [Condition(), own("quantile", 0.95), own("quantile", 0.8), own("faults", 4.0), Condition(noise=0.1)],
    )
    found = {sweep.name: (sweep.strengths, sweep.places) for sweep in sweeps(stress)}
    assert found == {
        "quantile": ((0.8, 0.9, 0.95), (2, 0, 1)),
        "faults": ((1.0, 4.0), (0, 3)),
        "noise": ((0.0, 0.1), (0, 4)),
    }


@pytest.mark.parametrize("name", [JOBS, PLACEMENT, MEASURED, "google-2011-mitigation", "program-unseen"])
def test_usual_conditions_are_possible(name: str) -> None:
    scenario = load_scenario(name)
    conditions = default_conditions(scenario)
    assert conditions
    Stress(scenario, "test", 1, [], conditions)


def test_strengths_that_are_not_possible_are_refused() -> None:
    jobs, placement = load_scenario(JOBS), load_scenario(PLACEMENT)
    with pytest.raises(UnknownName, match=r"sysgym/StragglerPrediction-v0 is named .stated"):
        own("stated", 1.0).check(jobs)
    with pytest.raises(ScenarioError, match="stated_log_sd"):
        own("stated", -1.0).check(placement)
    with pytest.raises(SysgymError, match="finite"):
        own("late", float("nan")).check(jobs)
    with pytest.raises(ScenarioError, match=r"joint\.truth"):
        load_scenario(MEASURED, overrides={"system.stated_log_sd": 0.5})


def test_a_key_that_varies_or_is_missing_is_refused() -> None:
    fault = get_family("stragglers").disturbances.of("sysgym/StragglerPrediction-v0")["faults"]
    scenario = load_scenario(JOBS)
    data = scenario.resolved()
    data["splits"]["test"]["vary"] = {"jobs.fault_rate": [0.001, 0.002]}
    with pytest.raises(SysgymError, match=r'"faults" does not apply: its split test varies jobs\.fault_rate'):
        fault.applied(scenario_from_resolved(data), 2.0)
    with pytest.raises(SysgymError, match=r"it has no key jobs\.interference_rate"):
        fault.applied(load_scenario("alibaba-2018-hour"), 2.0)


def test_an_option_names_strengths(call: Call, tmp_path: Path) -> None:
    arguments = ("study", "stress", PLACEMENT, "-c", "default", "-c", "greedy", "--seeds", "2", "-j", "1")
    code, out, err = call(*arguments, "--disturb", "stated=0.5,1", "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    assert "system stated with errors of 0.5" in out
    conditions = [
        (row["condition"]["disturbance"], row["condition"]["strength"])
        for row in map(json.loads, (tmp_path / "out" / ROWS).read_text().splitlines())
    ]
    assert conditions == [("", 0.0), ("stated", 0.5), ("stated", 1.0)] * 4
    code, _, err = call(*arguments, "--disturb", "stated=much", "--out", tmp_path / "out")
    assert code == 2
    assert "--disturb stated=much: expected NAME=STRENGTH" in err
