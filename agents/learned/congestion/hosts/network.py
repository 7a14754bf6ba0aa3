"""Policy network over hosts for the observations of one environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sysgym.agents.learned.congestion.hosts.rows import HostRows
from sysgym.agents.learned.deploy.graph import Inputs, PolicyGraph
from sysgym.agents.learned.sets.network import RearrangedNet, SetNet
from sysgym.envs.action_scale import ActionScale
from sysgym.scenarios.errors import SysgymError


def hosts_network(observation_index: Sequence[str], net: SetNet) -> RearrangedNet:
    """Return a network trained on any number of hosts, adapted to an environment's observation.

    Raises:
        SysgymError: If the observation has no features of hosts, or sizes that differ from the network's.
    """
    rows = HostRows(observation_index)
    sizes = [(one.row_size, one.context_size, one.heads) for one in (rows.shape, net.shape)]
    if sizes[0] != sizes[1]:
        raise SysgymError(
            f"one policy for all hosts: it observes {sizes[1]} numbers per host, this environment has"
            f" {sizes[0]}"
        )
    return RearrangedNet(rows, replace(net, shape=rows.shape))


class HostsGraph(PolicyGraph):
    """Policy whose network supports any number of hosts."""

    def __post_init__(self) -> None:
        """Skip the check of sizes, because the network rearranges its input."""


def hosts_graph(network: RearrangedNet, size: int, scale: ActionScale) -> HostsGraph:
    """Return the whole policy.

    Args:
        network: Network from :func:`hosts_network`.
        size: Length of an observation.
        scale: Scale of the outputs.
    """
    # All features of the environment lie between 0 and 1.
    inputs = Inputs(size, low=np.zeros(size, np.float32), high=np.ones(size, np.float32))
    together: Any = network
    return HostsGraph(together, inputs, scale)
