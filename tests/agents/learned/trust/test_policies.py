"""Observations and actions of a policy's network in episodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sysgym.agents.learned.checkpoint import read_checkpoint, write_checkpoint
from sysgym.agents.learned.congestion.hosts.rows import HostRows
from sysgym.agents.learned.learning import graph_of
from sysgym.agents.learned.loading import load
from sysgym.agents.learned.sets.network import SetNet
from sysgym.agents.learned.trust.policies import (
    answers,
    differences,
    int8_of,
    play_seeds,
    policy_of,
    watch,
    weights_of,
)
from sysgym.scenarios import load_scenario
from tests.agents.learned.conftest import SCENARIO, TINY
from tests.agents.learned.trust.policies import random_mlp, write_policy


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy")
    return write_policy(folder / "final.zip", load_scenario(SCENARIO, overrides=TINY), 7)


def test_watching_changes_nothing(policy: Path) -> None:
    checkpoint = read_checkpoint(policy)
    seen = watch(checkpoint, "validation", [10_000, 10_001])
    alone = play_seeds(checkpoint, load(policy), "validation", [10_000, 10_001], lambda number: None)
    assert np.array_equal(seen.returns, alone)
    steps = int(TINY["control.episode_steps"])
    assert seen.inputs.shape == (2 * steps, len(checkpoint.meta.observation_index))
    assert seen.episode.tolist() == [0] * steps + [1] * steps
    assert seen.masks is None


def test_thinning_keeps_the_ends(policy: Path) -> None:
    seen = watch(read_checkpoint(policy), "validation", [10_000])
    thin = seen.thinned(3)
    assert len(thin.inputs) == 3
    assert np.array_equal(thin.inputs[[0, -1]], seen.inputs[[0, -1]])
    assert len(seen.thinned(10_000).inputs) == len(seen.inputs)


def test_answers_are_shares_of_the_range(policy: Path) -> None:
    checkpoint = read_checkpoint(policy)
    seen = watch(checkpoint, "validation", [10_000])
    graph = graph_of(checkpoint)
    found = answers(graph, seen.inputs)
    low, high = checkpoint.meta.action_scale["low"], checkpoint.meta.action_scale["high"]
    assert np.allclose(low + found * (high - low), graph(seen.inputs).action)
    assert differences(found, found).max() == 0.0
    moved = found.copy()
    moved[:, 1] += 0.25
    assert differences(found, moved) == pytest.approx(np.full(len(found), 0.25))
    assert differences(np.array([1, 2]), np.array([1, 3])).tolist() == [0.0, 1.0]


def test_where_choices_are_forbidden_it_is_written_down(tmp_path: Path) -> None:
    scenario = load_scenario("placement-unseen")
    checkpoint = read_checkpoint(write_policy(tmp_path / "final.zip", scenario, 3))
    first, _ = scenario.splits["validation"].seeds
    seen = watch(checkpoint, "validation", [first])
    assert seen.masks is not None
    assert seen.masks.shape == (len(seen.inputs), graph_of(checkpoint).n_outputs)
    chosen = answers(graph_of(checkpoint), seen.inputs, seen.masks)
    assert seen.masks[np.arange(len(chosen)), chosen].all()
    assert not seen.masks.all()


def test_one_network_for_all_hosts_is_seen_from_its_observation(tmp_path: Path) -> None:
    scenario = load_scenario(SCENARIO, overrides=TINY)
    written = read_checkpoint(write_policy(tmp_path / "first.zip", scenario, 3))
    shape = HostRows(written.meta.observation_index).shape
    code = random_mlp(1, (shape.row_size + shape.context_size, 6), ("tanh",))
    head = random_mlp(2, (18, 1), ("identity",))
    path, meta = tmp_path / "hosts.zip", replace(written.meta, agent="ppo_hosts")
    write_checkpoint(path, meta, SetNet(shape, code, head), b"")
    checkpoint = read_checkpoint(path)
    seen = watch(checkpoint, "validation", [10_000])
    alone = play_seeds(checkpoint, load(path), "validation", [10_000], lambda number: None)
    assert np.array_equal(seen.returns, alone)
    assert seen.inputs.shape[1] == len(meta.observation_index)
    policy = policy_of(checkpoint)
    coarse = int8_of(policy)
    assert 0.0 < differences(answers(policy, seen.inputs), answers(coarse, seen.inputs)).max() < 0.02
    sizes = [weight.size for mlp in (code, head) for weight in (*mlp.weights, *mlp.biases)]
    assert len(weights_of(checkpoint)) == sum(sizes)
