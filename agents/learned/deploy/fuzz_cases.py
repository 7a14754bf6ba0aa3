"""Random policies and observations for differential testing.

The policies are those of stable-baselines3, with weights drawn by NumPy, so that a case is the same on every
machine. As in NNSmith (Liu et al., ASPLOS 2023), models are valid by construction, and cases whose reference
contains NaN are discarded. Requires the extras ``train`` and ``export``.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import nn

from sysgym.agents.learned.deploy.graph import Choice, Decided, Inputs, PolicyGraph
from sysgym.agents.learned.sets.modules import network_of
from sysgym.agents.learned.sets.network import Network, SetShape
from sysgym.envs.action_scale import SCALES, ActionScale
from sysgym.scenarios.files import parse_json

Array = NDArray[np.float32]

RATES = ("ppo", "sac", "tqc", "td3")
CHOICES = ("ppo_choice", "maskable_ppo", "maskable_ppo_set")
KINDS = (*RATES, *CHOICES)
"""One algorithm for each structure of a policy; a2c and trpo have the structure of ppo, ddpg that of td3."""

BOUNDS = {"unit": (0.0, 1.0), "symmetric": (-4.0, 4.0), "none": (-10.0, 10.0)}
"""Ranges from which observations are drawn, by the bounds of the space; ``none`` is an unbounded space."""

PLACES = ("inside", "low", "high", "corner", "zero", "outside")
"""Places of an observation inside, at the bounds of, or outside its space."""

_ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}
_RANGES = {
    "n_inputs": (1, 24),
    "n_outputs": (1, 12),
    "row_size": (1, 6),
    "context_size": (0, 5),
    "n_ignored": (0, 4),
    "low_exponent": (-20, -1),
    "seed": (0, 2**32 - 1),
}
_KNOWN: dict[str, tuple[str | float, ...]] = {
    "kind": KINDS,
    "activation": tuple(sorted(_ACTIVATIONS)),
    "bounds": tuple(sorted(BOUNDS)),
    "scale": SCALES,
    "gain": (1.0, 0.1, 4.0),
}
_MOST_HIDDEN, _MOST_PLACES = 3, 6


@dataclass(frozen=True)
class Case:
    """Description of a policy and observations, which determines all arrays.

    Attributes:
        kind: One of :data:`KINDS`.
        n_inputs: Number of inputs of the network; for a set, number of members.
        n_outputs: Length of an action, or number of actions; for a set, number of heads.
        hidden: Widths of hidden layers; not used for a set.
        activation: Activation after each hidden layer.
        row_size: For a set, the number of values per member.
        context_size: For a set, the number of context values.
        bounds: One of :data:`BOUNDS`.
        n_ignored: Number of unused values of the observation; 0: all values are used, in order.
        normalised: Whether inputs are shifted by an offset and multiplied by a scale.
        scale: Scale from outputs to rates.
        low_exponent: Exponent of the lowest rate, to base 2.
        gain: Gain of the weights, relative to one that preserves the size of a signal.
        places: Place of each observation.
        seed: Seed of all other random numbers.
    """

    kind: str
    n_inputs: int
    n_outputs: int
    hidden: tuple[int, ...]
    activation: str
    row_size: int
    context_size: int
    bounds: str
    n_ignored: int
    normalised: bool
    scale: str
    low_exponent: int
    gain: float
    places: tuple[str, ...]
    seed: int

    @property
    def over_set(self) -> bool:
        """Whether the network encodes a set."""
        return self.kind == "maskable_ppo_set"

    @property
    def set_shape(self) -> SetShape:
        """Shape of the set."""
        return SetShape(self.n_inputs, self.row_size, self.context_size, self.n_outputs)

    def to_json(self) -> str:
        """Return the case as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Case:
        """Return the case written by :meth:`to_json`.

        Raises:
            ValueError: If the text is not a case that :func:`cases` can draw.
        """
        data = parse_json(text)
        if not isinstance(data, dict) or data.keys() != {one.name for one in fields(cls)}:
            raise ValueError("not the fields of a case")
        for name, (least, most) in _RANGES.items():
            if type(data[name]) is not int or not least <= data[name] <= most:
                raise ValueError(f"{name}: expected {least} to {most}")
        for name, known in _KNOWN.items():
            if data[name] not in known:
                raise ValueError(f"{name}: expected one of {', '.join(map(str, known))}")
        hidden, places = data["hidden"], data["places"]
        least, most = _RANGES["n_inputs"]
        widths = isinstance(hidden, list) and all(type(one) is int and least <= one <= most for one in hidden)
        if not widths or len(hidden) > _MOST_HIDDEN:
            raise ValueError(f"hidden: expected at most {_MOST_HIDDEN} widths of {least} to {most}")
        if not isinstance(places, list) or not all(one in PLACES for one in places):
            raise ValueError(f"places: expected some of {', '.join(PLACES)}")
        if not 1 <= len(places) <= _MOST_PLACES or not isinstance(data["normalised"], bool):
            raise ValueError(f"expected 1 to {_MOST_PLACES} places, and normalised true or false")
        return cls(**{**data, "hidden": tuple(hidden), "places": tuple(places)})


