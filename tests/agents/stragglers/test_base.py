"""Common behaviour of straggler agents: permanent flags, single actions, none without data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sysgym.agents import agent_info, list_agents, make_agent, play_episode
from sysgym.agents.protocol import Agent, is_privileged
from sysgym.agents.stragglers.base import threshold_of
from sysgym.emulator.cluster.job import QUANTILE, Job
from sysgym.scenarios.errors import SysgymError, UnknownName

# PyOD compiles some of its detectors, for seconds and in every process that uses them.
pytestmark = pytest.mark.xdist_group("outlier detectors")

NAMES = [
    name for name in list_agents() if agent_info(name).family == "stragglers" and not agent_info(name).learned
]
FROM_ONE_JOB = [name for name in NAMES if name != "wrangler"]


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_is_what_its_entry_says(name: str) -> None:
    agent, info = make_agent(name), agent_info(name)
    assert isinstance(agent, Agent)
    assert agent.name == info.short_name
    assert is_privileged(agent) == info.privileged == (info.short_name == "oracle")


def test_a_family_has_its_own_oracle() -> None:
    assert agent_info("oracle").family == "congestion"
    assert agent_info("oracle", "congestion").family == "congestion"
    assert agent_info("oracle", "stragglers").family == "stragglers"
    assert type(make_agent("oracle", family="stragglers")) is type(make_agent("stragglers/oracle"))
    assert {"oracle", "nurd"} <= set(list_agents("stragglers"))
    assert "aimd" not in list_agents("stragglers")
    assert "nurd" not in list_agents("congestion")


@pytest.mark.parametrize("name", FROM_ONE_JOB)
def test_flags_latch_and_fit_the_action_space(
    name: str, contended_job: Job, play: Callable[..., Any], stage: Callable[..., Any]
) -> None:
    env, agent = stage(contended_job), make_agent(name)
    agent.begin(env)
    raised = []

    def act(observation: Any) -> Any:
        action = agent.act(observation)
        assert env.action_space.contains(action)
        before = observation["tasks"][:, 5] > 0.5
        assert action[before].all()
        new = (action > 0) & ~before
        assert not new[observation["mask"] < 0.5].any()
        raised.append(int(new.sum()))
        return action

    play(contended_job, act)
    # Nothing here is slow enough for Mantri, and Dolly only clones.
    silent = ("none", "dolly", "mantri")
    assert (sum(raised) > 0) == (name not in silent)


@pytest.mark.parametrize("name", FROM_ONE_JOB)
def test_the_same_job_gets_the_same_flags(
    name: str, contended_job: Job, play: Callable[..., Any], stage: Callable[..., Any]
) -> None:
    env, seen = stage(contended_job), play(contended_job)[::8]

    def flags(agent: Agent) -> list[Any]:
        agent.begin(env)
        return [agent.act(observation) for observation in seen]

    agent = make_agent(name)
    first = flags(agent)
    assert np.array_equal(first, flags(agent))
    assert np.array_equal(first, flags(make_agent(name)))


@pytest.mark.parametrize("name", ["spark", "nurd", "tobit", "stragglers/oracle"])
def test_a_job_is_mitigated_to_its_end(name: str, contended_job: Job, stage: Callable[..., Any]) -> None:
    env = stage(contended_job, mitigates=True)
    _, info = play_episode(env, make_agent(name, action="copy"), options={"episode_seed": 7})
    metrics = info["episode_metrics"]
    assert metrics["copies"] > 0
    assert metrics["relaunches"] == 0
    assert metrics["completion_s"] <= metrics["completion_unaided_s"]


@pytest.mark.parametrize(("action", "number"), [("relaunch", 1), ("copy", 2)])
def test_a_flag_becomes_the_chosen_action_in_mitigation(
    action: str, number: int, contended_job: Job, play: Callable[..., Any], stage: Callable[..., Any]
) -> None:
    env, agent = stage(contended_job, mitigates=True), make_agent("flag_all", action=action)
    agent.begin(env)
    observation = play(contended_job)[0]
    chosen = agent.act(observation)
    assert env.action_space.contains(chosen)
    assert np.array_equal(chosen, number * (observation["mask"] > 0.5))
    # The environment shows who was acted on: never again.
    observation["tasks"][:, 5] = observation["mask"]
    assert not agent.act(observation).any()


def test_an_unknown_action_has_advice() -> None:
    with pytest.raises(UnknownName, match='did you mean "relaunch"'):
        make_agent("spark", action="relunch")
    with pytest.raises(UnknownName, match="straggler features"):
        make_agent("gbtr", features="all")


def test_other_environments_are_refused(contended_job: Job, stage: Callable[..., Any]) -> None:
    env = stage(contended_job)
    env.action_space = gym.spaces.Box(0.0, 1.0, (3,))
    with pytest.raises(SysgymError, match='"spark" plays the straggler environments only'):
        make_agent("spark").begin(env)


@pytest.mark.parametrize(
    "name", [name for name in FROM_ONE_JOB if name not in ("dolly", "stragglers/oracle")]
)
def test_nothing_is_flagged_before_a_task_has_finished(
    name: str, contended_job: Job, play: Callable[..., Any], stage: Callable[..., Any]
) -> None:
    agent = make_agent(name)
    agent.begin(stage(contended_job))
    observation = play(contended_job)[2]
    tasks = observation["tasks"]
    tasks[:, 1] += tasks[:, 2]
    tasks[:, 2] = tasks[:, 4] = 0.0
    observation["mask"][:] = tasks[:, 1]
    assert not agent.act(observation).any()


def test_an_unknown_threshold_is_a_multiple_of_the_median(view_of: Callable[..., Any]) -> None:
    known = view_of([0, 0, 0, 0], latency={0: 2.0, 1: 4.0, 2: 12.0}, elapsed={3: 5.0}, threshold=9.0)
    assert threshold_of(known) == 9.0
    unknown = view_of([0, 0, 0, 0], latency={0: 2.0, 1: 4.0, 2: 12.0}, elapsed={3: 5.0})
    assert threshold_of(unknown) == 6.0


def test_the_oracle_flags_the_stragglers_and_acts_where_it_helps(
    contended_job: Job, play: Callable[..., Any], stage: Callable[..., Any]
) -> None:
    truth = contended_job.stragglers(contended_job.threshold_s(QUANTILE, 0.9))
    observation = play(contended_job)[0]
    running, elapsed_s = observation["tasks"][:100, 1] > 0.5, observation["tasks"][:100, 3]
    oracle = make_agent("oracle", family="stragglers")
    oracle.begin(stage(contended_job))
    assert np.array_equal(oracle.act(observation)[:100] > 0, truth & running)
    oracle.begin(stage(contended_job, mitigates=True))
    saves = contended_job.duration_s[:, 1] < contended_job.duration_s[:, 0] - elapsed_s
    assert 0 < (truth & saves).sum() < truth.sum(), "the job has both kinds"
    assert np.array_equal(oracle.act(observation)[:100] == 1, truth & running & saves)
