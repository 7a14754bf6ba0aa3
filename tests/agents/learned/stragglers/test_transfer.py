"""The agent transfer: training, files, and refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.agents import list_agents, make_agent, play_episode
from sysgym.agents.learned import train
from sysgym.agents.learned.stragglers import transfer
from sysgym.agents.learned.stragglers.examples import Examples, collect
from sysgym.agents.learned.stragglers.transfer import (
    ACTION_CANDIDATES,
    CANDIDATES,
    NEVER,
    Transfer,
    train_transfer,
)
from sysgym.agents.learned.stragglers.trees import checked_trees
from sysgym.agents.protocol import Agent, is_privileged
from sysgym.agents.stragglers.base import ACTIONS
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios import StragglerScenario, load_scenario
from sysgym.scenarios.errors import SysgymError

MakeEnv = Callable[..., Any]
MakeExamples = Callable[..., Examples]
Script = Callable[..., str]


class Clock:
    """Flags a task that has run for a share of the threshold: what can be told without counters."""

    name = "clock"

    def __init__(self, share: float) -> None:
        self._share = share

    def begin(self, env: Any) -> None:
        pass

    def act(self, observation: Any) -> Any:
        view = JobView.of(observation)
        flags = np.zeros(view.tasks_max, np.int8)
        flags[: view.n_tasks] = view.flagged | (view.running & (view.elapsed >= self._share * view.threshold))
        return flags


def pooled_f1(env: Any, agent: Any, jobs: int) -> float:
    """Return the F1 of the flags on so many test jobs together."""
    first = env.unwrapped.scenario.splits["test"].seeds[0]
    true = wrong = 0.0
    for seed in range(first, first + jobs):
        metrics = play_episode(env, agent, options={"episode_seed": seed})[1]["episode_metrics"]
        true += metrics["true_flags"]
        wrong += metrics["false_flags"] + metrics["stragglers"] - metrics["true_flags"]
    return 2.0 * true / (2.0 * true + wrong)


# What it learns.


def test_counters_that_reveal_stragglers_are_learned(
    roomy: StragglerScenario, make_env: MakeEnv, revealing_jobs: Any, tmp_path: Path
) -> None:
    agent = Transfer(train_transfer(roomy, total_steps=300, out=tmp_path, source=revealing_jobs))
    env = make_env("prediction", scenario=roomy, split="test", source=revealing_jobs)
    learned = pooled_f1(env, agent, 6)
    assert learned > 0.95
    assert learned > pooled_f1(env, make_agent("spark"), 6) + 0.1
    world = make_env("mitigation", scenario=roomy, split="test", source=revealing_jobs)
    _, info = play_episode(world, agent, options={"episode_seed": 20_000})
    metrics = info["episode_metrics"]
    # All that straggle are relaunched at once, and a job of 35 s is done after the second attempts.
    assert metrics["relaunches"] <= 6
    assert metrics["completion_reduction"] > 0.2
    assert metrics["completion_reduction"] <= metrics["completion_reduction_oracle"] + 1e-9


def test_without_information_it_knows_no_more_than_the_clock(make_env: MakeEnv, tmp_path: Path) -> None:
    """A leak of the future into the features would show here."""
    nothing = {"jobs.tasks_min": 40, "jobs.tasks_max": 60, "jobs.informativeness": 0.0}
    scenario = load_scenario("google-2011", overrides=nothing, expect=StragglerScenario)
    agent = Transfer(train_transfer(scenario, total_steps=500, out=tmp_path))
    env = make_env("prediction", scenario=scenario, split="test")
    clock = max(pooled_f1(env, Clock(share), 8) for share in (0.7, 0.8, 0.9, 0.95))
    assert pooled_f1(env, agent, 8) < clock + 0.05


# What it writes.


def test_same_seed_same_file(small: StragglerScenario, transfer_checkpoint: Path, tmp_path: Path) -> None:
    again = train("transfer", small, total_steps=600, out=tmp_path / "again")
    assert again.read_bytes() == transfer_checkpoint.read_bytes()
    other = train("transfer", small, total_steps=600, out=tmp_path / "other", seed=1)
    assert other.read_bytes() != transfer_checkpoint.read_bytes()


def test_it_is_an_agent_of_its_family(transfer_checkpoint: Path) -> None:
    agent = make_agent("transfer", checkpoint=transfer_checkpoint)
    assert isinstance(agent, Agent)
    assert agent.name == "transfer"
    assert not is_privileged(agent)
    assert "transfer" in list_agents("stragglers")
    assert "transfer" not in list_agents("congestion")
    with pytest.raises(SysgymError, match="needs a checkpoint: sysgym train transfer"):
        make_agent("transfer")


@pytest.mark.parametrize("kind", ["prediction", "mitigation"])
def test_it_plays_both_environments_and_jobs_of_another_size(
    transfer_checkpoint: Path, make_env: MakeEnv, kind: str
) -> None:
    env = make_env(kind, scenario="google-2011", overrides={"jobs.tasks_min": 90, "jobs.tasks_max": 100})
    agents = [make_agent("transfer", checkpoint=transfer_checkpoint, action="copy") for _ in range(2)]
    returns, acted, tasks = [], 0.0, 0.0
    for seed in range(3):
        (first, info), (again, _) = (
            play_episode(env, agent, options={"episode_seed": seed}) for agent in agents
        )
        assert first == again
        metrics = info["episode_metrics"]
        flags = metrics["true_flags"] + metrics["false_flags"]
        returns.append(first)
        acted += metrics["copies"] if kind == "mitigation" else flags
        tasks += metrics["n_tasks"]
    assert np.isfinite(returns).all()
    assert tasks >= 270
    assert 0 < acted < tasks


@pytest.mark.parametrize("kind", ["prediction", "mitigation"])
def test_a_lower_limit_acts_on_more_tasks(transfer_checkpoint: Path, make_env: MakeEnv, kind: str) -> None:
    env = make_env(kind, scenario="google-2011", overrides={"jobs.tasks_min": 90, "jobs.tasks_max": 100})
    acted = []
    for limit in (0.0, 0.1, 0.5, 1.1):
        agent = make_agent("transfer", checkpoint=transfer_checkpoint, limit=limit)
        _, info = play_episode(env, agent, options={"episode_seed": 1})
        metrics = info["episode_metrics"]
        flags = metrics["true_flags"] + metrics["false_flags"]
        acted.append(metrics["relaunches"] if kind == "mitigation" else flags)
    assert acted == sorted(acted, reverse=True)
    assert acted[0] > acted[2] > acted[3] == 0


def test_nothing_is_flagged_for_a_job_without_running_tasks(
    transfer_checkpoint: Path, make_view: Any
) -> None:
    agent = Transfer(transfer_checkpoint)
    agent.mitigates = False
    view = make_view(running=[0, 0], finished=[1, 0], x=np.ones((2, 15)), latency=[3.0, 0.0])
    assert not agent.predict(view).any()


def test_another_process_flags_the_same_without_torch(
    transfer_checkpoint: Path, make_env: MakeEnv, script: Script
) -> None:
    code = """
    import json, sys
    import gymnasium as gym
    import sysgym
    from sysgym.agents import make_agent, play_episode

    env = gym.make(
        "sysgym/StragglerPrediction-v0",
        scenario="google-2011",
        overrides={"jobs.tasks_min": 20, "jobs.tasks_max": 30},
    )
    agent = make_agent("transfer", checkpoint=sys.argv[1])
    print(json.dumps([play_episode(env, agent, options={"episode_seed": seed})[0] for seed in range(3)]))
    """
    said = json.loads(script(code, transfer_checkpoint, without=["torch", "stable_baselines3"]))
    env = make_env(
        "prediction", scenario="google-2011", overrides={"jobs.tasks_min": 20, "jobs.tasks_max": 30}
    )
    agent = Transfer(transfer_checkpoint)
    assert said == [play_episode(env, agent, options={"episode_seed": seed})[0] for seed in range(3)]


def test_progress_is_told(small: StragglerScenario, tmp_path: Path) -> None:
    told: list[int] = []
    train("transfer", small, total_steps=100, out=tmp_path, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 100


# What it refuses.


def test_other_counters_are_refused(transfer_checkpoint: Path, make_env: MakeEnv) -> None:
    env = make_env("prediction", scenario="alibaba-2018")
    env.reset(seed=0)
    with pytest.raises(SysgymError, match="trained on the counters") as raised:
        Transfer(transfer_checkpoint).begin(env)
    assert str(transfer_checkpoint) in str(raised.value)


def test_another_family_is_refused(transfer_checkpoint: Path) -> None:
    import gymnasium as gym

    env = gym.make("CartPole-v1")
    with pytest.raises(SysgymError, match="plays the straggler environments only"):
        Transfer(transfer_checkpoint).begin(env)


def damaged(checkpoint: Path, **changes: Any) -> bytes:
    """Return a checkpoint with other entries; None takes one away."""
    data = json.loads(checkpoint.read_bytes()) | changes
    return json.dumps({key: value for key, value in data.items() if value is not None}).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "sysgym-transfer-1"},
        {"models": None},
        {"models": {"flag": "tree", "shorten": "tree"}},
        {"models": {"flag": "", "shorten": ""}},
        {"models": 5},
        {"limits": {"flag": 0.5}},
        {"limits": {"flag": "half", "relaunch": 0.5, "copy": 0.5}},
        {"counters": None},
        {"features": None},
    ],
)
def test_a_damaged_file_is_refused(
    transfer_checkpoint: Path, tmp_path: Path, changes: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "final.zip"
    path.write_bytes(damaged(transfer_checkpoint, **changes))
    with pytest.raises(SysgymError, match=str(path)):
        Transfer(path)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("left_child", "1000000000", "branches lead elsewhere"),
        ("right_child", "-1000000000", "branches lead elsewhere"),
        ("left_child", "0", "branches lead elsewhere"),  # round and round
        ("split_feature", "1000000000", "a feature that is not there"),
        ("num_leaves", "1000000000", "another number of leaves"),
        ("num_cat", "1000000", "of another kind"),
        ("max_feature_idx", "100000", "Wrong size of feature_names"),
    ],
)
def test_trees_that_refer_to_what_is_not_there_are_refused(
    transfer_checkpoint: Path, tmp_path: Path, field: str, value: str, words: str
) -> None:
    """LightGBM itself would read beyond its arrays."""
    data = json.loads(transfer_checkpoint.read_bytes())
    text = data["models"]["flag"]
    broken = re.sub(rf"^{field}=\S+", f"{field}={value}", text, count=1, flags=re.MULTILINE)
    assert broken != text
    path = tmp_path / "final.zip"
    path.write_text(json.dumps({**data, "models": {**data["models"], "flag": broken}}))
    with pytest.raises(SysgymError, match=words):
        Transfer(path)


@pytest.mark.parametrize(
    ("line", "becomes", "words"),
    [
        # Two lines for LightGBM, one for Python: the second wins.
        (r"^(shrinkage=.*)$", r"\1\rleft_child=2000000000", "the end of a line"),
        (r"^(shrinkage=.*)$", "\\1\u2028left_child=0", "the end of a line"),
        (r"^(max_feature_idx=.*)$", r"\1\n=max_feature_idx=0", "'' is no name of a field"),
        (r"^(max_feature_idx=.*)$", r"\1\nmax_feature_idx =0", "'max_feature_idx ' is no name of a field"),
        # Ten or more for Python, less for LightGBM.
        (r"^left_child=\S+", "left_child=1e1", "'1e1' is no whole number"),
        (r"^split_feature=\S+", "split_feature=1_0", "'1_0' is no whole number"),
        (r"^(max_feature_idx=.*)$", r"max_feature_idx=1_0", "'1_0' is no whole number"),
        (r"^(max_feature_idx=.*)$", r"max_feature_idx=4294967297", "no whole number"),
    ],
)
def test_trees_that_lightgbm_reads_in_another_way_are_refused(
    transfer_checkpoint: Path, line: str, becomes: str, words: str
) -> None:
    text = json.loads(transfer_checkpoint.read_bytes())["models"]["flag"]
    checked_trees(text)
    broken = re.sub(line, becomes, text, count=1, flags=re.MULTILINE)
    assert broken != text
    with pytest.raises(ValueError, match=words):
        checked_trees(broken)


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b"", b"PK\x03\x04\xff\xfe", b"[]", b'{"format"', b"\xff\xfe\x00"]
)
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "final.zip"
    path.write_bytes(content)
    with pytest.raises(SysgymError, match="not a checkpoint"):
        make_agent("transfer", checkpoint=path)


def test_a_cut_file_is_refused(transfer_checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "final.zip"
    path.write_bytes(transfer_checkpoint.read_bytes()[:-100])
    with pytest.raises(SysgymError, match="not a checkpoint"):
        Transfer(path)
    with pytest.raises(SysgymError, match="no such checkpoint"):
        Transfer(tmp_path / "other.zip")
    with pytest.raises(SysgymError, match="not a checkpoint of sysgym"):
        make_agent("ppo", checkpoint=transfer_checkpoint)


def test_features_of_another_version_are_refused(
    transfer_checkpoint: Path, tmp_path: Path, make_env: MakeEnv, small: StragglerScenario
) -> None:
    path = tmp_path / "final.zip"
    names = json.loads(transfer_checkpoint.read_bytes())["features"]
    path.write_bytes(damaged(transfer_checkpoint, features=names[::-1]))
    env = make_env("prediction", scenario=small)
    env.reset(seed=0)
    with pytest.raises(SysgymError, match="features that this version does not compute"):
        Transfer(path).begin(env)


def test_a_single_job_is_too_few(
    roomy: StragglerScenario, make_job: Any, make_source: Any, tmp_path: Path
) -> None:
    """A job that is drawn again is no second one."""
    source = make_source(make_job([1.0, 2.0, 3.0, 9.0]))
    with pytest.raises(SysgymError, match="40 checkpoints are of one job"):
        train_transfer(roomy, total_steps=40, out=tmp_path / "run", source=source)
    assert not (tmp_path / "run").exists()


def test_a_world_without_stragglers_is_learned_as_one(
    roomy: StragglerScenario, make_env: MakeEnv, make_job: Any, make_source: Any, tmp_path: Path
) -> None:
    scenario = roomy.with_overrides({"straggler.definition": "median_multiple", "straggler.value": 50.0})
    source = make_source(lambda seed: make_job([1.0, 2.0, 3.0, 9.0], name=str(seed)))
    agent = Transfer(train_transfer(scenario, total_steps=60, out=tmp_path, source=source))
    env = make_env("prediction", scenario=scenario, source=source)
    assert play_episode(env, agent, seed=0)[1]["episode_metrics"]["false_flags"] == 0


def test_a_folder_with_a_run_is_not_trained_over(transfer_checkpoint: Path, small: StragglerScenario) -> None:
    before = transfer_checkpoint.read_bytes()
    with pytest.raises(SysgymError, match="holds a run already"):
        train("transfer", small, total_steps=10, out=transfer_checkpoint.parent)
    assert transfer_checkpoint.read_bytes() == before


def test_it_has_no_hyper_parameters(small: StragglerScenario, tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match='no hyper-parameter of transfer is named "trees"'):
        train("transfer", small, total_steps=10, out=tmp_path, hyper_parameters={"trees": 5})


def test_without_lightgbm_the_extra_is_named(
    transfer_checkpoint: Path, script: Script, tmp_path: Path
) -> None:
    code = """
    import json, sys
    from sysgym.agents import make_agent
    from sysgym.agents.learned import train
    from sysgym.scenarios.errors import MissingExtra

    def complaint(what, *arguments, **named):
        try:
            what(*arguments, **named)
        except MissingExtra as error:
            return [error.extra, str(error)]

    print(json.dumps([
        complaint(make_agent, "transfer", checkpoint=sys.argv[1]),
        complaint(train, "transfer", "google-2011", total_steps=8, out="run"),
    ]))
    """
    said = json.loads(script(code, transfer_checkpoint, without=["lightgbm"]))
    for extra, message in said:
        assert extra == "stragglers"
        assert 'pip install "sysgym[stragglers]"' in message
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


# How it chooses its limits.

ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 2),
        st.floats(-5.0, 5.0),
        st.floats(0.0, 1.0),
    ),
    min_size=1,
    max_size=24,
)


def watched(rows: Any, make_examples: MakeExamples) -> tuple[Examples, Any]:
    """Return examples of several tasks, checkpoint after checkpoint, and a probability for each row."""
    seen: dict[tuple[int, int], int] = {}
    full, probability = [], []
    for job, task, saving, chance in rows:
        checkpoint = seen.get((job, task), 0)
        seen[job, task] = checkpoint + 1
        # Every other task straggles, and is past the threshold at its third checkpoint.
        full.append((job, task, checkpoint, (job + task) % 2 == 0, checkpoint < 2, saving))
        probability.append(chance)
    return make_examples(full), np.array(probability)


def flags_f1(examples: Examples, probability: Any, limit: float) -> float:
    """Return F1 over time, by playing to each tenth of the threshold."""
    return float(np.mean([f1_at(examples, probability, limit, tenth / 10) for tenth in range(1, 11)]))


def f1_at(examples: Examples, probability: Any, limit: float, moment: float) -> float:
    """Return F1 by playing: a task is flagged at the first checkpoint at which it reaches the limit."""
    true = false = stragglers = 0
    for key in np.unique(examples.task_key):
        rows = np.flatnonzero(examples.task_key == key)
        rows = rows[np.argsort(examples.checkpoint[rows])]
        rows = rows[examples.elapsed_share[rows] <= moment + 1e-9]
        flagged = next((row for row in rows if probability[row] >= limit), None)
        straggler = bool(examples.straggler[examples.task_key == key][0])
        stragglers += straggler
        true += straggler and flagged is not None and bool(examples.in_time[flagged])
        false += not straggler and flagged is not None
    return 2 * true / max(true + false + stragglers, 1)


@given(ROWS, st.randoms(use_true_random=False))
def test_the_flag_limit_has_the_best_f1(make_examples: MakeExamples, rows: Any, random: Any) -> None:
    random.shuffle(rows)
    examples, probability = watched(rows, make_examples)
    limit = transfer._best_f1_limit(examples, probability)
    assert limit in CANDIDATES
    best = max(flags_f1(examples, probability, candidate) for candidate in CANDIDATES)
    assert flags_f1(examples, probability, limit) == pytest.approx(best)


@given(ROWS, st.randoms(use_true_random=False), st.sampled_from(["relaunch", "copy"]))
def test_the_action_limit_has_the_best_return(
    make_examples: MakeExamples, rows: Any, random: Any, action: str
) -> None:
    examples, probability = watched(rows, make_examples)
    order = np.array(random.sample(range(len(probability)), len(probability)))
    limit = transfer._best_action_limit(examples.where(order), probability[order], action, 0.1)
    returns = [
        transfer.mean_return(examples.where(rows), probability[rows] >= candidate, action, 0.1)
        for rows in [np.lexsort((examples.checkpoint, examples.task_key))]
        for candidate in (*ACTION_CANDIDATES, limit)
    ]
    if limit == NEVER:
        assert max(returns[:-1]) <= -1.0
    else:
        assert returns[-1] == pytest.approx(max(returns[:-1]))


class OnceAt:
    """Acts once on each task, when its probability at a checkpoint reaches a limit."""

    name = "once at"

    def __init__(self, action: int, probability: Any, limit: float) -> None:
        self._action, self._probability, self._limit = action, probability, limit

    def begin(self, env: Any) -> None:
        pass

    def act(self, observation: Any) -> Any:
        view = JobView.of(observation)
        chosen = self._probability[int(view.checkpoint), : view.n_tasks] >= self._limit
        acts = np.zeros(view.tasks_max, np.int8)
        acts[: view.n_tasks] = self._action * (view.running & ~view.flagged & chosen)
        return acts


@pytest.mark.parametrize("action", ["relaunch", "copy"])
@pytest.mark.parametrize("limit", [0.2, 0.9, 0.99])
def test_the_mean_return_is_what_the_environment_pays(
    small: StragglerScenario, make_env: MakeEnv, action: str, limit: float
) -> None:
    probability = np.random.default_rng(5).random((1000, 100))
    seen = collect(small, 60, 3)
    env = make_env("mitigation", scenario=small)
    agent, seeds = OnceAt(ACTIONS[action], probability, limit), []
    for number in np.unique(seen.job):
        env.reset(seed=3 if number == 0 else None)
        seeds.append(env.unwrapped.episode_seed)
    returns = [play_episode(env, agent, options={"episode_seed": seed})[0] for seed in seeds]
    rows = np.lexsort((seen.checkpoint, seen.task_key))
    seen = seen.where(rows)
    acts = probability[seen.checkpoint, seen.task] >= limit
    found = transfer.mean_return(seen, acts, action, small.mitigation.waste_price)
    assert found == pytest.approx(np.mean(returns), abs=1e-6)


def test_limits_by_hand(make_examples: MakeExamples) -> None:
    examples = make_examples(
        [
            # job, task, checkpoint, straggler, in time, saving
            (0, 0, 0, True, True, 6.0),
            (0, 0, 1, True, False, 5.0),
            (0, 1, 0, False, True, -2.0),
            (0, 2, 0, False, True, -3.0),
        ]
    )
    # The straggler is told from the others from 0.62 to 0.8; in the middle of that is 0.71.
    limit = transfer._best_f1_limit(examples, np.array([0.8, 0.9, 0.6, 0.3]))
    assert limit == pytest.approx(0.71, abs=0.011)
    # It is noticed too late above 0.2, where the others are flagged too.
    assert transfer._best_f1_limit(examples, np.array([0.2, 0.9, 0.6, 0.1])) <= 0.2
    # Left alone the tasks end at 17, 9 and 8, and second attempts begun at the first checkpoint at 11.
    best = partial(transfer._best_action_limit, examples, price=0.1)
    assert best(np.array([0.2, 0.9, 0.6, 0.7]), "relaunch") <= 0.2
    assert 0.3 < best(np.array([0.8, 0.9, 0.3, 0.2]), "copy") <= 0.8
    assert best(np.array([0.0, 0.0, 1.0, 1.0]), "relaunch") == NEVER
    assert best(np.zeros(4), "copy") == NEVER
