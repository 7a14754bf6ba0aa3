"""The other learners: censored regression, positive-unlabeled learning, outliers, other jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from sysgym.agents import make_agent, play_episode
from sysgym.agents.stragglers import wrangler
from sysgym.agents.stragglers.censored import fit_censored_normal
from sysgym.agents.stragglers.learner import Checkpoint, one_thread
from sysgym.agents.stragglers.nurd import NurdAgent
from sysgym.agents.stragglers.outliers import SETTINGS, PyodAgent
from sysgym.agents.stragglers.pu import not_a_straggler
from sysgym.agents.stragglers.training import training_jobs
from sysgym.agents.stragglers.tuning import tune_alpha
from sysgym.agents.stragglers.wrangler import ConfidentClassifier, fit_classifier, standardised
from sysgym.emulator.cluster.job import Job
from sysgym.envs.stragglers.prediction import StragglerPrediction
from sysgym.scenarios import StragglerScenario, load_scenario
from sysgym.scenarios.errors import MissingExtra, UnknownName

# PyOD compiles some of its detectors, for seconds and in every process that uses them.
pytestmark = pytest.mark.xdist_group("outlier detectors")

SMALL = {"jobs.tasks_min": 60, "jobs.tasks_max": 80}


def separated(n_finished: int = 40, n_like: int = 30, n_unlike: int = 10) -> Checkpoint:
    """Running tasks of which the last ten are far from everything that finished."""
    rng = np.random.default_rng(0)
    x_finished = rng.normal(0.5, 0.15, (n_finished, 3))
    x_running = np.vstack([rng.normal(0.5, 0.15, (n_like, 3)), rng.normal(3.0, 0.15, (n_unlike, 3))])
    elapsed = np.full(n_like + n_unlike, 6.0)
    return Checkpoint(x_finished, 4.0 + x_finished[:, 0], x_running, elapsed, 8.0)


def test_censored_regression_without_censoring_is_least_squares() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    y = 2.0 + x @ [1.0, -3.0, 0.0] + rng.normal(0.0, 0.5, 300)
    fit = fit_censored_normal(x, y, np.zeros((0, 3)), np.zeros(0), ridge=0.0)
    expected, residue, *_ = np.linalg.lstsq(np.column_stack([np.ones(300), x]), y)
    assert [fit.intercept, *fit.coefficients] == pytest.approx(expected, abs=1e-3)
    assert fit.sd == pytest.approx(np.sqrt(residue[0] / 300), rel=1e-3)


def test_censored_regression_finds_the_law_that_least_squares_misses() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 2))
    y = 10.0 + x @ [3.0, 0.0] + rng.normal(0.0, 1.0, 4000)
    seen = y < 10.0
    fit = fit_censored_normal(x[seen], y[seen], x[~seen], np.full((~seen).sum(), 10.0), ridge=0.0)
    assert fit.coefficients == pytest.approx([3.0, 0.0], abs=0.1)
    assert (fit.intercept, fit.sd) == pytest.approx((10.0, 1.0), abs=0.1)


def test_censored_fit_of_a_mean_solves_its_own_equation() -> None:
    """With known spread aside, the score of the intercept is zero: residuals balance the hazards."""
    known, lower = np.array([1.0, 2.0, 3.0]), np.array([3.0, 3.0])
    fit = fit_censored_normal(np.zeros((3, 0)), known, np.zeros((2, 0)), lower, ridge=0.0)
    u = (lower - fit.intercept) / fit.sd
    score = ((known - fit.intercept) / fit.sd).sum() + (norm.pdf(u) / norm.sf(u)).sum()
    assert score == pytest.approx(0.0, abs=1e-3)


def test_tobit_flags_along_its_line() -> None:
    x = np.linspace(0.0, 1.0, 21)[:, None]
    at = np.array([[1.2], [2.5]])
    now = Checkpoint(x, 4.0 + 2.0 * x[:, 0], at, np.array([6.0, 6.0]), 8.0)
    agent: Any = make_agent("tobit", ridge=1e-6)
    # The line reaches 8 at 2.
    assert agent.flags(now).tolist() == [False, True]


def test_elkan_and_noto_divide_by_the_mean_of_the_held_out() -> None:
    labelled, held_out = np.array([0.2, 0.4, 0.9]), np.array([0.6, 1.0])
    assert not_a_straggler(labelled, held_out) == pytest.approx([0.25, 0.5, 1.0])


@pytest.mark.parametrize("name", ["pu_en", "pu_bagging", "iforest", *(each.lower() for each in SETTINGS)])
def test_what_is_unlike_the_finished_is_flagged(name: str, contended_job: Job, stage: Any) -> None:
    agent: Any = make_agent(name)
    agent.begin(stage(contended_job))
    with one_thread():
        flags = agent.flags(separated())
    assert flags[30:].all()
    assert flags[:30].mean() < 0.5


@pytest.mark.parametrize("detector", list(SETTINGS))
@pytest.mark.parametrize("n_finished", [20, 23])
def test_detectors_take_few_tasks_and_dependent_counters(detector: str, n_finished: int) -> None:
    now = separated(n_finished)
    twice = Checkpoint(
        np.hstack([now.x_finished] * 5), now.latency, np.hstack([now.x_running] * 5), now.elapsed, 8.0
    )
    flags = PyodAgent(detector).flags(twice)
    assert flags.shape == (40,)
    assert flags.any()


@pytest.mark.parametrize(
    ("name", "parameter", "fewer", "more"),
    [
        ("gbtr", "share", 1.0, 0.5),
        ("nurd_nc", "share", 20.0, 1.0),
        ("pu_en", "limit", 0.1, 0.9),
        ("pu_bagging", "limit", -0.9, 0.5),
    ],
)
def test_a_constant_decides_how_much_is_flagged(
    name: str, parameter: str, fewer: float, more: float, contended_job: Job, stage: Any
) -> None:
    counts = []
    for value in (fewer, more):
        constants: dict[str, Any] = {parameter: value}
        env, agent = stage(contended_job), make_agent(name, **constants)
        _, info = play_episode(env, agent, seed=0)
        counts.append(info["episode_metrics"]["tpr"] + info["episode_metrics"]["fpr"])
    assert counts[0] < counts[1]


def test_an_unknown_detector_has_advice() -> None:
    with pytest.raises(UnknownName, match='did you mean "ABOD"'):
        PyodAgent("ABODE")


def test_confidence_is_a_logistic_function_of_the_margin() -> None:
    classifier = ConfidentClassifier(np.array([2.0, 0.0]), -1.0, slope=3.0, offset=0.5)
    # Margins 1 and -1.
    assert classifier.confidence(np.array([[1.0, 9.0], [0.0, 9.0]])) == pytest.approx(
        [1 / (1 + np.exp(-3.5)), 1 / (1 + np.exp(2.5))]
    )


def test_counters_of_different_jobs_are_put_on_one_scale(view_of: Callable[..., Any]) -> None:
    view = view_of(
        [[1.0, 4.0], [3.0, 4.0], [4.0, 5.0], [900.0, 4.0]], latency={0: 2, 1: 3}, elapsed={2: 3, 3: 3}
    )
    # Mean 2 and deviation 1 among the finished; the second counter does not vary there.
    expected = [[-1.0, 0.0], [1.0, 0.0], [2.0, 0.0], [wrangler.LARGEST, 0.0]]
    assert standardised(view, "mean").tolist() == expected


def test_training_jobs_are_the_first_of_the_train_split() -> None:
    scenario = load_scenario("google-2011", overrides=SMALL, expect=StragglerScenario)
    env = StragglerPrediction(scenario=scenario)
    jobs = list(training_jobs(scenario, 2))
    assert [job.episode_seed for job in jobs] == [0, 1]
    for job in jobs:
        env.reset(options={"episode_seed": job.episode_seed})
        assert np.array_equal(job.stragglers, env.job.stragglers(env.threshold_s))
        assert job.threshold == pytest.approx(env.threshold_s / env.job.window_s)
        assert job.views[0].finished.mean() >= 0.04
        assert not any(view.flagged.any() for view in job.views)


def test_wrangler_learns_once_from_other_jobs_and_is_deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrangler, "_FITTED", {})
    env = StragglerPrediction(scenario="google-2011", overrides=SMALL, split="test")
    agent, twin = make_agent("wrangler", n_jobs=4), make_agent("wrangler", n_jobs=4)
    results = [play_episode(env, each, options={"episode_seed": 20_000}) for each in (agent, twin)]
    assert len(wrangler._FITTED) == 1
    (fitted,) = wrangler._FITTED.values()
    again = fit_classifier(list(training_jobs(env.scenario, 4)), "mean")
    assert np.array_equal(fitted.coefficients, again.coefficients)
    assert (fitted.intercept, fitted.slope, fitted.offset) == (again.intercept, again.slope, again.offset)
    assert results[0][1]["episode_metrics"] == results[1][1]["episode_metrics"]
    assert fitted.slope > 0.0, "its margin grows with the chance of a straggler"


def test_tuning_scores_as_the_environment_does() -> None:
    scenario = load_scenario("google-2011", overrides=SMALL, expect=StragglerScenario)
    (score,) = tune_alpha(scenario, (-0.1,), n_jobs=1)
    env = StragglerPrediction(scenario=scenario, split="train")
    _, info = play_episode(env, NurdAgent(alpha=-0.1), options={"episode_seed": 0})
    metrics = info["episode_metrics"]
    assert 0.0 < metrics["f1"] < 1.0
    assert (score.f1, score.tpr, score.fpr) == pytest.approx((metrics["f1"], metrics["tpr"], metrics["fpr"]))


@pytest.mark.parametrize(("name", "package"), [("nurd", "sklearn"), ("iforest", "sklearn"), ("knn", "pyod")])
def test_a_missing_extra_is_named(
    name: str, package: str, contended_job: Job, stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=r'pip install "sysgym\[stragglers\]"'):
        make_agent(name).begin(stage(contended_job))
