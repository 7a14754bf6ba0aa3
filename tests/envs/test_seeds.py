"""Seeds of the environments of jobs, clusters and accelerators: reproducibility and independence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.scenarios.errors import UnknownName
from tests.envs.conftest import parts_of

REGISTERED = sysgym.__version__
EPISODES = {
    "sysgym/CollectivePlacement-v0": 3,
    "sysgym/ReductionProgram-v0": 3,
    "sysgym/JointPlacement-v0": 3,
    "sysgym/CollectiveSynthesis-v0": 3,
    "sysgym/GradCompress-v0": 1,
    "sysgym/BurstPlan-v0": 3,
    "sysgym/BurstMux-v0": 1,
    "sysgym/TrainingTuning-v0": 3,
    "sysgym/FailSlow-v0": 2,
    "sysgym/TrainingDiagnosis-v0": 3,
    "sysgym/PipelineTuning-v0": 2,
    "sysgym/StragglerPrediction-v0": 1,
    "sysgym/StragglerMitigation-v0": 1,
}
every = pytest.mark.parametrize("env_id", list(EPISODES))

Rollout = Callable[..., list[Any]]
Digest = Callable[[list[Any]], str]


def _made(env_id: str, **arguments: Any) -> Any:
    return gym.make(env_id, **arguments).unwrapped


@every
def test_equal_seeds_give_equal_bytes_and_others_do_not(
    env_id: str, rollout: Rollout, digest: Digest
) -> None:
    env, episodes = _made(env_id), EPISODES[env_id]
    first = digest(rollout(env, seed=7, episodes=episodes))
    assert digest(rollout(env, seed=8, episodes=episodes)) != first
    assert digest(rollout(env, seed=7, episodes=episodes)) == first
    assert digest(rollout(_made(env_id), seed=7, episodes=episodes)) == first


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, str]:
    """Digest of every environment's episodes, from one other process with other hashes of strings.

    They are played in another order than here, so that what one leaves behind for the next would be seen.
    """
    code = (
        "import json, runpy, sys, gymnasium, sysgym\n"
        "here = runpy.run_path(sys.argv[1])\n"
        "def digest(env_id, episodes):\n"
        "    env = gymnasium.make(env_id).unwrapped\n"
        "    return here['hashed'](here['play'](env, seed=3, episodes=episodes))\n"
        "print(json.dumps({one: digest(one, n) for one, n in json.loads(sys.argv[2]).items()}))"
    )
    helpers = str(Path(__file__).with_name("conftest.py"))
    answer = subprocess.run(
        [sys.executable, "-c", code, helpers, json.dumps(dict(reversed(EPISODES.items())))],
        env={**os.environ, "PYTHONHASHSEED": "4242"},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    found: dict[str, str] = json.loads(answer.stdout)
    return found


@every
@pytest.mark.xdist_group("another process")
def test_another_process_gives_the_same_bytes(
    env_id: str, elsewhere: dict[str, str], rollout: Rollout, digest: Digest
) -> None:
    assert elsewhere[env_id] == digest(rollout(_made(env_id), seed=3, episodes=EPISODES[env_id]))


@every
def test_side_by_side_it_is_the_same_as_alone(env_id: str) -> None:
    envs = gym.vector.SyncVectorEnv([lambda: gym.make(env_id)] * 2)
    together, _ = envs.reset(seed=[5, 6])
    for index, seed in enumerate((5, 6)):
        alone, _ = gym.make(env_id).reset(seed=seed)
        for key, value in parts_of(alone).items():
            assert np.array_equal(parts_of(together)[key][index], value)


@every
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_episode_seeds_come_from_the_split(env_id: str, split: str) -> None:
    env = _made(env_id, split=split)
    env.reset(seed=3)
    seeds = {env.reset()[1]["episode_seed"] for _ in range(20)}
    assert len(seeds) > 10
    assert all(seed in env.scenario.splits[split] for seed in seeds)


@every
def test_an_episode_seed_can_be_pinned_and_options_are_checked(
    env_id: str, rollout: Rollout, digest: Digest
) -> None:
    env = _made(env_id, split="test")
    pinned: dict[str, Any] = {"options": {"episode_seed": 20_005}, "episodes": EPISODES[env_id]}
    traces = [rollout(env, seed=seed, **pinned) for seed in (1, 2)]
    assert traces[0][0][1]["episode_seed"] == 20_005
    assert digest(traces[0]) == digest(traces[1])
    with pytest.raises(UnknownName, match='did you mean "episode_seed"'):
        env.reset(options={"episode_sed": 1})
