"""Worlds that grow while they run: the records of the extended loop, and more packet slots."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.engine.event_queue.tournament import events_in, new_tournament
from sysgym.emulator.packets.engine.event_queue.wheel import new_wheel
from sysgym.emulator.packets.engine.events import MAX_SOURCES, extended_sources
from sysgym.emulator.packets.memory import records
from sysgym.emulator.packets.memory.records import NOBODY
from sysgym.emulator.packets.memory.state import State
from sysgym.emulator.packets.topology import Topology
from sysgym.scenarios.errors import SysgymError

Records = NDArray[np.void]


def extended(state: State, topology: Topology) -> State:
    """Return the same world, at the same time, for the extended loop; addresses are not bound yet.

    Raises:
        SysgymError: If there are more flows than events can have sources.
    """
    if len(state.ports) == topology.n_links:
        return state
    n_sources = extended_sources(topology.n_links, topology.n_hosts, len(state.flows))
    if n_sources > MAX_SOURCES:
        raise SysgymError(f"{len(state.flows)} flows are too many for the extended event loop")
    tournament = new_tournament(state.world, events_in(state), n_sources)
    notes = np.zeros(len(state.packets), records.NOTE)
    notes["covers"] = 1
    notes["came_by"] = NOBODY
    wheel = new_wheel(int(state.world["wheel_size"][0]), n_sources)
    return state._replace(**tournament._asdict(), **wheel._asdict(), notes=notes, ports=new_ports(topology))


def new_ports(topology: Topology) -> Records:
    """Return the port records of the extended loop at time 0."""
    ports = np.zeros(topology.n_links, records.PORT)
    ports["rate_bps"] = np.rint(topology.link_rate_bps)
    ports["drain_scale"] = 1.0
    ports["target"] = topology.link_target
    ports["memory"] = np.where(topology.from_host, NOBODY, topology.link_source - topology.n_hosts)
    ports["sending_from"] = NOBODY
    ports["sends_for_host"] = np.where(topology.from_host, topology.link_source, NOBODY)
    return ports


def with_more_packets(state: State) -> State:
    """Return the same world with twice as many packet slots; addresses are not bound yet."""
    first_new = len(state.packets)
    packets = _doubled(state.packets)
    link_free_packets(packets, first_new, int(state.world["first_free_packet"][0]))
    state.world["first_free_packet"] = first_new
    state.world["free_packets"] += first_new
    return state._replace(
        packets=packets,
        segments=_doubled(state.segments),
        notes=_doubled(state.notes) if len(state.notes) == first_new else state.notes,
        stamps=_doubled(state.stamps) if len(state.stamps) == first_new else state.stamps,
        credits=_doubled(state.credits) if len(state.credits) == first_new else state.credits,
    )


def link_free_packets(packets: NDArray[np.void], first: int, behind_last: int) -> None:
    """Link the packet slots from ``first`` to ``behind_last - 1`` into a list of free slots."""
    packets["next"][first:] = np.arange(first + 1, len(packets) + 1)
    packets["next"][-1] = behind_last


def _doubled(records: Records) -> Records:
    grown = np.zeros(2 * len(records), records.dtype)
    grown[: len(records)] = records
    return grown
