"""What agents have in common: the environment below wrappers, and generators seeded by the episode."""

from __future__ import annotations

import gymnasium as gym
import pytest

import sysgym
from sysgym.agents import make_agent
from sysgym.agents.protocol import episode_rng, world_of
from sysgym.envs.failslow.fail_slow import FailSlow
from sysgym.scenarios.errors import SysgymError

REGISTERED = sysgym.__version__


def test_the_environment_below_wrappers_is_found_and_another_one_refused() -> None:
    env = gym.make("sysgym/FailSlow-v0")
    assert world_of(env, "mine", FailSlow) is env.unwrapped
    with pytest.raises(SysgymError, match='the agent "mine" plays FailSlow, not CartPoleEnv'):
        world_of(gym.make("CartPole-v1"), "mine", FailSlow)


@pytest.mark.parametrize(
    ("agent", "env_id", "message"),
    [
        ("random", "BurstPlan", 'plays DatacenterCC or FlowCC, not BurstPlan: write "bursts/random"'),
        ("random", "StragglerPrediction", "plays DatacenterCC or FlowCC, not StragglerPrediction$"),
        ("max", "FailSlow", "plays DatacenterCC or FlowCC, not FailSlow$"),
        ("never", "FailSlow", 'plays GradCompress, not FailSlow: write "failslow/never"'),
        ("bursts/random", "FailSlow", 'BurstPlan or BurstMux, not FailSlow: write "failslow/random"'),
        ("bursts/oracle", "TrainingTuning", 'not TrainingTuning: write "tuning/oracle"'),
        ("annealing", "CollectiveSynthesis", 'not CollectiveSynthesis: write "collectives/annealing"'),
        ("ucb", "CollectivePlacement", "plays JointPlacement, not CollectivePlacement$"),
    ],
)
def test_the_agent_of_the_same_name_that_plays_the_environment_is_named(
    agent: str, env_id: str, message: str
) -> None:
    env = gym.make(f"sysgym/{env_id}-v0")
    env.reset(seed=0)
    with pytest.raises(SysgymError, match=message):
        make_agent(agent).begin(env)


def test_generators_depend_on_the_episode_and_the_stream_alone() -> None:
    env = gym.make("sysgym/FailSlow-v0")
    drawn = []
    for seed, stream in ((10_000, 1), (10_000, 1), (10_001, 1), (10_000, 2)):
        env.reset(options={"episode_seed": seed})
        drawn.append(episode_rng(env, stream).random())
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3
    # Environments of others, without episode seeds, have one generator for all episodes.
    other = gym.make("CartPole-v1")
    assert episode_rng(other, 1).random() == episode_rng(other, 1).random()
