"""Readings of the counters of a simulated network at its present time."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import FlowIds
from sysgym.emulator.packets.counters.readings import clear_all_maxima, read_fair_rates
from sysgym.emulator.packets.counters.rows import FLOW_COUNTERS, FlowCounterArray
from sysgym.emulator.packets.counters.single_flows import read_flows
from sysgym.emulator.packets.counters.statistics import (
    ClassCounters,
    FlowTable,
    HostCounters,
    PortCounters,
    class_counters,
    counters,
    flow_table,
    queue_quantile_bytes,
)
from sysgym.emulator.packets.memory.state import State
from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.workloads import FlowSchedule

FloatArray = NDArray[np.float64]


class CountedNetwork:
    """Base of :class:`~sysgym.emulator.packets.network.PacketNetwork`: the methods for counters."""

    topology: Topology
    _schedule: FlowSchedule
    _state: State
    _ideal_fct_s: FloatArray
    _address: int

    @property
    @abstractmethod
    def link_rate_bps(self) -> FloatArray:
        """Present rate of every link, bit/s, shape (n_links,)."""

    @property
    def n_hosts(self) -> int:
        """Number of hosts."""
        return int(self.topology.n_hosts)

    @property
    def n_links(self) -> int:
        """Number of directed links, each with its output port."""
        return int(self.topology.n_links)

    def clear_maxima(self) -> None:
        """Reset the largest queues, at the beginning of a new interval."""
        clear_all_maxima(self._address)

    def ports(self) -> PortCounters:
        """Return the counters of all output ports."""
        return counters(self._address, self.n_links, self.n_hosts)[0]

    def classes(self) -> ClassCounters:
        """Return the counters of all classes of all output ports."""
        return class_counters(self._state)

    def hosts(self) -> HostCounters:
        """Return the counters of all hosts."""
        return counters(self._address, self.n_links, self.n_hosts)[1]

    def flows(self) -> FlowTable:
        """Return the counters of all flows."""
        sizes = self._schedule.size_bytes.astype(np.int64)
        return flow_table(self._state, sizes, self._schedule.group.astype(np.int64), self._ideal_fct_s)

    def routes(self, *, acks: bool = False) -> NDArray[np.int32]:
        """Return the links of each flow's data (or ACKs), shape (n_flows, longest route), padded with -1."""
        return self._state.routes[:, int(acks)].copy()

    def queue_quantile_bytes(self, quantile: float) -> FloatArray:
        """Return the time-weighted quantile of every port's queue since the reset, shape (n_links,)."""
        return queue_quantile_bytes(self._state, quantile)

    def oracle_rates_bps(self) -> FloatArray:
        """Return the max-min fair send rate of every host for the active flows, with room for ACKs.

        The shape is (n_hosts,), in bit/s.
        """
        by_host_bps: FloatArray = np.zeros(self.n_hosts)
        read_fair_rates(self._address, self.link_rate_bps, by_host_bps)
        return by_host_bps

    def flow_counters(self, flow_ids: FlowIds) -> FlowCounterArray:
        """Return the counters of some flows, records of the type ``FLOW_COUNTERS``, shape (n,)."""
        out = np.empty(len(flow_ids), FLOW_COUNTERS)
        read_flows(self._address, np.asarray(flow_ids, dtype=np.int64), out)
        return out
