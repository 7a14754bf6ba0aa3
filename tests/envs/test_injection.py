"""Rewards and observations as objects, in the environments that have them by name too."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.envs.bursts.observation import MuxNumbers, PlanNumbers
from sysgym.envs.collectives.observation import SynthesisTables
from sysgym.envs.compression.observation import RunNumbers
from sysgym.envs.congestion.datacenter.rewards import get_reward
from sysgym.envs.congestion.flow.presets.datacenter import DATACENTER
from sysgym.envs.diagnosis.observation import DiagnosisTables
from sysgym.envs.failslow.observation import FailSlowNumbers
from sysgym.envs.lifecycle import ArgumentError
from sysgym.envs.pipelines.observation import PipelineTables
from sysgym.envs.placement.observers import JointTables, PlacementTables, ProgramTables
from sysgym.envs.rewards import Reward
from sysgym.envs.stragglers.observation import JobTables
from sysgym.envs.tuning.observation import TuningTables
from sysgym.scenarios.errors import SysgymError, UnknownName
from tests.envs.conftest import ALL, parts_of

Rollout = Callable[..., list[Any]]
Digest = Callable[[list[Any]], str]

REGISTERED = sysgym.__version__
DEFAULTS: dict[str, Any] = {
    "sysgym/StragglerPrediction-v0": JobTables,
    "sysgym/StragglerMitigation-v0": JobTables,
    "sysgym/CollectivePlacement-v0": PlacementTables,
    "sysgym/ReductionProgram-v0": ProgramTables,
    "sysgym/JointPlacement-v0": JointTables,
    "sysgym/CollectiveSynthesis-v0": SynthesisTables,
    "sysgym/GradCompress-v0": RunNumbers,
    "sysgym/BurstPlan-v0": PlanNumbers,
    "sysgym/BurstMux-v0": MuxNumbers,
    "sysgym/TrainingTuning-v0": TuningTables,
    "sysgym/FailSlow-v0": FailSlowNumbers,
    "sysgym/TrainingDiagnosis-v0": DiagnosisTables,
    "sysgym/PipelineTuning-v0": PipelineTables,
}
every = pytest.mark.parametrize("env_id", list(DEFAULTS))


def pay(outcome: Any, weights: Any) -> dict[str, Any]:
    """Pay the same for every decision, as a NumPy number."""
    return {"decision": np.float64(-weights["decision"])}


def pay_a_number(outcome: Any, weights: Any) -> Any:
    """Forget that terms have names."""
    return -1.0


PER_DECISION = Reward("per_decision", pay, {"decision": 0.5})


class Fields:
    """How many things an agent may know: as many as the state has fields."""

    def space(self, setting: Any) -> gym.Space[Any]:
        """Return the space of one number."""
        return gym.spaces.Box(0.0, 100.0, (1,), np.float32)

    def observe(self, state: Any) -> Any:
        """Return the number of fields."""
        return np.array([len(state)], np.float32)


class NoSpace(Fields):
    """An observer that has forgotten its space."""

    def space(self, setting: Any) -> Any:
        """Return a shape instead of a space."""
        return (1,)


def masks_of(whole: Any) -> dict[str, Any]:
    """Return the masks of an observation or a space."""
    return {key: part for key, part in parts_of(whole).items() if key == ALL or key.endswith("mask")}


def make(env_id: str, **arguments: Any) -> Any:
    return gym.make(env_id, **arguments).unwrapped


@every
def test_a_reward_may_be_an_object(env_id: str, rollout: Rollout) -> None:
    env = make(env_id, reward=PER_DECISION)
    for _, reward, _, _, info in rollout(env, seed=0)[1:]:
        assert info["reward_terms"] == {"decision": reward}
        assert type(reward) is type(info["reward_terms"]["decision"]) is float
        assert reward == -0.5
    assert env.reward is PER_DECISION


@every
def test_the_scenario_speaks_of_its_own_reward_only(env_id: str, rollout: Rollout) -> None:
    """Even an object of the same name does not take the scenario's weights, nor change the scenario."""
    weight = next(iter(make(env_id).reward.weights))
    overrides = {"reward.weights": {weight: 7.0}}
    namesake = Reward("default", pay, {"decision": 0.5, weight: 1.0})
    env, own = make(env_id, reward=namesake, overrides=overrides), make(env_id, overrides=overrides)
    assert env.reward.weights == namesake.weights
    assert env.scenario == own.scenario
    assert env.scenario.sha256() == own.scenario.sha256()
    assert own.reward.name == own.scenario.reward.name
    assert env.reward is not own.reward


