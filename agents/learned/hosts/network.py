"""A network over hosts on the observations of one environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.checkpoint import Checkpoint
from sysgym.agents.learned.hosts.rows import HostRows
from sysgym.agents.learned.set_net import SetNet
from sysgym.scenarios.errors import SysgymError


@dataclass(frozen=True, eq=False)
class HostsNetwork:
    """A network over hosts together with what rearranges observations for it, as one network.

    Attributes:
        rows: Rearranges.
        net: Sees hosts.
    """

    rows: HostRows
    net: SetNet

    @classmethod
    def on(cls, observation_index: Sequence[str], net: SetNet) -> HostsNetwork:
        """Return a network, trained on hosts however many, for an environment's observation.

        Raises:
            SysgymError: If the observation is not one by hosts.
        """
        rows = HostRows(observation_index)
        sizes = [(one.row_size, one.context_size, one.heads) for one in (rows.shape, net.shape)]
        if sizes[0] != sizes[1]:
            raise SysgymError(
                f"one policy for all hosts: it sees {sizes[1]} numbers a host, here are {sizes[0]}"
            )
        return cls(rows, replace(net, shape=rows.shape))

    def __call__(self, observation: NDArray[Any]) -> NDArray[np.float32]:
        """Return the output for one observation or a batch of them."""
        return self.net(self.rows(np.asarray(observation, dtype=np.float32)))


def network_on_observations(checkpoint: Checkpoint) -> Any:
    """Return a checkpoint's network, from the observations of the environment that it was trained on.

    Raises:
        SysgymError: If NumPy does not play it.
    """
    network = checkpoint.policy
    if network is None:
        raise SysgymError(f"{checkpoint.path}: its policy is no network that plays without torch")
    if checkpoint.meta.family != "congestion" or not isinstance(network, SetNet):
        return network
    return HostsNetwork.on(checkpoint.meta.observation_index, network)
