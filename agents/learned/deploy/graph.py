"""Description of a whole policy, from the environment's observation to its action.

All exports are written from this description: :mod:`.onnx_file`, :mod:`.c_header`. It is callable, which is
the reference implementation in NumPy.
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
    """Preprocessing of an observation: select, clip, then (x - offset) * scale.

    Attributes:
        size: Length of the environment's observation.
        select: Indices of the values used, in the network's order; None: all.
        low: Lower bound of each used value, shape (n_used,); None: no clipping.
        high: Upper bound of each used value; None: no clipping.
        offset: Offset subtracted from each used value; None: 0.
        scale: Factor of each used value; None: 1.
    """

    size: int
    select: tuple[int, ...] | None = None
    low: Array | None = None
    high: Array | None = None
    offset: Array | None = None
    scale: Array | None = None

    def __post_init__(self) -> None:
        """Check indices and shapes; raises SysgymError if one is invalid."""
        for index in self.select or ():
            if not 0 <= index < self.size:
                raise SysgymError(f"an observation of {self.size} numbers has no index {index}")
        for name in ("low", "high", "offset", "scale"):
            values = getattr(self, name)
            if values is not None and values.shape != (self.n_used,):
                raise SysgymError(f"{name} of {self.n_used} inputs: got shape {values.shape}")

    @property
    def n_used(self) -> int:
        """Number of inputs of the network."""
        return self.size if self.select is None else len(self.select)

    def __call__(self, observations: NDArray[Any]) -> Array:
        """Return the inputs of the network for a batch, shape (n, n_used)."""
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
    """Output of a discrete action: the action with the highest score.

    Attributes:
        masked: Whether actions may be forbidden by a mask.
    """

    masked: bool


class Decided(NamedTuple):
    """Decisions of a policy for a batch of observations.

    Attributes:
        action: Action for the environment: float32 (n, n_outputs), or int64 (n,).
        values: Values that must agree between runners: the action, or the scores, -inf where forbidden.
    """

    action: NDArray[Any]
    values: Array


@dataclass(frozen=True, eq=False)
class PolicyGraph:
    """Whole policy: preprocessing, network and postprocessing.

    Attributes:
        network: The network.
        inputs: Preprocessing of observations.
        outputs: Postprocessing: the scale from [-1, 1] to an action, or the choice of the highest score;
            None: the network's outputs are the action.
    """

    network: Network
    inputs: Inputs
    outputs: ActionScale | Choice | None

    def __post_init__(self) -> None:
        """Check that inputs and network fit together; raises SysgymError if they do not."""
        if self.inputs.n_used != n_inputs(self.network):
            raise SysgymError(f"{self.inputs.n_used} inputs for a network of {n_inputs(self.network)}")

    @property
    def n_outputs(self) -> int:
        """Length of an action, or number of discrete actions."""
        return n_outputs(self.network)

    @property
    def masked(self) -> bool:
        """Whether the policy requires a mask."""
        return isinstance(self.outputs, Choice) and self.outputs.masked

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return n_parameters(self.network)

    def __call__(self, observations: NDArray[Any], masks: NDArray[Any] | None = None) -> Decided:
        """Return the decisions for a batch.

        Args:
            observations: Shape (n, size).
            masks: Masks of allowed actions, shape (n, n_outputs); required if :attr:`masked`.
        """
        return self.decide(self.network(self.inputs(observations)), masks)

    def decide(self, output: NDArray[Any], masks: NDArray[Any] | None = None) -> Decided:
        """Return the decisions for outputs of the network."""
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
    """Return the plain networks that make up a network."""
    return (network.encoder, network.head) if isinstance(network, SetNet) else (network,)


def layers(mlp: Mlp) -> list[tuple[Array, Array]]:
    """Return weight and bias of every layer."""
    return list(zip(mlp.weights, mlp.biases, strict=True))


def n_parameters(network: Network) -> int:
    """Return the number of weights and biases of a network."""
    return sum(weight.size + bias.size for mlp in parts(network) for weight, bias in layers(mlp))


def n_inputs(network: Network) -> int:
    """Return the number of inputs of a network."""
    if isinstance(network, SetNet):
        return network.shape.observation_size
    return int(network.weights[0].shape[1])


def n_outputs(network: Network) -> int:
    """Return the number of outputs of a network."""
    return network.shape.n_actions if isinstance(network, SetNet) else int(network.weights[-1].shape[0])


def bounds_of(values: NDArray[Any]) -> Array | None:
    """Return the bounds of a space for :class:`Inputs`; None if it is unbounded."""
    return values.astype(np.float32) if np.isfinite(values).all() else None