@every
def test_a_reward_of_ones_own_has_a_name(env_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names work in scenarios, where they take weights, and as an argument."""
    monkeypatch.setitem(type(make(env_id)).REWARDS, "per_decision", PER_DECISION)
    overrides = {"reward.name": "per_decision", "reward.weights": {"decision": 2.0}}
    assert make(env_id, overrides=overrides).reward.weights == {"decision": 2.0}
    assert make(env_id, reward="per_decision").reward is PER_DECISION
    assert make(env_id, reward="default", overrides=overrides).reward.name == "default"


@every
def test_an_observation_may_be_an_object(env_id: str, rollout: Rollout) -> None:
    env = make(env_id, observation=Fields())
    assert env.observation_space == gym.spaces.Box(0.0, 100.0, (1,), np.float32)
    trace = rollout(env, seed=0)
    n_fields = trace[0][0][0]
    assert n_fields > 1
    assert all(observation.tolist() == [n_fields] for observation, *_ in trace)
    again = rollout(pickle.loads(pickle.dumps(env)), seed=0)
    assert [step[1] for step in again[1:]] == [step[1] for step in trace[1:]]
    again = rollout(pickle.loads(pickle.dumps(env)), seed=0)
    assert [step[1] for step in again[1:]] == [step[1] for step in trace[1:]]


@every
def test_the_default_can_be_named_given_and_built_upon(env_id: str, rollout: Rollout, digest: Digest) -> None:
    default = DEFAULTS[env_id]

    class Masked(default):  # type: ignore[misc, valid-type]
        """The default, less what is not a mask; of a vector of numbers all."""

        def space(self, setting: Any) -> gym.Space[Any]:
            """Return the part's space."""
            return gym.spaces.Dict(masks_of(super().space(setting)))

        def observe(self, state: Any) -> Any:
            """Return the part."""
            return masks_of(super().observe(state))

    expected = rollout(make(env_id), seed=3)
    for same in ("default", default()):
        assert digest(rollout(make(env_id, observation=same), seed=3)) == digest(expected)
    less = make(env_id, observation=Masked())
    for (observation, *_), (whole, *_) in zip(rollout(less, seed=3), expected, strict=True):
        assert less.observation_space.contains(observation)
        ((key, part),) = observation.items()
        np.testing.assert_array_equal(part, parts_of(whole)[key])


@every
def test_the_environments_of_a_vector_share_objects(env_id: str) -> None:
    vector = gym.make_vec(
        env_id, num_envs=2, vectorization_mode="sync", reward=PER_DECISION, observation=DEFAULTS[env_id]()
    )
    alone = make(env_id, reward=PER_DECISION)
    observations, _ = vector.reset(seed=4)
    observation, info = alone.reset(seed=5)
    allowed = info.get("action_mask")
    action = np.zeros(alone.action_space.shape, np.int64) if allowed is None else int(np.argmax(allowed))
    several, rewards, *_ = vector.step(np.stack([action, action]))
    following, reward, *_ = alone.step(action)
    for key in parts_of(observation):
        np.testing.assert_array_equal(parts_of(observations)[key][1], parts_of(observation)[key])
        np.testing.assert_array_equal(parts_of(several)[key][1], parts_of(following)[key])
    assert rewards.tolist() == [reward, reward]
    vector.close()


@every
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"reward": pay}, ArgumentError, "reward: expected the name of a reward, a Reward, or None"),
        ({"reward": DATACENTER.reward}, ArgumentError, "reward: expected"),
        ({"observation": None}, ArgumentError, r"observation: expected .* with space\(\) and observe\(\)"),
        ({"observation": pay}, ArgumentError, "observation: expected"),
        ({"observation": Fields}, ArgumentError, r"got the class Fields; pass Fields\("),
        ({"observation": NoSpace()}, ArgumentError, r"gymnasium.Space of NoSpace.space\(\), got \(1,\)"),
        ({"observation": "defualt"}, UnknownName, 'did you mean "default"'),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, dict) else "",
)
def test_what_cannot_be_is_said(
    env_id: str, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make(env_id, **arguments)


@every
def test_a_reward_without_named_terms_is_named(env_id: str, rollout: Rollout) -> None:
    env = make(env_id, reward=Reward("nameless", pay_a_number))
    with pytest.raises(SysgymError, match=r'reward "nameless": expected a dict of named terms.*got -1\.0'):
        rollout(env, seed=0)


@pytest.mark.parametrize(
    ("env_id", "reward"),
    [("sysgym/DatacenterCC-v0", DATACENTER.reward), ("sysgym/FlowCC-v0", get_reward("default"))],
)
def test_a_reward_of_another_environment_is_refused(env_id: str, reward: Any) -> None:
    with pytest.raises(ArgumentError, match="reward: expected the name of a reward, a "):
        make(env_id, reward=reward)
