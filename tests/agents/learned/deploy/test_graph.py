"""Policy graphs: inputs, outputs, and checkpoints of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.agents import make_agent
from sysgym.agents.learned.checkpoint import Checkpoint, read_checkpoint
from sysgym.agents.learned.deploy.graph import Choice, Inputs, PolicyGraph
from sysgym.agents.learned.deploy.quantize import QuantizedLayer, int8_twin
from sysgym.agents.learned.learning import graph_of
from sysgym.agents.learned.policy import Mlp
from sysgym.envs.action_scale import ActionScale
from sysgym.scenarios.errors import SysgymError


def test_inputs_are_selected_then_clipped_then_scaled() -> None:
    two = np.ones(2, np.float32)
    inputs = Inputs(3, (2, 0), low=0.0 * two, high=2.0 * two, offset=two, scale=10.0 * two)
    assert np.array_equal(inputs(np.array([[5.0, 9.0, -3.0]])), [[-10.0, 10.0]])
    assert inputs.n_used == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"select": (0, 3)}, "an observation of 3 numbers has no index 3"),
        ({"low": np.zeros(2, np.float32)}, r"low of 3 inputs: got shape \(2,\)"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SysgymError, match=complaint):
        Inputs(3, **arguments)


def test_parts_that_do_not_fit_are_refused(mlp: Any) -> None:
    with pytest.raises(SysgymError, match="3 inputs for a network of 4"):
        PolicyGraph(mlp(4, 2), Inputs(3), Choice(masked=False))


def test_forbidden_actions_are_not_taken(mlp: Any) -> None:
    graph = PolicyGraph(mlp(2, 3), Inputs(2), Choice(masked=True))
    masks = ~np.eye(3, dtype=bool)
    decided = graph(np.ones((3, 2)), masks)
    best = graph.network(np.ones(2)).argmax()
    assert decided.action[best] != best
    assert np.array_equal(np.isfinite(decided.values), masks)


def test_a_checkpoint_is_what_its_agent_plays(ppo_run: Path, make_env: Any) -> None:
    graph = graph_of(read_checkpoint(ppo_run / "final.zip"))
    agent = make_agent("ppo", checkpoint=ppo_run / "final.zip")
    env = make_env("iroko-dumbbell-10m")
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    for _ in range(6):
        action = graph(observation[None]).action[0]
        assert np.array_equal(action, agent.act(observation))
        observation, *_ = env.step(action)
    assert isinstance(graph.outputs, ActionScale)
    # What the space does not have is clipped to it.
    space = env.observation_space
    wild = graph(np.array([space.high + 5.0, space.low - 5.0])).action
    assert np.array_equal(wild, graph(np.array([space.high, space.low])).action)


def test_what_numpy_does_not_play_is_not_exported(ppo_run: Path) -> None:
    found = read_checkpoint(ppo_run / "final.zip")
    with pytest.raises(SysgymError, match="its policy is neither a plain network"):
        graph_of(Checkpoint(found.path, found.meta, None, found.learner))


def test_eight_bits_are_within_half_a_step_of_a_weight() -> None:
    weight = np.random.default_rng(0).normal(size=(5, 30)).astype(np.float32)
    weight[2] = 0.0
    layer = QuantizedLayer.of(weight)
    assert layer.integers.dtype == np.int8
    assert np.abs(layer.integers).max() == 127
    assert (np.abs(layer.weight - weight) <= 0.5 * layer.scale[:, None] * (1.0 + 1e-5)).all()
    assert not layer.weight[2].any()


def test_the_twin_of_eight_bits_answers_almost_the_same(graph: PolicyGraph, batch: Any) -> None:
    observations, masks = batch(graph)
    twin = PolicyGraph(int8_twin(graph.network), graph.inputs, graph.outputs)
    ours, theirs = graph(observations, masks).values, twin(observations, masks).values
    finite = np.isfinite(ours)
    assert np.array_equal(finite, np.isfinite(theirs))
    gap = np.abs(ours[finite] - theirs[finite]).max()
    assert 0.0 < gap < 0.05 * max(float(np.ptp(ours[finite])), 1.0)
    assert isinstance(twin.network, Mlp) == isinstance(graph.network, Mlp)
