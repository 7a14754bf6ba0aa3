"""The determinism study: a control that is equal bit by bit, and correct figures."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from sysgym.errors import SysgymError, UnknownName
from sysgym.scenarios import load_scenario
from sysgym.scenarios.locks import alone_in
from sysgym.studies.determinism import study as determinism
from sysgym.studies.determinism import training as determinism_run
from sysgym.studies.determinism.comparison import (
    TOLERANCE,
    Described,
    compare,
    describe,
    freeze,
    pair_estimate,
)
from sysgym.studies.determinism.study import ARMS, CONTROL, Observer, Settings, train_all
from sysgym.studies.determinism.training import RunResult, carry_out
from tests.agents.learned.trust.policies import write_policy

Call = Callable[..., tuple[int, str, str]]

SMALL = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "net_arch": [8]}


@pytest.fixture
def settings(tiny: Path) -> Settings:
    return Settings(
        load_scenario(tiny), n_seeds=2, total_steps=64, n_episodes=2, n_envs=2, hyper_parameters=SMALL
    )


def pretend(settings: Settings, folder: Path, *, control_differs: bool = False) -> None:
    """Write what trainings leave, without any: as many policies as there are different seeds and threads."""
    folder.mkdir(parents=True, exist_ok=True)
    for run in settings.runs():
        place = folder / run.name
        number = run.seed * 10 + (run.n_threads if not run.deterministic else 0)
        number += run.number if control_differs and run.arm == CONTROL.name else 0
        write_policy(place / determinism_run.TRAINING / "final.zip", settings.scenario, number)
        result = {"returns": [float(number), 1.0], "wall_s": float(run.n_threads), "cpu_s": 1.0, "about": {}}
        (place / determinism_run.RESULT).write_text(json.dumps({"run": run.to_json(), "result": result}))


@pytest.mark.slow
def test_the_control_repeats_itself_to_the_last_bit(settings: Settings, tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3", reason="the extra train is not installed")
    told: list[int] = []
    folder = tmp_path / "out"
    with ThreadPoolExecutor() as both:  # side by side is quicker, and one more thing that must not matter
        list(both.map(lambda run: carry_out(run, folder, told.append), settings.runs([CONTROL])))
    assert max(told) == settings.total_steps

    class Kept(Observer):
        def begin(self, n_runs: int, n_kept: int, steps: int) -> None:
            assert (n_runs, n_kept, steps) == (2, 2, settings.total_steps)

    results = train_all(settings, folder, Kept(), arms=[CONTROL])
    runs = results[CONTROL.name]
    assert [result.about["torch_threads"] for _, result in runs] == [1, 1]
    assert all(result.about["torch_deterministic"] for _, result in runs)
    seen = freeze(*runs[0])
    policies = [describe(result, seen) for _, result in runs]
    found = compare(CONTROL.name, policies)
    assert found.churn == found.difference == found.weights_l2 == (0.0, 0.0, 0.0)
    assert found.return_std == (0.0, 0.0, 0.0)
    assert found.identical
    # A bit more in one weight is seen.
    weights = policies[1].weights.copy()
    weights[0] = np.nextafter(weights[0], np.inf)
    assert not compare(CONTROL.name, [policies[0], policies[1]._replace(weights=weights)]).identical


def test_arms_differ_in_what_they_say(settings: Settings) -> None:
    runs = replace(settings, n_seeds=3, all_threads=8).runs()
    assert [run.arm for run in runs[:4]] == [arm.name for arm in ARMS], "arms take turns"
    by_arm = {arm.name: [run for run in runs if run.arm == arm.name] for arm in ARMS}
    assert {name: [run.seed for run in of_arm] for name, of_arm in by_arm.items()} == {
        "both": [0, 1, 2],
        "algorithmic": [0, 1, 2],
        "tooling": [0, 0, 0],
        "none": [0, 0, 0],
    }
    for arm in ARMS:
        threads = [8, 1, 8] if arm.tooling else [1, 1, 1]
        assert [run.n_threads for run in by_arm[arm.name]] == threads
        assert {run.deterministic for run in by_arm[arm.name]} == {not arm.tooling}


def described(shift: float, weight: float, returns: list[float]) -> Described:
    """Return a policy whose actions all differ from others' by a shift, in the first half of the states."""
    answers = np.zeros((10, 2))
    answers[:5, 0] = shift
    return Described(answers, np.array([3.0, weight]), np.array(returns))