def cases(kinds: tuple[str, ...] = KINDS) -> st.SearchStrategy[Case]:
    """Return a strategy for cases, the simplest of which is a linear policy of one input and one output.

    Args:
        kinds: Kinds to draw from.
    """
    number = {name: st.integers(*ends) for name, ends in _RANGES.items()}
    one_of = {name: st.sampled_from(known) for name, known in _KNOWN.items()}
    return st.builds(
        Case,
        kind=st.sampled_from(kinds),
        n_inputs=number["n_inputs"],
        n_outputs=number["n_outputs"],
        hidden=st.lists(number["n_inputs"], max_size=_MOST_HIDDEN).map(tuple),
        activation=one_of["activation"],
        row_size=number["row_size"],
        context_size=number["context_size"],
        bounds=one_of["bounds"],
        n_ignored=number["n_ignored"],
        normalised=st.booleans(),
        scale=one_of["scale"],
        low_exponent=number["low_exponent"],
        gain=one_of["gain"],
        places=st.lists(st.sampled_from(PLACES), min_size=1, max_size=_MOST_PLACES).map(tuple),
        seed=number["seed"],
    )


@dataclass(frozen=True, eq=False)
class Made:
    """Arrays and policy of a case.

    Attributes:
        case: The case.
        graph: The policy as deployed; None if the network in torch cannot be converted.
        observations: Shape (n, size).
        masks: Shape (n, n_outputs); None if all actions are allowed.
        reference: Outputs of torch; None if the network in torch cannot be converted.
    """

    case: Case
    graph: PolicyGraph | None
    observations: Array
    masks: NDArray[np.bool_] | None
    reference: Decided | None


def make(case: Case) -> Made:
    """Build the policy of a case in torch, convert it, and compute the reference."""
    rng = np.random.default_rng(case.seed)
    policy, model = _policy(case, rng)
    try:
        network = network_of(model)
    except ValueError:  # torch rejects distributions with NaN
        nothing = np.full((1, 1), np.nan, np.float32)
        return Made(case, None, nothing, None, Decided(nothing, nothing))
    inputs = _inputs(case, rng)
    observations = _observations(case, inputs, rng)
    masks = None
    if case.kind.startswith("maskable"):
        n_actions = case.set_shape.n_actions if case.over_set else case.n_outputs
        masks = rng.random((len(observations), n_actions)) < 0.6
        masks[np.arange(len(masks)), rng.integers(n_actions, size=len(masks))] = True
    if network is None:
        return Made(case, None, observations, masks, None)
    graph = _graph(case, network, inputs)
    with torch.no_grad():
        output = _eager(case, policy, torch.from_numpy(inputs(observations))).numpy()
    return Made(case, graph, observations, masks, graph.decide(output, masks))


