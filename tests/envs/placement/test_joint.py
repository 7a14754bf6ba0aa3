"""Measurements in JointPlacement: their price, and no hidden information before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.envs.placement import measurements
from sysgym.envs.placement.observation import BUDGET_COLUMNS, CANDIDATE_COLUMNS
from sysgym.scenarios import load_scenario
from sysgym.scenarios.errors import ScenarioError

MakeEnv = Callable[..., Any]
MATCHED = "joint-unseen-matched"
COLUMN = {name: index for index, name in enumerate(CANDIDATE_COLUMNS)}


def parts(result: tuple[Any, ...]) -> list[Any]:
    """Return what was returned, as data that can be compared."""
    observation, *rest = result
    return [{key: value.tolist() for key, value in observation.items()}, repr(rest)]


@pytest.mark.parametrize("seed", range(20_000, 20_006))
def test_what_is_seen_before_a_measurement_does_not_depend_on_what_is_hidden(
    make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    env, other = make_env("joint", split="test"), make_env("joint", split="test")
    first = env.reset(seed=0, options={"episode_seed": seed})
    monkeypatch.setattr(measurements, "_TRUTH", 77)
    second = other.reset(seed=0, options={"episode_seed": seed})
    assert parts(first) == parts(second)
    assert not np.allclose(env.truth.times_s, other.truth.times_s)
    # The noise of the measurement is the same: what differs comes from what is hidden.
    measured = [one.step(0)[4]["metrics"]["measured_time_s"] for one in (env, other)]
    assert measured[0] != pytest.approx(measured[1], rel=1e-3)


def test_the_hidden_is_another_one_in_every_episode(make_env: MakeEnv) -> None:
    env = make_env("joint", scenario=MATCHED)
    factors = []
    for seed in range(30):
        env.reset(options={"episode_seed": seed})
        factors.append(env.truth.hidden.collective_factor)
    logs = np.log(factors)
    assert len(np.unique(logs)) == logs.size
    assert logs.std() == pytest.approx(env.joint.collective_log_sd, rel=0.2)
    assert abs(logs.mean()) < 0.1


def test_a_measurement_is_seen_and_paid(make_env: MakeEnv) -> None:
    env = make_env("joint", split="test", overrides={"joint.measurement_price": 0.25})
    before, _ = env.reset(seed=1)
    default_s = float(env.candidates.default_times.nominal_s[0])
    measured = []
    for _ in range(3):
        observation, reward, terminated, _, info = env.step(2)
        assert (reward, terminated) == (-0.25, False)
        assert info["reward_terms"] == {"speedup": 0.0, "measurements": -0.25, "invalid": 0.0}
        measured.append(np.log(info["metrics"]["measured_time_s"] / default_s))
    row = observation["candidates"][2]
    assert row[COLUMN["measured"]] == 3.0
    assert row[COLUMN["mean"]] == pytest.approx(np.mean(measured), abs=1e-5)
    assert row[COLUMN["sd"]] == pytest.approx(np.std(measured, ddof=1), abs=1e-5)
    # Nothing else has changed.
    same = before["candidates"].copy()
    same[2, -3:] = row[-3:]
    assert np.array_equal(observation["candidates"], same)
    assert observation["budget"][:2] == pytest.approx([17.0, 17 / 20])
    assert "measured_time_s" not in env.step(env.action_space.n // 2 + 2)[4]["metrics"]


@pytest.mark.parametrize("budget", [0, 3])
def test_the_budget_is_kept(make_env: MakeEnv, budget: int) -> None:
    env = make_env("joint", split="test", overrides={"joint.budget": budget})
    rows = env.action_space.n // 2
    env.reset(seed=0)
    for _ in range(budget):
        assert env.action_masks()[0]
        env.step(0)
    assert not env.action_masks()[:rows].any()
    assert env.action_masks()[rows]
    _, reward, terminated, _, info = env.step(0)
    assert (terminated, reward) == (True, -1.0)
    assert info["episode_metrics"]["measurements"] == budget


def test_committing_is_judged_by_the_expected_true_time(make_env: MakeEnv) -> None:
    env = make_env("joint", split="test")
    rows = env.action_space.n // 2
    env.reset(seed=0)
    n = len(env.candidates)
    true_s = env.truth.times_s
    best_s, worst_s = true_s.min(), true_s.max()
    nominal = np.argsort(env.candidates.times.nominal_s[env.order], kind="stable")
    regrets = []
    for row in range(n):
        env.reset(options={"episode_seed": env.episode_seed})
        _, reward, terminated, _, info = env.step(rows + row)
        metrics = info["episode_metrics"]
        assert terminated
        assert metrics["time_s"] == true_s[row]
        assert metrics["default_time_s"] == env.truth.default_time_s
        assert (metrics["best_time_s"], metrics["worst_time_s"]) == (best_s, worst_s)
        assert metrics["regret"] == pytest.approx(np.log(true_s[row] / best_s), abs=2e-9)
        assert (metrics["regret"] == 0.0) == (true_s[row] <= best_s * (1 + 1e-9))
        assert reward == pytest.approx(np.log(metrics["default_time_s"] / true_s[row]), abs=2e-9)
        assert metrics["n_candidates"] == n
        regrets.append(metrics["regret"])
    fastest = [
        row for row in nominal if np.isclose(env.candidates.times.nominal_s[env.order][row],
                                             env.candidates.times.nominal_s.min(), rtol=1e-8)
    ]  # fmt: skip
    assert metrics["nominal_regret"] in [regrets[row] for row in fastest]


def test_there_are_rows_without_candidates_where_there_are_few(make_env: MakeEnv, world: Any) -> None:
    overrides = {
        **world.nodes_of(2, 2),
        "problem.axes": [2, 2],
        **world.reductions(([0], 1e9)),
        "joint.candidates": 64,
    }
    env = make_env("joint", overrides=overrides)
    observation, _ = env.reset(seed=0)
    n = len(env.candidates)
    assert 2 <= n < 64
    assert observation["candidates"][:, 0].tolist() == [1.0] * n + [0.0] * (64 - n)
    assert not observation["candidates"][n:].any()
    mask = np.array([1.0] * n + [0.0] * (64 - n))
    assert np.array_equal(observation["action_mask"], np.tile(mask, 2))
    _, reward, terminated, _, _ = env.step(64 + n)
    assert (reward, terminated) == (-1.0, True)
    with pytest.raises(IndexError):
        env.candidate(n)


def test_what_is_observed_by_hand(make_env: MakeEnv, world: Any) -> None:
    """One axis over two nodes of four: a single placement, and its programs."""
    overrides = {**world.nodes_of(2, 4), "problem.axes": [8], **world.reductions(([0], 1e9))}
    env = make_env("joint", scenario=MATCHED, overrides={**overrides, "problem.axes_min": 1})
    observation, _ = env.reset(seed=0)
    table = {}
    for row in range(len(env.candidates)):
        candidate = env.candidate(row)
        assert candidate.matrix == ((2, 4),)
        words = [f"{step.pattern.label(2)}:{step.collective}" for step in candidate.programs[0]]
        table[" ".join(words)] = observation["candidates"][row]
    flat, blue = table["all:AR"], table["inside:RS across:AR inside:AG"]
    # A ring of 8 behind one NIC: 2 (7/8) GB at 8.4 GB/s, without a pause, and the last piece's hop of 14 us.
    nic_s, hops_s = 1.75 / 8.4, 14e-6
    assert flat[COLUMN["nominal"]] == pytest.approx(0.0, abs=1e-6)
    assert flat[COLUMN["level_0"]] == pytest.approx(nic_s / (nic_s + hops_s), rel=1e-5)
    assert flat[COLUMN["AR"]] == flat[COLUMN["level_0"]]
    assert flat[COLUMN["latency"]] == pytest.approx(hops_s / (nic_s + hops_s), rel=1e-4)
    inside_s = 0.75 / 235
    total_s = 2 * (inside_s + 3 * 3e-6) + 1 / 8.4 + 2 * 14e-6
    assert blue[COLUMN["nominal"]] == pytest.approx(np.log(total_s / (nic_s + hops_s)), rel=1e-5)
    assert blue[COLUMN["RS"]] == blue[COLUMN["AG"]] == pytest.approx(inside_s / total_s, rel=1e-5)
    assert blue[COLUMN["level_1"]] == pytest.approx(2 * inside_s / total_s, rel=1e-5)
    assert blue[COLUMN["AR"]] == blue[COLUMN["level_0"]] == pytest.approx(1 / 8.4 / total_s, rel=1e-5)
    shares = observation["candidates"][:, COLUMN["level_0"] : COLUMN["measured"]]
    levels, kinds, latency = shares[:, :4], shares[:, 4:9], shares[:, 9]
    exists = observation["candidates"][:, 0]
    assert levels.sum(axis=1) + latency == pytest.approx(exists, abs=1e-6)
    assert kinds.sum(axis=1) == pytest.approx(levels.sum(axis=1), abs=1e-6)
    values = dict(zip(BUDGET_COLUMNS, observation["budget"].tolist(), strict=True))
    assert values == pytest.approx(
        {
            "left": 20.0, "share_left": 1.0, "price": 0.005, "noise": 0.1, "level_error": 0.4,
            "collective_error": 0.3, "background": 0.1, "background_sd": 0.1,
        }
    )  # fmt: skip


@pytest.mark.parametrize("scenario", ["joint-unseen", MATCHED])
def test_measurements_scatter_about_the_true_time(make_env: MakeEnv, scenario: str) -> None:
    env = make_env("joint", scenario=scenario, split="test", overrides={"joint.budget": 1000})
    env.reset(seed=3)
    measured = np.array([env.step(1)[4]["metrics"]["measured_time_s"] for _ in range(1000)])
    expected_s = env.truth.times_s[1]
    assert abs(measured.mean() - expected_s) < 4.0 * measured.std() / np.sqrt(len(measured))
    assert measured.std() / expected_s > 0.1


@pytest.mark.filterwarnings("ignore::sysgym.emulator.accelerators.cost.validity.ClosedFormWarning")
@pytest.mark.parametrize("algorithm", ["halving_doubling", "auto"])
def test_algorithms_in_rounds_are_refused(make_env: MakeEnv, algorithm: str) -> None:
    with pytest.raises(ScenarioError, match='"ring" or "tree"'):
        make_env("joint", overrides={"problem.algorithm": algorithm})
    make_env("joint", overrides={"problem.algorithm": "tree"}).reset(seed=0)


def test_without_noise_and_background_a_measurement_is_the_truth(make_env: MakeEnv) -> None:
    quiet = {"joint.noise_log_sd": 0.0, "joint.background_share_mean": 0.0, "joint.background_share_sd": 0.0}
    env = make_env("joint", scenario=MATCHED, split="test", overrides=quiet)
    env.reset(seed=0)
    for row in range(5):
        measured_s = env.step(row)[4]["metrics"]["measured_time_s"]
        assert measured_s == pytest.approx(env.truth.times_s[row], rel=1e-12)


def test_without_errors_the_data_sheet_is_right(make_env: MakeEnv) -> None:
    known = {"joint.bandwidth_log_sd": 0.0, "joint.collective_log_sd": 0.0}
    calm = {"joint.background_share_mean": 0.0, "joint.background_share_sd": 0.0}
    env = make_env("joint", scenario=MATCHED, split="test", overrides={**known, **calm})
    rows = env.action_space.n // 2
    for seed in range(20_000, 20_010):
        env.reset(options={"episode_seed": seed})
        assert env.truth.times_s == pytest.approx(env.candidates.times.nominal_s[env.order], rel=1e-12)
        metrics = env.step(rows)[4]["episode_metrics"]
        assert metrics["nominal_regret"] == 0.0


def test_there_is_something_to_learn(make_env: MakeEnv) -> None:
    """The data sheet alone leaves regret, and candidates differ in what they spend their time on."""
    env = make_env("joint", split="test")
    rows = env.action_space.n // 2
    regret, kinds = [], []
    for seed in range(20_000, 20_060):
        observation, _ = env.reset(options={"episode_seed": seed})
        table = observation["candidates"][observation["candidates"][:, 0] > 0]
        kinds.append(len(np.unique(table[:, COLUMN["AR"] : COLUMN["latency"]].round(2), axis=0)))
        regret.append(env.step(rows)[4]["episode_metrics"]["nominal_regret"])
    assert np.mean(regret) > 0.05
    assert np.mean(np.array(regret) > 0.01) > 0.5
    assert np.mean(kinds) > 5


def test_nothing_of_a_hidden_system_of_flows_is_told(make_env: MakeEnv) -> None:
    env = make_env("joint", split="test")
    observation, _ = env.reset(options={"episode_seed": 20_000})
    assert env.joint.truth == "flows"
    assert not observation["budget"][3:].any()


def test_residuals_are_of_each_candidate_and_of_the_default(make_env: MakeEnv) -> None:
    logs = []
    for scenario in ("joint-unseen", MATCHED):
        without, with_ = (
            make_env("joint", scenario=scenario, split="test", overrides={"joint.residual_log_sd": sd})
            for sd in (0.0, 0.2)
        )
        for seed in range(20_000, 20_020):
            for env in (without, with_):
                env.reset(options={"episode_seed": seed})
            logs += np.log(with_.truth.times_s / without.truth.times_s).tolist()
            logs.append(np.log(with_.truth.default_time_s / without.truth.default_time_s))
    assert np.std(logs) == pytest.approx(0.2, rel=0.05)
    assert abs(np.mean(logs)) < 0.02


def test_keys_of_the_other_truth_are_refused() -> None:
    for scenario, key in (("joint-unseen", "bandwidth_log_sd"), (MATCHED, "slow_node_probability")):
        with pytest.raises(ScenarioError, match=rf"joint\.{key} [\s\S]*nothing with truth"):
            load_scenario(scenario).with_overrides({f"joint.{key}": 0.123})
