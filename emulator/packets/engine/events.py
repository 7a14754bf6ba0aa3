"""Events of the packet simulator and their sources.

An event is one int64: the time in ns in the high bits, the source (a link, host or timer) in the low 20 bits.
A source has at most one event. A link's event is the arrival of its first packet, however many follow.
Equal times are ordered by source, so a run is deterministic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

SOURCE_BITS = 20
SOURCE_MASK = (1 << SOURCE_BITS) - 1
MAX_SOURCES = 1 << SOURCE_BITS
MAX_TIME_NS = (1 << (63 - SOURCE_BITS)) - 1
"""Largest simulated time, about 2.4 hours."""

NO_EVENT = np.int64(2**63 - 1)
"""Key of a source without an event, which sorts after every event, unlike NEVER_NS."""

# Sources are numbered in this order: links, hosts, then the sources below.
FLOW_START = 0
TIMER_TICK = 1
SAMPLE_TICK = 2
TRANSPORT_TICK = 3
N_CLOCKS = 4

# In the extended loop, three sources per flow, one per link (its port) and one per host (its pulls) follow.
FLOW_SENDS = 0
RECEIVER_ACKS = 1
RECEIVER_GATHERS = 2
SOURCES_PER_FLOW = 3


@njit(forceinline=True)
def event_key(time_ns: int, source: int) -> int:
    """Return a time and its source packed into one ordered integer."""
    return (time_ns << SOURCE_BITS) | source


@njit(forceinline=True)
def flow_source(world: Any, flow_id: int, what: int) -> int:
    """Return the source of a flow's own events (extended loop)."""
    return world.n_links + world.n_hosts + N_CLOCKS + SOURCES_PER_FLOW * flow_id + what


@njit(forceinline=True)
def port_source(world: Any, link_id: int) -> int:
    """Return the source of a port's end-of-transmission events (extended loop, queues that are lists)."""
    return flow_source(world, world.n_flows, 0) + link_id


@njit(forceinline=True)
def pull_source(world: Any, host_id: int) -> int:
    """Return the source of a host's clock of pulls (extended loop, receiver-driven transports)."""
    return flow_source(world, world.n_flows, 0) + world.n_links + host_id


def extended_sources(n_links: int, n_hosts: int, n_flows: int) -> int:
    """Return the number of sources of events in the extended loop."""
    return n_links + n_hosts + N_CLOCKS + SOURCES_PER_FLOW * n_flows + n_links + n_hosts
