"""Both straggler environments: Gymnasium's and stable-baselines3's checkers, and use."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_with_gymnasium
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from stable_baselines3.common.env_checker import check_env as check_with_sb3

import sysgym
from sysgym.emulator.cluster.job import Job
from sysgym.emulator.cluster.source import split_of
from sysgym.envs.stragglers.metrics import CHECKPOINT_METRICS, EPISODE_METRICS
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios import load_scenario
from sysgym.scenarios.errors import ScenarioError, UnknownName

MakeEnv = Callable[..., Any]
Rollout = Callable[..., list[Any]]
Digest = Callable[[list[Any]], str]
MakeJob = Callable[..., Job]

REGISTERED = sysgym.__version__
KINDS = ("prediction", "mitigation")
IDS = {"prediction": "sysgym/StragglerPrediction-v0", "mitigation": "sysgym/StragglerMitigation-v0"}
both = pytest.mark.parametrize("kind", KINDS)


@both
def test_both_checkers_accept_it(kind: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_with_gymnasium(gym.make(IDS[kind]).unwrapped, skip_render_check=True)
        check_with_sb3(gym.make(IDS[kind]).unwrapped)
    # SB3 advises to flatten tables, which its MultiInputPolicy does by itself.
    messages = [str(warning.message) for warning in caught]
    assert [text for text in messages if "unconventional shape" not in text] == []


@both
def test_rendering_passes_gymnasiums_check(kind: str) -> None:
    for mode in ("ansi", "rgb_array"):
        env = gym.make(IDS[kind], render_mode=mode)
        env.reset(seed=0)
        frame: Any = env.render()
        if mode == "ansi":
            assert isinstance(frame, str)
            assert "stragglers" in frame
        else:
            assert frame.dtype == np.uint8
            assert frame.ndim == 3
            assert frame.std() > 10.0


@both
def test_it_can_be_pickled(kind: str, make_env: MakeEnv, rollout: Rollout, digest: Digest) -> None:
    env = make_env(kind, split="test", overrides={"straggler.threshold_known": False})
    again = pickle.loads(pickle.dumps(env))
    assert digest(rollout(again, seed=1)) == digest(rollout(env, seed=1))


@both
def test_observations_stay_in_their_space_and_padding_is_empty(
    kind: str, make_env: MakeEnv, make_random_job: MakeJob, rollout: Rollout
) -> None:
    env = make_env(kind, make_random_job(1), overrides={"mitigation.spare_machines": 2})
    trace = rollout(env, seed=0)
    for observation, *_ in trace:
        assert env.observation_space.contains(observation)
        assert not any(observation[key][30:].any() for key in ("tasks", "counters", "mask"))
        assert observation["tasks"][:30, :3].sum(axis=1).tolist() == [1.0] * 30
    assert trace[-1][0]["mask"].sum() == 0.0


@both
def test_returned_types_are_pythons_and_metrics_are_described(
    kind: str, make_env: MakeEnv, make_random_job: MakeJob, rollout: Rollout
) -> None:
    env = make_env(kind, make_random_job(2), overrides={"mitigation.spare_machines": 2})
    for _, reward, terminated, truncated, info in rollout(env, seed=0)[1:]:
        assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
        assert reward == sum(info["reward_terms"].values())
        assert set(info["metrics"]) <= set(CHECKPOINT_METRICS)
        assert all(type(value) is float for value in info["metrics"].values())
        assert ("episode_metrics" in info) == terminated
    assert set(info["episode_metrics"]) <= set(EPISODE_METRICS)
    assert all(type(value) is float for value in info["episode_metrics"].values())


def changed_after(job: Job, time_s: float) -> Job:
    """Return a job that is the same up to a time, and other than before from then on."""
    rng = np.random.default_rng(99)
    ends_s = job.start_s + job.latency_s
    unfinished = ends_s > time_s
    elapsed_s = np.maximum(time_s - job.start_s, 0.0)
    duration_s = job.duration_s.copy()
    drawn = elapsed_s + rng.uniform(0.05, 20.0, job.n_tasks)
    duration_s[unfinished, 0] = drawn[unfinished]
    duration_s[:, 1:] = rng.uniform(0.1, 30.0, duration_s[:, 1:].shape)
    windows = int(np.ceil(duration_s.max() / job.window_s))
    counters = rng.random((job.n_tasks, job.n_attempts, windows, len(job.counter_names))).astype(np.float32)
    window_ends_s = job.start_s[:, None] + (np.arange(windows) + 1) * job.window_s
    n = min(windows, job.counters.shape[2])
    past = (window_ends_s <= time_s + 1e-9) | ~unfinished[:, None]
    kept = np.where(past[:, :n, None], job.counters[:, 0, :n], counters[:, 0, :n])
    counters[:, 0, :n] = kept
    counters[:, 0, n:] = np.where(unfinished[:, None, None], counters[:, 0, n:], 0.0)
    start_s = np.where(job.start_s > time_s, job.start_s + rng.uniform(0.0, 5.0, job.n_tasks), job.start_s)
    return replace(job, duration_s=duration_s, counters=counters, start_s=start_s)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 12))
@both
@pytest.mark.parametrize("known", [False, True])
def test_nothing_observed_depends_on_the_future(
    make_env: MakeEnv, make_random_job: MakeJob, kind: str, known: bool, seed: int, checkpoints: int
) -> None:
    """Everything after a time is changed; what was seen up to then is the same to the last bit."""
    job = make_random_job(seed, starts=20.0)
    rule = {"straggler.threshold_known": known, "mitigation.spare_machines": 3}
    env = make_env(kind, job, overrides=rule)
    env.reset(seed=0)
    time_s = env.world.now_s + checkpoints * job.window_s
    threshold_s = env.threshold_s
    other = changed_after(job, time_s)
    assert not np.array_equal(other.duration_s, job.duration_s)
    seen = []
    for one in (job, other):
        env = make_env(kind, one, overrides=rule)
        # The threshold is the one thing that the scenario tells of the future: hold it.
        if known:
            object.__setattr__(one, "threshold_s", lambda *_: threshold_s)
        observation, info = env.reset(seed=0)
        observations, clocks = [observation], [info["time_s"]]
        for step in range(checkpoints):
            action = np.zeros(env.action_space.shape, np.int8)
            if kind == "prediction":
                action[2 * step] = 1
            observation, _, over, _, info = env.step(action)
            observations.append(observation)
            clocks.append(info["time_s"])
            if over:
                break
        seen.append((observations, clocks))
    assert seen[0][1] == seen[1][1] or env.world.done
    for ours, theirs in zip(seen[0][0], seen[1][0], strict=False):
        for key, value in ours.items():
            assert value.tobytes() == theirs[key].tobytes(), key


@dataclass(frozen=True)
class Lives:
    """Start and end of the tasks of a job in a trace, in whole seconds."""

    start_s: NDArray[np.int64]
    end_s: NDArray[np.int64]

    def other_after(self, time_s: float) -> Lives:
        """Return lives that are the same up to a time, and other than before from then on."""
        rng = np.random.default_rng(99)
        start_s, end_s = self.start_s.copy(), self.end_s.copy()
        later = start_s > time_s
        start_s[later] += rng.integers(0, 50, later.sum())
        unfinished = end_s > time_s
        end_s[unfinished] = np.maximum(start_s, int(time_s))[unfinished] + rng.integers(
            1, 900, unfinished.sum()
        )
        return Lives(start_s, end_s)

    def rows(self, kind: str) -> Iterator[str]:
        """Yield the rows of a trace: of whole lives, or of windows of 10 s."""
        if kind != "alibaba-2018":
            yield "job,task,start_s,end_s,cpu"
        for task, (start_s, end_s) in enumerate(zip(self.start_s.tolist(), self.end_s.tolist(), strict=True)):
            if kind == "alibaba-2018":
                yield f"i{task},M1,job,1,Terminated,{start_s},{end_s},m,1,1,{5000 / (end_s - start_s)},9,9,9"
            elif kind == "lives":
                yield f"job,{task:03},{start_s},{end_s},{5000 / (end_s - start_s)}"
            else:
                for begin_s in range(start_s, end_s, 10):
                    yield f"job,{task:03},{begin_s},{min(begin_s + 10, end_s)},{task + begin_s}"


@pytest.mark.parametrize("trace", ["alibaba-2018", "lives", "windows"])
@both
@pytest.mark.parametrize("seed", range(4))
def test_nothing_observed_on_a_trace_depends_on_the_future(
    make_env: MakeEnv, tmp_path: Path, kind: str, trace: str, seed: int
) -> None:
    """Lives in the files of a trace are changed after a time; the unit of time was known before."""
    rng = np.random.default_rng(seed)
    start_s = np.append(0, rng.integers(0, 200, 59))
    lives = Lives(start_s, start_s + rng.lognormal(5.0, 0.7, 60).astype(np.int64) + 1)
    format_name = "alibaba-2018" if trace == "alibaba-2018" else "table"

    def environment(lives: Lives, name: str) -> Any:
        path = tmp_path / name
        path.write_text("\n".join(lives.rows(trace)) + "\n")
        scenario = load_scenario("google-2011").resolved()
        scenario["straggler"] |= {"definition": "median_multiple", "value": 1.5, "threshold_known": False}
        scenario["jobs"] = {"kind": "trace", "format": format_name, "paths": [str(path)]}
        scenario["jobs"] |= {"tasks_min": 2, "tasks_max": 60}
        return make_env(kind, scenario=scenario, split=split_of("job"))

    env = environment(lives, "trace.csv")
    env.reset(seed=0)
    for checkpoints in (0, 1, 7, 30):
        time_s = env.first_decision_s + checkpoints * env.job.window_s
        changed = environment(lives.other_after(time_s), f"changed-{checkpoints}.csv")
        for observation, other in zip(
            observations(env, checkpoints), observations(changed, checkpoints), strict=True
        ):
            for key, value in observation.items():
                assert value.tobytes() == other[key].tobytes(), key
        assert changed.job.window_s == env.job.window_s
        assert not np.array_equal(changed.job.latency_s, env.job.latency_s)


def observations(env: Any, checkpoints: int) -> list[Any]:
    """Return what is seen up to a checkpoint, without an action."""
    seen = [env.reset(seed=0)[0]]
    nothing = np.zeros(env.action_space.shape, np.int8)
    return seen + [env.step(nothing)[0] for _ in range(checkpoints)]


def test_an_unknown_threshold_is_not_seen(make_env: MakeEnv, make_job: MakeJob) -> None:
    job = make_job([3.0, 4.0, 5.0, 20.0])
    for known in (True, False):
        env = make_env("prediction", job, overrides={"straggler.threshold_known": known})
        view = JobView.of(env.reset(seed=0)[0])
        assert view.threshold == pytest.approx(env.threshold_s) if known else np.isnan(view.threshold)


def test_a_view_by_hand(make_env: MakeEnv, make_job: MakeJob) -> None:
    """Three tasks, the third late by 4 s; windows of 2 s; the counter of window w is w."""
    job = make_job([4.0, 9.0, 8.0], start_s=[0.0, 0.0, 7.0], window_s=2.0)
    env = make_env("prediction", job)
    view = JobView.of(env.reset(seed=0)[0])
    assert (view.n_tasks, view.tasks_max, view.checkpoint) == (3, 40, 0)
    assert view.finished.tolist() == [True, False, False]
    assert view.running.tolist() == [False, True, False]
    assert view.pending.tolist() == [False, False, True]
    assert view.can_act.tolist() == [False, True, False]
    assert view.elapsed.tolist() == [0.0, 2.0, 0.0]
    assert view.latency[0] == 2.0
    assert np.isnan(view.latency[1:]).all()
    assert view.x[:, 0].tolist() == [1.5, 1.5, 0.0]
    assert view.last[:, 0].tolist() == [2.0, 2.0, 0.0]
    assert view.quantiles.tolist() == [2.0] * 4
    assert view.attempts.tolist() == [1, 1, 0]
    assert view.free_machines == -1.0
    assert view.threshold == pytest.approx(np.quantile([4.0, 8.0, 9.0], 0.9) / 2.0)
    action = np.zeros(40, np.int8)
    action[1] = 1
    view = JobView.of(env.step(action)[0])
    assert view.flagged.tolist() == [False, True, False]
    assert view.can_act.tolist() == [False] * 3
    assert view.checkpoint == 1


def test_an_empty_row_of_counters_is_no_finished_task(make_env: MakeEnv, make_job: MakeJob) -> None:
    """Counters that are truly 0 are not mistaken for padding or for an end."""
    job = make_job([2.0, 9.0, 9.0], counters=np.zeros((3, 1, 9, 2)))
    view = JobView.of(make_env("prediction", job).reset(seed=0)[0])
    assert view.n_tasks == 3
    assert view.running.tolist() == [False, True, True]


@both
def test_the_warm_up_waits_for_its_share(kind: str, make_env: MakeEnv, make_job: MakeJob) -> None:
    job = make_job([3.5, 6.0, 7.0, 8.0, 20.0])
    for share, time_s in ((0.0, 0.0), (0.2, 4.0), (0.6, 7.0)):
        env = make_env(kind, job, overrides={"control.warmup_fraction": share})
        assert env.reset(seed=0)[1]["time_s"] == time_s
        assert env.first_decision_s == time_s


@both
def test_after_the_last_decision_the_job_runs_to_its_end(
    kind: str, make_env: MakeEnv, make_job: MakeJob, rollout: Rollout
) -> None:
    env = make_env(kind, make_job([2.0, 3.0, 50.0]), overrides={"control.max_checkpoints": 4})
    trace = rollout(env, seed=0, action_seed=1)
    assert len(trace) == 5
    assert [step[2] for step in trace[1:]] == [False, False, False, True]
    assert trace[-1][4]["metrics"]["finished_tasks"] == 3.0


@both
def test_impossible_actions_are_errors(kind: str, make_env: MakeEnv, make_job: MakeJob) -> None:
    env = make_env(kind, make_job([2.0, 3.0]))
    env.reset(seed=0)
    for action in (np.full(40, 3), np.zeros(39, np.int8), np.full(40, 0.5), 1):
        with pytest.raises(ValueError, match="expected an array of shape"):
            env.step(action)


@both
def test_what_needs_a_reset_says_so(kind: str, make_env: MakeEnv) -> None:
    env = make_env(kind, render_mode="ansi")
    with pytest.raises(gym.error.ResetNeeded):
        env.step(np.zeros(env.action_space.shape, np.int8))
    with pytest.raises(gym.error.ResetNeeded):
        env.render()


@both
def test_a_job_that_is_too_large_is_an_error(kind: str, make_env: MakeEnv, make_random_job: MakeJob) -> None:
    with pytest.raises(ValueError, match="30 tasks, more than tasks_max = 10"):
        make_env(kind, make_random_job(0), tasks_max=10).reset(seed=0)


@both
@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        ({"split": "tests"}, "test"),
        ({"reward": "defalt"}, "default"),
        ({"scenario": "google-2012"}, "google-2011"),
    ],
)
def test_wrong_names_are_errors_with_advice(kind: str, arguments: dict[str, Any], suggestion: str) -> None:
    with pytest.raises((UnknownName, ScenarioError), match=f'did you mean "{suggestion}"'):
        gym.make(IDS[kind], **arguments)


@both
def test_a_scenario_sets_weights_for_either(kind: str, make_env: MakeEnv, make_job: MakeJob) -> None:
    job = make_job([2.0, 3.0])
    weights = {"reward.weights": {"missed": 0.5, "time": 2.0}}
    env = make_env(kind, job, overrides=weights)
    assert env.reward.weights["missed" if kind == "prediction" else "time"] in (0.5, 2.0)
    assert len(env.reward.weights) == (3 if kind == "prediction" else 2)
    with pytest.raises(UnknownName, match='did you mean "missed"'):
        make_env(kind, job, overrides={"reward.weights": {"mised": 0.5}})
