"""Tasks as environments of stable-baselines3, and their rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

from sysgym.agents.learned.stragglers import tasks
from sysgym.agents.learned.stragglers.examples import Examples, collect
from sysgym.agents.learned.stragglers.features import feature_names
from sysgym.agents.learned.stragglers.tasks import TaskRewards, Tasks, TaskVecEnv
from sysgym.emulator.cluster.job import Job
from sysgym.scenarios import StragglerScenario

MakeJob = Callable[..., Job]

N_ENVS = 5
REWARDS = TaskRewards(10.0, -1.25, -5.0)


@pytest.fixture(scope="module")
def examples(small: StragglerScenario) -> Examples:
    return collect(small, 60, 0)


@pytest.fixture
def envs(examples: Examples) -> TaskVecEnv:
    return TaskVecEnv(examples, REWARDS, N_ENVS, seed=0)


def rows_of(examples: Examples, task_key: int) -> Any:
    """Return the rows of one task, checkpoint after checkpoint."""
    rows = np.flatnonzero(examples.task_key == task_key)
    return rows[np.argsort(examples.checkpoint[rows])]


def firsts(examples: Examples) -> set[bytes]:
    """Return the features of all tasks at their first checkpoints."""
    return {examples.features[rows_of(examples, key)[0]].tobytes() for key in np.unique(examples.task_key)}


def play(envs: TaskVecEnv, flags: Callable[[int], Any], steps: int) -> list[Any]:
    """Play; returns what was seen, paid and told at every step."""
    seen: list[Any] = [envs.reset()]
    for step in range(steps):
        seen.append(envs.step(np.zeros(envs.num_envs, np.int64) + flags(step)))
    return seen


def test_shapes_and_kinds(envs: Any, examples: Examples) -> None:
    observation = envs.reset()
    assert envs.observation_space.shape == (len(feature_names(examples.counter_names)),)
    for flag in (0, 1):
        assert observation.dtype == np.float32
        assert observation.shape == (N_ENVS, *envs.observation_space.shape)
        assert all(envs.observation_space.contains(one) for one in observation)
        observation, rewards, dones, infos = envs.step(np.full(N_ENVS, flag))
        assert (rewards.shape, rewards.dtype) == ((N_ENVS,), np.float32)
        assert (dones.shape, dones.dtype) == ((N_ENVS,), bool)
        assert len(infos) == N_ENVS
        assert len({id(info) for info in infos}) == N_ENVS
    assert dones.all(), "a flag ends a task"


def test_a_task_is_played_checkpoint_after_checkpoint(examples: Examples) -> None:
    envs: Any = TaskVecEnv(examples, REWARDS, 1, seed=3)
    whole = {examples.features[rows_of(examples, key)].tobytes(): key for key in np.unique(examples.task_key)}
    observation, path, played = envs.reset(), [], 0
    while played < 5:
        path.append(observation[0])
        observation, [reward], [done], [info] = envs.step(np.zeros(1))
        if not done:
            assert reward == 0.0
            assert info == {}
            continue
        key = whole[np.stack(path).tobytes()]
        straggler = examples.straggler[rows_of(examples, key)[0]]
        assert reward == (REWARDS.missed if straggler else 0.0)
        assert info["episode"] == {"r": reward, "l": len(path), "t": 0.0}
        assert np.array_equal(info["terminal_observation"], path[-1])
        path, played = [], played + 1


def test_another_task_follows_from_its_first_checkpoint(envs: TaskVecEnv, examples: Examples) -> None:
    begins = firsts(examples)
    different = set()
    for observation, _, dones, infos in play(envs, lambda _: 1, 20)[1:]:
        assert dones.all()
        assert all("terminal_observation" in info for info in infos)
        assert all(info["episode"]["l"] == 1 for info in infos)
        assert {row.tobytes() for row in observation} <= begins
        different |= {row.tobytes() for row in observation}
    assert len(different) > 30


def test_only_the_slot_of_a_flag_begins_anew(envs: TaskVecEnv) -> None:
    envs.reset()
    flags = np.array([0, 1, 0, 1, 0])
    _, _, dones, infos = envs.step(flags)
    assert dones[flags == 1].all()
    assert [("episode" in info) for info in infos] == dones.tolist()


def test_same_seed_same_tasks(examples: Examples) -> None:
    def run(seed: int, again: int | None = None) -> list[Any]:
        envs = TaskVecEnv(examples, REWARDS, N_ENVS, seed)
        if again is not None:
            envs.reset()
            envs.step(np.ones(N_ENVS))
            assert list(envs.seed(again)) == [again] * N_ENVS
        first, *rest = play(envs, lambda step: step % 3 == 0, 12)
        return [first, *(part for step in rest for part in step[:3])]

    def same(a: list[Any], b: list[Any]) -> bool:
        return all(np.array_equal(one, other) for one, other in zip(a, b, strict=True))

    assert same(run(4), run(4))
    assert not same(run(4), run(5))
    assert same(run(4), run(5, again=4))


@pytest.mark.parametrize("seed", [0, 1])
def test_tasks_are_paid_what_the_environment_pays(
    make_job: MakeJob, make_source: Any, make_env: Any, roomy: StragglerScenario, seed: int
) -> None:
    """The mean over a job's tasks is the return of the same flags, late and false ones and all."""
    rng = np.random.default_rng(seed)
    weights = {"reward.weights": {"true_flags": 2.0, "false_flags": 0.7, "missed": 1.5}}
    scenario = roomy.with_overrides(weights)
    # All that does not finish in the first window runs at the first decision.
    latency_s = np.r_[np.full(3, 0.9), rng.uniform(2.0, 20.0, 27)]
    # Counters of their own tell tasks apart.
    level = rng.uniform(1.0, 2.0, (30, 1, 2))
    source = make_source(make_job(latency_s, level=level))
    examples = collect(scenario, 1, 0, source=source)
    keys, first = np.unique(examples.task_key, return_index=True)
    rewards = TaskRewards.of(scenario, float(examples.straggler[first].mean()))
    # When each task is flagged, if it is.
    when = np.where(rng.random(30) < 0.6, rng.integers(0, 20, 30), 1_000)

    env = make_env("prediction", scenario=scenario, source=source)
    env.reset(seed=0)
    total, over, checkpoint = 0.0, False, 0
    while not over:
        flags = np.zeros(60, np.int8)
        flags[:30] = when <= checkpoint
        _, reward, over, _, _ = env.step(flags)
        total, checkpoint = total + reward, checkpoint + 1

    paid = 0.0
    for key in keys:
        rows = rows_of(examples, key)
        flagged = [row for row in rows if examples.checkpoint[row] == when[examples.task[row]]]
        row = np.array(flagged or rows[-1:])
        straggler = examples.straggler[row]
        worth = (
            rewards.of_flag(straggler, examples.elapsed_share[row])
            if flagged
            else rewards.of_waiting(straggler)
        )
        paid += float(worth[0])
    assert paid / len(keys) == pytest.approx(total, abs=1e-9)

    # The learner's own environments pay the same: each task flagged at its time, or never.
    envs: Any = TaskVecEnv(examples, rewards, 1, seed=0)
    returns = {}
    place = {examples.features[rows_of(examples, key)[0]].tobytes(): key for key in keys}
    observation = envs.reset()
    for _ in range(4_000):
        rows = rows_of(examples, place[observation[0].tobytes()])
        for row in rows:
            flag = examples.checkpoint[row] == when[examples.task[row]]
            observation, _, [done], [info] = envs.step(np.array([flag]))
            if done:
                break
        returns[examples.task[row]] = info["episode"]["r"]
        if len(returns) == len(keys):
            break
    assert np.mean(list(returns.values())) == pytest.approx(total, abs=1e-6)


