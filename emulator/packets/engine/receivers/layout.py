"""Memory of receiver-driven transports at time 0."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.memory.message_records import INBOX, MESSAGE
from sysgym.emulator.packets.memory.records import NOBODY
from sysgym.emulator.packets.topology import Topology


def new_messages(flows: NDArray[np.void], packet_bytes: int) -> NDArray[np.void]:
    """Return the messages of all flows, shape (n_flows,), before their first packets arrive.

    Args:
        flows: Records of the flows.
        packet_bytes: Size of a full packet, headers included.
    """
    messages = np.zeros(len(flows), MESSAGE)
    messages["index"] = np.arange(len(flows))
    messages["n_packets"] = messages["remaining_packets"] = flows["n_packets"]
    messages["base_rtt_ns"] = flows["base_rtt_ns"]
    messages["rtt_packets"] = flows["line_rate_bps"] * flows["base_rtt_ns"] * 1e-9 / (8 * packet_bytes)
    messages["packet_bytes"] = packet_bytes
    messages["first_arrival_ns"] = -1
    for link in ("previous", "next", "told_next"):
        messages[link] = NOBODY
    return messages


def new_inboxes(topology: Topology) -> NDArray[np.void]:
    """Return the receiving ends of all hosts, shape (n_hosts,), with no messages."""
    inboxes = np.zeros(topology.n_hosts, INBOX)
    inboxes["line_rate_bps"] = topology.link_rate_bps[topology.host_downlink]
    for link in ("first", "last", "first_to_tell"):
        inboxes[link] = NOBODY
    return inboxes