def _policy(case: Case, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return the policy of stable-baselines3, and an object with the required attributes of a model."""
    from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
    from sb3_contrib.tqc.policies import TQCPolicy
    from stable_baselines3.common.policies import ActorCriticPolicy
    from stable_baselines3.sac.policies import SACPolicy
    from stable_baselines3.td3.policies import TD3Policy

    from sysgym.agents.learned.sets.policy import SetPolicy

    kinds: dict[str, Any] = {
        "ppo": ActorCriticPolicy,
        "ppo_choice": ActorCriticPolicy,
        "sac": SACPolicy,
        "tqc": TQCPolicy,
        "td3": TD3Policy,
        "maskable_ppo": MaskableActorCriticPolicy,
        "maskable_ppo_set": SetPolicy,
    }
    n_inputs = case.set_shape.observation_size if case.over_set else case.n_inputs
    observations = gym.spaces.Box(-np.inf, np.inf, (n_inputs,), np.float32)
    actions: gym.spaces.Space[Any] = gym.spaces.Box(-1.0, 1.0, (case.n_outputs,), np.float32)
    if case.kind in CHOICES:
        actions = gym.spaces.Discrete(case.set_shape.n_actions if case.over_set else case.n_outputs)
    built: dict[str, Any] = {"net_arch": list(case.hidden), "activation_fn": _ACTIVATIONS[case.activation]}
    if case.over_set:
        built = {"set_shape": vars(case.set_shape)}
    policy = kinds[case.kind](observations, actions, lambda _: 1e-3, **built)
    policy.set_training_mode(False)
    with torch.no_grad():
        for parameter in policy.parameters():
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            drawn = rng.normal(scale=case.gain / np.sqrt(fan_in), size=tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(drawn.astype(np.float32)))
    model = SimpleNamespace(
        policy=policy, predict=policy.predict, observation_space=observations, action_space=actions
    )
    return policy, model


def _eager(case: Case, policy: Any, values: torch.Tensor) -> torch.Tensor:
    """Return the output of the policy before clipping, or its scores."""
    output: torch.Tensor
    if case.kind in ("ppo", *CHOICES):
        output = policy.action_net(policy.mlp_extractor.forward_actor(values))
    else:
        output = policy.actor(values, deterministic=True) if case.kind != "td3" else policy.actor(values)
    return output


def _inputs(case: Case, rng: np.random.Generator) -> Inputs:
    n_used = case.set_shape.observation_size if case.over_set else case.n_inputs
    low, high = (np.full(n_used, bound, np.float32) for bound in BOUNDS[case.bounds])
    select, size = None, n_used
    if case.n_ignored and not case.over_set:
        size += case.n_ignored
        select = tuple(int(index) for index in rng.permutation(size)[:n_used])
    offset = scale = None
    if case.normalised and not case.over_set:  # the flags of a set's members are not normalised
        offset = rng.normal(size=n_used).astype(np.float32)
        scale = rng.uniform(0.25, 4.0, n_used).astype(np.float32)
    if case.bounds == "none":
        return Inputs(size, select, None, None, offset, scale)
    return Inputs(size, select, low, high, offset, scale)


def _observations(case: Case, inputs: Inputs, rng: np.random.Generator) -> Array:
    low, high = BOUNDS[case.bounds]
    rows = []
    for place in case.places:
        row = {
            "inside": rng.uniform(low, high, inputs.size),
            "low": np.full(inputs.size, low),
            "high": np.full(inputs.size, high),
            "corner": np.where(rng.random(inputs.size) < 0.5, low, high),
            "zero": np.zeros(inputs.size),
            "outside": rng.uniform(low - (high - low), high + (high - low), inputs.size),
        }[place]
        if case.over_set:
            shape = case.set_shape
            exists = np.arange(shape.n_rows) < rng.integers(shape.n_rows + 1)
            members = row[: shape.n_rows * shape.row_size].reshape(shape.n_rows, shape.row_size)
            members[:, 0] = exists
            members[~exists] = 0.0
        rows.append(row)
    return np.array(rows, np.float32)


def _graph(case: Case, network: Network, inputs: Inputs) -> PolicyGraph:
    if case.kind in CHOICES:
        return PolicyGraph(network, inputs, Choice(masked=case.kind.startswith("maskable")))
    return PolicyGraph(network, inputs, ActionScale(case.scale, 2.0**case.low_exponent, 1.0))
