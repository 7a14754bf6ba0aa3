"""Policies in NumPy against the same networks in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sysgym.agents.learned.policy import ACTIVATIONS, Mlp, mlp_of
from sysgym.agents.learned.training.algorithms import ACTION_NOISE_STD, ALGORITHMS, get_algorithm

MakeEnv = Callable[..., Any]

IN_TORCH: dict[str, Callable[[Any], Any]] = {
    "identity": lambda values: values,
    "relu": torch.relu,
    "tanh": torch.tanh,
}


@st.composite
def networks(draw: st.DrawFn) -> Mlp:
    """Draw a network of any shape."""
    sizes = draw(st.lists(st.integers(1, 9), min_size=2, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    layers = list(zip(sizes[1:], sizes[:-1], strict=True))
    return Mlp(
        tuple(rng.normal(size=layer).astype(np.float32) for layer in layers),
        tuple(rng.normal(size=n_out).astype(np.float32) for n_out, _ in layers),
        tuple(draw(st.sampled_from(ACTIVATIONS)) for _ in layers),
    )


@given(networks(), st.integers(0, 2**32 - 1))
def test_it_computes_what_torch_computes(mlp: Mlp, seed: int) -> None:
    batch = np.random.default_rng(seed).normal(size=(7, mlp.weights[0].shape[1])).astype(np.float32)
    values = torch.from_numpy(batch)
    for weight, bias, activation in zip(mlp.weights, mlp.biases, mlp.activations, strict=True):
        linear = torch.nn.functional.linear(values, torch.from_numpy(weight), torch.from_numpy(bias))
        values = IN_TORCH[activation](linear)
    assert mlp(batch) == pytest.approx(values.numpy(), rel=1e-4, abs=1e-4)
    assert mlp(batch[3]) == pytest.approx(values.numpy()[3], rel=1e-4, abs=1e-4)


@given(networks())
def test_a_file_brings_it_back(mlp: Mlp) -> None:
    back = Mlp.from_bytes(mlp.to_bytes())
    assert back.activations == mlp.activations
    for ours, read in ((mlp.weights, back.weights), (mlp.biases, back.biases)):
        assert len(ours) == len(read)
        assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(ours, read, strict=True))


def new_model(env: Any, name: str, use_sde: bool = False, **policy: Any) -> Any:
    """Return a learner of tiny networks, with weights large enough for every activation to show."""
    algorithm = get_algorithm(name)
    arguments = algorithm.arguments({"policy_kwargs": {"net_arch": [8, 6], **policy}})
    arguments.pop(ACTION_NOISE_STD, None)  # training makes the noise of it
    arguments |= {"use_sde": True} if use_sde else {}
    arguments |= {"buffer_size": 10} if name in ("sac", "tqc", "td3", "ddpg") else {}
    model = algorithm.load_class()("MlpPolicy", env, seed=3, device="cpu", **arguments)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.5)
    return model


PLAIN = [name for name, one in ALGORITHMS.items() if not one.masks and not one.over_sets]


@pytest.mark.parametrize("name", PLAIN)
def test_every_algorithms_policy_is_taken_over(make_env: MakeEnv, name: str) -> None:
    model = new_model(make_env(action_scale="log"), name)
    mlp = mlp_of(model)
    assert mlp is not None
    assert [weight.shape[0] for weight in mlp.weights] == [8, 6, 8]
    observations = np.random.default_rng(1).random((50, *model.observation_space.shape), dtype=np.float32)
    expected, _ = model.predict(observations, deterministic=True)
    assert expected.std() > 0.05, "nothing to tell apart"
    assert np.clip(mlp(observations), -1.0, 1.0) == pytest.approx(expected, abs=1e-4)


def test_what_numpy_does_not_know_is_not_taken_over(make_env: MakeEnv) -> None:
    env = make_env(action_scale="log")
    assert mlp_of(new_model(env, "ppo", activation_fn=torch.nn.ReLU)) is not None
    assert mlp_of(new_model(env, "ppo", activation_fn=torch.nn.ELU)) is None
    # State-dependent exploration bounds the mean by a Hardtanh.
    assert mlp_of(new_model(env, "sac", use_sde=True)) is None


def test_a_network_that_turns_out_different_is_not_taken_over(make_env: MakeEnv) -> None:
    """Its layers look plain, but what it answers is not what they say."""
    model = new_model(make_env(action_scale="log"), "ppo")
    layers = model.policy.mlp_extractor
    layers.forward_actor = lambda features: 1.1 * layers.policy_net(features)
    assert mlp_of(model) is None
