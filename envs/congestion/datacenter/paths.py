"""Paths of hosts: the switch ports that the data of each host passes, and what a controller sees there.

A port feature has one value per switch port, and a controller would have to learn which ports belong to which
host, anew in every episode. The same features on the paths of a host have one value per host.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.envs.congestion.datacenter.measurement import Fabric

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def paths_of_hosts(network: Network, fabric: Fabric) -> BoolArray:
    """Return whether each switch port is on a data path of each host, shape (n_hosts, n_ports).

    Paths are those of all flows of the episode, whether they have begun or not: they say who talks to whom,
    and not when.
    """
    uses = np.zeros((fabric.n_hosts, fabric.topology.n_links + 1), dtype=np.bool_)
    # Padding, -1, indexes the last column, which belongs to no port.
    uses[network.flows().src[:, None], network.routes()] = True
    return uses[:, fabric.port_links]


def largest_on_paths(uses: BoolArray, values: FloatArray) -> FloatArray:
    """Return each host's largest value of the ports on its paths, shape (n_hosts,); 0 without paths.

    Args:
        uses: Whether each port is on a path of each host, shape (n_hosts, n_ports).
        values: Values of ports that are not negative, shape (n_ports,).
    """
    on_paths: FloatArray = np.where(uses, values[..., np.newaxis, :], 0.0)
    largest: FloatArray = on_paths.max(axis=-1, initial=0.0)
    return largest
