"""Policy networks in NumPy, which run in microseconds and without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.arrays import read_arrays, write_arrays

Array = NDArray[np.float32]

LARGEST_DIFFERENCE = 1e-4
"""Largest accepted difference between the network in torch and its conversion to NumPy."""

ACTIVATIONS = ("identity", "relu", "tanh")


@dataclass(frozen=True)
class Mlp:
    """Multilayer perceptron.

    Attributes:
        weights: Weights of each layer, shape (n_out, n_in).
        biases: Biases of each layer, shape (n_out,).
        activations: Activation of each layer, one of :data:`ACTIVATIONS`.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activations: tuple[str, ...]

    def __call__(self, observation: NDArray[Any]) -> Array:
        """Return the output for one observation or a batch of them."""
        return self.layer_outputs(observation)[-1]

    def layer_outputs(self, observation: NDArray[Any]) -> list[Array]:
        """Return the outputs of all layers; the last one is the output of the network."""
        values: Array = np.asarray(observation, dtype=np.float32)
        outputs = []
        for weight, bias, activation in zip(self.weights, self.biases, self.activations, strict=True):
            values = values @ weight.T + bias
            if activation == "tanh":
                values = np.tanh(values)
            elif activation == "relu":
                values = np.maximum(values, np.float32(0.0))
            outputs.append(values)
        return outputs

    def to_bytes(self) -> bytes:
        """Return the network as an npz file."""
        arrays: dict[str, NDArray[Any]] = {"activations": np.array(self.activations)}
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            arrays[f"weight_{layer}"], arrays[f"bias_{layer}"] = weight, bias
        return write_arrays(arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Mlp:
        """Return the network from untrusted bytes written by :meth:`to_bytes`.

        Raises:
            ValueError: If layers do not fit together, or an activation or a value is invalid.
            KeyError: If a layer is missing.
        """
        arrays = read_arrays(data)
        activations = tuple(str(name) for name in arrays["activations"])
        layers = range(len(activations))
        weights = tuple(arrays[f"weight_{layer}"] for layer in layers)
        biases = tuple(arrays[f"bias_{layer}"] for layer in layers)
        _check_layers(weights, biases, activations)
        return cls(weights, biases, activations)


def _check_layers(
    weights: tuple[Array, ...], biases: tuple[Array, ...], activations: tuple[str, ...]
) -> None:
    if not activations:
        raise ValueError("a network without layers")
    n_in = weights[0].shape[-1] if weights[0].ndim else 0
    for number, (weight, bias, activation) in enumerate(zip(weights, biases, activations, strict=True)):
        if activation not in ACTIVATIONS:
            raise ValueError(f"layer {number}: no activation {activation[:40]!r}")
        if weight.dtype != np.float32 or bias.dtype != np.float32:
            raise ValueError(f"layer {number}: its numbers are {weight.dtype} and {bias.dtype}, not float32")
        if weight.ndim != 2 or weight.shape[1] != n_in or bias.shape != weight.shape[:1] or not weight.size:
            raise ValueError(
                f"layer {number}: weights of shape {weight.shape} and {bias.shape} after {n_in} outputs"
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise ValueError(f"layer {number}: has weights that are not finite")
        n_in = len(bias)


def mlp_of(model: Any) -> Mlp | None:
    """Return the network of a model's deterministic action, or None if the network is not a plain one.

    Args:
        model: A stable-baselines3 model with actions in [-1, 1], or discrete ones.
    """
    modules = actor_modules(model.policy)
    mlp = mlp_of_modules(modules) if modules is not None else None
    if mlp is None:
        return None
    rng = np.random.default_rng(0)
    observations = rng.random((16, *model.observation_space.shape), dtype=np.float32)
    expected, _ = model.predict(observations, deterministic=True)
    outputs = mlp(observations)
    if hasattr(model.action_space, "n"):  # discrete: the network scores the actions
        same = np.array_equal(outputs.argmax(axis=1), expected)
    else:
        same = np.allclose(np.clip(outputs, -1.0, 1.0), expected, atol=LARGEST_DIFFERENCE)
    return mlp if same else None


def actor_modules(policy: Any) -> list[Any] | None:
    """Return the torch modules from observation to mean action, in order; None for other architectures."""
    from torch import nn

    if hasattr(policy, "mlp_extractor"):  # on-policy: PPO, A2C, TRPO
        return [*policy.mlp_extractor.policy_net, policy.action_net]
    actor = getattr(policy, "actor", None)
    if actor is None or not isinstance(actor.mu, nn.Linear | nn.Sequential):
        return None
    mean = list(actor.mu) if isinstance(actor.mu, nn.Sequential) else [actor.mu]  # TD3, DDPG end in tanh
    latent = getattr(actor, "latent_pi", None)
    return mean if latent is None else [*latent, *mean, nn.Tanh()]  # SAC, TQC squash the mean


def mlp_of_modules(modules: list[Any]) -> Mlp | None:
    """Return the network of torch modules, or None if there are other layers than linear, tanh and ReLU."""
    from torch import nn

    weights: list[Array] = []
    biases: list[Array] = []
    activations: list[str] = []
    for module in modules:
        if isinstance(module, nn.Linear) and module.bias is not None:
            weights.append(module.weight.detach().cpu().numpy().copy())
            biases.append(module.bias.detach().cpu().numpy().copy())
            activations.append("identity")
        elif isinstance(module, nn.Tanh | nn.ReLU) and activations and activations[-1] == "identity":
            activations[-1] = "tanh" if isinstance(module, nn.Tanh) else "relu"
        else:
            return None
    return Mlp(tuple(weights), tuple(biases), tuple(activations)) if weights else None
