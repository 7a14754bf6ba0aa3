"""The network over sets in NumPy: agreement with torch, invariance to order, and storage."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.sets.modules import set_net_of
from sysgym.agents.learned.sets.network import SetNet, SetShape, network_from_bytes
from sysgym.agents.learned.sets.policy import SetPolicy

SHAPE = SetShape(n_rows=5, row_size=3, context_size=2, heads=2)


def new_policy(shape: SetShape, seed: int = 0) -> SetPolicy:
    torch.manual_seed(seed)
    space = gym.spaces.Box(-4.0, 4.0, (shape.observation_size,), np.float32)
    actions = gym.spaces.Discrete(shape.n_actions)
    policy = SetPolicy(space, actions, lambda _: 1e-3, set_shape=vars(shape))
    with torch.no_grad():  # the last layer starts near zero; scores must differ to be compared
        for weight in policy.mlp_extractor.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return policy


def observation(shape: SetShape, n_members: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(shape.n_rows, shape.row_size))
    rows[:, 0] = np.arange(shape.n_rows) < n_members
    rows[n_members:] = 0.0
    return np.concatenate([rows.ravel(), rng.normal(size=shape.context_size)]).astype(np.float32)


@settings(deadline=None)
@given(
    st.builds(SetShape, st.integers(1, 6), st.integers(1, 4), st.integers(0, 3), st.integers(1, 3)),
    st.integers(0, 1000),
)
def test_it_computes_what_torch_computes(shape: SetShape, seed: int) -> None:
    policy = new_policy(shape, seed)
    batch = np.stack([observation(shape, n, seed) for n in range(1, shape.n_rows + 1)])
    with torch.no_grad():
        found: Any = policy.get_distribution(torch.from_numpy(batch)).distribution
        expected = found.logits.numpy()
    scores = set_net_of(policy)(batch)
    assert scores.shape == (len(batch), shape.n_actions)
    # The distribution normalises its logits.
    scores = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    assert scores == pytest.approx(expected, abs=1e-4)
    assert set_net_of(policy)(batch[0]) == pytest.approx(set_net_of(policy)(batch)[0], abs=1e-6)


@settings(deadline=None)
@given(st.permutations(range(5)), st.integers(0, 1000))
def test_scores_follow_their_members(order: list[int], seed: int) -> None:
    net = set_net_of(new_policy(SHAPE, seed))
    flat = observation(SHAPE, 5, seed)
    rows, context = flat[:15].reshape(5, 3), flat[15:]
    moved = np.concatenate([rows[order].ravel(), context])
    before, after = net(flat).reshape(2, 5), net(moved).reshape(2, 5)
    assert after == pytest.approx(before[:, order], abs=1e-5)


def test_padding_changes_nothing() -> None:
    policy = new_policy(SHAPE)
    wide = SetShape(n_rows=9, row_size=3, context_size=2, heads=2)
    small = set_net_of(policy)
    large = SetNet(wide, small.encoder, small.head)
    flat = observation(SHAPE, 3, 1)
    padded = np.concatenate([flat[:15], np.zeros(12, np.float32), flat[15:]])
    assert large(padded).reshape(2, 9)[:, :3] == pytest.approx(small(flat).reshape(2, 5)[:, :3], abs=1e-6)


def test_a_file_brings_either_network_back() -> None:
    net = set_net_of(new_policy(SHAPE))
    back = network_from_bytes(net.to_bytes())
    assert isinstance(back, SetNet)
    assert back.shape == SHAPE
    flat = observation(SHAPE, 4, 2)
    assert np.array_equal(back(flat), net(flat))
    assert isinstance(network_from_bytes(net.encoder.to_bytes()), Mlp)
