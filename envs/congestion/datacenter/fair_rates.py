"""Max-min fair rates of hosts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.envs.congestion.datacenter.measurement import Fabric

FloatArray = NDArray[np.float64]

ACK_ROUNDS = 4

_FULL = 1e-9
"""Share of a link's rate below which its spare capacity counts as none."""


class LoadedLinks:
    """Links loaded by the flows of an episode, with data in one direction and ACKs in the other.

    The paths contain no information about the timing of flows.

    Args:
        network: The network of the episode.
        fabric: Its constants.
    """

    def __init__(self, network: Network, fabric: Fabric) -> None:
        self._fabric = fabric
        self._n_hosts, self._n_links = fabric.n_hosts, fabric.topology.n_links
        ends = network.scenario.transport
        self._ack_bytes_per_byte = ends.ack_bytes / ends.mtu_bytes
        self.src: NDArray[np.int64] = network.flows().src
        self.data_links = network.routes()
        self.ack_links = network.routes(acks=True)
        both = np.concatenate([self.data_links, self.ack_links], axis=1)
        self.distinct = np.unique(both, axis=0, return_index=True)[1]
        """One flow of each path."""

    def host_load(self, flows: NDArray[np.int64]) -> LinkLoad:
        """Return the load of the hosts on the links, with the flows of a host taking turns.

        Args:
            flows: Indices of the active flows.
        """
        src = self.src[flows]
        n_flows = np.bincount(src, minlength=self._n_hosts)
        turn = 1.0 / n_flows[src]
        data, acks = (np.zeros((self._n_hosts, self._n_links + 1)) for _ in range(2))
        # Padding, -1, indexes the last column, which is dropped.
        np.add.at(data, (src[:, None], self.data_links[flows]), turn[:, None])
        np.add.at(acks, (src[:, None], self.ack_links[flows]), self._ack_bytes_per_byte * turn[:, None])
        return LinkLoad(data[:, :-1], acks[:, :-1], n_flows)

    def flow_load(self, flows: NDArray[np.int64]) -> LinkLoad:
        """Return the load of single flows on the links.

        Args:
            flows: Indices of the active flows.
        """
        each = np.arange(len(flows))[:, None]
        data, acks = (np.zeros((len(flows), self._n_links + 1)) for _ in range(2))
        data[each, self.data_links[flows]] = 1.0  # padding, -1, indexes the last column, which is dropped
        acks[each, self.ack_links[flows]] = self._ack_bytes_per_byte
        return LinkLoad(data[:, :-1], acks[:, :-1], np.ones(len(flows), np.int64))

    def static_shares(self) -> FloatArray:
        """Return the fair rate of every host with all paths in use, as a fraction of its line rate.

        A host that never sends data gets its line rate, because it sends only ACKs.
        """
        load = self.host_load(self.distinct)
        rates_bps = load.fair_rates_bps(self._fabric.topology.link_rate_bps)
        return np.where(load.n_flows > 0, rates_bps / self._fabric.line_rate_bps, 1.0)


class LinkLoad(NamedTuple):
    """Bytes on each link per byte that a sender, a host or a flow, sends.

    Attributes:
        data: Load of data packets, shape (n_senders, n_links).
        acks: Load of the returning ACKs, shape (n_senders, n_links).
        n_flows: Number of flows of each sender, shape (n_senders,).
    """

    data: FloatArray
    acks: FloatArray
    n_flows: NDArray[np.int64]

    def fair_rates_bps(self, capacity_bps: FloatArray) -> FloatArray:
        """Return max-min fair rates of the senders, leaving capacity for ACKs; 0 for a sender without flows.

        Those of hosts can be assigned to them: the flows of a host take turns, so none of them can be slowed
        down individually.

        Args:
            capacity_bps: Shape (n_links,).
        """
        rates = progressive_filling(self.data, self.n_flows, capacity_bps)
        # The iteration converges quickly, because ACKs are a small share of the data. They leave at
        # least half of a link to data, so that no rate becomes negative.
        for _ in range(ACK_ROUNDS):
            rest_bps = np.maximum(capacity_bps - rates @ self.acks, 0.5 * capacity_bps)
            rates = progressive_filling(self.data, self.n_flows, rest_bps)
        return rates


def progressive_filling(load: FloatArray, weight: NDArray[Any], capacity_bps: FloatArray) -> FloatArray:
    """Return weighted max-min fair rates: all rates grow together until a link of theirs is full.

    Args:
        load: Bytes on each link per byte that a host sends, shape (n_hosts, n_links).
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
