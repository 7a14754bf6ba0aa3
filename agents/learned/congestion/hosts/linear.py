"""Linear policy over hosts, as a network over sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.sets.network import SetNet, SetShape
from sysgym.envs.action_scale import ActionScale


def linear_rates(weights: NDArray[np.float64], rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the rates of hosts, as fractions of the line rate.

    Args:
        weights: Weights of each policy, shape (n_policies, row_size).
        rows: Rows of the hosts that each policy controls, shape (n_policies, n_hosts, row_size).
    """
    rates: NDArray[np.float64] = np.einsum("phk,pk->ph", rows, weights)
    return rates


def linear_net(weights: NDArray[np.float64], shape: SetShape, scale: ActionScale) -> SetNet:
    """Return the network with the rates of a linear policy.

    Args:
        weights: Weights of the values in the row of a host, shape (row_size,).
        shape: Layout of observations, without a context.
        scale: Scale of the network's output, which has to be linear.
    """
    half = 0.5 * (scale.high - scale.low)
    output = weights / half
    output[0] -= scale.low / half + 1.0  # the first value of a row is 1
    encoder = Mlp((output[None].astype(np.float32),), (np.zeros(1, np.float32),), ("identity",))
    # The head ignores the pooled codes of all hosts.
    head = Mlp(
        (np.array([[1.0, 0.0, 0.0]], np.float32),),
        (np.zeros(1, np.float32),),
        ("identity",),
    )
    return SetNet(shape, encoder, head)