def test_rewards_by_hand(small: StragglerScenario) -> None:
    rewards = TaskRewards.of(small, 0.2)
    assert (rewards.true_flag, rewards.false_flag, rewards.missed) == pytest.approx((5.0, -1.25, -5.0))
    straggler = np.array([True, True, True, False])
    elapsed_share = np.array([0.0, 0.4, 1.0, 0.4])
    assert rewards.of_flag(straggler, elapsed_share) == pytest.approx([5.0, 3.0, -5.0, -1.25])
    assert rewards.of_waiting(straggler) == pytest.approx([-5.0, -5.0, -5.0, 0.0])
    # A world without stragglers, or of nothing else, has finite rewards.
    for share in (0.0, 1.0):
        assert np.isfinite([*vars(TaskRewards.of(small, share)).values()]).all()


def test_stable_baselines3_trains_and_evaluates_on_it(examples: Examples) -> None:
    """Warnings are errors here, so it finds all that it asks for."""
    envs = VecMonitor(TaskVecEnv(examples, REWARDS, N_ENVS, seed=0))
    model = PPO("MlpPolicy", envs, n_steps=16, batch_size=40, n_epochs=1, seed=0, device="cpu")
    model.learn(160)
    assert model.num_timesteps == 160
    mean: Any
    mean, _ = evaluate_policy(model, envs, n_eval_episodes=10)
    assert -5.0 <= mean <= 10.0


def test_attributes_and_methods_are_reached_as_in_any_vec_env(envs: TaskVecEnv) -> None:
    assert envs.get_attr("num_envs") == [N_ENVS] * N_ENVS
    assert envs.get_attr("num_envs", [0, 2]) == [N_ENVS] * 2
    envs.set_attr("mark", 7)
    assert envs.get_attr("mark", 1) == [7]
    assert envs.env_method("env_is_wrapped", VecMonitor, indices=[0]) == [[False] * N_ENVS]
    assert envs.env_is_wrapped(VecMonitor) == [False] * N_ENVS
    assert envs.render_mode is None
    envs.close()


def test_the_problem_watches_as_many_checkpoints_as_it_is_told(
    small: StragglerScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Tasks(small, watched_steps=60)
    envs = problem.envs(3, seed=0)
    assert envs.num_envs == 3
    assert envs.observation_space.shape == (len(problem.observation_index()),)
    assert problem.discrete_actions
    again = problem.envs(3, seed=0)
    assert np.array_equal(envs.reset(), again.reset())
    monkeypatch.setattr(tasks, "JOBS_WATCHED_STEPS", 60)
    assert np.array_equal(Tasks(small).envs(3, seed=0).reset(), problem.envs(3, seed=0).reset())
