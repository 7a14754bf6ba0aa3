"""A policy from the environment's observation to the environment's action, as one description.

Everything that leaves Python is written from it: :mod:`.onnx_file`, :mod:`.c_header`. Called, it is the
reference in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.sets.network import Network, SetNet
from sysgym.envs.action_scale import ActionScale
from sysgym.scenarios.errors import SysgymError

Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Inputs:
    """What happens to an observation before the network sees it: select, clip, then (x - offset) * scale.

    Attributes:
        size: Numbers in the environment's observation.
        select: Indices of those that are used, in the network's order; None: all.
        low: Least value of each that is used, shape (n_used,); None: as it comes.
        high: Largest value of each; None: as it comes.
        offset: Subtracted from each; None: 0.
        scale: Each is multiplied by it; None: 1.
    """

    size: int
    select: tuple[int, ...] | None = None
    low: Array | None = None
    high: Array | None = None
    offset: Array | None = None
    scale: Array | None = None

    def __post_init__(self) -> None:
        """Check indices and shapes; raises SysgymError."""
        for index in self.select or ():
            if not 0 <= index < self.size:
                raise SysgymError(f"an observation of {self.size} numbers has no index {index}")
        for name in ("low", "high", "offset", "scale"):
            values = getattr(self, name)
            if values is not None and values.shape != (self.n_used,):
                raise SysgymError(f"{name} of {self.n_used} inputs: got shape {values.shape}")

    @property
    def n_used(self) -> int:
        """How many numbers the network sees."""
        return self.size if self.select is None else len(self.select)

    def __call__(self, observations: NDArray[Any]) -> Array:
        """Return what the network sees of a batch, shape (n, n_used)."""
        values: Array = np.asarray(observations, dtype=np.float32)
        if self.select is not None:
            values = values[:, list(self.select)]
        if self.low is not None:
            values = np.maximum(values, self.low)
        if self.high is not None:
            values = np.minimum(values, self.high)
        if self.offset is not None:
            values = values - self.offset
        return values if self.scale is None else values * self.scale


@dataclass(frozen=True)
class Choice:
    """The network scores actions, and the highest score wins.

    Attributes:
        masked: Whether some actions may be forbidden.
    """

    masked: bool


class Decided(NamedTuple):
    """What a policy answers to a batch of observations.

    Attributes:
        action: As the environment takes it: float32 (n, n_outputs), or int64 (n,).
        values: What has to agree between runners: the same, or the scores, -inf where forbidden.
    """

    action: NDArray[Any]
    values: Array


@dataclass(frozen=True, eq=False)
class PolicyGraph:
    """A whole policy.

    Attributes:
        network: In the middle.
        inputs: Before it.
        outputs: After it: how numbers in [-1, 1] become an action, or that the highest score wins; None:
            they are the action.
    """

    network: Network
    inputs: Inputs
    outputs: ActionScale | Choice | None

    def __post_init__(self) -> None:
        """Check that the parts fit; raises SysgymError."""
        if self.inputs.n_used != n_inputs(self.network):
            raise SysgymError(f"{self.inputs.n_used} inputs for a network of {n_inputs(self.network)}")

    @property
    def n_outputs(self) -> int:
        """Numbers in an action, or actions to choose from."""
        return n_outputs(self.network)

    @property
    def masked(self) -> bool:
        """Whether it needs to be told what is allowed."""
        return isinstance(self.outputs, Choice) and self.outputs.masked

    @property
    def n_parameters(self) -> int:
        """Weights and biases."""
        return n_parameters(self.network)

    def __call__(self, observations: NDArray[Any], masks: NDArray[Any] | None = None) -> Decided:
        """Return the answers to a batch.

        Args:
            observations: Shape (n, size).
            masks: What is allowed, shape (n, n_outputs); needed if :attr:`masked`.
        """
        return self.decide(self.network(self.inputs(observations)), masks)

    def decide(self, output: NDArray[Any], masks: NDArray[Any] | None = None) -> Decided:
        """Return the answers for what the network puts out."""
        if isinstance(self.outputs, ActionScale):
            rates = self.outputs.rates(output)
            return Decided(rates, rates)
        scores = output.astype(np.float32)
        if self.outputs is None:
            return Decided(scores, scores)
        if masks is not None:
            scores = np.where(masks, scores, np.float32(-np.inf))
        return Decided(scores.argmax(axis=1), scores)


def parts(network: Network) -> tuple[Mlp, ...]:
    """Return the plain networks that a network consists of."""
    return (network.encoder, network.head) if isinstance(network, SetNet) else (network,)


def layers(mlp: Mlp) -> list[tuple[Array, Array]]:
    """Return weight and bias of every layer."""
    return list(zip(mlp.weights, mlp.biases, strict=True))


def n_parameters(network: Network) -> int:
    """Return how many weights and biases a network has."""
    return sum(weight.size + bias.size for mlp in parts(network) for weight, bias in layers(mlp))


def n_inputs(network: Network) -> int:
    """Return how many numbers a network takes."""
    if isinstance(network, SetNet):
        return network.shape.observation_size
    return int(network.weights[0].shape[1])


def n_outputs(network: Network) -> int:
    """Return how many numbers a network gives."""
    return network.shape.n_actions if isinstance(network, SetNet) else int(network.weights[-1].shape[0])


def bounds_of(values: NDArray[Any]) -> Array | None:
    """Return the bounds of a space as an input's; None where there are none at all."""
    return values.astype(np.float32) if np.isfinite(values).all() else None
