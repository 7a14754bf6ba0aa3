"""Students agree with their teachers, are reproducible by seed, and are checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sysgym.agents import make_agent, play_episode
from sysgym.agents.learned.checkpoint import (
    Checkpoint,
    CheckpointMeta,
    read_checkpoint,
    write_checkpoint,
)
from sysgym.agents.learned.choices.problem import Choices
from sysgym.agents.learned.deploy.distill import (
    Recipe,
    action_scale_name,
    distill,
    student_algorithm,
    student_hyper_parameters,
)
from sysgym.agents.learned.deploy.onnx_file import OnnxRunner, onnx_bytes
from sysgym.agents.learned.deploy.source import read_source
from sysgym.agents.learned.placement.reading import READING
from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.sets.network import SetNet
from sysgym.agents.learned.training.learner import torch_model
from sysgym.scenarios import load_scenario
from sysgym.scenarios.errors import SysgymError

RECIPE = Recipe((8,), 96, rounds=3, updates=150, batch_size=64, n_envs=2)


@pytest.fixture(scope="module")
def teacher(ppo_run: Path) -> Checkpoint:
    """A policy of rates, with weights large enough to be worth imitating."""
    found = read_checkpoint(ppo_run / "final.zip")
    assert isinstance(found.policy, Mlp)
    rng = np.random.default_rng(1)
    weights = tuple(
        (weight + rng.normal(size=weight.shape) * 0.2).astype(np.float32) for weight in found.policy.weights
    )
    return replace(found, policy=replace(found.policy, weights=weights))


def test_the_student_learns_what_the_teacher_does(teacher: Checkpoint, tmp_path: Path, make_env: Any) -> None:
    steps: list[int] = []
    found = distill(teacher, RECIPE, tmp_path / "much", progress=steps.append)
    little = distill(teacher, replace(RECIPE, updates=1), tmp_path / "little")
    assert found.difference < 0.5 * little.difference
    assert (steps[0], steps[-1], len(steps)) == (2, 96, 48)

    student = read_checkpoint(found.checkpoint)
    assert isinstance(student.policy, Mlp)
    assert [len(bias) for bias in student.policy.biases] == [8, 4]
    assert student.meta.agent == "ppo"
    assert student.meta.total_steps == 96
    assert student.meta.observation_index == teacher.meta.observation_index
    about = student.meta.distilled_from
    assert about["agent"] == "ppo"
    assert len(about["checkpoint_sha256"]) == 64
    assert about["difference"] == found.difference

    env = make_env("iroko-dumbbell-10m")
    agent = make_agent("ppo", checkpoint=found.checkpoint)
    total, _ = play_episode(env, agent, options={"episode_seed": 1})
    assert total > 0.0
    observation, _ = env.reset(seed=0)
    model = torch_model(student)
    output, _ = model.predict(observation, deterministic=True)
    assert np.clip(student.policy(observation), -1.0, 1.0) == pytest.approx(output, abs=1e-5)
    source = read_source(found.checkpoint)
    exported = OnnxRunner(onnx_bytes(source.graph, source.properties))
    assert exported(observation[None]).action[0] == pytest.approx(agent.act(observation), rel=1e-4)


def test_the_same_seed_gives_the_same_student(teacher: Checkpoint, tmp_path: Path) -> None:
    short = replace(RECIPE, total_steps=12, updates=5)
    networks = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        network = read_checkpoint(distill(teacher, short, tmp_path / name, seed=seed).checkpoint).policy
        assert isinstance(network, Mlp)
        networks.append(network.weights[0])
    assert np.array_equal(networks[0], networks[1])
    assert not np.array_equal(networks[0], networks[2])


def test_off_policy_teachers_have_students_too(sac_run: Path, tmp_path: Path) -> None:
    teacher = read_checkpoint(sac_run / "final.zip")
    found = distill(teacher, replace(RECIPE, total_steps=24, updates=30), tmp_path)
    student = read_checkpoint(found.checkpoint)
    assert student.meta.agent == "sac"
    assert isinstance(student.policy, Mlp)
    assert student.policy.activations == ("relu", "tanh")
    assert found.difference < 0.2


def test_a_choice_among_what_is_allowed_is_imitated(mlp: Any, tmp_path: Path) -> None:
    scenario = load_scenario("placement-unseen")
    problem = Choices(scenario, READING)
    shape = problem.set_shape
    assert shape is not None
    encoder = mlp(shape.row_size + shape.context_size, 8, 8, last="tanh")
    network = SetNet(shape, encoder, mlp(24, 8, shape.heads, seed=2))
    meta = CheckpointMeta(
        "maskable_ppo_set",
        scenario.env_id,
        scenario.resolved(),
        {},
        problem.observation_index(),
        problem.action_meaning(),
        64,
        0.0,
        0,
        1,
        {},
    )
    path = tmp_path / "teacher.zip"
    write_checkpoint(path, meta, network, b"")
    recipe = replace(RECIPE, hidden=(32,), total_steps=60, updates=80, temperature=1.0)
    found = distill(read_checkpoint(path), recipe, tmp_path / "student")
    student = read_checkpoint(found.checkpoint)
    assert student.meta.agent == "maskable_ppo"
    assert isinstance(student.policy, Mlp)
    little = distill(read_checkpoint(path), replace(recipe, updates=1), tmp_path / "little")
    assert found.difference < 0.5 * little.difference
    env: Any = gym.make(scenario.env_id, scenario=scenario, split="test", disable_env_checker=True)
    _, info = play_episode(
        env, make_agent("maskable_ppo", checkpoint=found.checkpoint), options={"episode_seed": 20_000}
    )
    assert info["reward_terms"].get("invalid", 0.0) == 0.0


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"hidden": ()}, "hidden layers need a width"),
        ({"hidden": (8, 0)}, "hidden layers need a width"),
        ({"temperature": 0.0}, "temperature has to be positive"),
        ({"noise": -0.1}, "noise cannot be negative"),
        ({"total_steps": 5}, "5 steps are too few for 3 rounds"),
    ],
)
def test_a_recipe_that_cannot_be_followed_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SysgymError, match=complaint):
        Recipe(**{**asdict(RECIPE), **changes})


def test_a_teacher_without_a_plain_network_is_refused(teacher: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match="runs without torch"):
        distill(replace(teacher, policy=None), RECIPE, tmp_path)


def test_students_are_trained_as_their_teacher_was(teacher: Checkpoint) -> None:
    meta = replace(
        teacher.meta, agent="maskable_ppo_set", hyper_parameters={"policy_kwargs": {}, "gamma": 0.1}
    )
    assert student_algorithm(meta).name == "maskable_ppo"
    assert student_hyper_parameters(meta, (3,)) == {"gamma": 0.1, "net_arch": [3]}
    assert action_scale_name(teacher.meta) == "log"
    assert (
        action_scale_name(replace(meta, env_id="sysgym/FlowCC-v0", action_scale={"name": "linear"})) == "log"
    )
    assert action_scale_name(replace(meta, action_scale={"name": "linear"})) == "linear"
    assert action_scale_name(replace(meta, action_scale={"name": "choice"})) == "log"


def test_without_the_extra_it_is_named(ppo_run: Path, script: Callable[..., str]) -> None:
    code = """
    import sys
    from pathlib import Path
    from sysgym.agents.learned.checkpoint import read_checkpoint
    from sysgym.agents.learned.deploy.distill import Recipe, distill
    from sysgym.scenarios.errors import MissingExtra

    try:
        distill(read_checkpoint(sys.argv[1]), Recipe((4,), 100), Path("x"))
    except MissingExtra as error:
        print(error)
    """
    said = script(code, ppo_run / "final.zip", without=("torch", "stable_baselines3", "sb3_contrib"))
    assert 'pip install "sysgym[train]"' in said