def test_figures_of_an_arm() -> None:
    policies = [
        described(0.0, 4.0, [1.0, 2.0]),
        described(TOLERANCE / 2, 4.0, [2.0, 2.0]),
        described(3 * TOLERANCE, 8.0, [3.0, 5.0]),
    ]
    found = compare("both", policies)
    assert found.churn is not None
    assert found.difference is not None
    assert found.weights_l2 is not None
    assert found.churn.value == pytest.approx(2 / 3 * 0.5), "a difference within the tolerance is none"
    assert found.difference.value == pytest.approx((0.5 + 3.0 + 2.5) / 3 * TOLERANCE / 4)
    assert found.weights_l2.value == pytest.approx((0.0 + 4.0 + 4.0) / 3)
    assert found.return_mean.value == pytest.approx(2.5)
    assert found.return_std.value == pytest.approx(np.std([1.5, 2.0, 4.0], ddof=1))
    assert found.episode_std_max == pytest.approx(np.std([2.0, 2.0, 5.0], ddof=1))
    assert not found.identical


def test_pairs_of_a_run_with_itself_do_not_count() -> None:
    same = np.full((4, 4), 2.0)
    np.fill_diagonal(same, 0.0)
    assert pair_estimate(same) == (2.0, 2.0, 2.0)
    odd = same.copy()
    odd[0, 1:] = odd[1:, 0] = 6.0
    found = pair_estimate(odd)
    assert found.value == pytest.approx(4.0)
    assert found.low == 2.0
    assert found.high > 4.0


