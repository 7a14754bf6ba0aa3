"""The heuristics' view of their environment."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.scenarios.errors import SysgymError

Action = NDArray[np.float32]
FloatArray = NDArray[np.float64]

ACK_ROUNDS = 4

_FULL = 1e-9
"""Share of a link's rate below which its spare room counts as none."""


def congestion_env(env: gym.Env[Any, Any]) -> DatacenterCC:
    """Return the environment under all wrappers.

    Raises:
        SysgymError: If it is of another family.
    """
    unwrapped = env.unwrapped
    if not isinstance(unwrapped, DatacenterCC):
        raise SysgymError(f"this agent plays sysgym/DatacenterCC-v0, not {type(unwrapped).__name__}")
    return unwrapped


class Paths:
    """Which links the flows of an episode load, data one way and ACKs the other.

    It says who talks to whom over which way, and nothing of when.

    Args:
        env: The environment, reset.
    """

    def __init__(self, env: DatacenterCC) -> None:
        self._n_hosts, self._n_links = env.fabric.n_hosts, env.fabric.topology.n_links
        ends = env.scenario.transport
        self._ack_bytes_per_byte = ends.ack_bytes / ends.mtu_bytes
        self.src: NDArray[np.int64] = env.network.flows().src
        self.data_links = env.network.routes()
        self.ack_links = env.network.routes(acks=True)
        both = np.concatenate([self.data_links, self.ack_links], axis=1)
        self.distinct = np.unique(both, axis=0, return_index=True)[1]
        """One flow of each path."""

    def host_load(self, flows: NDArray[np.int64]) -> HostLoad:
        """Return what the hosts put on the links, their flows taking turns.

        Args:
            flows: Indices of the flows that send.
        """
        src = self.src[flows]
        n_flows = np.bincount(src, minlength=self._n_hosts)
        turn = 1.0 / n_flows[src]
        data, acks = (np.zeros((self._n_hosts, self._n_links + 1)) for _ in range(2))
        # Padding, -1, falls on the last column, which is cut off.
        np.add.at(data, (src[:, None], self.data_links[flows]), turn[:, None])
        np.add.at(acks, (src[:, None], self.ack_links[flows]), self._ack_bytes_per_byte * turn[:, None])
        return HostLoad(data[:, :-1], acks[:, :-1], n_flows)


class HostLoad(NamedTuple):
    """What each host's flows put on each link for each byte that the host sends.

    Attributes:
        data: Shape (n_hosts, n_links).
        acks: The same of the ACKs that come back.
        n_flows: How many flows each host has, shape (n_hosts,).
    """

    data: FloatArray
    acks: FloatArray
    n_flows: NDArray[np.int64]

    def fair_rates_bps(self, capacity_bps: FloatArray) -> FloatArray:
        """Return max-min fair host rates, room for ACKs left, shape (n_hosts,); 0 for a host without flows.

        Unlike max-min fair rates of flows, these are rates that hosts can be given: a host's flows take
        turns, so none of them can be slowed down alone.

        Args:
            capacity_bps: Shape (n_links,).
        """
        rates = progressive_filling(self.data, self.n_flows, capacity_bps)
        # ACKs are few: what they take converges by the share that they are of the data.
        for _ in range(ACK_ROUNDS):
            rest_bps = np.maximum(capacity_bps - rates @ self.acks, 0.5 * capacity_bps)
            rates = progressive_filling(self.data, self.n_flows, rest_bps)
        return rates


def progressive_filling(load: FloatArray, weight: NDArray[Any], capacity_bps: FloatArray) -> FloatArray:
    """Let all rates grow together, each by its weight, until a link is full; hosts that load it then stop.

    Args:
        load: What a host puts on a link for each byte it sends, shape (n_hosts, n_links).
        weight: Shape (n_hosts,); hosts of weight 0 get no rate.
        capacity_bps: Shape (n_links,).

    Returns:
        Rates in bit/s, shape (n_hosts,).
    """
    rates = np.zeros(len(weight))
    spare = capacity_bps.astype(np.float64)
    growing = (weight > 0.0) & (load.sum(axis=1) > 0.0)
    while growing.any():
        demand = (weight * growing) @ load
        used = demand > 0.0
        level = float((spare[used] / demand[used]).min())
        rates[growing] += level * weight[growing]
        spare = np.maximum(spare - level * demand, 0.0)
        full = used & (spare <= _FULL * capacity_bps)
        growing &= ~(load[:, full] > 0.0).any(axis=1)
    return rates


def static_shares(env: DatacenterCC, paths: Paths) -> FloatArray:
    """Return every host's fair rate if all paths were in use at once, as a fraction of its line rate.

    A host that never sends data gets its line rate: only ACKs leave it.
    """
    load = paths.host_load(paths.distinct)
    rates_bps = load.fair_rates_bps(env.fabric.topology.link_rate_bps)
    return np.where(load.n_flows > 0, rates_bps / env.fabric.line_rate_bps, 1.0)
