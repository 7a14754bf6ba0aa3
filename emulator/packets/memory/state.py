"""All arrays of a simulation, whose addresses the compiled loop uses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class State(NamedTuple):
    """All of a simulation's arrays; the world's record holds their addresses."""

    world: NDArray[Any]  # (1,) WORLD
    links: NDArray[Any]  # (n_links,) LINK
    packets: NDArray[Any]  # (capacity,) PACKET
    segments: NDArray[Any]  # (capacity,) SEGMENT
    flows: NDArray[Any]  # (n_flows,) FLOW
    hosts: NDArray[Any]  # (n_hosts,) HOST
    routes: NDArray[np.int32]  # (n_flows, 2, max_hops + 1): data and ACK route, padded with NOBODY
    tournament: NDArray[np.int64]  # inner nodes, then the leaves: keys of the events
    leaf_of: NDArray[np.int32]  # (n_sources,) leaf with the source's event, NOBODY if it has none
    free_leaves: NDArray[np.int32]  # (most leaves,) stack of the free leaves
    wheel: NDArray[np.int32]  # first source of each slot of the wheel
    wheel_bits: NDArray[np.uint64]  # bitmap of the slots with events
    waiting: NDArray[np.int64]  # (n_sources,) time of an event in a slot, and the next source of the slot
    due: NDArray[np.int64]  # (n_sources + HANDLED + LOOK_AHEAD,) events of the open slots, sorted
    received: NDArray[np.uint64]  # receivers' bitmaps of packets held out of order
    sacked: NDArray[np.uint64]  # senders' bitmaps of packets known to have arrived
    transmissions: NDArray[Any]  # (packets of all windows,) TRANSMISSION, where losses are detected by time
    sent_times: NDArray[np.int64]  # (packets of all windows,) ns, beside the transmissions
    queue_histogram: NDArray[np.uint32]  # (n_links, QUEUE_BUCKETS)
    event: NDArray[Any]  # (1,) EVENT, scratch
    callbacks: NDArray[np.int64]  # (N_ENTRIES * n_transports,) addresses of compiled functions
    # The following arrays have one record or entry in worlds that do not use them.
    notes: NDArray[Any]  # (capacity,) NOTE
    stamps: NDArray[Any]  # (capacity,) STAMPS
    ports: NDArray[Any]  # (n_links,) PORT
    places: NDArray[Any]  # (n_hosts,) PLACE
    table_rows: NDArray[np.int32]  # (n_nodes * n_columns + 1,) first link of each table entry
    table_links: NDArray[np.int32]
    successors: NDArray[np.int32]  # flows that wait for others, by those they wait for
    captured: NDArray[Any]  # (capture_size,) CAPTURED
    memories: NDArray[Any]  # (n_switches,) MEMORY
    memory_ports: NDArray[np.int32]  # links from switches, by switch
    flowlets: NDArray[Any]  # (n_flows, 2, max_hops + 1) FLOWLET
    messages: NDArray[Any]  # (n_flows,) MESSAGE, with receiver-driven transports
    inboxes: NDArray[Any]  # (n_hosts,) INBOX, likewise
    credits: NDArray[Any]  # (capacity,) CREDIT, likewise
    arrival: NDArray[Any]  # (1,) ARRIVAL, scratch
    class_queues: NDArray[Any]  # (n_links, n_classes) CLASS_QUEUE
    caps: NDArray[np.int64]  # (n_hosts,) requested rate caps, ns per byte in fixed point; 0: none

    def bind(self) -> None:
        """Write the arrays' addresses into the world's record.

        Call it again after an array was replaced or the state was copied.
        """
        for name, array in self._asdict().items():
            if name != "world":
                self.world[name] = array.ctypes.data
        self.inboxes["messages"] = self.messages.ctypes.data