def test_a_finished_run_is_kept_and_the_report_is_written(
    settings: Settings, call: Call, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    settings = replace(settings, n_seeds=3, hyper_parameters={}, n_envs=4, n_episodes=5, total_steps=64)
    arguments = (
        "study",
        "determinism",
        tmp_path / "tiny.toml",
        "--steps",
        "64",
        "--seeds",
        "3",
        "--out",
        folder,
    )
    from sysgym.cli.commands.bench import cpus

    settings = replace(settings, all_threads=max(cpus(), 2))
    pretend(settings, folder)
    code, out, err = call(*arguments)
    assert (code, err) == (0, "12 trainings of 64 steps, 12 of them finished earlier\n")
    assert "The control holds: 3 trainings" in out
    assert "Tooling noise is not zero here" in out
    assert "runs with the same number gave identical policies" in out
    found = json.loads((folder / "determinism.json").read_bytes())
    assert found["control_holds"] is True
    assert found["arms"]["none"]["churn"] == [0.0, 0.0, 0.0]
    assert found["arms"]["tooling"]["weights_l2"][0] > 0.0
    assert found["about"]["versions"]["sysgym"]
    # Trainings "took" as many seconds as threads.
    expected = 1.0 / settings.all_threads - 1.0
    assert found["tools"][0]["overhead"][0] == pytest.approx(expected)
    page = (folder / "determinism.md").read_text()
    assert "| none | none: control | 3 |" in page
    with np.load(folder / "observations.npz") as frozen:
        assert len(frozen["inputs"]) == found["n_observations"] == 1000

    code, out, err = call(*arguments[:-4], "--seeds", "2", "--steps", "65", "--out", folder)
    assert (code, out) == (2, "")
    assert "has runs with other total_steps; use another --out" in err


def test_a_control_that_differs_fails(settings: Settings, call: Call, tmp_path: Path) -> None:
    from sysgym.cli.commands.bench import cpus

    settings = replace(settings, hyper_parameters={}, n_envs=4, n_episodes=5, all_threads=max(cpus(), 2))
    pretend(settings, tmp_path / "out", control_differs=True)
    code, out, _ = call(
        "study",
        "determinism",
        tmp_path / "tiny.toml",
        "--steps",
        "64",
        "--seeds",
        "2",
        "--out",
        tmp_path / "out",
    )
    assert code == 1
    assert "The control does NOT hold" in out


def test_a_stopped_run_begins_anew_and_a_failed_one_is_told(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    run = settings.runs()[0]
    half = folder / run.name / determinism_run.TRAINING / "checkpoints"
    half.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(SysgymError, match=r"both-0: the training failed \(exit code 1\); see .*log.txt"):
        train_all(settings, folder)
    assert not half.exists(), "what a stopped training left is no beginning: going on draws other numbers"


def test_a_second_study_leaves_the_training_of_the_first_alone(settings: Settings, tmp_path: Path) -> None:
    half = tmp_path / settings.runs()[0].name / determinism_run.TRAINING
    half.mkdir(parents=True)
    with (
        alone_in(tmp_path, "trains for a study in"),
        pytest.raises(SysgymError, match="another process trains for a study in this folder"),
    ):
        train_all(settings, tmp_path)
    assert half.is_dir()


def test_what_cannot_be_compared_is_refused(settings: Settings) -> None:
    with pytest.raises(SysgymError, match="expected at least 2"):
        replace(settings, n_seeds=1)
    with pytest.raises(SysgymError, match="threads: got 1, expected at least 2"):
        replace(settings, all_threads=1)
    with pytest.raises(UnknownName, match="aimd"):
        replace(settings, agent="aimd")


def test_a_result_of_something_else_is_none(settings: Settings, tmp_path: Path) -> None:
    pretend(settings, tmp_path)
    run = settings.runs()[0]
    found = determinism_run.finished(run, tmp_path)
    assert isinstance(found, RunResult)
    assert determinism_run.finished(replace(run, seed=5), tmp_path) is None
    (tmp_path / run.name / determinism_run.RESULT).write_text("{")
    assert determinism_run.finished(run, tmp_path) is None
    assert asdict(run)["arm"] == determinism.ARMS[0].name


def test_policies_of_an_own_trainer_are_compared_by_their_files(
    settings: Settings, call: Call, tmp_path: Path
) -> None:
    from sysgym.cli.commands.bench import cpus

    folder = tmp_path / "out"
    scenario = load_scenario("google-2011")
    settings = Settings(scenario, "transfer", n_seeds=2, total_steps=64, all_threads=max(cpus(), 2))
    for run in settings.runs():
        place = folder / run.name
        (place / determinism_run.TRAINING).mkdir(parents=True)
        (place / determinism_run.TRAINING / "final.zip").write_text(f"trees of seed {run.seed}")
        result = {
            "checkpoint": "final.zip",
            "returns": [float(run.seed), 1.0],
            "wall_s": float(run.n_threads),
            "cpu_s": 1.0,
            "about": {},
        }
        (place / determinism_run.RESULT).write_text(json.dumps({"run": run.to_json(), "result": result}))
    arguments = ("--agent", "transfer", "--steps", "64", "--seeds", "2", "--out", folder)
    code, out, _ = call("study", "determinism", "google-2011", *arguments)
    assert code == 0
    assert "The control holds: 2 trainings" in out
    assert "compared by the bytes of their files" in out
    found = json.loads((folder / "determinism.json").read_bytes())
    assert {name: arm["identical"] for name, arm in found["arms"].items()} == {
        "both": False,
        "algorithmic": False,
        "tooling": True,
        "none": True,
    }
    assert found["arms"]["both"]["churn"] is None
    (folder / "none-1" / determinism_run.TRAINING / "final.zip").write_text("other trees")
    code, out, _ = call("study", "determinism", "google-2011", *arguments)
    assert code == 1
    assert "The control does NOT hold" in out


@pytest.mark.slow
def test_boosted_trees_repeat_themselves_to_the_last_byte(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm", reason="the extra stragglers is not installed")
    scenario = load_scenario("google-2011", overrides={"jobs.tasks_min": 20, "jobs.tasks_max": 40})
    settings = Settings(scenario, "transfer", n_seeds=2, total_steps=300, n_episodes=2)
    results = train_all(settings, tmp_path, arms=[CONTROL])[CONTROL.name]
    policies = [describe(result, None) for _, result in results]
    assert compare(CONTROL.name, policies).identical
    assert len(policies[0].weights) > 1000
