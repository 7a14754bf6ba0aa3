"""Small policies of every kind for tests of deployment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.agents.learned.deploy.graph import Choice, Inputs, PolicyGraph
from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.sets.network import SetNet, SetShape
from sysgym.envs.action_scale import ActionScale

MakeMlp = Callable[..., Mlp]

SHAPE = SetShape(n_rows=5, row_size=3, context_size=2, heads=2)


def random_mlp(*sizes: int, activation: str = "tanh", last: str = "identity", seed: int = 0) -> Mlp:
    rng = np.random.default_rng(seed)
    layers = list(zip(sizes[1:], sizes[:-1], strict=True))
    return Mlp(
        tuple(rng.normal(scale=n_in**-0.5, size=(n_out, n_in)).astype(np.float32) for n_out, n_in in layers),
        tuple(rng.normal(scale=0.3, size=n_out).astype(np.float32) for n_out, _ in layers),
        (*(activation for _ in layers[1:]), last),
    )


@pytest.fixture(scope="session")
def mlp() -> MakeMlp:
    """Makes a network of these sizes."""
    return random_mlp


def _log_rates() -> PolicyGraph:
    unit = np.ones(9, np.float32)
    inputs = Inputs(9, low=0.0 * unit, high=unit)
    return PolicyGraph(random_mlp(9, 8, 6, 3), inputs, ActionScale("log", 0.01, 1.0))


def _linear_rates() -> PolicyGraph:
    return PolicyGraph(random_mlp(4, 7, 2, activation="relu"), Inputs(4), ActionScale("linear", -2.0, 2.0))


def _selected() -> PolicyGraph:
    rng = np.random.default_rng(4)
    low = -rng.uniform(0.5, 1.0, 4).astype(np.float32)
    inputs = Inputs(7, (6, 0, 3, 2), low, 1.0 + low, 0.1 + low, 2.0 - low)
    return PolicyGraph(random_mlp(4, 5, 3, last="tanh"), inputs, ActionScale("linear", 0.0, 1.0))


def _choice() -> PolicyGraph:
    return PolicyGraph(random_mlp(6, 8, 4), Inputs(6), Choice(masked=False))


def _masked() -> PolicyGraph:
    return PolicyGraph(random_mlp(6, 8, 5), Inputs(6), Choice(masked=True))


def _set() -> PolicyGraph:
    encoder = random_mlp(SHAPE.row_size + SHAPE.context_size, 6, 4, last="tanh")
    head = random_mlp(12, 6, SHAPE.heads, seed=1)
    return PolicyGraph(SetNet(SHAPE, encoder, head), Inputs(SHAPE.observation_size), Choice(masked=True))


_GRAPHS = {
    "log rates": _log_rates,
    "linear rates": _linear_rates,
    "selected": _selected,
    "choice": _choice,
    "masked": _masked,
    "set": _set,
}


@pytest.fixture(params=_GRAPHS)
def graph(request: pytest.FixtureRequest) -> PolicyGraph:
    """A policy of every kind."""
    return _GRAPHS[request.param]()


@pytest.fixture
def batch() -> Callable[[PolicyGraph], tuple[Any, Any]]:
    """Makes observations beyond any bounds, and masks."""

    def make(graph: PolicyGraph, n: int = 40) -> tuple[Any, Any]:
        rng = np.random.default_rng(7)
        observations = rng.normal(size=(n, graph.inputs.size)).astype(np.float32)
        if isinstance(graph.network, SetNet):
            rows = observations[:, : SHAPE.n_rows * SHAPE.row_size].reshape(n, SHAPE.n_rows, SHAPE.row_size)
            rows[:, :, 0] = rng.random((n, SHAPE.n_rows)) < 0.6
            rows[0] = 0.0
        masks = None
        if graph.masked:
            masks = rng.random((n, graph.n_outputs)) < 0.5
            masks[1] = False
        return observations, masks

    return make
