"""Constants are chosen on other episodes than those of the test, once, and by the highest mean score."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sysgym.bench.plan import Plan, make_plan
from sysgym.bench.results.rows import read_rows
from sysgym.bench.run.episodes import make_contender, play
from sysgym.bench.run.runner import Observer, run_plan
from sysgym.bench.run.tuning import TUNING_FOLDER, Tuned, Tuning
from sysgym.errors import ScenarioError
from sysgym.scenarios import StragglerScenario, list_suites, load_scenario, load_suite
from sysgym.scenarios.loader import find_scenario
from tests.scripts import load_script

N_JOBS, N_TASKS = 12, 12
WINDOW_S, BETWEEN_S = 300, 8000
SUBMIT, SCHEDULE, FINISH = 0, 1, 4

Write = Callable[..., Path]


class Ears(Observer):
    """Remembers which constants were chosen."""

    def __init__(self) -> None:
        self.chosen: dict[str, dict[str, object]] = {}

    def tuned(self, tuning: Tuning, result: Tuned) -> None:
        self.chosen[tuning.contender.name] = dict(result.parameters)


@pytest.fixture
def google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario of twelve jobs in the schema of Google's trace of 2011, with two slow tasks each."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng = np.random.default_rng(1)
    events, usage = [], []
    for job in range(N_JOBS):
        start_s = 1000 + BETWEEN_S * job
        for task in range(N_TASKS):
            slow = task < 2
            end_s = start_s + int(rng.uniform(3000, 4500) if slow else rng.uniform(900, 1800))
            events += [
                f"{int(at_s * 1e6)},,{job + 5},{task},7,{kind},user{job},2,9,0.1,0.01,0.001,0"
                for at_s, kind in ((start_s, SUBMIT), (start_s, SCHEDULE), (end_s, FINISH))
            ]
            for begin_s in range(start_s, end_s, WINDOW_S):
                cpu = rng.uniform(0.1, 0.2) * (3.0 if slow else 1.0)
                until_s = min(begin_s + WINDOW_S, end_s)
                usage.append(
                    f"{int(begin_s * 1e6)},{int(until_s * 1e6)},{job + 5},{task},7,"
                    f"{cpu:.3f},.1,.2,.3,.4,.5,.6,.7,.8,.9,1.0,1.1,1,0,1.3"
                )
    usage.insert(0, f"0,{int(300e6)},4,0,7,.1,.1,.2,.3,.4,.5,.6,.7,.8,.9,1.0,1.1,1,0,1.3")
    last_s = 1000 + BETWEEN_S * N_JOBS
    usage.append(usage[0].replace(f"0,{int(300e6)}", f"{int(last_s * 1e6)},{int((last_s + 300) * 1e6)}"))
    for name, rows in (("events.csv", events), ("usage.csv", usage)):
        (tmp_path / name).write_text("".join(f"{row}\n" for row in rows))
    text = find_scenario("google-2011-trace").read_text()
    paths = json.dumps([str(tmp_path / "events.csv"), str(tmp_path / "usage.csv")])
    text = re.sub(r"paths = \[.*?\]", f"paths = {paths}", text, flags=re.DOTALL)
    text = text.replace("tasks_min = 100", "tasks_min = 4").replace("tasks_max = 1000", "tasks_max = 20")
    path = tmp_path / "google-2011-trace.toml"
    path.write_text(text)
    return path


@pytest.fixture
def write(google: Path) -> Write:
    """Write the suite google-trace with the small files, fewer jobs and only some of its contenders."""

    def write_suite(contenders: tuple[str, ...] = ("clock", "spark"), **replaced: str) -> Path:
        text = next(one.path for one in list_suites() if one.name == "google-trace").read_text()
        head, _, rest = text.partition("[[tasks]]\n")
        task = rest.partition("[[tasks]]\n")[0]
        lines = [
            line
            for line in task.splitlines()
            if not line.startswith("    ") or any(f'"{name}"' in line for name in contenders)
        ]
        body = "\n".join(lines).replace("count = 200", "count = 2").replace("episodes = 20", "episodes = 2")
        body = body.replace('"google-2011-trace"', '"./google-2011-trace.toml"')
        for old, new in replaced.items():
            body = body.replace(old, new)
        path = google.with_name("google-trace.toml")
        path.write_text(head.partition("[[training]]")[0] + "[[tasks]]\n" + body)
        return path

    return write_suite


def _plan(suite: Path, out: Path) -> Plan:
    return make_plan(load_suite(suite), out)


def test_the_trace_suite_chooses_constants_on_validation_jobs_of_the_users_files(
    write: Write, tmp_path: Path
) -> None:
    """The best constants by an own loop are those that play the test, and no test job helps to choose."""
    out, ears = tmp_path / "out", Ears()
    plan = _plan(write(), out)
    assert run_plan(plan, out, observer=ears, command="test").complete
    scenario = load_scenario(tmp_path / "google-2011-trace.toml", expect=StragglerScenario)
    for tuning in plan.tunings.values():
        means = []
        for point in tuning.points:
            found = Tuned(point, ())
            env, agent = make_contender(scenario.resolved(), "validation", tuning.chosen(found))
            played = [play(env, agent, seed) for seed in (10_000, 10_001)]
            means.append(np.mean([one.info["episode_metrics"]["f1_over_time"] for one in played]))
            env.close()
        best = dict(tuning.points[int(np.argmax(means))])
        assert ears.chosen[tuning.contender.name] == best
        rows = [row for row in read_rows(out) if row.contender.name == tuning.contender.name]
        assert [row.seed for row in rows] == [20_000, 20_001]
        assert all(dict(row.contender.parameters) == best for row in rows)
    assert ears.chosen["clock"] != {"share": 0.95}, "the default is not the best here"


def test_a_choice_is_made_once_and_again_when_the_grid_changes(write: Write, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_plan(_plan(write(("clock",)), out), out, command="test")
    again = Ears()
    assert run_plan(_plan(write(("clock",)), out), out, observer=again, command="test").n_played == 0
    assert again.chosen == {}
    changed = Ears()
    suite = write(("clock",), **{"0.95, 0.3, 0.5, 0.7, 0.85": "0.9"})
    outcome = run_plan(_plan(suite, out), out, observer=changed, command="test")
    assert changed.chosen == {"clock": {"share": 0.9}}
    assert (outcome.complete, outcome.n_played) == (True, 2)


def test_a_damaged_record_is_made_again(write: Write, tmp_path: Path) -> None:
    out = tmp_path / "out"
    plan = _plan(write(("clock",)), out)
    run_plan(plan, out, command="test")
    (tuning,) = plan.tunings.values()
    (path,) = (out / TUNING_FOLDER).rglob("*.json")
    kept = tuning.finished()
    assert kept is not None
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "scores": record["scores"][1:]}))
    assert tuning.finished() is None
    path.write_text("{")
    assert tuning.finished() is None
    assert run_plan(plan, out, command="test").complete
    assert tuning.finished() == kept


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('constants = { score = "f1_over_time", episodes = 2 }', "", "constants"),
        ('score = "f1_over_time"', 'score = "f1_overtime"', "constants.score"),
        ("episodes = 2 ", "episodes = 2000 ", "constants"),
        ("episodes = 2 ", 'split = "test" ', "constants.split"),
        ("grid = {", "parameters = { share = 0.5 }, grid = {", "contenders[0].grid.share"),
        ('agent = "clock"', 'agent = "transfer"', "contenders[0].grid"),
    ],
)
def test_mistakes_are_told_before_anything_is_played(
    write: Write, tmp_path: Path, old: str, new: str, key: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        _plan(write(("clock",), **{old: new}), tmp_path / "out")
    assert [problem.key for problem in caught.value.problems] == [f"tasks[0].{key}"]


def test_the_trace_suites_tune_every_agent_with_the_grids_of_the_script() -> None:
    """One list of grids: what scripts/stragglers/tune_stragglers.py plays on generated jobs."""
    module = load_script("stragglers/tune_stragglers")
    for name in ("google-trace", "pai-trace"):
        for task in load_suite(name).tasks:
            grids = {item.name: dict(item.grid) for item in task.contenders if not isinstance(item, str)}
            assert grids == module.GRIDS
            bare = [item for item in task.contenders if isinstance(item, str)]
            assert bare == ["none", "flag_all", "transfer", "oracle"]
